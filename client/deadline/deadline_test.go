package deadline_test

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stanchion-locks/stanchion/client/deadline"
)

// clocks are four clocks that stand until they are moved.
type clocks struct {
	mu  sync.Mutex
	now deadline.Reading // guarded by mu
}

func newClocks() *clocks {
	return &clocks{now: deadline.Reading{Boot: time.Hour, Monotonic: time.Hour, Raw: time.Hour, Wall: 1e6 * time.Hour}}
}

func (c *clocks) Read() deadline.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clocks) move(d deadline.Reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Boot += d.Boot
	c.now.Monotonic += d.Monotonic
	c.now.Raw += d.Raw
	c.now.Wall += d.Wall
}

func all(d time.Duration) deadline.Reading {
	return deadline.Reading{Boot: d, Monotonic: d, Raw: d, Wall: d}
}

// TestPassed_countsTheClockThatRanMost moves one clock at a time: each alone ends the lease, at its deadline and not before.
func TestPassed_countsTheClockThatRanMost(t *testing.T) {
	const lease = 10 * time.Second
	for name, only := range map[string]func(time.Duration) deadline.Reading{
		"suspend: boot time alone": func(d time.Duration) deadline.Reading { return deadline.Reading{Boot: d} },
		"monotonic alone":          func(d time.Duration) deadline.Reading { return deadline.Reading{Monotonic: d} },
		"raw alone":                func(d time.Duration) deadline.Reading { return deadline.Reading{Raw: d} },
		"a step of the wall clock": func(d time.Duration) deadline.Reading { return deadline.Reading{Wall: d} },
		"all of them":              all,
	} {
		t.Run(name, func(t *testing.T) {
			c := newClocks()
			w := deadline.NewWatch(c)
			d := deadline.New(w, w.Now(), lease)
			c.move(only(lease - 1))
			if got := d.Remaining(); got != 1 || d.Passed() {
				t.Errorf("a nanosecond before the deadline: got %v left, passed %v, want 1ns, false", got, d.Passed())
			}
			c.move(only(1))
			if got := d.Remaining(); got != 0 || !d.Passed() {
				t.Errorf("at the deadline: got %v left, passed %v, want 0s, true", got, d.Passed())
			}
		})
	}
}

// TestWatch_takesIntervalByInterval: the wall clock is stepped back first, and later it alone runs. Sums of whole clocks would
// not see the time in which it alone ran.
func TestWatch_takesIntervalByInterval(t *testing.T) {
	c := newClocks()
	w := deadline.NewWatch(c)
	c.move(deadline.Reading{Boot: time.Second, Monotonic: time.Second, Raw: time.Second, Wall: -time.Hour})
	if got, want := w.Now(), deadline.Instant(time.Second); got != want {
		t.Fatalf("after a step back: got %v, want %v", time.Duration(got), time.Duration(want))
	}
	c.move(deadline.Reading{Wall: time.Minute})
	if got, want := w.Now(), deadline.Instant(61*time.Second); got != want {
		t.Errorf("after the wall clock alone ran: got %v, want %v", time.Duration(got), time.Duration(want))
	}
}

// TestExtend_afterTheDeadlineIsRefusedForEver: a late answer does not bring a lease back, nor does a clock that goes back.
func TestExtend_afterTheDeadlineIsRefusedForEver(t *testing.T) {
	c := newClocks()
	w := deadline.NewWatch(c)
	d := deadline.New(w, w.Now(), time.Second)
	c.move(all(time.Second))
	if d.Extend(w.Now(), time.Hour) {
		t.Error("extended at the deadline: got true, want false")
	}
	c.move(deadline.Reading{Wall: -time.Hour})
	if !d.Passed() || d.Remaining() != 0 {
		t.Errorf("after a step back: got passed %v, %v left, want true, 0s", d.Passed(), d.Remaining())
	}
}

// TestExtend_keepsTheLatestDeadline: answers may come in any order.
func TestExtend_keepsTheLatestDeadline(t *testing.T) {
	c := newClocks()
	w := deadline.NewWatch(c)
	sent := w.Now()
	d := deadline.New(w, sent, 10*time.Second)
	if !d.Extend(sent.Add(2*time.Second), 10*time.Second) || !d.Extend(sent, 5*time.Second) {
		t.Fatal("extended before the deadline: got false, want true")
	}
	if got, want := d.Remaining(), 12*time.Second; got != want {
		t.Errorf("left: got %v, want %v", got, want)
	}
}

// TestWatch_isNeverSlowerThanAnyClockAndNeverGoesBack moves the clocks at random, with looks in between.
func TestWatch_isNeverSlowerThanAnyClockAndNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClocks()
		w := deadline.NewWatch(c)
		began, before := c.Read(), w.Now()
		step := rapid.Int64Range(-int64(time.Minute), int64(time.Minute))
		forth := rapid.Int64Range(0, int64(time.Minute))
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			c.move(deadline.Reading{Boot: time.Duration(forth.Draw(t, "boot")), Monotonic: time.Duration(forth.Draw(t, "monotonic")),
				Raw: time.Duration(forth.Draw(t, "raw")), Wall: time.Duration(step.Draw(t, "wall"))})
			now, r := w.Now(), c.Read()
			if now < before {
				t.Fatalf("went back: got %v after %v", now, before)
			}
			least := max(r.Boot-began.Boot, r.Monotonic-began.Monotonic, r.Raw-began.Raw, r.Wall-began.Wall)
			if time.Duration(now) < least {
				t.Fatalf("got %v, but a clock saw %v pass", time.Duration(now), least)
			}
			before = now
		}
	})
}

// TestSystem_clocksRun reads the machine's clocks: none goes back, but for the wall clock, and time passes.
func TestSystem_clocksRun(t *testing.T) {
	w := deadline.NewWatch(deadline.System())
	before := w.Now()
	for w.Now() == before {
	}
	r := deadline.System().Read()
	if r.Monotonic <= 0 || r.Wall <= 0 {
		t.Errorf("clocks: got %+v, want at least a monotonic and a wall clock", r)
	}
}
