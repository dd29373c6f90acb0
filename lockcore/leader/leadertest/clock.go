package leadertest

import (
	"math"
	"time"
)

const (
	million = 1_000_000
	never   = time.Duration(math.MaxInt64)
)

// Clock runs at a steady rate beside true time.
type Clock struct {
	c     *Cluster
	ppm   int64 // how much faster than true time
	since time.Duration
	base  time.Duration
}

// Now is the elapsed time on this clock.
func (k *Clock) Now() time.Duration { return k.base + scale(k.c.now-k.since, million+k.ppm) }

// SetRate makes the clock run faster than true time by ppm millionths from now on; at -1,000,000 it stands still.
func (k *Clock) SetRate(ppm int64) {
	k.base, k.since, k.ppm = k.Now(), k.c.now, ppm
}

// trueAt is the first true time at which the clock shows at least local.
func (k *Clock) trueAt(local time.Duration) time.Duration {
	switch {
	case local <= k.base:
		return k.since
	case k.ppm <= -million:
		return never
	}
	d := trueSpan(local-k.base, k.ppm)
	for scale(d, million+k.ppm) < local-k.base {
		d++
	}
	return k.since + d
}

// trueSpan is the true time in which a clock of the given rate advances by d.
func trueSpan(d time.Duration, ppm int64) time.Duration {
	rate := time.Duration(million + ppm)
	return d/rate*million + d%rate*million/rate
}

func scale(d time.Duration, millionths int64) time.Duration {
	m := time.Duration(millionths)
	return d/million*m + d%million*m/million
}
