package raftnode

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ServerClock tells elapsed time as a lease's grantor must: of the kernel's steady clock and its raw hardware clock it
// takes, interval by interval, whichever moved less. A clock that is being sped up never ends a lease early, and a step of
// the wall clock is not seen at all. Safe for concurrent use.
//
// An interval is a second or more, however often the clock is read: the two clocks cannot be read at one moment, and what
// passes between the readings would otherwise be lost each time.
type ServerClock struct {
	read func() (steady, raw time.Duration)

	mu     sync.Mutex
	steady time.Duration // guarded by mu: readings at the present interval's beginning
	raw    time.Duration // guarded by mu
	began  time.Duration // guarded by mu: elapsed then
	now    time.Duration // guarded by mu: elapsed at the last reading
}

const clockInterval = time.Second

// NewServerClock begins at zero.
func NewServerClock() *ServerClock { return newServerClock(readClocks) }

func newServerClock(read func() (time.Duration, time.Duration)) *ServerClock {
	c := &ServerClock{read: read}
	c.steady, c.raw = read()
	return c
}

// Now is the time elapsed since the clock was made. It never goes back.
func (c *ServerClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	steady, raw := c.read()
	passed := min(steady-c.steady, raw-c.raw)
	c.now = max(c.now, c.began+passed)
	if passed >= clockInterval {
		c.steady, c.raw, c.began = steady, raw, c.now
	}
	return c.now
}

// readClocks reads both clocks as close together as it can: what passes between the readings would be lost to one of
// them.
func readClocks() (steady, raw time.Duration) {
	const close, tries = 20 * time.Microsecond, 3
	for range tries {
		before := gettime(unix.CLOCK_MONOTONIC)
		raw = gettime(unix.CLOCK_MONOTONIC_RAW)
		steady = gettime(unix.CLOCK_MONOTONIC)
		if steady-before < close {
			break
		}
	}
	return steady, raw
}

func gettime(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic("raftnode: the kernel has no clock " + err.Error())
	}
	return time.Duration(t.Nano())
}
