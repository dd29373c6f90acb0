package clienttest

import (
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/client/deadline"
)

// Source is one of the clocks of a machine.
type Source int

// The clocks that a client reads.
const (
	Boot      Source = iota // counts while the machine sleeps
	Monotonic               // stands still while it sleeps
	Raw                     // likewise
	Wall                    // may jump, both ways
	sourcesCount
)

// Clock is a machine's four clocks. They run with time.Now, which in a bubble of testing/synctest is the bubble's time,
// until a test steps or stops one of them. It moves no timer and not the platform: what a client believes about time
// changes, and nothing else. It is safe for concurrent use.
type Clock struct {
	began time.Time

	mu     sync.Mutex
	offset [sourcesCount]time.Duration // guarded by mu; of a clock that runs: what to add to the time since began
	frozen [sourcesCount]bool          // guarded by mu; of a clock that stands still, offset is what it shows
}

var _ deadline.Clock = (*Clock)(nil)

// NewClock makes the clocks of one more machine, for client.WithClock. [Platform.Clock] has one already.
func NewClock() *Clock {
	c := &Clock{began: time.Now()}
	c.offset[Wall] = time.Duration(c.began.UnixNano())
	return c
}

// Read looks at all four.
func (c *Clock) Read() deadline.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return deadline.Reading{Boot: c.now(Boot), Monotonic: c.now(Monotonic), Raw: c.now(Raw), Wall: c.now(Wall)}
}

// now is what one clock shows; with mu held.
func (c *Clock) now(s Source) time.Duration {
	if c.frozen[s] {
		return c.offset[s]
	}
	return time.Since(c.began) + c.offset[s]
}

// Step moves one clock forward, or with a negative d back, whether it runs or not.
func (c *Clock) Step(s Source, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset[s] += d
}

// Freeze has clocks stand still; without names, all.
func (c *Clock) Freeze(sources ...Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range orAll(sources) {
		c.offset[s] = c.now(s)
		c.frozen[s] = true
	}
}

// Thaw has clocks run again, from where they stood; without names, all.
func (c *Clock) Thaw(sources ...Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range orAll(sources) {
		if c.frozen[s] {
			c.offset[s] -= time.Since(c.began)
			c.frozen[s] = false
		}
	}
}

func orAll(sources []Source) []Source {
	if len(sources) == 0 {
		return []Source{Boot, Monotonic, Raw, Wall}
	}
	return sources
}

// Suspend is a sleep of the machine, of length d, that has just ended: the boot time and the wall clock have gone on, the
// monotonic clocks have not. For the platform no time has passed; a lease that it would have expired meanwhile is expired by
// [Platform.Expire].
func (c *Clock) Suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset[Boot] += d
	c.offset[Wall] += d
}
