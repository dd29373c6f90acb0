package leader_test

import (
	"fmt"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

// flood puts acquires of different keys into the tenant's line while an entry is under way.
func (w *world) flood(k *leadertest.Client, from, n int) []*leadertest.Reply {
	var all []*leadertest.Reply
	for i := from; i < from+n; i++ {
		all = append(all, k.Acquire(w.a, uint64(i), try("short", lockcore.Key(fmt.Sprint(i)))))
	}
	return all
}

// entriesUntil counts the entries from index to the one that decided an answer.
func (w *world) entriesUntil(r *leadertest.Reply, index uint64) uint64 {
	w.t.Helper()
	if !r.Done || r.Err != nil {
		w.t.Fatalf("no answer: %+v, %v", r.Answer, r.Err)
	}
	return r.Answer.Index - index
}

func TestBatch_takesFromTenantsInTurn(t *testing.T) {
	w := newWorld(t)
	w.tenant("globex")
	w.a.HoldProposals()
	w.flood(w.client(), 1, 4000)
	before := w.a.LastIndex()
	other := w.clientOf("globex").Acquire(w.a, 1, try("short", "k"))
	w.a.ReleaseProposals()
	w.Settle()
	if got := w.entriesUntil(other, before); got > 2 { // the one under way, and the next
		t.Errorf("another tenant's acquire was in entry %d behind 4,000 acquires, want at most 2", got)
	}
}

func TestBatch_letsNoReleaseWaitBehindAcquires(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "held")
	w.a.HoldProposals()
	w.flood(w.client(), 1, 4000)
	before := w.a.LastIndex()
	free := h.Release(w.a, 1, 0)
	w.a.ReleaseProposals()
	w.Settle()
	if got := w.entriesUntil(free, before); got > 2 {
		t.Errorf("the release was in entry %d, want at most 2", got)
	}
}

func TestBatch_putsWhatEndsBeforeWhatBegins(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	w.a.HoldProposals()
	w.client().Acquire(w.a, 1, try("short", "under way"))
	r := w.client().Acquire(w.a, 1, try("short", "k"))
	h.Release(w.a, 1, 0)
	w.a.ReleaseProposals()
	w.Settle()
	w.wantStatus(r, leader.StatusGranted, 0)
}

func TestBatch_sharesAnEntryAmongWhatCameMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.a.HoldProposals()
	w.flood(w.client(), 1, 101)
	before := w.a.LastIndex()
	w.a.ReleaseProposals()
	w.Settle()
	if got := w.a.LastIndex() - before; got != 2 {
		t.Errorf("%d entries for 1 and 100 commands, want 2", got)
	}
}

func TestFullLine_answersOverloaded(t *testing.T) {
	w := newWorld(t)
	w.tenant("globex")
	w.a.HoldProposals()
	k := w.client()
	all := w.flood(k, 1, 1+leader.PendingMax) // the first is under way
	refused := k.Acquire(w.a, 9999, try("short", "one more"))
	w.wantError(refused, leader.ErrOverloaded)
	other := w.clientOf("globex").Acquire(w.a, 1, try("short", "k"))
	w.wantPending(other)
	w.a.ReleaseProposals()
	w.Settle()
	for _, r := range append(all, other) {
		w.wantStatus(r, leader.StatusGranted, 0)
	}
}

func TestFullUrgentLine_answersOverloadedAndKeepsWhatItTook(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	w.a.HoldProposals()
	w.client().Acquire(w.a, 1, try("short", "under way"))
	first := h.Release(w.a, 1, 0)
	for range leader.UrgentMax - 1 {
		h.Release(w.a, 1, 0)
	}
	refused := h.Release(w.a, 1, 0)
	w.wantError(refused, leader.ErrOverloaded)
	w.a.ReleaseProposals()
	w.Settle()
	w.wantStatus(first, leader.StatusEnded, lockcore.Released)
}

func TestCommandThatCannotBeLogged_isRefusedAlone(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	w.a.HoldProposals()
	w.client().Acquire(w.a, 1, try("short", "under way"))
	bad := w.client().Acquire(w.a, 1, try("short", "\xff"))
	good := w.client().Acquire(w.a, 1, try("short", "good"))
	free := h.Release(w.a, 1, 0)
	w.a.ReleaseProposals()
	w.Settle()
	w.wantStatus(bad, leader.StatusRefused, lockcore.RefusedInvalid)
	w.wantStatus(good, leader.StatusGranted, 0)
	w.wantStatus(free, leader.StatusEnded, lockcore.Released)
}

func TestCheckpoint_isStatedEvery10000Indices(t *testing.T) {
	w := newWorld(t)
	for w.a.LastIndex() < lockcore.CheckpointEvery {
		if _, due := w.a.Machine.UnstatedCheckpoint(); due {
			t.Fatalf("a checkpoint is due at %d", w.a.LastIndex())
		}
		w.command(lockcore.LeaseClock{})
	}
	if _, due := w.a.Machine.UnstatedCheckpoint(); due || w.a.LastIndex() != lockcore.CheckpointEvery+1 {
		t.Errorf("unstated %v at index %d; want it stated in the next entry", due, w.a.LastIndex())
	}
	w.Advance(second)
	for _, n := range w.Nodes {
		if _, due := n.Machine.UnstatedCheckpoint(); due {
			t.Errorf("node %s has not compared it", n.Name)
		}
	}
}
