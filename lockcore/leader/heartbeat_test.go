package leader_test

import (
	"fmt"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

func TestHeartbeats_ofShortLeases_logNothing(t *testing.T) {
	w := newWorld(t)
	var holders []*leadertest.Client
	for i := range 100 {
		holders = append(holders, w.holder(w.a, "short", lockcore.Key(fmt.Sprint(i))))
	}
	before := w.a.LastIndex()
	for range 10 {
		w.Advance(3 * second)
		for _, k := range holders {
			r := k.Heartbeat(w.a, 1)
			w.Settle()
			w.wantHeld(r, 1)
		}
	}
	if got := w.a.LastIndex() - before; got != 0 {
		t.Errorf("1,000 heartbeats logged %d entries", got)
	}
}

func TestRound_isSharedByAllThatWaitForIt(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	before := w.a.Rounds()
	w.a.HoldRounds()
	first := k.Heartbeat(w.a, 1)
	w.Settle()
	var others []*leadertest.Reply
	for range 1000 {
		others = append(others, k.Heartbeat(w.a, 1))
	}
	w.Settle()
	if got := w.a.Rounds() - before; got != 1 {
		t.Fatalf("%d rounds began while one was under way, want 1", got)
	}
	w.a.ReleaseRounds()
	w.wantHeld(first, 1)
	w.wantPending(others[0]) // that round began before they came
	w.Settle()
	for _, r := range others {
		w.wantHeld(r, 1)
	}
	if got := w.a.Rounds() - before; got != 2 {
		t.Errorf("%d rounds, want 2", got)
	}
}

func TestHeartbeat_keepsOnlyWhatItNames(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "orphan")
	r := k.Acquire(w.a, 2, try("short", "k"))
	w.Settle()
	w.wantStatus(r, leader.StatusGranted, 0)
	for range 4 {
		w.Advance(3 * second)
		beat := k.Heartbeat(w.a, 2)
		w.Settle()
		w.wantHeld(beat, 1)
	}
	w.wantState(k, lockcore.StateEnded, lockcore.Expired)
	if l := w.lease(k, 2); !l.Held() {
		t.Error("the lease that was named is lost")
	}
}

func TestHeartbeat_afterExpiry_isRefused(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	w.Advance(11 * second)
	alone := k.Heartbeat(w.a, 1)
	w.Settle()
	w.wantLost(alone, lockcore.Expired)
	other := w.holder(w.a, "short", "k")
	late := k.Heartbeat(w.a, 1)
	w.Settle()
	w.wantLost(late, lockcore.Expired)
	w.wantState(other, lockcore.StateHeld, 0)
}

func TestMarkEnding_betweenAHeartbeatsReceiptAndItsRound_isRevoked(t *testing.T) {
	for _, class := range []lockcore.ClassName{"short", "long"} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			k := w.holder(w.a, class, "k")
			w.Advance(5 * second)
			w.a.HoldRounds()
			beat := k.Heartbeat(w.a, 1)
			w.Settle()
			w.command(lockcore.MarkEnding{Tenant: acme, Lease: k.Lease(1), Token: 1, Cause: lockcore.Forced})
			w.a.ReleaseRounds()
			w.wantLost(beat, lockcore.Forced)
			if !beat.Beat.Lost[0].Ending {
				t.Error("the answer does not say that the lease is only ending")
			}
			// The next grant waits for the timer, which the heartbeat had moved.
			length := millis(w.lease(k, 1).LeaseMS)
			w.Advance(length - ms)
			w.wantState(k, lockcore.StateHeld, 0)
			again := k.Acquire(w.a, 1, try(class, "k"))
			w.Settle()
			w.wantStatus(again, leader.StatusEnding, lockcore.Forced)
			w.Advance(ms)
			w.wantState(k, lockcore.StateEnded, lockcore.Forced)
		})
	}
}

func TestEndingLease_waitsAFullTermUnderANewLeader(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "long", "k")
	w.command(lockcore.MarkEnding{Tenant: acme, Lease: k.Lease(1), Token: 1, Cause: lockcore.Forced})
	w.Advance(50 * second)
	w.elect(w.b)
	beat := k.Heartbeat(w.b, 1)
	w.Settle()
	w.wantLost(beat, lockcore.Forced)
	w.Advance(60*second - ms)
	w.wantState(k, lockcore.StateHeld, 0)
	w.Advance(ms)
	w.wantState(k, lockcore.StateEnded, lockcore.Forced)
}

func TestMaxHold_endsAHoldThatIsKept(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "capped", "k")
	var beat *leadertest.Reply
	for range 7 {
		w.wantState(k, lockcore.StateHeld, 0)
		w.Advance(3 * second)
		beat = k.Heartbeat(w.a, 1)
		w.Settle()
	}
	w.wantLost(beat, lockcore.MaxHold)
	w.Advance(7*second - ms) // ten after the last heartbeat that was taken, at 18 s
	w.wantState(k, lockcore.StateHeld, 0)
	w.Advance(ms)
	w.wantState(k, lockcore.StateEnded, lockcore.MaxHold)
}

func TestHeartbeat_ofAForeignSession_isNotFound(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	other := w.client()
	other.Session, other.Owner = k.Session, "somebody"
	w.Advance(9 * second)
	beat, look := other.Heartbeat(w.a, 1), other.Look(w.a, 1)
	free, again := other.Release(w.a, 1, 0), other.Acquire(w.a, 1, try("short", "k"))
	w.Settle()
	for _, r := range []*leadertest.Reply{beat, look, free, again} {
		w.wantError(r, leader.ErrNotFound)
	}
	w.Advance(second)
	w.wantState(k, lockcore.StateEnded, lockcore.Expired)
}

func TestHeartbeat_ofALeaseHandedOverMeanwhile_doesNotCallItLost(t *testing.T) {
	for _, class := range []lockcore.ClassName{"short", "long"} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			h := w.holder(w.a, class, "k")
			k, _ := w.waiter(w.a, class, "k")
			w.a.HoldRounds()
			beat := k.Heartbeat(w.a, 1)
			w.Settle()
			h.Release(w.a, 1, 0)
			w.Settle()
			w.a.ReleaseRounds()
			w.wantHeld(beat, 1)
		})
	}
}

func TestConfirm_isARoundThatBeginsAfterIt(t *testing.T) {
	w := newWorld(t)
	ask := func() *leadertest.Reply {
		r := &leadertest.Reply{}
		w.a.Leader().Confirm(func(err error) { r.Done, r.Err = true, err })
		return r
	}
	w.a.HoldRounds()
	first, second := ask(), ask()
	w.Settle()
	w.a.ReleaseRounds()
	w.wantError(first, nil)
	w.wantPending(second)
	w.Settle()
	w.wantError(second, nil)
	w.a.Leader().Stop()
	w.wantError(ask(), leader.ErrNotLeader)
}

func TestWithoutAMajority_nothingIsConfirmed(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	w.Advance(second)
	w.a.Cut()
	beat, look, again := k.Heartbeat(w.a, 1), k.Look(w.a, 1), k.Acquire(w.a, 1, try("short", "k"))
	w.Advance(2 * second)
	for _, r := range []*leadertest.Reply{beat, look, again} {
		w.wantError(r, leader.ErrNoQuorum)
	}
}
