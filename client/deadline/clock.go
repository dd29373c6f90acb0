package deadline

import "time"

// Reading is one look at the clocks: each the time since some origin of its own. A clock that the system does not have, or
// that could not be read, stays 0.
type Reading struct {
	Boot      time.Duration // counts while the machine sleeps (CLOCK_BOOTTIME)
	Monotonic time.Duration // stands still while it sleeps, and is slewed (CLOCK_MONOTONIC)
	Raw       time.Duration // likewise, and is not slewed (CLOCK_MONOTONIC_RAW)
	Wall      time.Duration // may jump, both ways (CLOCK_REALTIME)
}

// Clock reads the clocks. It is safe for concurrent use.
type Clock interface {
	Read() Reading
}

// System is the machine's own clocks: all four on Linux, the monotonic and the wall clock of Go's time package elsewhere.
func System() Clock { return system{} }

// since is the longest that any clock saw pass since an earlier reading, never negative.
func (r Reading) since(earlier Reading) time.Duration {
	return max(0, r.Boot-earlier.Boot, r.Monotonic-earlier.Monotonic, r.Raw-earlier.Raw, r.Wall-earlier.Wall)
}
