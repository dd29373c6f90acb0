package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// worker is one session that wants one key: it queues, keeps the lease by heartbeats, gives it back when told, and goes
// to the end of the line again. Its fields are its own goroutine's, but for those that are atomic or channels.
type worker struct {
	caller  caller
	class   string
	key     string
	name    string
	session string
	seq     uint64
	direct  bool // goes to the leader that answers name; otherwise to whichever node answered last
	judge   *judge
	traffic *traffic

	nudge    chan struct{} // send a heartbeat now
	giveBack chan struct{} // release, and queue again
	die      chan struct{} // stop without a word

	holds    atomic.Bool
	inLine   atomic.Bool
	releases atomic.Int64
	renewed  atomic.Int64 // when the last heartbeat that was answered held had been sent, UnixNano
}

// traffic is shared by the workers of a test.
type traffic struct {
	inFlight  atomic.Int64 // heartbeats
	killed    atomic.Int64 // when a node was killed last, UnixNano
	straddled atomic.Int64 // heartbeats that were in flight when a node was killed
	answered  atomic.Int64 // when the first heartbeat was answered that was sent after that, UnixNano; 0: none yet
	closest   atomic.Int64 // the least that was left of a lease when its renewal was answered, nanoseconds
}

func newTraffic() *traffic {
	t := &traffic{}
	t.closest.Store(int64(time.Hour))
	return t
}

// kill ends a process while the traffic goes on.
func (t *traffic) kill(pid int) time.Time {
	kill9(pid)
	now := time.Now()
	t.answered.Store(0)
	t.killed.Store(now.UnixNano())
	return now
}

// outage is how long it was from the last kill to the first answer to a heartbeat that was sent after it.
func (t *traffic) outage() time.Duration { return time.Duration(t.answered.Load() - t.killed.Load()) }

// renewed takes note of a renewal that was answered when so much was left of its lease.
func (t *traffic) renewed(a answer, left time.Duration) {
	if a.sent.UnixNano() > t.killed.Load() {
		t.answered.CompareAndSwap(0, a.received.UnixNano())
	}
	for {
		least := t.closest.Load()
		if int64(left) >= least || t.closest.CompareAndSwap(least, int64(left)) {
			return
		}
	}
}

// run works until ctx ends, or until the worker dies; then it is silent.
func (w *worker) run(ctx context.Context) error {
	for {
		w.seq++
		granted, deadline, due, err := w.acquire(ctx)
		if err != nil {
			return w.unless(ctx, err)
		}
		w.holds.Store(true)
		again, err := w.hold(ctx, granted, deadline, due)
		w.holds.Store(false)
		if err != nil || !again {
			return w.unless(ctx, err)
		}
	}
}

// unless reports an error, unless the test is over.
func (w *worker) unless(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		w.judge.find("%s: %v", w.name, err)
	}
	return nil
}

// acquire queues until the lease is granted.
func (w *worker) acquire(ctx context.Context) (l wire.Lease, deadline, due time.Time, err error) {
	id := leaseID(w.session, w.seq)
	w.judge.note(id, func(c *claim) { c.key, c.asked = w.key, time.Now() })
	// The first request does not hang: its answer says at once that the worker is in line.
	request := wire.AcquireRequest{Class: w.class, Key: w.key, Holder: w.name, Poll: new(wire.Duration(0))}
	for ; ; request.Poll = nil {
		a, err := w.caller.call(ctx, pollTime, http.MethodPut, leasePath(w.session, w.seq), request)
		if err != nil {
			return l, deadline, due, err
		}
		w.prefer(a)
		if l, err = a.lease(); err != nil {
			return l, deadline, due, fmt.Errorf("acquire %s: %w", id, err)
		}
		w.judge.note(id, func(c *claim) {
			if c.lined.IsZero() {
				c.lined = a.received
			}
		})
		w.inLine.Store(l.State == wire.StateQueued)
		if l.State != wire.StateGranted {
			continue
		}
		deadline = a.sent.Add(l.UseWithin.Std())
		if a.received.After(deadline) {
			return l, deadline, due, fmt.Errorf("acquire %s: the grant came %v after its deadline", id, a.received.Sub(deadline))
		}
		w.judge.note(id, func(c *claim) { c.token, c.from, c.to = l.Token, a.received, deadline })
		// Where the lease was handed over, a heartbeat takes it up: at once.
		return l, deadline, a.sent, nil
	}
}

// hold keeps a lease until it is to be given back (then it says: go on), the worker dies, or ctx ends.
func (w *worker) hold(ctx context.Context, l wire.Lease, deadline, due time.Time) (again bool, err error) {
	for {
		timer := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
		case <-w.die:
		case <-w.giveBack:
			again = true
		case <-w.nudge:
		case <-timer.C:
		}
		timer.Stop()
		select {
		case <-ctx.Done():
			return false, nil
		default:
		}
		if again {
			w.holds.Store(false)
			return true, w.release(ctx, l)
		}
		if w.dead() {
			return false, nil
		}
		if deadline, due, err = w.renew(ctx, l, deadline); err != nil {
			return false, err
		}
	}
}

func (w *worker) dead() bool {
	select {
	case <-w.die:
		return true
	default:
		return false
	}
}

// renew sends heartbeats until one is answered, and loses the lease at its deadline: that is what must not happen.
func (w *worker) renew(ctx context.Context, l wire.Lease, deadline time.Time) (fresh, due time.Time, err error) {
	for tries := 0; ; tries++ {
		a, err := w.heartbeat(ctx)
		now := time.Now()
		if !now.Before(deadline) {
			return deadline, due, fmt.Errorf("%s (token %d) reached its deadline unrenewed, last answer: %v", l.LeaseID, l.Token, err)
		}
		if err == nil {
			return w.kept(a, l, deadline)
		}
		w.caller.next++
		if !wait(ctx, backoff(min(tries, 2))) {
			return deadline, due, ctx.Err()
		}
	}
}

// heartbeat sends one heartbeat to one node.
func (w *worker) heartbeat(ctx context.Context) (answer, error) {
	killed := w.traffic.killed.Load()
	w.traffic.inFlight.Add(1)
	defer func() {
		w.traffic.inFlight.Add(-1)
		if w.traffic.killed.Load() != killed {
			w.traffic.straddled.Add(1)
		}
	}()
	node := w.caller.nodes[w.caller.next%len(w.caller.nodes)]
	return w.caller.once(ctx, attemptTime, node, http.MethodPost, "/v1/sessions/"+w.session+"/heartbeat",
		wire.HeartbeatRequest{Leases: []uint64{w.seq}})
}

// kept reads the answer to a heartbeat: the lease must be held, with its token.
func (w *worker) kept(a answer, l wire.Lease, deadline time.Time) (fresh, due time.Time, err error) {
	var h wire.HeartbeatAnswer
	if a.status != http.StatusOK {
		return deadline, due, fmt.Errorf("heartbeat of %s: %w", l.LeaseID, a.problem())
	}
	if err := json.Unmarshal(a.body, &h); err != nil {
		return deadline, due, err
	}
	if len(h.Held) != 1 || h.Held[0].Token != l.Token {
		return deadline, due, fmt.Errorf("heartbeat of %s (token %d), %v before its deadline: got %s, want it held",
			l.LeaseID, l.Token, deadline.Sub(a.received), a.body)
	}
	w.prefer(a)
	w.traffic.renewed(a, deadline.Sub(a.received))
	w.renewed.Store(a.sent.UnixNano())
	if fresh = a.sent.Add(h.Held[0].UseWithin.Std()); fresh.Before(deadline) {
		fresh = deadline // of several promises the latest counts
	}
	w.judge.note(l.LeaseID, func(c *claim) { c.to = fresh })
	return fresh, a.sent.Add(h.Held[0].ContactWithin.Std()), nil
}

// release stops the work, then gives the lease back, as often as it takes.
func (w *worker) release(ctx context.Context, l wire.Lease) error {
	w.judge.note(l.LeaseID, func(c *claim) {
		if now := time.Now(); now.Before(c.to) {
			c.to = now
		}
	})
	a, err := w.caller.call(ctx, attemptTime, http.MethodDelete, fmt.Sprintf("%s?token=%d", leasePath(w.session, w.seq), l.Token), nil)
	if err != nil {
		return err
	}
	got, err := a.lease()
	if err != nil || got.State != wire.StateEnded {
		return fmt.Errorf("release %s: got %s, %v, want it ended", l.LeaseID, a.body, err)
	}
	w.releases.Add(1)
	return nil
}

// prefer goes to the leader that an answer names, if this worker does so at all.
func (w *worker) prefer(a answer) {
	if !w.direct {
		return
	}
	for i, node := range w.caller.nodes {
		if node == a.leader {
			w.caller.next = i
		}
	}
}
