package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/wire"
)

const (
	loadLeases  = 10_000
	loadWorkers = 64
	loadHoldMax = 6 * time.Second // over half a lease, after which a heartbeat is due
)

// heartbeats looks at what a client's heartbeats name.
type heartbeats struct {
	http.RoundTripper
	mu       sync.Mutex
	released map[string]time.Time // guarded by mu; by lease id: when it was
	named    int                  // guarded by mu; how many names there were
	wrong    []string             // guarded by mu
}

func (h *heartbeats) RoundTrip(r *http.Request) (*http.Response, error) {
	if session, is := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v1/sessions/"), "/heartbeat"); is {
		if err := h.look(session, r); err != nil {
			return nil, err
		}
	}
	return h.RoundTripper.RoundTrip(r)
}

func (h *heartbeats) look(session string, r *http.Request) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	var request wire.HeartbeatRequest
	if err := json.Unmarshal(raw, &request); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range request.Leases {
		h.named++
		id := fmt.Sprintf("%s.%d", session, n)
		if at, over := h.released[id]; over && time.Now().After(at) {
			h.wrong = append(h.wrong, fmt.Sprintf("%s, %v after its release", id, time.Since(at)))
		}
	}
	return nil
}

func (h *heartbeats) release(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released[id] = time.Now()
}

// TestRelease_underLoadEndsTheHeartbeatsOfEachLease: 10,000 leases of one client, 64 at a time, held for a moment or for longer than a
// heartbeat's time. No heartbeat names a lease that was released, and all keys are free in the end.
func TestRelease_underLoadEndsTheHeartbeatsOfEachLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		h := &heartbeats{RoundTripper: p.Transport(), released: map[string]time.Time{}}
		c := newClient(t, p, client.WithTransport(h))
		keys := make(chan string)
		var wait sync.WaitGroup
		for range loadWorkers {
			wait.Go(func() {
				for key := range keys {
					holdFor(t, c, h, key, rand.N(loadHoldMax))
				}
			})
		}
		for i := range loadLeases {
			keys <- fmt.Sprintf("key-%d", i)
		}
		close(keys)
		wait.Wait()
		for i := range loadLeases {
			wantNobody(t, p, fmt.Sprintf("key-%d", i))
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.wrong) > 0 || h.named == 0 {
			t.Errorf("of %d names in heartbeats %d are of leases that were released, want none of some: %q", h.named, len(h.wrong),
				h.wrong[:min(len(h.wrong), 5)])
		}
	})
}

// holdFor acquires a key, holds it for a while, and releases it.
func holdFor(t *testing.T, c *client.Client, h *heartbeats, key string, long time.Duration) {
	l, err := c.Acquire(t.Context(), "ledger", key)
	if err != nil {
		t.Error(err)
		return
	}
	time.Sleep(long) // virtual
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	h.release(l.ID())
}
