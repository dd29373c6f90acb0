package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/hashicorp/raft"
)

// Only three of the library's errors mean that nothing was proposed; taking any other for one grants twice.
func TestClassify_onlyThreeErrorsMeanNotProposed(t *testing.T) {
	for _, c := range []struct {
		err         error
		notProposed bool
	}{
		{raft.ErrNotLeader, true},
		{raft.ErrEnqueueTimeout, true},
		{raft.ErrLeadershipTransferInProgress, true},
		{raft.ErrLeadershipLost, false},
		{raft.ErrAbortedByRestore, false},
		{raft.ErrRaftShutdown, false},
		{fmt.Errorf("append: %w", ErrStorage), false},
		{io.ErrUnexpectedEOF, false},
	} {
		got := classify(c.err)
		if NotProposed(got) != c.notProposed || errors.Is(got, ErrUnknownOutcome) == c.notProposed || !errors.Is(got, c.err) {
			t.Errorf("%v: got %v, want not proposed: %v", c.err, got, c.notProposed)
		}
	}
	if got := classify(nil); got != nil {
		t.Errorf("no error: got %v, want nil", got)
	}
}

// blocked is a machine whose Apply waits.
type blocked struct {
	ledger
	entered chan struct{}
	release chan struct{}
}

func (b *blocked) Apply(index, term uint64, entry []byte) any {
	b.entered <- struct{}{}
	<-b.release
	return b.ledger.Apply(index, term, entry)
}

func TestPropose_ownDeadlineAndShutdownAreUnknown(t *testing.T) {
	c := newTestCluster(t, 1)
	n := c.nodes[0]
	m := &blocked{entered: make(chan struct{}, 8), release: make(chan struct{})}
	cfg := c.config(n, "p1")
	cfg.NewMachine = func() Machine { return m }
	cfg.Profile.EnqueueTimeout, cfg.Profile.ProposalTimeout = cfg.Profile.RPCTimeout/10, cfg.Profile.RPCTimeout/5
	cfg.Profile.ApplyLimit = 2 * patience
	g, err := OpenGroup(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.groups["p1"] = g
	if err := g.Bootstrap(c.members()); err != nil {
		t.Fatal(err)
	}
	c.leader("p1")
	if got := propose(t, g, "slow"); !errors.Is(got.err, ErrUnknownOutcome) || NotProposed(got.err) {
		t.Errorf("a machine that hangs: got %v, want %v", got.err, ErrUnknownOutcome)
	}
	receive(t, "the machine to be at it", m.entered)
	close(m.release)
	eventually(t, "the entry to be applied after all", func() bool { count, _, _ := m.read(); return count == 1 })
}

func TestPropose_answersEachProposalOnce(t *testing.T) {
	c := newTestCluster(t, 1, "p1")
	c.start()
	g := c.leader("p1").groups["p1"]
	const many = 1000
	outcomes := make(chan outcome, 2*many)
	for i := range many {
		g.Propose(fmt.Appendf(nil, "entry %d", i), func(result any, index uint64, err error) { outcomes <- outcome{result, index, err} })
	}
	if err := g.Restart(); err != nil {
		t.Fatal(err)
	}
	for range many {
		got := receive(t, "an outcome", outcomes)
		if got.err != nil && !NotProposed(got.err) && !errors.Is(got.err, ErrUnknownOutcome) {
			t.Fatalf("outcome: got %v, want one of the three classes", got.err)
		}
		if got.err == nil && got.index == 0 {
			t.Fatal("an applied entry has no index")
		}
	}
	if len(outcomes) > 0 {
		t.Errorf("outcomes beyond one for each: %d", len(outcomes))
	}
}

func TestBarrier_bringsTheLeadersMachineToAllThatIsCommitted(t *testing.T) {
	c := newTestCluster(t, 3, "p1")
	c.start()
	count := c.write("p1", 20)
	leader := c.leader("p1")
	follower := c.follower(leader)
	if err := follower.groups["p1"].Barrier(t.Context()); !NotProposed(err) {
		t.Errorf("at a follower: got %v, want %v", err, ErrNotLeader)
	}
	c.halt(leader) // a machine of another node, which may trail what the old leader answered, now leads
	var now *Group
	eventually(t, "a barrier at the next leader", func() bool {
		now = c.leader("p1").groups["p1"]
		return now.Barrier(t.Context()) == nil
	})
	if got, _, _ := now.Machine().(*ledger).read(); got < count {
		t.Errorf("entries applied after the barrier: got %d, want %d", got, count)
	}
}

func TestBarrier_withoutAMajorityOrAGroup(t *testing.T) {
	c := newTestCluster(t, 3, "p1")
	c.start()
	c.write("p1", 1)
	leader := c.leader("p1")
	g := leader.groups["p1"]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Barrier(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: got %v, want nothing or %v", err, context.Canceled)
	}
	for _, n := range c.nodes {
		if n != leader {
			c.halt(n)
		}
	}
	// Until it notices, it takes the entry and cannot commit it; from then on it takes none.
	if err := g.Barrier(t.Context()); !errors.Is(err, ErrUnknownOutcome) && !NotProposed(err) {
		t.Errorf("without a majority: got %v, want %v or %v", err, ErrUnknownOutcome, ErrNotLeader)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Barrier(t.Context()); !errors.Is(err, ErrNotLeader) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("of a stopped group: got %v, want %v", err, ErrNotLeader)
	}
}

func TestPropose_isBusyRatherThanUnbounded(t *testing.T) {
	g := &Group{cfg: GroupConfig{Profile: TestProfile()}, proposals: make(chan *proposal, proposalsQueuedMax)}
	var busy int
	for range proposalsQueuedMax + 3 {
		g.Propose(nil, func(_ any, _ uint64, err error) {
			if errors.Is(err, ErrBusy) && NotProposed(err) {
				busy++
			}
		})
	}
	if busy != 3 {
		t.Errorf("busy answers: got %d, want 3", busy)
	}
	for range proposalsQueuedMax {
		p := <-g.proposals
		p.done = func(any, uint64, error) {}
		p.finish(nil, 0, nil)
	}
}
