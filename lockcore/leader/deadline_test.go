package leader_test

import (
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

func TestRepeatedAcquire_tellsWhatRemains(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	w.Advance(4 * second)
	again := k.Acquire(w.a, 1, try("short", "k"))
	w.Settle()
	w.wantStatus(again, leader.StatusGranted, 0)
	w.wantUse(again.Answer.UseWithin, usable(6*second, 10*second))
}

func TestHandOff_countsFromItsProposalAndThePollsReceipt(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	_, poll := w.waiter(w.a, "short", "k")
	w.Advance(2 * second)
	w.a.HoldInbox()
	h.Release(w.a, 1, 0)
	w.Advance(400 * ms) // the entry commits this much later, and that counts for nothing
	w.a.ReadInbox()
	w.Settle()
	w.wantStatus(poll, leader.StatusGranted, 0)
	w.wantUse(poll.Answer.UseWithin, usable(2*second+4500*ms, 10*second))
}

func TestGrant_countsFromItsProposal(t *testing.T) {
	w := newWorld(t)
	w.a.HoldInbox()
	k := w.client()
	r := k.Acquire(w.a, 1, try("short", "k"))
	w.Advance(900 * ms)
	w.a.ReadInbox()
	w.Settle()
	w.wantUse(r.Answer.UseWithin, usable(10*second, 10*second))
	if got, want := k.Hold(1).Until, usable(10*second, 10*second); got != want {
		t.Errorf("the client holds until %v, want %v", got, want)
	}
}

func TestShortenedClass_leavesGrantsAsTheyWere(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	w.command(lockcore.PutClass{Tenant: acme, Class: class("short", 4_000, func(c *lockcore.Class) { c.Version = 2 })})
	w.Advance(3 * second)
	beat := k.Heartbeat(w.a, 1)
	w.Settle()
	w.wantHeld(beat, 1)
	w.wantUse(beat.Beat.Held[0].UseWithin, usable(10*second, 10*second))
	other := w.client().Acquire(w.a, 1, try("short", "other"))
	w.Settle()
	w.wantUse(other.Answer.UseWithin, usable(4*second, 4*second))
}

func TestRestart_neverTellsItsExtraTime(t *testing.T) {
	w := newWorldOf(t, leadertest.Config{Jitter: func() float64 { return 0.9 }})
	k := w.holder(w.a, "short", "k")
	w.b.HoldInbox()
	w.Advance(5 * second)
	w.b.ReadInbox()
	w.Settle()
	if err := w.Elect(w.b); err != nil {
		t.Fatal(err)
	}
	w.b.HoldInbox()
	w.Advance(2 * second) // from the proposal of the epoch entry to its application
	w.b.ReadInbox()
	w.Settle()
	for range 3 {
		again, look := k.Acquire(w.b, 1, try("short", "k")), k.Look(w.b, 1)
		w.Settle()
		w.wantUse(again.Answer.UseWithin, usable(15*second-w.Now(), 10*second))
		w.wantUse(look.Answer.UseWithin, again.Answer.UseWithin)
		w.Advance(2 * second)
	}
	w.Advance(4800 * ms) // 10.8 s after ready
	w.wantState(k, lockcore.StateHeld, 0)
	again := k.Acquire(w.b, 1, try("short", "k"))
	w.Settle()
	w.wantUse(again.Answer.UseWithin, 0)
	w.Advance(200 * ms)
	w.wantState(k, lockcore.StateEnded, lockcore.Expired)
}

func TestFailedRound_neverShowsInALaterAnswer(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	w.Advance(5 * second)
	w.a.FailRounds(true)
	beat := k.Heartbeat(w.a, 1)
	w.Settle()
	w.wantError(beat, leader.ErrNoQuorum)
	w.a.FailRounds(false)
	w.Advance(second)
	again, look := k.Acquire(w.a, 1, try("short", "k")), k.Look(w.a, 1)
	w.Settle()
	w.wantUse(again.Answer.UseWithin, usable(4*second, 10*second))
	w.wantUse(look.Answer.UseWithin, usable(4*second, 10*second))
	w.Advance(8900 * ms) // the timer moved at receipt all the same
	w.wantState(k, lockcore.StateHeld, 0)
	w.Advance(100 * ms)
	w.wantState(k, lockcore.StateEnded, lockcore.Expired)
}

func TestLook_movesNothing(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	for range 10 {
		w.Advance(second - ms)
		k.Look(w.a, 1)
	}
	w.Advance(10 * ms)
	w.wantState(k, lockcore.StateEnded, lockcore.Expired)
}

func TestExpiry_isAtTheLeaseAndNotBefore(t *testing.T) {
	for class, lease := range map[lockcore.ClassName]time.Duration{"short": 10 * second, "long": 60 * second} {
		w := newWorld(t)
		k := w.holder(w.a, class, "k")
		w.Advance(lease - 1)
		w.wantState(k, lockcore.StateHeld, 0)
		w.Advance(1)
		w.wantState(k, lockcore.StateEnded, lockcore.Expired)
	}
}

func TestDeadLongLease_endsInBoundThoughTheLeaderChangesEvery20s(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "long", "k")
	start := w.Now()
	for i := 0; w.lease(k, 1).Held(); i++ {
		if w.Now()-start > 3*time.Minute {
			t.Fatal("the lease never ends")
		}
		w.Advance(20 * second)
		w.elect(w.Nodes[(i+1)%3])
	}
	ended := w.Now() - start // at a change of leader, or in the 20 s before
	if ended < 60*second || ended > 100*second {
		t.Errorf("the lease of 60 s ended in the 20 s before %v", ended)
	}
	w.wantState(k, lockcore.StateEnded, lockcore.Expired)
}

func TestLeaseClock_isLoggedEvery5sWhileALongLeaseLives(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "long", "k")
	last, at := w.a.Machine.LeaseClockMS(), w.Now()
	for i := range 550 { // other entries come now and then, in no step with the clock
		if i%72 == 52 {
			w.holder(w.a, "short", lockcore.Key(rune('a'+i/72)))
		}
		w.Advance(100 * ms)
		if now := w.a.Machine.LeaseClockMS(); now != last {
			last, at = now, w.Now()
		}
		if quiet := w.Now() - at; quiet > 5100*ms {
			t.Fatalf("at %v the lease clock has not been logged for %v", w.Now(), quiet)
		}
	}
}

func TestLeaseClock_isNotLoggedForShortLeases(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	before := w.a.LastIndex()
	for range 20 {
		w.Advance(3 * second)
		k.Heartbeat(w.a, 1)
	}
	if got := w.a.LastIndex(); got != before {
		t.Errorf("%d entries were logged", got-before)
	}
}

func TestLongGrant_longAfterTheLastTick_hasItsFullTerm(t *testing.T) {
	w := newWorld(t)
	w.Advance(1000 * second)
	k := w.holder(w.a, "long", "k")
	granted := w.Now()
	w.Advance(12 * second)
	w.elect(w.b)
	again := k.Acquire(w.b, 1, try("long", "k"))
	w.Settle()
	if got, most := again.Answer.UseWithin, usable(50*second, 60*second); got > most || got < usable(48*second, 60*second) {
		t.Errorf("use_within %v after 12 s and a change of leader, want at most %v", got, most)
	}
	w.Advance(granted + 60*second - w.Now() - ms)
	w.wantState(k, lockcore.StateHeld, 0)
	w.Advance(5 * second)
	w.wantState(k, lockcore.StateEnded, lockcore.Expired)
}

func TestExtension_acceptedBeforeTheExpiryIsProposed_keepsTheLease(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "long", "k")
	w.Advance(59_900 * ms)
	w.a.HoldInbox()
	beat := k.Heartbeat(w.a, 1)
	w.Advance(800 * ms) // past the deadline, with the extension under way
	w.wantPending(beat)
	w.a.ReadInbox()
	w.Settle()
	w.wantHeld(beat, 1)
	w.wantUse(beat.Beat.Held[0].UseWithin, usable(60*second, 60*second))
	w.Advance(59 * second)
	w.wantState(k, lockcore.StateHeld, 0)
	w.Advance(second)
	w.wantState(k, lockcore.StateEnded, lockcore.Expired)
}

func TestExtension_isAnsweredAfterItsEntryCommits(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "long", "k")
	w.Advance(10 * second)
	w.a.HoldProposals()
	beat := k.Heartbeat(w.a, 1)
	w.Advance(900 * ms)
	w.wantPending(beat)
	look := k.Look(w.a, 1)
	w.Settle()
	w.wantUse(look.Answer.UseWithin, usable(49_100*ms, 60*second))
	w.a.ReleaseProposals()
	w.Settle()
	w.wantHeld(beat, 1)
}

func TestEpsilon_growsNoLargerThan200msAndATenthOfTheLease(t *testing.T) {
	w := newWorld(t)
	w.command(lockcore.PutClass{Tenant: acme, Class: class("tiny", 1_000, nil)})
	r := w.client().Acquire(w.a, 1, try("tiny", "k"))
	w.Settle()
	w.wantUse(r.Answer.UseWithin, 890*ms)
}
