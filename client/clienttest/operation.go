package clienttest

import (
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// answer decides a request: at once, or when what hangs for it is answered.
func (p *Platform) answer(c *call) (answer, *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.change()
	c.received = time.Now()
	key := p.keys[c.secret]
	switch {
	case key == nil || key.revoked:
		return answer{problem: wire.NewProblem(wire.CodeUnauthorized, "")}, nil
	case c.problem != nil:
		return answer{problem: c.problem}, nil
	case p.noQuorum:
		return answer{problem: noQuorum()}, nil
	case c.request.Op == Acquire:
		return p.acquire(c, key)
	}
	return p.decide(c, key), nil
}

func (p *Platform) decide(c *call, key *apiKey) answer {
	switch c.request.Op {
	case Look:
		return p.look(c, key)
	case Release:
		return p.release(c, key)
	case Heartbeat:
		return p.heartbeat(c, key)
	case EndSession:
		return p.endSession(c, key)
	}
	all := p.locksLike(c.class, c.key, c.prefix)
	return ok(wire.LockList{Locks: all[:min(len(all), c.limit)], CompleteTo: p.index})
}

// acquire asks for a lease, polls for it, or repeats either.
func (p *Platform) acquire(c *call, key *apiKey) (answer, *poll) {
	s, l, foreign := p.find(key, c.id)
	switch {
	case foreign:
		return notFound(), nil
	case l != nil && l.ended != endBurned && l.name != c.lock():
		return refuse(wire.CodeIDConflict, "id_conflict"), nil
	case l != nil:
		return p.poll(c, l)
	case s != nil && s.ended:
		return refuse(wire.CodeSessionEnded, "session_over"), nil
	case s != nil && s.forgot(c.id.n):
		return refuse(wire.CodeTooOld, "too_old"), nil
	}
	return p.request(c, key)
}

// request takes a request for a lease that was not seen before.
func (p *Platform) request(c *call, key *apiKey) (answer, *poll) {
	class, known := p.classes[c.class]
	if !known {
		return refuse(wire.CodeClassNotInForce, "not_in_force"), nil
	}
	wait, ok := class.waitOf(c.acquire.Wait)
	if !ok {
		return answer{problem: invalid("wait", "is longer than the class's max_wait, or the class does not queue")}, nil
	}
	s := p.begin(key, c.id.session)
	l := &lease{session: s, n: c.id.n, name: c.lock(), label: c.acquire.Holder, apiKey: key.name, wait: wait, class: class}
	s.see(l)
	p.index++
	switch k := p.lockOf(l.name); {
	case k.holder == nil:
		p.grant(l, false)
	case k.holder.session == s:
		l.useUp(refusedAlreadyHeld)
	case wait == 0:
		l.useUp(refusedHeld)
	case len(k.queue) >= class.MaxWaiters:
		l.useUp(refusedQueueFull)
	default:
		p.enqueue(l)
	}
	return p.poll(c, l)
}

// useUp remembers a refusal under its id, so that a copy of the request that arrives later is refused as well.
func (l *lease) useUp(why end) { l.state, l.ended = wire.StateEnded, why }

// poll takes up a lease that was handed over, hangs while its request waits, and else says how things stand.
func (p *Platform) poll(c *call, l *lease) (answer, *poll) {
	switch {
	case l.state == wire.StateQueued:
		if w := p.park(l, c.received, c.hang()); w != nil {
			return answer{}, w
		}
	case l.state == wire.StateGranted && l.handed:
		p.renew(l, c.received)
	}
	return p.describe(l, c.received), nil
}

// look is GET of a lease: it says where it stands, and changes nothing.
func (p *Platform) look(c *call, key *apiKey) answer {
	s, l, _ := p.find(key, c.id)
	switch {
	case l != nil && l.ended.refused:
		return refuse(l.ended.code, l.ended.reason)
	case l != nil:
		return ok(p.wireLease(l, c.received))
	case s != nil && s.ended:
		return ok(p.ended(c.id, endSession))
	case s != nil && s.forgot(c.id.n):
		return refuse(wire.CodeTooOld, "too_old")
	}
	return notFound()
}

// ended is a lease of which nothing is known but that it is over.
func (p *Platform) ended(id leaseID, how end) wire.Lease {
	return wire.Lease{LeaseID: id.text(), State: wire.StateEnded, Reason: how.reason, Index: p.index}
}

// release gives a lease back, leaves the queue, or uses up an id that was never seen.
func (p *Platform) release(c *call, key *apiKey) answer {
	s, l, foreign := p.find(key, c.id)
	switch {
	case foreign:
		return notFound()
	case l == nil && s != nil && s.ended:
		return ok(p.ended(c.id, endSession))
	case l == nil && s != nil && s.forgot(c.id.n):
		return refuse(wire.CodeTooOld, "too_old")
	case l == nil && c.token != 0:
		return notFound()
	case l == nil:
		s = p.begin(key, c.id.session)
		l = &lease{session: s, n: c.id.n, state: wire.StateEnded, ended: endBurned}
		s.see(l)
		p.index++
	case c.token != 0 && c.token != l.token:
		return refuse(wire.CodeStaleToken, "stale_token")
	case l.held():
		p.finish(l, endReleased)
	case l.state == wire.StateQueued:
		p.finish(l, endLeft)
	}
	return ok(p.wireLease(l, c.received))
}

// heartbeat renews what it names, and says of each whether it is held.
func (p *Platform) heartbeat(c *call, key *apiKey) answer {
	s := p.sessions[c.session]
	if s == nil || s.lineage != key.lineage {
		return notFound()
	}
	a := wire.HeartbeatAnswer{Session: s.id, Index: p.index}
	for _, n := range c.numbers {
		_, l, _ := p.find(key, leaseID{s.id, n})
		if l != nil && l.held() {
			p.renew(l, c.received)
		}
		if l == nil || l.state != wire.StateGranted {
			a.Lost = append(a.Lost, lost(s, n, l))
			continue
		}
		a.Held = append(a.Held, l.wireHeld(c.received))
	}
	return ok(a)
}

// lost says why a request has no lease to keep; l is nil if nothing is known of it.
func lost(s *session, n uint64, l *lease) wire.Lost {
	out := wire.Lost{LeaseID: leaseID{s.id, n}.text(), Code: wire.CodeNotFound, Reason: "unknown"}
	switch {
	case l == nil && s.forgot(n):
		out.Code, out.Reason = wire.CodeTooOld, "too_old"
	case l == nil && s.ended:
		out.Code, out.Reason = endSession.code, endSession.reason
	case l == nil:
	case l.state == wire.StateQueued:
		out.Reason = "not_held"
	default:
		out.Code, out.Reason, out.Token, out.Ending = l.ended.code, l.ended.reason, l.token, l.state == wire.StateEnding
	}
	return out
}

// endSession ends all that a session holds and waits for, and grants it nothing more.
func (p *Platform) endSession(c *call, key *apiKey) answer {
	s := p.begin(key, c.session)
	if s.lineage != key.lineage {
		return notFound()
	}
	p.overSession(s)
	return ok(wire.SessionEnd{Session: s.id, State: wire.StateEnded})
}

func (p *Platform) overSession(s *session) {
	s.ended = true
	p.index++
	p.finishAll(s)
}
