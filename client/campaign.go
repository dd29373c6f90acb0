package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

const (
	campaignPauseMin = time.Second // between campaigns that were refused
	campaignPauseMax = 15 * time.Second
)

// Campaign takes part in an election: it queues for the key until it leads, runs lead, and campaigns again whenever the leadership was
// lost. It goes on until ctx ends, or lead returns while it leads still: then it resigns, and returns what lead returned. Waiting
// that timed out, a full queue, a class that grants nothing yet and an outage are waited out; what asking again cannot mend, such as an API
// key without the right, is returned.
//
// lead's context ends with the leadership. lead must have stopped what it does as the leader before it returns; the
// leadership is given back only then. Observers use Leader and Observe.
func (c *Client) Campaign(ctx context.Context, class, key string, lead func(ctx context.Context, l *Lease) error, opts ...AcquireOption) error {
	for refused := 0; ; {
		l, err := c.Acquire(ctx, class, key, opts...)
		switch {
		case ctx.Err() != nil && err != nil:
			return context.Cause(ctx)
		case err == nil:
			refused = 0
			if err, lost := l.run(ctx, lead); lost == nil {
				return err
			}
		case !mends(err):
			return err
		case !errors.Is(err, ErrWaitTimeout):
			refused++
			wait := min(campaignPauseMin<<min(refused-1, doublesMax), campaignPauseMax)
			if !pause(ctx, wait/2+rand.N(wait/2)) {
				return context.Cause(ctx)
			}
		}
	}
}

// mends reports whether asking again later may be granted.
func mends(err error) bool {
	p, answered := errors.AsType[*wire.Problem](err)
	switch {
	case errors.Is(err, ErrClosed), errors.Is(err, ErrAlreadyHeld):
		return false
	case !answered:
		return true // an outage, or a grant that came too late
	}
	return p.Retry != wire.RetryNever
}
