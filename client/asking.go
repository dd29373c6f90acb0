package client

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/stanchion-locks/stanchion/client/deadline"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// asking is one call of Acquire: a request for a lease and all its repetitions.
type asking struct {
	client     *Client
	class, key string
	wait       *time.Duration // nil: as long as the class allows
	holder     string
	onQueued   func(Place)

	began   deadline.Instant
	session *session
	n       uint64
	body    wire.AcquireRequest
	route   route
	renewed int // ids used up without an answer that decides

	asked    bool             // a request with this id has left
	repeated bool             // more than one has
	position int              // in line, when last told; 0: not in line
	contact  time.Duration    // when in line: how soon the next poll is due after the last
	failures int              // attempts in a row that decided nothing
	heard    deadline.Instant // when a node last decided
	last     error            // the last failure
}

const (
	shortTime   = 2 * time.Second  // for the first attempt of a request that does not hang; later ones have more
	shortMax    = 10 * time.Second // for any
	pollSlack   = 1500 * time.Millisecond
	pollMax     = 10 * time.Second // the longest that the platform lets a request hang
	patienceMin = 30 * time.Second // how long nodes may decide nothing; or as long as the request would wait
	renewalsMax = 3

	returnMax = 350 * time.Millisecond // a waiter whose connection was lost keeps its place for 500 ms
)

// Acquire asks for a lease on a key and queues for it as long as its class allows, or as Wait says. ctx bounds the asking, not the lease:
// when it ends first, the request is withdrawn, and its cause returned. Where the lease has been granted by then it is given back
// unseen. Errors are *AskError; no error means that the lease is held.
//
// A request is repeated, under the same id and at every node, until one decides; without a decision for 30 s, or for as long as
// it waits if that is longer, it is ErrUnavailable.
func (c *Client) Acquire(ctx context.Context, class, key string, opts ...AcquireOption) (*Lease, error) {
	a := &asking{client: c, class: class, key: key, holder: c.holder, began: c.watch.Now()}
	for _, o := range opts {
		o(a)
	}
	if err := a.begin(); err != nil {
		return nil, a.fail(err, nil)
	}
	defer func() { a.session.asked() }() // the session that it has by then
	ctx, stop := c.untilClose(ctx)
	defer stop()
	return a.run(ctx)
}

// TryAcquire is Acquire without waiting: ErrHeld if somebody else holds the key.
func (c *Client) TryAcquire(ctx context.Context, class, key string, opts ...AcquireOption) (*Lease, error) {
	return c.Acquire(ctx, class, key, append(opts[:len(opts):len(opts)], Wait(0))...)
}

// untilClose is ctx, ended by Close as well.
func (c *Client) untilClose(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// begin takes a new id.
func (a *asking) begin() (err error) {
	if a.session, a.n, err = a.client.current(); err != nil {
		return err
	}
	a.asked, a.repeated, a.position, a.failures = false, false, 0, 0
	a.heard = a.client.watch.Now()
	a.body = wire.AcquireRequest{Class: a.class, Key: a.key, Holder: a.holder, Poll: new(wire.Duration(0))}
	switch {
	case a.wait == nil:
	case a.renewed == 0:
		a.body.Wait = new(wire.Duration(*a.wait)) // as it was asked, to the millisecond
	default:
		a.body.Wait = new(wire.Duration(a.left()))
	}
	return nil
}

// left is what is left of the wait.
func (a *asking) left() time.Duration {
	if *a.wait <= 0 {
		return *a.wait // none, or unlimited
	}
	return max(*a.wait-a.client.watch.Now().Sub(a.began), 0)
}

// run repeats the request until it is decided.
func (a *asking) run(ctx context.Context) (*Lease, error) {
	for {
		r, err := a.attempt(ctx)
		switch {
		case ctx.Err() != nil && !granted(r, err):
			return nil, a.withdraw(ctx, context.Cause(ctx), nil)
		case err == nil && r.problem == nil:
			if l, err, done := a.success(ctx, r); done {
				return l, err
			}
		default:
			if err, done := a.failure(ctx, r, err); done {
				return nil, err
			}
		}
	}
}

// granted reports whether an answer arrived at all that may be a grant.
func granted(r reply, err error) bool { return err == nil && r.problem == nil && r.body != nil }

// attempt sends the request to the next node. The first one does not hang: its answer says where it stands.
func (a *asking) attempt(ctx context.Context) (reply, error) {
	limit := min(shortTime*time.Duration(1+a.failures), shortMax)
	a.body.Poll = new(wire.Duration(0))
	hangs := a.position > 0 && a.failures == 0
	if hangs {
		a.body.Poll = new(wire.Duration(min(a.contact, pollMax)))
		limit = min(a.contact, pollMax) + pollSlack
	}
	body, err := json.Marshal(a.body)
	if err != nil {
		return reply{}, err
	}
	send := a.client.sendShort
	if hangs {
		send = a.client.send
	}
	a.repeated, a.asked = a.asked, true
	return send(ctx, limit, a.route.next(a.client.nodes), http.MethodPut, a.session.leasePath(a.n), body)
}

// success takes an answer about the lease.
func (a *asking) success(ctx context.Context, r reply) (*Lease, error, bool) {
	var l wire.Lease
	err := r.read(&l)
	switch {
	case err == nil && l.LeaseID == a.session.leaseID(a.n) && l.State == wire.StateGranted:
		lease, err := a.granted(ctx, r, l)
		return lease, err, true
	case err == nil && l.LeaseID == a.session.leaseID(a.n) && l.State == wire.StateQueued:
		a.queued(l)
		return nil, nil, false
	case err == nil:
		err = errors.New("an answer about something else")
	}
	err, done := a.again(ctx, 0, err)
	return nil, err, done
}

// queued takes a place in line.
func (a *asking) queued(l wire.Lease) {
	a.decided()
	a.contact = max(l.ContactWithin.Std(), pauseMin)
	if l.Position != a.position && a.onQueued != nil {
		a.onQueued(Place{Position: l.Position})
	}
	a.position = max(l.Position, 1)
}

func (a *asking) decided() {
	a.failures, a.route, a.last = 0, route{}, nil
	a.heard = a.client.watch.Now()
}

// granted makes the handle of a grant, if it is one by the client's own clocks.
func (a *asking) granted(ctx context.Context, r reply, g wire.Lease) (*Lease, error) {
	d := deadline.New(a.client.watch, r.sent, g.UseWithin.Std())
	lost := &LostError{Class: a.class, Key: a.key, Token: g.Token, Cause: ErrDeadline, Detail: "the grant came after its local deadline"}
	switch {
	case !g.Protected:
		return nil, a.withdraw(ctx, nil, errUnasked)
	case d.Passed():
		return nil, a.withdraw(ctx, ErrDeadline, lost)
	}
	l := &Lease{session: a.session, n: a.n, grant: g, deadline: d, stopped: make(chan struct{}),
		every: max(g.ContactWithin.Std(), hedgeMin)}
	l.grant.Class, l.grant.Key = a.class, a.key
	inner, end := context.WithCancelCause(context.WithoutCancel(ctx))
	l.ctx, l.end = holdContext{Context: inner, lease: l}, end
	if !a.session.hold(l, r.sent, a.repeated) {
		end(ErrClosed)
		return nil, a.withdraw(ctx, ErrClosed, nil)
	}
	return l, nil
}

// errUnasked: the platform granted what it may grant only on request.
var errUnasked = errors.New("an unprotected lease that was not asked for")

// failure takes a problem, or that there was no answer.
func (a *asking) failure(ctx context.Context, r reply, err error) (error, bool) {
	if err != nil {
		return a.again(ctx, 0, err)
	}
	switch p := r.problem; {
	case a.overtaken(p):
		return a.anew(p)
	case p.Retry == wire.RetrySameID, waits[p.Code]:
		return a.again(ctx, r.after, p)
	case p.Code == wire.CodeRevoked, p.Code == wire.CodeEnded:
		return a.withdraw(ctx, nil, p), true
	default:
		return a.fail(reasonOf[p.Code], p), true
	}
}

// waits are the problems that pass by themselves, so that waiting for a lease means waiting for their end.
var waits = map[wire.Code]bool{wire.CodeRateLimited: true, wire.CodeOverloaded: true, wire.CodeNotReady: true,
	wire.CodeAuditBehind: true, wire.CodeTenantSuspended: true}

// lapses are the ends of a lease, or of a place in line, that come from not being heard of in time.
var lapses = map[string]bool{"expired": true, "pickup_missed": true, "disconnected": true, "silent": true}

// overtaken reports whether the id is used up without this request's doing: by an outage, by which the platform forgot the session or took
// the waiter, or the grant that was never heard of, for dead. Then the request goes on under a new one.
func (a *asking) overtaken(p *wire.Problem) bool {
	switch p.Code {
	case wire.CodeSessionEnded, wire.CodeNotFound:
		a.session.retire(string(p.Code))
		return true
	case wire.CodeTooOld:
		return true
	case wire.CodeEnded:
		return lapses[p.Reason]
	}
	return false
}

// anew goes on with a new id, some times.
func (a *asking) anew(p *wire.Problem) (error, bool) {
	a.renewed++
	if a.renewed > renewalsMax {
		return a.fail(nil, p), true
	}
	if a.wait != nil && *a.wait > 0 && a.left() == 0 {
		return a.fail(ErrWaitTimeout, p), true
	}
	a.session.asked()
	old := a.session
	if err := a.begin(); err != nil {
		old.asking++ // it is counted off once more
		return a.fail(err, p), true
	}
	return nil, false
}

// again repeats the request after a pause, unless nobody has decided for too long.
func (a *asking) again(ctx context.Context, after time.Duration, cause error) (error, bool) {
	a.failures++
	a.last = cause
	if a.client.watch.Now().Sub(a.heard) > a.patience() {
		return a.withdraw(ctx, ErrUnavailable, cause), true
	}
	if !pause(ctx, a.pause(after)) {
		return a.withdraw(ctx, context.Cause(ctx), cause), true
	}
	return nil, false
}

// pause is how long to wait before the next attempt. Thousands of waiters may lose a node in one instant: the first pause of each is drawn
// from nearly all the time that it has to keep its place, and the second leaves it another attempt in that time.
func (a *asking) pause(after time.Duration) time.Duration {
	most := min(pauseMax, max(a.contact/2, pauseMin))
	switch {
	case after > 0:
		return after + backoff(a.failures, pauseMax)
	case a.position == 0:
		return backoff(a.failures, pauseMax)
	case a.failures == 1:
		return rand.N(min(returnMax, most))
	case a.failures == 2:
		return backoff(2, most)
	}
	return backoff(a.failures+1, most)
}

// patience is how long nodes may decide nothing.
func (a *asking) patience() time.Duration {
	switch {
	case a.wait == nil:
		return patienceMin
	case *a.wait < 0:
		return 1<<63 - 1
	}
	return max(patienceMin, *a.wait)
}

// withdraw takes back what may have been carried out, in the background, and makes the error.
func (a *asking) withdraw(ctx context.Context, reason, cause error) error {
	if a.asked {
		a.client.begin(func() { a.client.giveUp(a.session.leasePath(a.n)) })
	}
	return a.fail(reason, cause)
}

func (a *asking) fail(reason, cause error) error {
	if cause == nil && reason != ErrClosed {
		cause = a.last
	}
	return &AskError{Class: a.class, Key: a.key, Reason: reason, Err: cause}
}
