package clienttest_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client/clienttest"
)

func TestQueue_isFirstInFirstOut(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b, c := newAsker(t, p, 1), newAsker(t, p, 2), newAsker(t, p, 3)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		must(t, "queue", b.acquire(1, "k", "", "0s"), "202 queued")
		got := must(t, "queue", c.acquire(1, "k", "", "0s"), "202 queued")
		mustEqual(t, "position", got.lease.Position, 2)
		mustEqual(t, "contact_within", got.lease.ContactWithin.Std(), 2500*time.Millisecond)
		if got, want := p.Queue("ledger", "k"), []string{b.id(1), c.id(1)}; !slices.Equal(got, want) {
			t.Fatalf("queue: got %v, want %v", got, want)
		}
		must(t, "release", a.release(1, ""), "200 ended")
		must(t, "first", b.acquire(1, "k", "", "0s"), "200 granted")
		mustEqual(t, "position", c.acquire(1, "k", "", "0s").lease.Position, 1)
	})
}

func TestPoll_hangsForAQuarterOfTheLeaseAtMost(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		const quarter = 2500 * time.Millisecond
		for poll, want := range map[string]time.Duration{"": quarter, "10s": quarter, "1s": time.Second, "0s": 0} {
			began := time.Now()
			got := must(t, "poll", b.acquire(1, "k", "", poll), "202 queued")
			mustEqual(t, "poll "+poll+" hangs", time.Since(began), want)
			mustEqual(t, "contact_within", got.lease.ContactWithin.Std(), want+quarter) // from when it was sent
		}
	})
}

func TestPoll_newerTakesTheOldersPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		older := b.later(1, "k", "", "")
		newer := b.later(1, "k", "", "")
		must(t, "older", <-older, "202 queued")
		must(t, "release", a.release(1, ""), "200 ended")
		must(t, "newer", <-newer, "200 granted")
	})
}

func TestHandOver_countsFromThePoll(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		hanging := b.later(1, "k", "", "")
		pass(2 * time.Second)
		must(t, "release", a.release(1, ""), "200 ended")
		got := must(t, "handed over", <-hanging, "200 granted")
		// The pick-up window is 2.5 s and 2 s; 2 s of it and more have passed since the poll was sent.
		mustEqual(t, "use_within", got.lease.UseWithin.Std(), 6235*time.Millisecond)
		mustEqual(t, "contact_within", got.lease.ContactWithin.Std(), 4250*time.Millisecond) // half of the window, and those 2 s
		got = must(t, "taken up", b.acquire(1, "k", "", ""), "200 granted")
		mustEqual(t, "use_within", got.lease.UseWithin.Std(), 9700*time.Millisecond)
	})
}

func TestHandOver_windowIsMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		must(t, "queue", b.acquire(1, "k", "", "0s"), "202 queued")
		must(t, "release", a.release(1, ""), "200 ended")
		pass(4500*time.Millisecond - time.Nanosecond)
		id, _, _ := p.Holder("ledger", "k")
		mustEqual(t, "holder", id, b.id(1))
		must(t, "look", b.look(1), "200 queued") // nothing is left of the window, and looking takes up nothing
		pass(time.Nanosecond)
		got := must(t, "too late", b.acquire(1, "k", "", ""), "409 ended")
		mustEqual(t, "reason", got.problem.Reason, "pickup_missed")
	})
}

func TestHandOver_heartbeatTakesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		must(t, "queue", b.acquire(1, "k", "", "0s"), "202 queued")
		must(t, "release", a.release(1, ""), "200 ended")
		pass(4 * time.Second)
		mustEqual(t, "use_within", b.beat(1).beat.Held[0].UseWithin.Std(), 9700*time.Millisecond)
		pass(9 * time.Second)
		mustEqual(t, "held", len(b.beat(1).beat.Held), 1)
	})
}

func TestWait_timesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		p.Class("ledger", clienttest.ClassConfig{Lease: time.Minute})
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		began := time.Now()
		must(t, "wait", b.acquire(1, "k", "3s", ""), "409 wait_timeout")
		mustEqual(t, "after", time.Since(began), 3*time.Second)
		must(t, "again", b.acquire(1, "k", "3s", ""), "409 wait_timeout")
		mustEqual(t, "queue", len(p.Queue("ledger", "k")), 0)
	})
}

func TestWaiter_silentOneIsPurged(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		p.Class("ledger", clienttest.ClassConfig{Lease: time.Minute})
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		must(t, "queue", b.acquire(1, "k", "", "0s"), "202 queued")
		pass(20 * time.Second)
		must(t, "poll", b.acquire(1, "k", "", "0s"), "202 queued")
		pass(30*time.Second - time.Nanosecond) // three polls of 10 s
		mustEqual(t, "queue", len(p.Queue("ledger", "k")), 1)
		pass(time.Nanosecond)
		mustEqual(t, "queue", len(p.Queue("ledger", "k")), 0)
		mustEqual(t, "reason", b.acquire(1, "k", "", "").problem.Reason, "silent")
	})
}

func TestWaiter_lostConnectionLeavesAfterHalfASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b, c := newAsker(t, p, 1), newAsker(t, p, 2), newAsker(t, p, 3)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		for _, w := range []*asker{b, c} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			go w.acquireIn(ctx, 1, "k", "", "")
		}
		pass(1400 * time.Millisecond)
		must(t, "back in time", c.acquire(1, "k", "", "0s"), "202 queued")
		pass(99 * time.Millisecond)
		mustEqual(t, "queue", len(p.Queue("ledger", "k")), 2)
		pass(time.Millisecond)
		mustEqual(t, "queue", len(p.Queue("ledger", "k")), 1)
		mustEqual(t, "reason", b.acquire(1, "k", "", "").problem.Reason, "disconnected")
		mustEqual(t, "position", c.acquire(1, "k", "", "0s").lease.Position, 1)
	})
}

func TestRelease_leavesTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		hanging := b.later(1, "k", "", "")
		got := must(t, "leave", b.release(1, ""), "200 ended")
		mustEqual(t, "reason", got.lease.Reason, "left")
		must(t, "the poll", <-hanging, "409 ended")
		synctest.Wait()
		mustEqual(t, "queue", len(p.Queue("ledger", "k")), 0)
	})
}
