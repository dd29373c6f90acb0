package client

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	pauseMin   = 50 * time.Millisecond
	pauseMax   = 2 * time.Second
	doublesMax = 10
)

// backoff is the pause after a number of failures in a row, from 1 on: it doubles up to most, and half of it is drawn at random, so that
// clients that failed together do not come back together.
func backoff(failures int, most time.Duration) time.Duration {
	d := min(pauseMin<<min(max(failures-1, 0), doublesMax), most)
	return d/2 + rand.N(d/2+1)
}

// pause waits, or returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
