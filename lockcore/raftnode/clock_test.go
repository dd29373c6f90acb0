package raftnode

import (
	"testing"
	"time"
)

// twoClocks are clocks that a test moves.
type twoClocks struct{ steady, raw time.Duration }

func (c *twoClocks) read() (time.Duration, time.Duration) { return c.steady, c.raw }

func (c *twoClocks) advance(steady, raw time.Duration) {
	c.steady += steady
	c.raw += raw
}

func TestServerClock_takesTheSlowerClockOfEachInterval(t *testing.T) {
	clocks := &twoClocks{steady: time.Hour, raw: 7 * time.Hour}
	c := newServerClock(clocks.read)
	clocks.advance(10*time.Second, 9*time.Second) // the steady clock is being sped up
	if got, want := c.Now(), 9*time.Second; got != want {
		t.Errorf("after the first interval: got %v, want %v", got, want)
	}
	clocks.advance(4*time.Second, 5*time.Second) // then slowed down
	if got, want := c.Now(), 13*time.Second; got != want {
		t.Errorf("after the second: got %v, want %v: a running total would make up for the first", got, want)
	}
}

func TestServerClock_neverGoesBack(t *testing.T) {
	clocks := &twoClocks{}
	c := newServerClock(clocks.read)
	clocks.advance(5*time.Second, 5*time.Second)
	before := c.Now()
	clocks.advance(-2*time.Second, 0)
	if got := c.Now(); got != before {
		t.Errorf("got %v after a clock went back, want %v", got, before)
	}
}

// The two clocks are never read at the very same moment. That must not slow the clock down, however often it is read.
func TestServerClock_losesNothingToFrequentReadings(t *testing.T) {
	const readings, step, skew = 100_000, time.Millisecond, 50 * time.Microsecond
	clocks := &twoClocks{}
	skewed := false
	c := newServerClock(func() (time.Duration, time.Duration) {
		if skewed = !skewed; skewed {
			return clocks.steady, clocks.raw + skew
		}
		return clocks.steady + skew, clocks.raw
	})
	for range readings {
		clocks.advance(step, step)
		c.Now()
	}
	total := readings * step
	if lost := total - c.Now(); lost > total/1000 {
		t.Errorf("lost %v of %v to the moments between readings", lost, total)
	}
}

func TestServerClock_readsTheKernel(t *testing.T) {
	c := NewServerClock()
	before := time.Now()
	first := c.Now()
	for time.Since(before) < time.Millisecond {
		continue
	}
	if c.Now() <= first {
		t.Error("the clock stands still")
	}
}
