package client_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
)

const (
	herdSize   = 2_000
	herdOutage = 3 * time.Second
	herdBucket = 100 * time.Millisecond
	herdBack   = 2 * time.Second // the longest pause between two attempts
)

// herd is many clients of one process each that wait for one key.
type herd struct {
	mu     sync.Mutex
	asks   []time.Time       // guarded by mu; when acquires left
	tokens map[string]uint64 // guarded by mu; by lease id
	wait   sync.WaitGroup    // for all to have held the key
	under  http.RoundTripper // the platform's transport
	member []client.Option   // what their clients are made with
	p      *clienttest.Platform
}

// RoundTrip takes note of acquires, also of those that no node gets.
func (h *herd) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		h.mu.Lock()
		h.asks = append(h.asks, time.Now())
		h.mu.Unlock()
	}
	return h.under.RoundTrip(r)
}

// newHerd puts all of them in line at once.
func newHerd(t *testing.T, p *clienttest.Platform) *herd {
	t.Helper()
	h := &herd{tokens: map[string]uint64{}, under: p.Transport(), p: p}
	h.member = append(p.Options(), client.WithTransport(h))
	for range herdSize {
		h.wait.Go(func() { h.join(t) })
	}
	synctest.Wait()
	return h
}

// join waits for the key, gives it back at once, and goes.
func (h *herd) join(t *testing.T) {
	c, err := client.New(h.p.Endpoints(), h.p.APIKey(), h.member...)
	if err != nil {
		t.Error(err)
		return
	}
	l, err := c.Acquire(t.Context(), "ledger", "k")
	if err != nil {
		t.Error(err)
	} else {
		h.mu.Lock()
		h.tokens[l.ID()] = l.Token()
		h.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

// busiest is the most acquires that left within one bucket of a time, and when that bucket began.
func (h *herd) busiest(from time.Time, long time.Duration) (most int, at time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	buckets := map[time.Duration]int{}
	for _, ask := range h.asks {
		if since := ask.Sub(from); since > 0 && since < long {
			buckets[since.Truncate(herdBucket)]++
		}
	}
	for begin, n := range buckets {
		if n > most {
			most, at = n, begin
		}
	}
	return most, at
}

// TestWaiters_thatLoseTheLeaderTogetherComeBackSpreadAndInOrder: 2,000 clients wait for one key, and all of their connections break in one
// instant. They do not ask again in step, and once there is a leader, each is granted in its turn.
func TestWaiters_thatLoseTheLeaderTogetherComeBackSpreadAndInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		p.Class("ledger", clienttest.ClassConfig{Lease: 10 * time.Second, MaxWaiters: herdSize})
		first := acquire(t, newClient(t, p), "k")
		h := newHerd(t, p)
		time.Sleep(time.Second) // virtual: all hang
		line := p.Queue("ledger", "k")
		if len(line) != herdSize {
			t.Fatalf("in line: got %d, want %d", len(line), herdSize)
		}
		down := time.Now()
		for n := range p.Endpoints() {
			p.Node(n + 1).Cut()
		}
		p.LoseQuorum() // with no leader nobody is taken out of the line
		time.Sleep(herdOutage)
		if most, at := h.busiest(down, herdOutage); most > herdSize*2/3 {
			t.Errorf("acquires in the %v from %v after the loss: got %d of %d waiters, want two thirds as many at most", herdBucket, at, most, herdSize)
		}
		p.Heal()
		restored := time.Now()
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.wait.Wait()
		if got := time.Since(restored); got > herdBack {
			t.Errorf("all were granted %v after there was a leader again, want %v at most", got, herdBack)
		}
		h.wantOrder(t, line, first.Token())
	})
}

// wantOrder checks that the leases in a line were granted one after the other.
func (h *herd) wantOrder(t *testing.T, line []string, before uint64) {
	t.Helper()
	var got []uint64
	for _, id := range line {
		got = append(got, h.tokens[id])
	}
	if !slices.IsSorted(got) || got[0] != before+1 || got[len(got)-1] != before+herdSize {
		t.Errorf("tokens in the order of the line: got %d to %d, sorted: %v; want %d to %d, sorted", got[0], got[len(got)-1],
			slices.IsSorted(got), before+1, before+herdSize)
	}
}
