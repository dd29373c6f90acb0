package leader_test

import (
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

// A change of leader sends every waiter to the new one at the same moment. That costs the log nothing and nobody a place,
// and the first in line is granted in the entry of the release.
func TestHerd_ofWaitersAtANewLeader_keepsItsOrderAndWritesNothing(t *testing.T) {
	const waiters = 2000
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	herd := make([]*leadertest.Client, waiters)
	for i := range herd {
		herd[i], _ = w.waiter(w.a, "short", "k")
	}
	w.elect(w.b)
	before := w.b.LastIndex()
	polls := make([]*leadertest.Reply, waiters)
	for i, k := range herd {
		polls[i] = k.Acquire(w.b, 1, wait("short", "k"))
	}
	w.Settle()
	for _, p := range polls {
		w.wantPending(p)
	}
	if got := w.b.LastIndex() - before; got != 0 {
		t.Errorf("%d polls logged %d entries, want none", waiters, got)
	}
	h.Release(w.b, 1, 0)
	w.Settle()
	if got := w.b.LastIndex() - before; got != 1 {
		t.Errorf("the release and its hand-off made %d entries, want one", got)
	}
	w.wantStatus(polls[0], leader.StatusGranted, 0)
	for _, k := range herd[1:] {
		w.wantState(k, lockcore.StateWaiting, 0)
	}
}
