package deadline

import (
	"sync"
	"time"
)

// Deadline is the local deadline of one lease. It is safe for concurrent use.
type Deadline struct {
	watch *Watch

	mu     sync.Mutex
	at     Instant // guarded by mu
	passed bool    // guarded by mu; once true, for ever
}

// New makes the deadline of a lease from the answer that granted it: sent is when the request that was answered left,
// useWithin what the answer said. It may have passed already; then the lease was not obtained.
func New(w *Watch, sent Instant, useWithin time.Duration) *Deadline {
	return &Deadline{watch: w, at: sent.Add(useWithin)}
}

// Extend takes a later answer into account and reports whether the lease is held still. Of several answers the latest deadline
// counts, in whatever order they come. A deadline that has passed is not extended.
func (d *Deadline) Extend(sent Instant, useWithin time.Duration) bool {
	now := d.watch.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.look(now) {
		return false
	}
	d.at = max(d.at, sent.Add(useWithin))
	return true
}

// Passed reports whether the lease is over by the clocks now. Ask before each use.
func (d *Deadline) Passed() bool {
	now := d.watch.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.look(now)
}

// Remaining is how long the lease may be relied on, as the clocks are now; 0 when it has passed.
func (d *Deadline) Remaining() time.Duration {
	now := d.watch.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.look(now) {
		return 0
	}
	return d.at.Sub(now)
}

// At is where the deadline stands.
func (d *Deadline) At() Instant {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

// look decides, with mu held. A reading taken before the lock is a little early only if the lock was waited for; what was
// extended in between was extended before it passed.
func (d *Deadline) look(now Instant) bool {
	d.passed = d.passed || now >= d.at
	return d.passed
}
