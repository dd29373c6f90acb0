package client_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
)

const lostAnswers = 500

// lose has the next request that matches meet a fault.
type lose func(p *clienttest.Platform, m clienttest.Match)

// TestAcquire_whoseAnswerWasLostIsOneRequest: of each acquire, place in line and release the first request is lost or, carried out already, its
// answer is. There is one request and one grant for each, and nothing is left behind.
func TestAcquire_whoseAnswerWasLostIsOneRequest(t *testing.T) {
	t.Parallel()
	type platform = clienttest.Platform
	for name, c := range map[string]struct {
		keys int
		lose lose
	}{
		"answer lost":  {lostAnswers, func(p *platform, m clienttest.Match) { p.LoseAnswers(m, 1) }},
		"request lost": {lostAnswers / 5, func(p *platform, m clienttest.Match) { p.DropRequests(m, 1) }},
		"answer lost and request doubled": {lostAnswers / 5, func(p *platform, m clienttest.Match) {
			p.LoseAnswers(m, 1)
			p.RepeatRequests(m, 1, time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, p *clienttest.Platform) {
				a, b := newClient(t, p), newClient(t, p)
				tokens := make([]uint64, 2*c.keys)
				var wait sync.WaitGroup
				for i := range c.keys {
					wait.Go(func() {
						tokens[2*i], tokens[2*i+1] = handOverInFaults(t, p, a, b, fmt.Sprintf("key-%d", i), c.lose)
					})
				}
				wait.Wait()
				wantEachToken(t, tokens)
			})
		})
	}
}

// handOverInFaults has a hold a key and b wait for it, hands it over, and releases it, with every first request in a fault.
func handOverInFaults(t *testing.T, p *clienttest.Platform, a, b *client.Client, key string, lose lose) (first, second uint64) {
	acquires, releases := clienttest.Match{Op: clienttest.Acquire, Key: key}, clienttest.Match{Op: clienttest.Release, Key: key}
	lose(p, acquires)
	held, err := a.Acquire(t.Context(), "ledger", key)
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	wantOneRequest(t, p, acquires, held.ID())
	lose(p, acquires)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next, err := b.Acquire(ctx, "ledger", key, client.OnQueued(func(client.Place) {
		if got := p.Queue("ledger", key); len(got) != 1 {
			t.Errorf("%s: in line: got %v, want one", key, got)
		}
		lose(p, acquires) // the next request hangs
		lose(p, releases)
		if err := held.Release(ctx); err != nil {
			t.Error(err)
		}
	}))
	if err != nil {
		t.Error(err)
		return held.Token(), 0
	}
	lose(p, releases)
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantNobody(t, p, key)
	return held.Token(), next.Token()
}

// wantOneRequest checks that the requests so far had one id, and that there was more than one.
func wantOneRequest(t *testing.T, p *clienttest.Platform, m clienttest.Match, id string) {
	t.Helper()
	requests := p.Requests(m)
	for _, r := range requests {
		if !slices.Equal(r.Leases, []string{id}) {
			t.Errorf("%s: a request for %v, want all for %s", m.Key, r.Leases, id)
		}
	}
	if len(requests) < 2 {
		t.Errorf("%s: got %d requests, want a repeated one", m.Key, len(requests))
	}
}

// wantEachToken checks that there was one grant for each lease that somebody was told of: tokens count grants, from 1.
func wantEachToken(t *testing.T, tokens []uint64) {
	t.Helper()
	slices.Sort(tokens)
	for i, got := range tokens {
		if got != uint64(i+1) {
			t.Fatalf("grants: token %d follows %d others, want %d: %d leases and as many grants", got, i, i+1, len(tokens))
		}
	}
}
