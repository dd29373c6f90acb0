package deadline

import (
	"sync"
	"time"
)

// intervalMin is the shortest interval that is added up for good. The four clocks are not read in the same instant; over
// shorter intervals that difference would add up to a watch that runs fast under a caller who asks a million times a second.
const intervalMin = 10 * time.Millisecond

// Instant is a moment on a watch: how much time it had seen pass. Instants of different watches do not compare.
type Instant time.Duration

// Add is the instant that much later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub is the time from an earlier instant to this one.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }

// Watch is one time made of all clocks: of each interval between looks it takes the longest that any clock saw pass. It never
// goes back, and stands still only when every clock does. It is safe for concurrent use.
type Watch struct {
	clock Clock

	mu     sync.Mutex
	last   Reading // guarded by mu; where the running interval began
	passed Instant // guarded by mu; the sum of the intervals before
	latest Instant // guarded by mu; the latest answer
}

// NewWatch starts a watch at 0.
func NewWatch(c Clock) *Watch { return &Watch{clock: c, last: c.Read()} }

// Now looks at the clocks.
func (w *Watch) Now() Instant {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.clock.Read() // under the lock, so that readings come in order
	interval := r.since(w.last)
	w.latest = max(w.latest, w.passed.Add(interval))
	if interval >= intervalMin {
		w.last, w.passed = r, w.latest
	}
	return w.latest
}
