package leader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

func TestPoll_isAnsweredWhenItsTimeIsOver(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "short", "k")
	_, poll := w.waiter(w.a, "short", "k")
	w.Advance(2500*ms - 1)
	w.wantPending(poll)
	w.Advance(1)
	w.wantStatus(poll, leader.StatusQueued, 0)
	if got := poll.Answer; got.Position != 1 || got.ContactWithin != 5*second {
		t.Errorf("position %d, contact_within %v; want 1, 5s", got.Position, got.ContactWithin)
	}
}

func TestPoll_newerTakesTheOldersPlace(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	k, older := w.waiter(w.a, "short", "k")
	w.Advance(second)
	newer := k.Acquire(w.a, 1, wait("short", "k"))
	w.Settle()
	w.wantStatus(older, leader.StatusQueued, 0)
	h.Release(w.a, 1, 0)
	w.Settle()
	w.wantStatus(newer, leader.StatusGranted, 0)
}

func TestLateHandOff_isStillPickedUp(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	k, _ := w.waiter(w.a, "short", "k")
	w.Advance(second)
	w.a.HoldInbox()
	h.Release(w.a, 1, 0) // decided here, applied after its pick-up window
	w.Advance(4900 * ms)
	late := k.Acquire(w.a, 1, wait("short", "k"))
	w.Advance(100 * ms)
	w.a.ReadInbox()
	w.Settle()
	w.wantStatus(late, leader.StatusQueued, 0)
	if k.Holds(1) {
		t.Error("the client believes in a lease whose window had passed")
	}
	next := k.Acquire(w.a, 1, wait("short", "k"))
	w.Settle()
	w.wantStatus(next, leader.StatusGranted, 0)
	w.wantUse(next.Answer.UseWithin, usable(10*second, 10*second))
}

func TestPickUp_givesTheFullTerm(t *testing.T) {
	for class, lease := range map[lockcore.ClassName]time.Duration{"short": 10 * second, "long": 60 * second} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			h := w.holder(w.a, class, "k")
			k, handed := w.waiter(w.a, class, "k")
			h.Release(w.a, 1, 0)
			w.Settle()
			w.wantStatus(handed, leader.StatusGranted, 0)
			w.Advance(4 * second)
			taken := k.Acquire(w.a, 1, wait(class, "k"))
			w.Settle()
			w.wantUse(taken.Answer.UseWithin, usable(lease, lease))
			w.Advance(lease - ms)
			w.wantState(k, lockcore.StateHeld, 0)
			w.Advance(ms)
			w.wantState(k, lockcore.StateEnded, lockcore.Expired)
		})
	}
}

func TestPickUp_underANewLeaderGivesTheFullTerm(t *testing.T) {
	for class, lease := range map[lockcore.ClassName]time.Duration{"short": 10 * second, "long": 60 * second} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			h := w.holder(w.a, class, "k")
			k, _ := w.waiter(w.a, class, "k")
			h.Release(w.a, 1, 0)
			w.Settle()
			w.Advance(2 * second)
			w.elect(w.b)
			taken := k.Acquire(w.b, 1, wait(class, "k"))
			w.Settle()
			w.wantStatus(taken, leader.StatusGranted, 0)
			w.wantUse(taken.Answer.UseWithin, usable(lease, lease))
		})
	}
}

func TestParkedPoll_isSentElsewhereWhenTheLeadershipEnds(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "short", "k")
	k, poll := w.waiter(w.a, "short", "k")
	w.elect(w.b)
	w.wantError(poll, leader.ErrNotLeader)
	again := k.Acquire(w.b, 1, wait("short", "k"))
	w.Settle()
	w.wantPending(again)
	w.wantState(k, lockcore.StateWaiting, 0)
}

func TestPickUp_isNotToldWhenItsRoundFailed(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "delay", "k")
	k, _ := w.waiter(w.a, "delay", "k")
	h.Release(w.a, 1, 0)
	w.Advance(4 * second)
	w.a.FailRounds(true)
	taken := k.Acquire(w.a, 1, wait("delay", "k"))
	w.Settle()
	w.wantError(taken, leader.ErrNoQuorum)
	w.a.FailRounds(false)
	look := k.Look(w.a, 1)
	w.Settle()
	w.wantUse(look.Answer.UseWithin, usable(500*ms, 10*second))
}

func TestDeadWaitersHandOff_expiresAfterThePickUpWindowWithoutLockDelay(t *testing.T) {
	for class, window := range map[lockcore.ClassName]time.Duration{"delay": 4500 * ms, "long": 12 * second} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			h := w.holder(w.a, class, "k")
			dead, _ := w.waiter(w.a, class, "k")
			next, _ := w.waiter(w.a, class, "k")
			h.Release(w.a, 1, 0)
			w.Settle()
			poll := next.Acquire(w.a, 1, wait(class, "k"))
			for range int(window/second) + 1 {
				if poll.Done {
					break
				}
				w.Advance(window/time.Duration(int(window/second)+1) - 1)
				poll = next.Acquire(w.a, 1, wait(class, "k"))
			}
			w.wantState(dead, lockcore.StateHeld, 0)
			w.Advance(second)
			w.wantState(dead, lockcore.StateEnded, lockcore.PickupMissed)
			w.wantStatus(poll, leader.StatusGranted, 0)
			if got := w.lease(next, 1).AtMS; got != window.Milliseconds() {
				t.Errorf("the next waiter was granted at %d ms, want %d", got, window.Milliseconds())
			}
		})
	}
}

func TestDuplicateAfterRelease_grantsNothing(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	k.Release(w.a, 1, 1)
	w.Settle()
	for range 2 {
		again := k.Acquire(w.a, 1, try("short", "k"))
		w.Settle()
		w.wantStatus(again, leader.StatusEnded, lockcore.Released)
		w.elect(w.b)
		w.elect(w.a)
	}
	if got := w.Audit.Count["grants"]; got != 1 {
		t.Errorf("%d grants, want 1", got)
	}
}

func TestDelete_thatOvertakesItsAcquire_burnsTheID(t *testing.T) {
	w := newWorld(t)
	k := w.client()
	gone := k.Release(w.a, 1, 0)
	w.Settle()
	w.wantStatus(gone, leader.StatusEnded, lockcore.Burned)
	late := k.Acquire(w.a, 1, try("short", "k"))
	w.Settle()
	w.wantStatus(late, leader.StatusEnded, lockcore.Burned)
	w.holder(w.a, "short", "k")
}

func TestRefusedAcquire_answersTheSameWhenRepeated(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "short", "k")
	k := w.client()
	for range 3 {
		r := k.Acquire(w.a, 1, try("short", "k"))
		w.Settle()
		w.wantStatus(r, leader.StatusRefused, lockcore.RefusedHeld)
	}
}

func TestSecondRequestOfAHolder_isAlreadyHeld(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	second := k.Acquire(w.a, 2, wait("short", "k"))
	w.Settle()
	w.wantStatus(second, leader.StatusRefused, lockcore.RefusedAlreadyHeld)
}

func TestRetriedAcquire_queuesOnce(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "short", "k")
	k := w.client()
	w.a.HoldProposals()
	for range 50 {
		k.Acquire(w.a, 1, wait("short", "k"))
	}
	w.a.ReleaseProposals()
	w.Settle()
	if lock, _ := w.a.Machine.Lock(acme, "short", "k"); lock.Waiters != 1 {
		t.Errorf("%d wait, want 1", lock.Waiters)
	}
}

func TestFailedTries_leaveNoWaiter(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	for range 300 {
		r := w.client().Acquire(w.a, 1, try("short", "k"))
		w.Settle()
		w.wantStatus(r, leader.StatusRefused, lockcore.RefusedHeld)
	}
	h.Release(w.a, 1, 0)
	w.Settle()
	if lock, taken := w.a.Machine.Lock(acme, "short", "k"); taken {
		t.Errorf("the lock is not free: %+v", lock)
	}
}

func TestTries_succeedWhenADeadHoldersLeaseIsOver(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "short", "k")
	k := w.client()
	for n := uint64(1); ; n++ {
		w.Advance(second)
		r := k.Acquire(w.a, n, try("short", "k"))
		w.Settle()
		if r.Answer.Status == leader.StatusGranted {
			break
		}
		if n > 10 {
			t.Fatal("a lease of 10 s is still held after 11 s")
		}
	}
}

func TestLostConnection_leavesAfter500msUnlessPolledAgain(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "short", "k")
	gone, poll := w.waiter(w.a, "short", "k")
	back, poll2 := w.waiter(w.a, "short", "k")
	w.Advance(second)
	poll.Hangup()
	poll2.Hangup()
	w.Advance(500*ms - 1)
	back.Acquire(w.a, 1, wait("short", "k"))
	w.wantState(gone, lockcore.StateWaiting, 0)
	w.Advance(1)
	w.wantState(gone, lockcore.StateEnded, lockcore.Disconnected)
	w.wantState(back, lockcore.StateWaiting, 0)
}

func TestLostConnection_isMadeGoodByAPollThatDoesNotHang(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "short", "k")
	k, poll := w.waiter(w.a, "short", "k")
	w.Advance(second)
	poll.Hangup()
	w.Advance(100 * ms)
	k.Acquire(w.a, 1, leader.Acquire{Class: "short", Key: "k", Wait: forever})
	w.Advance(second)
	w.wantState(k, lockcore.StateWaiting, 0)
}

func TestConnectionLostBeforeTheRequestIsQueued_leavesToo(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "short", "k")
	k := w.client()
	w.a.HoldProposals()
	k.Acquire(w.a, 1, wait("short", "k")).Hangup()
	w.a.ReleaseProposals()
	w.Advance(500 * ms)
	w.wantState(k, lockcore.StateEnded, lockcore.Disconnected)
}

// The wait ends and the holder releases in the same entry, in either order: the waiter either holds and was told so, or
// it holds nothing.
func TestWaitTimeoutAndRelease_inTheSameMoment(t *testing.T) {
	for _, releaseFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("release first %v", releaseFirst), func(t *testing.T) {
			w := newWorld(t)
			h := w.holder(w.a, "short", "k")
			k := w.client()
			poll := k.Acquire(w.a, 1, waitFor("short", "k", second))
			w.Advance(900 * ms)
			w.a.HoldProposals()
			w.client().Acquire(w.a, 1, try("short", "other")) // an entry under way, so that the two share the next
			if releaseFirst {
				h.Release(w.a, 1, 0)
			}
			w.Advance(100 * ms)
			if !releaseFirst {
				h.Release(w.a, 1, 0)
			}
			w.a.ReleaseProposals()
			w.Settle()
			if releaseFirst {
				w.wantStatus(poll, leader.StatusGranted, 0)
				w.wantState(k, lockcore.StateHeld, 0)
				return
			}
			w.wantStatus(poll, leader.StatusEnded, lockcore.WaitTimeout)
			if _, taken := w.a.Machine.Lock(acme, "short", "k"); taken {
				t.Error("the key of a waiter that timed out is not free")
			}
		})
	}
}

func TestTimedOutWaiter_isNeverGrantedLater(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	k := w.client()
	poll := k.Acquire(w.a, 1, waitFor("short", "k", second))
	w.Advance(1050 * ms)
	w.wantStatus(poll, leader.StatusEnded, lockcore.WaitTimeout)
	h.Release(w.a, 1, 0)
	w.Settle()
	w.wantState(k, lockcore.StateEnded, lockcore.WaitTimeout)
	w.holder(w.a, "short", "k")
}

func TestCancelledWaitAndRelease_inTheSameEntry(t *testing.T) {
	for _, releaseFirst := range []bool{true, false} {
		w := newWorld(t)
		h := w.holder(w.a, "short", "k")
		k, poll := w.waiter(w.a, "short", "k")
		w.a.HoldProposals()
		w.client().Acquire(w.a, 1, try("short", "other"))
		if releaseFirst {
			h.Release(w.a, 1, 0)
		}
		k.Release(w.a, 1, 0)
		if !releaseFirst {
			h.Release(w.a, 1, 0)
		}
		w.a.ReleaseProposals()
		w.Settle()
		if !poll.Done || poll.Answer.Status != leader.StatusEnded {
			t.Errorf("release first %v: the poll got %+v", releaseFirst, poll.Answer)
		}
		w.holder(w.a, "short", "k")
	}
}

func TestSilentWaiter_isPurgedAfterThreePollsAndNotBefore(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	silent, _ := w.waiter(w.a, "short", "k")
	alive, _ := w.waiter(w.a, "short", "k")
	polling := func(d time.Duration) {
		for end := w.Now() + d; w.Now() < end; {
			w.Advance(min(2*second, end-w.Now()))
			h.Heartbeat(w.a, 1)
			alive.Acquire(w.a, 1, wait("short", "k"))
			w.Settle()
		}
	}
	polling(10*second - ms) // its poll ended after 2.5 s
	w.wantState(silent, lockcore.StateWaiting, 0)
	polling(ms)
	w.wantState(silent, lockcore.StateEnded, lockcore.Silent)
	polling(60 * second)
	w.wantState(alive, lockcore.StateWaiting, 0)
}

func TestSilentWaiter_hasItsTimeAgainUnderANewLeader(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	k, _ := w.waiter(w.a, "short", "k")
	w.Advance(9 * second)
	w.elect(w.b)
	h.Heartbeat(w.b, 1)
	w.Advance(7499 * ms)
	w.wantState(k, lockcore.StateWaiting, 0)
	w.Advance(ms)
	w.wantState(k, lockcore.StateEnded, lockcore.Silent)
}

// A class put in force with a longer lease lets its waiters poll less often; those in the queue already are told so too.
func TestWaiter_isNotPurgedWithinTheContactItWasPromised(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	k, _ := w.waiter(w.a, "short", "k")
	w.command(lockcore.PutClass{Tenant: acme, Class: class("short", 40_000, func(c *lockcore.Class) { c.Version = 2 })})
	poll := k.Acquire(w.a, 1, leader.Acquire{Class: "short", Key: "k", Wait: forever})
	w.Settle()
	for until := w.Now() + poll.Answer.ContactWithin; w.Now() < until; w.Advance(second) {
		h.Heartbeat(w.a, 1)
	}
	w.wantState(k, lockcore.StateWaiting, 0)
}

func TestSilentWaiters_ofOneMoment_shareAnEntry(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "long", "k")
	for range 200 {
		k := w.client()
		k.Acquire(w.a, 1, leader.Acquire{Class: "long", Key: "k", Wait: forever})
	}
	w.Settle()
	before := w.a.LastIndex()
	w.Advance(30 * second)
	if lock, _ := w.a.Machine.Lock(acme, "long", "k"); lock.Waiters != 0 {
		t.Fatalf("%d still wait", lock.Waiters)
	}
	if got := w.a.LastIndex() - before; got > 9 { // and six of the lease clock
		t.Errorf("%d entries", got)
	}
}

func TestQueue_ofOneKeyHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	w.tenant("globex")
	w.holder(w.a, "short", "k")
	for range 1000 {
		w.client().Acquire(w.a, 1, wait("short", "k"))
	}
	w.Settle()
	w.holder(w.a, "short", "other")
	w.holder(w.a, "long", "k")
	r := w.clientOf("globex").Acquire(w.a, 1, try("short", "k"))
	w.Settle()
	w.wantStatus(r, leader.StatusGranted, 0)
}

func TestLockDelay_survivesAChangeOfLeaderWithoutWaiters(t *testing.T) {
	w := newWorld(t)
	w.holder(w.a, "delay", "k")
	refused := func(n *leadertest.Node, want lockcore.Reason) {
		t.Helper()
		r := w.client().Acquire(n, 1, try("delay", "k"))
		w.Settle()
		if r.Answer.Reason != want {
			t.Errorf("at %v: got %v, want %v", w.Now(), r.Answer.Reason, want)
		}
	}
	w.Advance(14 * second)
	refused(w.a, lockcore.RefusedHeld)
	w.elect(w.b)
	w.Advance(5*second - ms) // it begins again
	refused(w.b, lockcore.RefusedHeld)
	w.Advance(ms)
	refused(w.b, 0)
}

// A leader is stopped with a hand-off under way, is replaced, and wakes after everything has changed hands. It reads the
// old acknowledgement, applies the entry and answers what is parked: nobody may believe in what it says.
func TestStoppedLeader_wakesAndAnswersItsParkedPollSafely(t *testing.T) {
	for _, pollAgain := range []bool{true, false} {
		for _, frozen := range []bool{true, false} { // whether its clock stood still as well
			t.Run(fmt.Sprintf("polled again %v, frozen %v", pollAgain, frozen), func(t *testing.T) {
				wakeStoppedLeader(newWorld(t), pollAgain, frozen)
			})
		}
	}
}

func wakeStoppedLeader(w *world, pollAgain, frozen bool) {
	h := w.holder(w.a, "short", "k")
	k, parked := w.waiter(w.a, "short", "k")
	w.Advance(second)
	w.a.HoldInbox()
	h.Release(w.a, 1, 0)
	w.Settle() // the others have the entry, and have said so
	w.a.Pause()
	if frozen {
		w.a.Clock.SetRate(-1_000_000)
	}
	w.elect(w.b, w.c)
	w.Advance(11 * second)
	w.wantState(k, lockcore.StateEnded, lockcore.Expired) // granted by the old entry, restarted by the new leader
	other := w.holder(w.b, "short", "k")
	var polled *leadertest.Reply
	if pollAgain {
		polled = k.Acquire(w.a, 1, wait("short", "k"))
	}
	w.a.Resume()
	w.a.ReadInbox()
	w.Advance(2 * second)
	if !parked.Done {
		w.t.Error("the parked poll was never answered")
	}
	if polled != nil && (!polled.Done || polled.Err == nil) {
		w.t.Errorf("the late poll got %+v, %v", polled.Answer, polled.Err)
	}
	if k.Holds(1) || !other.Holds(1) {
		w.t.Error("the client of the stopped leader believes that it holds")
	}
}
