package clienttest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// answer is what a request is answered, before it is written.
type answer struct {
	problem *wire.Problem // nil: body
	status  int           // of a body
	body    any
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

func refuse(code wire.Code, reason string) answer {
	p := wire.NewProblem(code, "")
	p.Reason = reason
	return answer{problem: p}
}

func notFound() answer {
	return answer{problem: wire.NewProblem(wire.CodeNotFound, "There is no such session or lease for this API key.")}
}

// describe says where a request stands, to whoever asked for a hold; received is when they did. With mu held.
func (p *Platform) describe(l *lease, received time.Time) answer {
	out := p.wireLease(l, received)
	switch {
	case out.State == wire.StateGranted:
		return ok(out)
	case out.State == wire.StateQueued:
		return answer{status: http.StatusAccepted, body: out}
	}
	a := refuse(l.ended.code, l.ended.reason)
	if !l.ended.refused {
		a.problem.Lease = &out
	}
	if code := l.ended.code; code == wire.CodeEnded || code == wire.CodeRevoked {
		a.problem.Detail = "The reason is " + l.ended.reason + "."
	}
	return a
}

// wireLease is a request as it is published. With mu held.
func (p *Platform) wireLease(l *lease, received time.Time) wire.Lease {
	out := wire.Lease{LeaseID: l.id(), State: l.state, Class: l.name.class, Key: l.name.key, Index: p.index, Token: l.token}
	if !l.over() {
		out.Holder = l.label
	}
	switch l.state {
	case wire.StateQueued:
		out.Position = 1 + slices.Index(p.lockOf(l.name).queue, l)
		out.ContactWithin = wire.Duration(time.Since(received) + l.class.pollLimit())
	case wire.StateGranted:
		return p.wireGrant(l, received, out)
	case wire.StateEnding:
		out.Reason = l.ended.reason
		grantOf(l, &out)
	default:
		out.Reason = l.ended.reason
	}
	return out
}

// wireGrant is a lease that is held. One handed over so late that this request has nothing of it waits at the head of the
// line: the next request takes it up.
func (p *Platform) wireGrant(l *lease, received time.Time, out wire.Lease) wire.Lease {
	use := l.class.useWithin(l.expires.Sub(received))
	if l.handed && use == 0 {
		out.State, out.Position, out.Token = wire.StateQueued, 1, 0
		return out
	}
	grantOf(l, &out)
	out.UseWithin, out.ContactWithin = wire.Duration(use), l.contactWithin(received)
	return out
}

func grantOf(l *lease, out *wire.Lease) {
	out.Epoch, out.Claim, out.PostureVersion, out.Protected = l.epoch, l.class.Claim, l.class.version, true
}

// contactWithin is when the next heartbeat is due, counted from when a request was there.
func (l *lease) contactWithin(received time.Time) wire.Duration {
	due := min(l.class.Heartbeat, max(0, time.Until(l.expires)/2))
	return wire.Duration(time.Since(received) + due)
}

// held is a lease that a heartbeat kept.
func (l *lease) wireHeld(received time.Time) wire.Held {
	return wire.Held{LeaseID: l.id(), Token: l.token, ContactWithin: l.contactWithin(received),
		UseWithin: wire.Duration(l.class.useWithin(l.expires.Sub(received)))}
}

// wireLock is a lock in a list. With mu held.
func (k *lock) wireLock(name lockName) wire.Lock {
	h := k.holder
	out := wire.Lock{Class: name.class, Key: name.key, Waiters: []wire.Waiter{}, WaitersTotal: len(k.queue), HighestToken: h.token}
	out.Holder = &wire.Holder{Label: h.label, APIKey: h.apiKey, Since: h.since.UTC(), Token: h.token, Epoch: h.epoch,
		PostureVersion: h.class.version}
	if !h.contact.IsZero() {
		out.Holder.LastHeartbeat = new(h.contact.UTC())
	}
	if h.state == wire.StateEnding {
		out.Holder.Ending = h.ended.reason
	}
	for i, l := range k.queue {
		out.Waiters = append(out.Waiters, wire.Waiter{Position: i + 1, Label: l.label, APIKey: l.apiKey, Since: l.since.UTC()})
	}
	return out
}

// locksLike lists the locks that a query asks for, in order. With mu held.
func (p *Platform) locksLike(class, key, prefix string) []wire.Lock {
	all := []wire.Lock{}
	for name, k := range p.locks {
		if (class == "" || name.class == class) && (key == "" || name.key == key) && strings.HasPrefix(name.key, prefix) {
			all = append(all, k.wireLock(name))
		}
	}
	slices.SortFunc(all, func(a, b wire.Lock) int {
		return strings.Compare(a.Class+"\x00"+a.Key, b.Class+"\x00"+b.Key)
	})
	return all
}

// reply is an answer as it goes over the network.
type reply struct {
	status int
	header http.Header
	body   []byte
	code   wire.Code // of a problem
}

// write makes the reply. Retry-After is always the shortest that the platform draws.
func (a answer) write() reply {
	r := reply{status: a.status, header: http.Header{"Cache-Control": {"no-store"}, "Content-Type": {"application/json"}}}
	body := a.body
	if p := a.problem; p != nil {
		r.status, r.code, body = p.Status, p.Code, p
		r.header.Set("Content-Type", "application/problem+json")
		if kind, known := wire.KindOf(p.Code); known && kind.RetryAfterSecsMax > 0 {
			r.header.Set("Retry-After", "1")
		}
		if p.Code == wire.CodeUnauthorized {
			r.header.Set("Www-Authenticate", "Bearer")
		}
	}
	var err error
	if r.body, err = json.Marshal(body); err != nil {
		panic("clienttest: an answer is no JSON: " + err.Error()) // it is one of package wire's
	}
	r.body = append(r.body, '\n')
	return r
}
