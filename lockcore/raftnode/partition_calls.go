package raftnode

import (
	"context"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

// reply is what a call is answered with.
type reply[A any] struct {
	answer A
	err    error
}

// call asks the leader and waits for its answer. When ctx ends before, the outcome is unknown to the caller.
func call[A any](ctx context.Context, p *Partition, ask func(*leader.Leader, func(A, error))) (A, error) {
	answered := make(chan reply[A], 1)
	var none A
	p.mu.Lock()
	if p.lead == nil {
		p.mu.Unlock()
		return none, leader.ErrNotLeader
	}
	ask(p.lead.leader, func(a A, err error) { answered <- reply[A]{a, err} })
	p.unlock()
	select {
	case r := <-answered:
		return r.answer, r.err
	case <-ctx.Done():
		return none, leader.ErrUnknownOutcome
	}
}

// Acquire asks for a lease, polls for it or repeats either. A ctx that ends before the answer counts as a lost
// connection: a request that waits leaves its queue unless another poll follows soon. Errors as leader.Leader.Acquire.
func (p *Partition) Acquire(ctx context.Context, r leader.Acquire) (leader.Answer, error) {
	answered := make(chan reply[leader.Answer], 1)
	p.mu.Lock()
	if p.lead == nil {
		p.mu.Unlock()
		return leader.Answer{}, leader.ErrNotLeader
	}
	l := p.lead.leader
	poll := l.Acquire(r, func(a leader.Answer, err error) { answered <- reply[leader.Answer]{a, err} })
	p.unlock()
	select {
	case r := <-answered:
		return r.answer, r.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	l.Hangup(poll)
	p.unlock()
	return leader.Answer{}, leader.ErrUnknownOutcome
}

// Release gives a lease back or leaves the queue. Errors as leader.Leader.Release.
func (p *Partition) Release(ctx context.Context, r leader.Release) (leader.Answer, error) {
	return call(ctx, p, func(l *leader.Leader, done func(leader.Answer, error)) { l.Release(r, done) })
}

// Heartbeat renews the leases that it names. Errors as leader.Leader.Heartbeat.
func (p *Partition) Heartbeat(ctx context.Context, r leader.Heartbeat) (leader.HeartbeatAnswer, error) {
	return call(ctx, p, func(l *leader.Leader, done func(leader.HeartbeatAnswer, error)) { l.Heartbeat(r, done) })
}

// EndSession releases all that a session holds. Errors as leader.Leader.EndSession.
func (p *Partition) EndSession(ctx context.Context, r leader.EndSession) error {
	_, err := call(ctx, p, func(l *leader.Leader, done func(struct{}, error)) {
		l.EndSession(r, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// Look says where a lease stands and changes nothing. Errors as leader.Leader.Look.
func (p *Partition) Look(ctx context.Context, r leader.Look) (leader.Answer, error) {
	return call(ctx, p, func(l *leader.Leader, done func(leader.Answer, error)) { l.Look(r, done) })
}

// Confirm returns nil when a majority has confirmed this node as leader by a round that began after the call: what View
// shows then is current. Errors: leader.ErrNotLeader, leader.ErrNoQuorum, leader.ErrUnknownOutcome.
func (p *Partition) Confirm(ctx context.Context) error {
	_, err := call(ctx, p, func(l *leader.Leader, done func(struct{}, error)) {
		l.Confirm(func(err error) { done(struct{}{}, err) })
	})
	return err
}

// Read lets f read the machine when a majority has confirmed this node as leader by a round that began after the call:
// what f sees is current. f must be short, must not keep the machine, and must not call the partition; after an error it
// may or may not have been called. Errors as Confirm.
func (p *Partition) Read(ctx context.Context, f func(*lockcore.Machine)) error {
	_, err := call(ctx, p, func(l *leader.Leader, done func(struct{}, error)) {
		l.Confirm(func(err error) {
			if err == nil {
				f(p.machine)
			}
			done(struct{}{}, err)
		})
	})
	return err
}

// Command proposes a command of the platform's own: a tenant, a class, a mark on a lease, a guard's report. Errors as
// leader.Leader.Propose.
func (p *Partition) Command(ctx context.Context, c lockcore.Command) (lockcore.Result, error) {
	return call(ctx, p, func(l *leader.Leader, done func(lockcore.Result, error)) { l.Propose(c, done) })
}

// View lets f read the machine as this node has applied it. f must be short, must not keep the machine, and must not
// call the partition.
func (p *Partition) View(f func(*lockcore.Machine)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.machine)
}

// Ready reports whether this node leads the partition and answers.
func (p *Partition) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lead != nil && p.lead.leader.IsReady()
}

// SinceContact is how long ago the leader last heard of a lease's holder; false: it is not held, or not led here.
func (p *Partition) SinceContact(tenant lockcore.TenantID, lease lockcore.LeaseID) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lead == nil {
		return 0, false
	}
	at, ok := p.lead.leader.LastContact(tenant, lease)
	return max(0, p.clock.Now()-at), ok
}
