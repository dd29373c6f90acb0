package client

import (
	"context"
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/client/deadline"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// Lease is a hold on a key. It is kept by the client's heartbeats until it is released or lost; once over it stays over. All
// methods may be called concurrently.
type Lease struct {
	session  *session
	n        uint64 // its number in the session
	grant    wire.Lease
	deadline *deadline.Deadline
	ctx      holdContext
	end      context.CancelCauseFunc
	stopped  chan struct{} // closed when the callbacks of OnLost have returned

	// Guarded by session.mu:
	due     deadline.Instant // when the next heartbeat is to name it
	every   time.Duration    // how long after one heartbeat the next is due
	renewed deadline.Instant // when the last request was sent whose answer kept it

	mu      sync.Mutex
	lost    *LostError    // guarded by mu; nil: held
	last    error         // guarded by mu; why the last heartbeat failed; nil: it did not
	onDoubt []func(error) // guarded by mu
	onLost  []func(error) // guarded by mu
	giving  *givingBack   // guarded by mu; nil: not released
	doubts  []func()      // guarded by mu; callbacks of OnDoubt that wait to be called, in order
	telling bool          // guarded by mu; somebody calls them
}

// Claim is what a grant guarantees: a stable id, and the sentence. See docs/guarantees.md.
type Claim struct {
	ID   string
	Text string
}

// Context ends with the hold: at the local deadline, on revocation, on release. context.Cause of it is a *LostError, which is
// ErrDeadline, ErrRevoked, ErrExpired or ErrReleased. Its own Err looks at the clocks; that of a context derived from it, and Done, follow
// within a second even if the machine slept. It has no Deadline, since heartbeats move that. Its values are those of the context that acquired.
func (l *Lease) Context() context.Context { return l.ctx }

// Err is nil while the lease is held, as the clocks are now, and else a *LostError. Ask before each use; the answer is true for
// the moment of asking and no longer, which is why the resource must check Token.
func (l *Lease) Err() error {
	if l.deadline.Passed() {
		l.lose(ErrDeadline, "")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		return nil
	}
	return l.lost
}

// Remaining is how long the lease may be relied on without another heartbeat, as the clocks are now; 0 when it is lost.
func (l *Lease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return l.deadline.Remaining()
}

// Deadline is the local deadline as a time of the wall clock, for people and logs. Heartbeats move it. Programs ask Err.
func (l *Lease) Deadline() time.Time {
	left := l.deadline.At().Sub(l.session.client.watch.Now())
	return time.Now().Add(left)
}

// Token is the fencing token, which the resource compares: above all that were granted before in the tenant. 0 on an unprotected lease.
func (l *Lease) Token() uint64 { return l.grant.Token }

// Epoch is the partition's epoch in which the lease was granted.
func (l *Lease) Epoch() uint64 { return l.grant.Epoch }

// Claim is what this grant guarantees.
func (l *Lease) Claim() Claim { return Claim(l.grant.Claim) }

// PostureVersion is the version of the class under which the lease was granted.
func (l *Lease) PostureVersion() uint64 { return l.grant.PostureVersion }

// Protected is false for a lease that was granted without a quorum, which its Token, 0, tells as well. Only who asks for such
// a lease gets one.
func (l *Lease) Protected() bool { return l.grant.Protected }

// ID is the lease's id. With it anybody who has the API key can release the lease: do not show it.
func (l *Lease) ID() string { return l.grant.LeaseID }

// Class is the lock's class.
func (l *Lease) Class() string { return l.grant.Class }

// Key is the lock's key.
func (l *Lease) Key() string { return l.grant.Key }

// OnDoubt has f called when heartbeats begin to fail: the lease is good until its deadline, and may not be renewed any more. It is
// called once for each time of doubt, with the cause, one call after another, and not after the hold is over.
func (l *Lease) OnDoubt(f func(cause error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onDoubt = append(l.onDoubt, f)
	if l.last != nil && l.lost == nil {
		l.tell(l.last, []func(error){f})
	}
}

// OnLost has f called once, when the hold is over for whatever reason, release and close included, with the *LostError: the place to
// stop the work and to wait for its end. A release leaves the client only after f has returned, so f must not release.
// After the end f is called at once.
func (l *Lease) OnLost(f func(cause error)) {
	l.mu.Lock()
	lost := l.lost
	if lost == nil {
		l.onLost = append(l.onLost, f)
	}
	l.mu.Unlock()
	if lost != nil {
		f(lost)
	}
}

// lose ends the hold, unless it is over, and reports whether it did.
func (l *Lease) lose(cause error, detail string) bool {
	l.mu.Lock()
	if l.lost != nil {
		l.mu.Unlock()
		return false
	}
	lost := &LostError{Class: l.grant.Class, Key: l.grant.Key, Token: l.grant.Token, Cause: cause, Detail: detail}
	if cause == ErrDeadline {
		lost.Last = l.last
	}
	l.lost, l.doubts = lost, nil
	callbacks := l.onLost
	l.mu.Unlock()
	l.end(lost)
	l.session.drop(l)
	l.stop(lost, callbacks)
	return true
}

// stop calls the callbacks of OnLost, in order.
func (l *Lease) stop(lost *LostError, callbacks []func(error)) {
	if lost.Cause != ErrReleased {
		l.session.client.log.Warn("lease lost", "class", lost.Class, "token", lost.Token, "cause", lost)
	}
	if len(callbacks) == 0 {
		close(l.stopped)
		return
	}
	call := func() {
		defer close(l.stopped)
		for _, f := range callbacks {
			f(lost)
		}
	}
	if !l.session.client.begin(call) {
		call() // the client is closed: there is nobody else to do it
	}
}

// doubt says that a heartbeat that named the lease failed.
func (l *Lease) doubt(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	began := l.last == nil
	l.last = cause
	if began && l.lost == nil {
		l.session.client.log.Warn("lease in doubt", "class", l.grant.Class, "token", l.grant.Token, "cause", cause)
		l.tell(cause, l.onDoubt)
	}
}

// sure says that the lease was kept.
func (l *Lease) sure() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = nil
}

// tell has callbacks of OnDoubt called, in a goroutine of their own and after those before; with mu held.
func (l *Lease) tell(cause error, callbacks []func(error)) {
	for _, f := range callbacks {
		l.doubts = append(l.doubts, func() { f(cause) })
	}
	if l.telling || len(l.doubts) == 0 {
		return
	}
	l.telling = l.session.client.begin(l.callDoubts)
}

// callDoubts calls what waits to be called.
func (l *Lease) callDoubts() {
	for {
		l.mu.Lock()
		if len(l.doubts) == 0 {
			l.telling = false
			l.mu.Unlock()
			return
		}
		f := l.doubts[0]
		l.doubts = l.doubts[1:]
		l.mu.Unlock()
		f()
	}
}

// holdContext is a lease's context, or one derived from it: its Err looks at the clocks.
type holdContext struct {
	context.Context
	lease *Lease
}

func (c holdContext) Err() error {
	if c.lease.Err() != nil {
		return context.Canceled
	}
	return c.Context.Err()
}
