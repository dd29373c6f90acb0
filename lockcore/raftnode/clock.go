package raftnode

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ServerClock tells elapsed time as a lease's grantor must: of the kernel's steady clock and its raw hardware clock it
// takes, interval by interval, whichever moved less. A clock that is being sped up never ends a lease early, and a step of
// the wall clock is not seen at all. Safe for concurrent use.
type ServerClock struct {
	read func() (steady, raw time.Duration)

	mu      sync.Mutex
	steady  time.Duration // guarded by mu: reading of the last interval's end
	raw     time.Duration // guarded by mu
	elapsed time.Duration // guarded by mu
}

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
	c.elapsed += max(0, min(steady-c.steady, raw-c.raw))
	c.steady, c.raw = steady, raw
	return c.elapsed
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
