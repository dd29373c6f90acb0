package client

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// givingBack is the one release of a lease.
type givingBack struct {
	done chan struct{} // closed when it is over
	err  error         // nil: the platform has it; read after done
}

const giveUpTime = 10 * time.Second // for what is withdrawn, and for what is lost already

// Release gives the lease back. Its context ends first, then callbacks of OnLost are waited for, and then the release leaves,
// again and again until a node has answered or the lease's deadline has passed, after which it ends by itself.
//
// It is nil if the lease was held until now and is given back. If the hold was over before, it is the *LostError: the work may
// have gone on without the lock. Otherwise the release was not answered yet when ctx ended, and goes on in the background.
// Repeating it is harmless.
func (l *Lease) Release(ctx context.Context) error {
	_ = l.Err() // ends the hold if its deadline has passed
	l.lose(ErrReleased, "")
	g := l.giveBack()
	select {
	case <-g.done:
	case <-ctx.Done():
		return l.outcome(fmt.Errorf("not answered yet: %w", context.Cause(ctx)))
	}
	return l.outcome(g.err)
}

// outcome says how a release went. A hold that was lost before is told as that.
func (l *Lease) outcome(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost.Cause != ErrReleased:
		return l.lost
	case err != nil:
		return fmt.Errorf("stanchion: release %s %s (token %d): %w", l.grant.Class, strconv.Quote(l.grant.Key), l.grant.Token, err)
	}
	return nil
}

// giveBack begins the release, once.
func (l *Lease) giveBack() *givingBack {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.giving != nil {
		return l.giving
	}
	g := &givingBack{done: make(chan struct{})}
	l.giving = g
	send := func() {
		defer close(g.done)
		g.err = l.sendRelease()
	}
	if !l.session.client.begin(send) {
		g.err = ErrClosed
		close(g.done)
	}
	return g
}

// sendRelease waits for the end of the work, and tells the platform until it has heard.
func (l *Lease) sendRelease() error {
	c := l.session.client
	select {
	case <-l.stopped:
	case <-c.life.Done():
		return ErrClosed
	}
	left := l.deadline.At().Sub(c.watch.Now())
	l.mu.Lock()
	lost := l.lost.Cause != ErrReleased
	l.mu.Unlock()
	if lost {
		left = min(max(left, shortTime), giveUpTime)
	}
	ctx, cancel := context.WithTimeoutCause(c.life, max(left, 0), ErrDeadline)
	defer cancel()
	path := fmt.Sprintf("%s?token=%d", l.session.leasePath(l.n), l.grant.Token)
	r, err := c.decide(ctx, http.MethodDelete, path)
	switch {
	case err != nil:
		c.log.Warn("lease not released", "class", l.grant.Class, "token", l.grant.Token, "error", err)
		return err
	case r.problem != nil && !over[r.problem.Code]:
		return r.problem
	}
	return nil
}

// over are the problems which say that there is nothing to release any more.
var over = map[wire.Code]bool{wire.CodeEnded: true, wire.CodeSessionEnded: true, wire.CodeTooOld: true}

// giveUp withdraws a request that nobody waits for any more: it leaves the line, what it was granted is released, and should it be on its way
// still, it grants nothing. Bounded; what is left then ends with its lease, which no heartbeat names.
func (c *Client) giveUp(path string) {
	ctx, cancel := context.WithTimeout(c.life, giveUpTime)
	defer cancel()
	if _, err := c.decide(ctx, http.MethodDelete, path); err != nil {
		c.log.Warn("request not withdrawn", "error", err)
	}
}

// decide sends a request that may be repeated to one node after another until one decides or ctx ends. The answer may be a problem.
func (c *Client) decide(ctx context.Context, method, path string) (reply, error) {
	var way route
	for failures := 0; ; {
		limit := min(shortTime*time.Duration(1+failures), shortMax)
		r, err := c.sendShort(ctx, limit, way.next(c.nodes), method, path, nil)
		if err == nil && !r.undecided() && !(r.problem != nil && waits[r.problem.Code]) {
			return r, nil
		}
		failures++
		if !pause(ctx, max(r.after, backoff(failures, pauseMax))) {
			return reply{}, fmt.Errorf("%w; last: %w", context.Cause(ctx), errProblem(r, err))
		}
	}
}
