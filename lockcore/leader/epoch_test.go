package leader_test

import (
	"errors"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

// lateExpiry lets a leader propose to expire a lease, lose and regain its leadership, renew the lease, and only then
// gets the old proposal into the log.
func lateExpiry(w *world) (*leadertest.Client, *leadertest.Reply) {
	k := w.holder(w.a, "short", "k")
	w.a.HoldProposals()
	w.Advance(10 * second)
	w.elect(w.a)
	r := k.Heartbeat(w.a, 1)
	w.Settle()
	w.a.ReleaseProposals()
	w.Settle()
	return k, r
}

func TestStaleCommand_isFencedByItsEpoch(t *testing.T) {
	w := newWorld(t)
	k, renewed := lateExpiry(w)
	w.wantHeld(renewed, 1)
	w.wantState(k, lockcore.StateHeld, 0)
	if got := w.Audit.Count["stale commands"]; got != 1 {
		t.Errorf("%d commands were refused as stale, want 1", got)
	}
	if r := k.Heartbeat(w.a, 1); r.Done {
		t.Error("answered without a round")
	} else {
		w.Settle()
		w.wantHeld(r, 1)
	}
}

func TestAudit_seesAMissingEpochFence(t *testing.T) {
	w := &world{Cluster: leadertest.New(leadertest.Config{Break: leadertest.BreakEpochFence}), t: t}
	w.a, w.b, w.c = w.Node("a"), w.Node("b"), w.Node("c")
	w.elect(w.a)
	w.tenant(acme)
	lateExpiry(w)
	if len(w.Audit.Violations) == 0 {
		t.Error("the audit saw nothing wrong with a command of an older epoch that was carried out")
	}
}

// staleConfirmation stops a leader that has an acknowledgement to read, lets another expire the lease and grant its key,
// and wakes the first with the holder's heartbeat in front of everything else.
func staleConfirmation(w *world) (x, y *leadertest.Client, beat *leadertest.Reply) {
	x = w.holder(w.a, "short", "k")
	w.Advance(second)
	w.a.HoldInbox()
	w.Advance(200 * ms) // the others acknowledge what a sends all the time
	w.a.Pause()
	w.elect(w.b, w.c)
	w.Advance(9900 * ms)
	beat = x.Heartbeat(w.a, 1)
	w.Advance(200 * ms)
	y = w.holder(w.b, "short", "k")
	w.a.Resume()
	w.Settle()
	w.a.ReadInbox()
	w.Advance(2 * second)
	return x, y, beat
}

func TestStoppedLeader_confirmsNothingByOldAcknowledgements(t *testing.T) {
	w := newWorld(t)
	x, y, beat := staleConfirmation(w)
	if !beat.Done || beat.Err == nil {
		t.Errorf("the heartbeat got %+v, %v", beat.Beat, beat.Err)
	}
	if x.Holds(1) || !y.Holds(1) {
		t.Errorf("x holds %v, y holds %v; want only y", x.Holds(1), y.Holds(1))
	}
}

func TestAudit_seesTheStaleConfirmationHole(t *testing.T) {
	w := &world{Cluster: leadertest.New(leadertest.Config{Break: leadertest.BreakRounds}), t: t}
	w.a, w.b, w.c = w.Node("a"), w.Node("b"), w.Node("c")
	w.elect(w.a)
	w.tenant(acme)
	staleConfirmation(w)
	if len(w.Audit.Violations) == 0 {
		t.Error("the audit saw nothing wrong with a heartbeat confirmed by old acknowledgements")
	}
}

func TestFailed_tellsWhatWasNotDoneFromWhatIsUnknown(t *testing.T) {
	tests := []struct {
		name     string
		err      error
		underWay error
	}{
		{"not the leader", leader.ErrNotLeader, leader.ErrNotLeader},
		{"leadership lost", leadertest.ErrLeadershipLost, leader.ErrUnknownOutcome},
		{"storage", errors.New("input/output error"), leader.ErrUnknownOutcome},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.a.HoldProposals()
			underWay := w.client().Acquire(w.a, 1, try("short", "k"))
			waiting := w.client().Acquire(w.a, 1, try("short", "k2"))
			w.a.Leader().Failed(tt.err)
			w.wantError(underWay, tt.underWay)
			w.wantError(waiting, leader.ErrNotLeader)
			w.wantError(w.client().Acquire(w.a, 1, try("short", "k3")), leader.ErrNotLeader)
		})
	}
}

func TestAcquire_committedAfterItsLeaderGaveUp_givesOneOutcome(t *testing.T) {
	w := newWorld(t)
	k := w.client()
	w.a.HoldInbox() // the entry reaches the others, and a does not hear of it
	first := k.Acquire(w.a, 1, try("short", "k"))
	w.Settle()
	w.elect(w.b, w.c)
	w.a.DropInbox()
	w.Advance(second)
	w.wantError(first, leader.ErrUnknownOutcome)
	for range 2 {
		again := k.Acquire(w.b, 1, try("short", "k"))
		w.Settle()
		w.wantStatus(again, leader.StatusGranted, 0)
		if got := again.Answer.Lease.Token; got != 1 {
			t.Errorf("token %d, want 1", got)
		}
	}
}

func TestAcquire_lostWithItsLeader_givesOneOutcome(t *testing.T) {
	w := newWorld(t)
	k := w.client()
	w.a.Cut()
	first := k.Acquire(w.a, 1, try("short", "k"))
	w.Settle()
	w.elect(w.b, w.c)
	w.a.Heal()
	w.Advance(second)
	w.wantError(first, leader.ErrUnknownOutcome)
	again := k.Acquire(w.b, 1, try("short", "k"))
	w.Settle()
	w.wantStatus(again, leader.StatusGranted, 0)
	if got := again.Answer.Lease.Token; got != 1 {
		t.Errorf("token %d, want 1", got)
	}
}

func TestNewerEpoch_endsALeadershipWithWhatIsUnderWayUnknown(t *testing.T) {
	w := newWorld(t)
	old := w.a.Leader()
	w.a.HoldProposals()
	r := w.client().Acquire(w.a, 1, try("short", "k"))
	w.elect(w.b)
	w.Advance(second)
	w.wantError(r, leader.ErrUnknownOutcome)
	if old.IsReady() {
		t.Error("the old leadership still answers")
	}
}

func TestLeadershipRegained_isANewEpochAndARestart(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	epoch := w.a.Leader().Epoch()
	w.Advance(9 * second)
	w.elect(w.a)
	if got := w.a.Leader().Epoch(); got != epoch+1 {
		t.Errorf("epoch %d after %d", got, epoch)
	}
	w.Advance(9900 * ms)
	w.wantState(k, lockcore.StateHeld, 0)
	w.Advance(200 * ms)
	w.wantState(k, lockcore.StateEnded, lockcore.Expired)
}

func TestDoomedLease_isNeitherKeptNorCalledHeld(t *testing.T) {
	for _, class := range []lockcore.ClassName{"short", "long"} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			k := w.holder(w.a, class, "k")
			w.Advance(9 * second)
			w.a.HoldProposals()
			w.Advance(51 * second)
			beat := k.Heartbeat(w.a, 1)
			poll, look := k.Acquire(w.a, 1, wait(class, "k")), k.Look(w.a, 1)
			w.Settle()
			w.wantLost(beat, lockcore.Expired)
			w.wantPending(poll)
			w.wantPending(look)
			w.a.ReleaseProposals()
			w.Settle()
			w.wantStatus(poll, leader.StatusEnded, lockcore.Expired)
			w.wantStatus(look, leader.StatusEnded, lockcore.Expired)
		})
	}
}

func TestDoomedHandOff_isNotPickedUp(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	k, _ := w.waiter(w.a, "short", "k")
	w.Advance(3 * second)
	h.Release(w.a, 1, 0)
	w.Settle()
	w.a.HoldProposals()
	w.Advance(4500 * ms) // the pick-up window
	poll := k.Acquire(w.a, 1, wait("short", "k"))
	w.Settle()
	w.wantPending(poll)
	w.a.ReleaseProposals()
	w.Settle()
	w.wantStatus(poll, leader.StatusEnded, lockcore.PickupMissed)
}

func TestDoomedLease_ofALostLeadership_isReportedByTheNext(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	w.Advance(9 * second)
	w.a.HoldProposals()
	w.Advance(second)
	poll := k.Acquire(w.a, 1, wait("short", "k"))
	w.Settle()
	w.elect(w.b)
	w.wantError(poll, leader.ErrNotLeader)
}

func TestExpireAndRelease_ofAnEarlierGrant_changeNothing(t *testing.T) {
	w := newWorld(t)
	first := w.holder(w.a, "short", "k")
	w.Advance(10 * second)
	w.wantState(first, lockcore.StateEnded, lockcore.Expired)
	second := w.holder(w.a, "short", "k")
	for _, c := range []lockcore.Command{
		lockcore.Expire{Tenant: acme, Lease: first.Lease(1), Token: 1},
		lockcore.Expire{Tenant: acme, Lease: second.Lease(1), Token: 1},
		lockcore.MarkEnding{Tenant: acme, Lease: second.Lease(1), Token: 1, Cause: lockcore.Forced},
	} {
		var got lockcore.Result
		w.a.Leader().Propose(c, func(r lockcore.Result, _ error) { got = r })
		w.Settle()
		if got.Outcome != lockcore.Refused {
			t.Errorf("%T of token 1 gave %+v", c, got)
		}
	}
	late, wrong := first.Release(w.a, 1, 1), w.client()
	w.Settle()
	w.wantStatus(late, leader.StatusEnded, lockcore.Expired)
	wrong.Session = second.Session
	stale := wrong.Release(w.a, 1, 1)
	w.Settle()
	w.wantStatus(stale, leader.StatusRefused, lockcore.RefusedStaleToken)
	w.wantState(second, lockcore.StateHeld, 0)
}
