package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Errors of a proposal. After ErrNotLeader and ErrBusy nothing was proposed; after ErrUnknownOutcome it may have been
// applied, may still be, or never will.
var (
	// ErrNotLeader: not proposed, because this node does not lead the group or could not take it in. Go to the leader.
	ErrNotLeader = errors.New("not the leader")
	// ErrBusy: not proposed, because too many proposals wait already. Try again later.
	ErrBusy = errors.New("too many proposals waiting")
	// ErrUnknownOutcome: repeat under the same request id, never under a fresh one.
	ErrUnknownOutcome = errors.New("outcome unknown")
)

const (
	proposalsQueuedMax   = 64
	proposalsInFlightMax = 64
)

// NotProposed tells whether err means that nothing was proposed. Everything else is unknown.
func NotProposed(err error) bool { return errors.Is(err, ErrNotLeader) || errors.Is(err, ErrBusy) }

// proposal is one entry on its way, whose done is called exactly once.
type proposal struct {
	entry    []byte
	settled  atomic.Bool
	deadline *time.Timer
	done     func(result any, index uint64, err error)
}

func (p *proposal) finish(result any, index uint64, err error) {
	p.deadline.Stop()
	p.settle(result, index, err)
}

func (p *proposal) settle(result any, index uint64, err error) {
	if p.settled.CompareAndSwap(false, true) {
		p.done(result, index, err)
	}
}

// classify keeps apart the errors after which the entry is certainly not in the log, or will not get there.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	// Lost leadership, shutdown, storage: the record may be on a disk already and commit under another leader.
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// Propose hands the entry to the group and returns without waiting. done is called once: with the machine's result and
// the entry's index after it was applied here; or with ErrNotLeader, ErrBusy or ErrUnknownOutcome, at the latest after
// the profile's ProposalTimeout. done may run on the caller's goroutine or on one of the group's, and must not block.
// entry must not be changed afterwards.
func (g *Group) Propose(entry []byte, done func(result any, index uint64, err error)) {
	p := &proposal{entry: entry, done: done}
	p.deadline = time.AfterFunc(g.cfg.Profile.ProposalTimeout, func() {
		p.settle(nil, 0, fmt.Errorf("%w: no answer for %v", ErrUnknownOutcome, g.cfg.Profile.ProposalTimeout))
	})
	if err := g.enqueue(p); err != nil {
		p.finish(nil, 0, err)
	}
}

func (g *Group) enqueue(p *proposal) error {
	g.intake.RLock()
	defer g.intake.RUnlock()
	if g.stopping {
		return fmt.Errorf("%w: %w", ErrNotLeader, ErrGroupStopped)
	}
	select {
	case g.proposals <- p:
		return nil
	default:
		return ErrBusy
	}
}

// submit is the goroutine that waits for Raft's main loop in the proposers' stead.
func (g *Group) submit() {
	for p := range g.proposals {
		if p.settled.Load() {
			continue // nobody waits for it any more, and nobody was told that it was proposed
		}
		l := g.live.Load()
		if l == nil {
			p.finish(nil, 0, fmt.Errorf("%w: the group is restarting", ErrNotLeader))
			continue
		}
		l.submit(p, g)
	}
}

// submit gives p to Raft and leaves a goroutine behind that waits for its outcome. Should Raft be shut down between
// commit and application, it forgets the future: the goroutine stays parked, one of at most proposalsInFlightMax per
// life, while the proposer has long had its answer from the deadline.
func (l *life) submit(p *proposal, g *Group) {
	select {
	case l.inFlight <- struct{}{}:
	case <-l.over:
		p.finish(nil, 0, fmt.Errorf("%w: the group is restarting", ErrNotLeader))
		return
	}
	future := l.raft.Apply(p.entry, g.cfg.Profile.EnqueueTimeout)
	go func() {
		err := future.Error()
		<-l.inFlight
		if err != nil {
			g.sawProposalError(err)
			p.finish(nil, 0, classify(err))
			return
		}
		p.finish(future.Response(), future.Index(), nil)
	}()
}

// Barrier returns nil when this node leads the group and its machine has applied everything that was committed before the
// call. It costs an entry of the log. Errors: ErrNotLeader, ErrUnknownOutcome when the leadership or a majority was lost
// meanwhile, and the context's own.
func (g *Group) Barrier(ctx context.Context) error {
	l := g.live.Load()
	if l == nil {
		return fmt.Errorf("%w: the group is restarting", ErrNotLeader)
	}
	came := make(chan error, 1)
	go func() { // like that of a proposal: parked at the worst until its life's raft is garbage
		err := l.raft.Barrier(g.cfg.Profile.EnqueueTimeout).Error()
		g.sawProposalError(err)
		came <- err
	}()
	patience := time.NewTimer(g.cfg.Profile.ProposalTimeout)
	defer patience.Stop()
	select {
	case err := <-came:
		return classify(err)
	case <-patience.C:
		return fmt.Errorf("%w: no answer for %v", ErrUnknownOutcome, g.cfg.Profile.ProposalTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sawProposalError notices a leader that refuses writes for a transfer of leadership. Nobody here ever asks for one, so
// the flag is a leftover that only a restart clears.
func (g *Group) sawProposalError(err error) {
	if errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		g.requestRestart("a transfer of leadership is said to be in progress")
	}
}
