package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// Leadership is who leads an election: who holds its key.
type Leadership struct {
	Token         uint64    // fencing token of the hold; 0: nobody leads
	Holder        string    // its label
	APIKey        string    // the name of its API key
	Since         time.Time // the platform's clock
	LastHeartbeat time.Time // likewise; zero: none under the platform's present leader yet
	Waiters       int       // candidates in line
}

const (
	lookTime     = 10 * time.Second // for one look
	observeEvery = time.Second
)

// Leader looks who holds a key. What it says was true when it was asked; only the resource's check knows who may still act.
func (c *Client) Leader(ctx context.Context, class, key string) (Leadership, error) {
	ctx, stop := c.untilClose(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	query := url.Values{"class": {class}, "key": {key}}
	r, err := c.decide(ctx, http.MethodGet, "/v1/locks?"+query.Encode())
	if err == nil && r.problem != nil {
		err = r.problem
	}
	var list wire.LockList
	if err == nil {
		err = r.read(&list)
	}
	if err != nil {
		return Leadership{}, fmt.Errorf("stanchion: look at %s %q: %w", class, key, err)
	}
	return leadershipOf(list), nil
}

func leadershipOf(list wire.LockList) Leadership {
	if len(list.Locks) == 0 {
		return Leadership{}
	}
	lock := list.Locks[0]
	l := Leadership{Waiters: lock.WaitersTotal}
	if h := lock.Holder; h != nil {
		l.Token, l.Holder, l.APIKey, l.Since = h.Token, h.Label, h.APIKey, h.Since
		if h.LastHeartbeat != nil {
			l.LastHeartbeat = *h.LastHeartbeat
		}
	}
	return l
}

// Observe gives who holds a key: at once, and then whenever another one does, or nobody. It looks every 1 to 1.5 s, so that short
// holds may be missed. A look that failed, after 10 s at most, is given as its error; the observer may go on, and is told who holds the
// key as soon as that is known again, changed or not. It ends with ctx, and with ErrClosed as its last error when the client is closed.
func (c *Client) Observe(ctx context.Context, class, key string) iter.Seq2[Leadership, error] {
	return func(yield func(Leadership, error) bool) {
		inner, stop := c.untilClose(ctx)
		defer stop()
		known, before := false, uint64(0)
		for inner.Err() == nil {
			now, err := c.Leader(inner, class, key)
			news := err != nil || !known || now.Token != before
			known, before = err == nil, now.Token
			if inner.Err() == nil && news && !yield(now, err) {
				return
			}
			pause(inner, observeEvery/2+backoff(doublesMax, observeEvery))
		}
		if ctx.Err() == nil {
			yield(Leadership{}, fmt.Errorf("stanchion: observe %s %q: %w", class, key, ErrClosed))
		}
	}
}
