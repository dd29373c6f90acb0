package leader_test

import (
	"errors"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

// force is the mark that a person puts on a hold.
func force(k *leadertest.Client, token lockcore.Token) lockcore.MarkEnding {
	return lockcore.MarkEnding{Tenant: k.Tenant, Lease: k.Lease(1), Token: token, Cause: lockcore.Forced, By: "dana"}
}

func TestMark_letsTheNextWaitForTheRelease(t *testing.T) {
	for _, class := range []lockcore.ClassName{"short", "long"} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			k := w.holder(w.a, class, "k")
			_, next := w.waiter(w.a, class, "k")
			w.Advance(second)
			w.command(force(k, 1))
			w.wantPending(next)
			look := k.Look(w.a, 1)
			w.Settle()
			w.wantStatus(look, leader.StatusEnding, lockcore.Forced)
			free := k.Release(w.a, 1, 1)
			w.Settle()
			w.wantStatus(free, leader.StatusEnded, lockcore.Released)
			w.wantStatus(next, leader.StatusGranted, 0)
		})
	}
}

// A holder that cannot be reached may work on until its deadline: nobody is let in before.
func TestMark_letsTheNextWaitForTheTimer(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	other, next := w.waiter(w.a, "short", "k")
	w.Advance(second)
	beat := k.Heartbeat(w.a, 1)
	w.Settle()
	w.wantHeld(beat, 1)
	w.command(force(k, 1))
	for range 4 { // polls hang no longer than 2.5 s
		w.Advance(2*second + 499*ms)
		w.wantState(k, lockcore.StateHeld, 0)
		next = other.Acquire(w.a, 1, wait("short", "k"))
		w.Settle()
		w.wantPending(next)
	}
	w.Advance(4 * ms)
	w.wantState(k, lockcore.StateEnded, lockcore.Forced)
	w.wantStatus(next, leader.StatusGranted, 0)
}

func TestMarkNow_endsAtOnce(t *testing.T) {
	for _, class := range []lockcore.ClassName{"short", "long"} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			w.outside = true
			k := w.holder(w.a, class, "k")
			_, next := w.waiter(w.a, class, "k")
			w.Advance(second)
			now := force(k, 1)
			now.Now = true
			if got := w.command(now); got.Outcome != lockcore.Ended || got.Reason != lockcore.Forced || got.Token != 1 {
				t.Errorf("the mark gave %+v, want ended, forced, token 1", got)
			}
			w.wantStatus(next, leader.StatusGranted, 0)
			w.Advance(second)
			beat := k.Heartbeat(w.a, 1)
			w.Settle()
			w.wantLost(beat, lockcore.Forced)
			if beat.Beat.Lost[0].Ending {
				t.Error("the answer says that the lease is only ending")
			}
			free := k.Release(w.a, 1, 1)
			w.Settle()
			w.wantStatus(free, leader.StatusEnded, lockcore.Forced)
		})
	}
}

func TestMarkNow_endsAHoldThatIsMarkedAlready(t *testing.T) {
	w := newWorld(t)
	w.outside = true
	k := w.holder(w.a, "short", "k")
	w.command(force(k, 1))
	now := force(k, 1)
	now.Now = true
	w.command(now)
	w.wantState(k, lockcore.StateEnded, lockcore.Forced)
	w.Advance(20 * second) // no timer is left that would find it
	w.wantState(k, lockcore.StateEnded, lockcore.Forced)
}

func TestMarkNow_leavesTheLockDelay(t *testing.T) {
	w := newWorld(t)
	w.outside = true
	k := w.holder(w.a, "delay", "k")
	other, _ := w.waiter(w.a, "delay", "k")
	now := force(k, 1)
	now.Now = true
	w.command(now)
	w.wantState(k, lockcore.StateEnded, lockcore.Forced)
	var next *leadertest.Reply
	for range 2 {
		w.Advance(2*second + 499*ms)
		next = other.Acquire(w.a, 1, wait("delay", "k"))
		w.Settle()
		w.wantPending(next)
	}
	w.Advance(2 * ms)
	w.wantStatus(next, leader.StatusGranted, 0)
}

// A mark that meets the leader's own, for max_hold, ends the hold for whichever came first.
func TestMark_meetingMaxHold_endsOnce(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "capped", "k")
	for range 6 {
		w.Advance(3 * second)
		k.Heartbeat(w.a, 1)
		w.Settle()
	}
	w.a.HoldProposals()
	w.client().Acquire(w.a, 1, try("short", "under way"))
	var forced lockcore.Result
	w.a.Leader().Propose(force(k, 1), func(r lockcore.Result, _ error) { forced = r })
	w.Advance(2 * second) // the twentieth: the leader marks it too
	w.a.ReleaseProposals()
	w.Settle()
	if forced.Outcome != lockcore.Done {
		t.Errorf("the mark gave %+v, want done", forced)
	}
	if got := w.lease(k, 1).Ending; got != lockcore.Forced {
		t.Errorf("ends for %v, want forced", got)
	}
	w.Advance(10 * second)
	w.wantState(k, lockcore.StateEnded, lockcore.Forced)
}

// given floods the line of a tenant with what Propose is given and counts what is refused at once.
func (w *world) given(n int, c lockcore.Command) (overloaded int) {
	for range n {
		w.a.Leader().Propose(c, func(_ lockcore.Result, err error) {
			if errors.Is(err, leader.ErrOverloaded) {
				overloaded++
			}
		})
	}
	return overloaded
}

func report(tenant lockcore.TenantID, sequence uint64) lockcore.ReportGuard {
	return lockcore.ReportGuard{Tenant: tenant, Class: "short", Key: "k", Reporter: lockcore.ReporterID{1}, Sequence: sequence, Checks: 1}
}

func TestPropose_boundsMarksAndReportsOfATenant(t *testing.T) {
	w := newWorld(t)
	w.tenant("globex")
	h := w.holder(w.a, "short", "k")
	k := w.holder(w.a, "short", "held")
	w.a.HoldProposals()
	w.client().Acquire(w.a, 1, try("short", "under way"))
	if got := w.given(leader.ProposedMax/2, force(h, 1)) + w.given(leader.ProposedMax/2, report(acme, 1)); got != 0 {
		t.Errorf("%d refused within the bound", got)
	}
	if got := w.given(3, force(h, 1)) + w.given(4, report(acme, 2)); got != 7 {
		t.Errorf("%d of 7 beyond the bound refused", got)
	}
	if got := w.given(1, report("globex", 1)) + w.given(1, lockcore.PutTenant{}); got != 0 {
		t.Errorf("%d refused of another tenant and of the platform's own", got)
	}
	before := w.a.LastIndex()
	free := k.Release(w.a, 1, 0)
	more := w.client().Acquire(w.a, 1, try("short", "more")) // neither acquires nor releases are kept out
	w.wantPending(free)
	w.wantPending(more)
	w.a.ReleaseProposals()
	w.Settle()
	w.wantStatus(free, leader.StatusEnded, lockcore.Released)
	w.wantStatus(more, leader.StatusGranted, 0)
	if got := w.entriesUntil(more, before); got > 6 { // the one under way, four full ones, and its own
		t.Errorf("an acquire waited %d entries behind marks and reports, want at most 6", got)
	}
	if got := w.given(leader.ProposedMax, report(acme, 3)); got != 0 {
		t.Errorf("%d refused after the line had emptied", got)
	}
	w.Settle()
}

// A report is not a lock: what the leader knows of leases is not touched, and a repetition counts once.
func TestReport_isCountedOnceAndTouchesNoLease(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	w.Advance(9 * second)
	for range 2 {
		if got := w.command(report(acme, 1)); got.Outcome != lockcore.Done {
			t.Errorf("the report gave %+v, want done", got)
		}
	}
	for _, n := range w.Nodes {
		if g, known := n.Machine.Guard(acme, "short"); !known || g.Checks != 1 {
			t.Errorf("node %s has %+v, want 1 check", n.Name, g)
		}
	}
	w.Advance(second)
	w.wantState(k, lockcore.StateEnded, lockcore.Expired)
}

// What is said of a proposal when the leadership is lost: known not to be proposed, or unknown.
func TestPropose_whenTheLeadershipIsLost(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	w.a.HoldProposals()
	var underWay, waiting error
	lost := w.a.Leader()
	lost.Propose(force(k, 1), func(_ lockcore.Result, err error) { underWay = err })
	lost.Propose(report(acme, 1), func(_ lockcore.Result, err error) { waiting = err })
	w.elect(w.b)
	if !errors.Is(underWay, leader.ErrUnknownOutcome) || !errors.Is(waiting, leader.ErrNotLeader) {
		t.Errorf("got %v and %v, want unknown and not the leader", underWay, waiting)
	}
	var after error
	lost.Propose(force(k, 1), func(_ lockcore.Result, err error) { after = err })
	if !errors.Is(after, leader.ErrNotLeader) {
		t.Errorf("after it is over: got %v, want %v", after, leader.ErrNotLeader)
	}
	if r := w.command(force(k, 1)); r.Outcome != lockcore.Done { // repeated at the next leader
		t.Errorf("the mark gave %+v, want done", r)
	}
}

// Every entry has a salt of its own, the first of a leadership too.
func TestEntries_haveASaltEach(t *testing.T) {
	w := newWorld(t)
	seen := map[[16]byte]bool{{}: true}
	for range 3 {
		w.command(lockcore.LeaseClock{})
		if salt := w.a.Machine.Salt(); seen[salt] {
			t.Errorf("salt %x comes twice, or is none", salt)
		} else {
			seen[salt] = true
		}
	}
	w.elect(w.b)
	if salt := w.b.Machine.Salt(); seen[salt] {
		t.Errorf("salt %x of the epoch entry comes twice, or is none", salt)
	}
}
