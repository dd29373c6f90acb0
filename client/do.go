package client

import (
	"context"
	"errors"
	"time"
)

const afterWorkTime = 10 * time.Second // to wait for the answer to a release

// Do acquires a lease, runs work under it, and releases it when work has returned. work's context ends with the hold or with ctx; work must
// stop then, and give l.Token() to the resource before it reads what it is going to change.
//
// The error joins work's own with the *LostError, if the hold was over before work had returned: even if work was content, it
// may not have been alone. A release that was not answered is no error: it goes on in the background, and the work is done.
func (c *Client) Do(ctx context.Context, class, key string, work func(ctx context.Context, l *Lease) error, opts ...AcquireOption) error {
	l, err := c.Acquire(ctx, class, key, opts...)
	if err != nil {
		return err
	}
	err, lost := l.run(ctx, work)
	return errors.Join(err, lost)
}

// run runs work under the lease and releases it, also when work panics. lost is why the hold was over before work had returned.
func (l *Lease) run(ctx context.Context, work func(ctx context.Context, l *Lease) error) (err, lost error) {
	inner, cancel := context.WithCancelCause(l.ctx)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		cancel(nil)
		lost = l.Err()
		release, end := context.WithTimeout(context.WithoutCancel(ctx), afterWorkTime)
		defer end()
		_ = l.Release(release) // logged; the work is done
	}()
	return work(holdContext{Context: inner, lease: l}, l), nil
}
