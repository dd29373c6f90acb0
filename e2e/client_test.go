package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

const (
	attemptTime = 2 * time.Second         // of one heartbeat: a node that hangs must not cost the lease
	pollTime    = 3500 * time.Millisecond // of one acquire, which may hang a quarter of a lease of 10 s
	pauseMin    = 50 * time.Millisecond
	pauseMax    = 400 * time.Millisecond // a waiter may be silent for half a second
)

// client speaks to all nodes with one API key, as docs/clients.md has it. Safe for concurrent use.
type client struct {
	http  *http.Client
	nodes []string
	key   string
}

func newClient(t *testing.T, f devFile) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	c := &client{http: &http.Client{Transport: transport}, key: f.APIKey}
	for _, n := range f.Nodes {
		c.nodes = append(c.nodes, n.URL)
	}
	return c
}

// answer is what a node said, and when by the client's clock.
type answer struct {
	sent     time.Time // before the request left: promises count from here
	received time.Time
	status   int
	leader   string // URL of the node that leads, where it was named
	body     []byte
}

// once sends one request to one node. An answer that decides nothing (no quorum, not the leader, unknown) is an error,
// like no answer.
func (c *client) once(ctx context.Context, limit time.Duration, node, method, path string, body any) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err := encode(body)
	if err != nil {
		return answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, method, node+path, bytes.NewReader(raw))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	r.Header.Set("Content-Type", "application/json")
	a := answer{sent: time.Now()}
	res, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, 4<<20)); err != nil {
		return answer{}, err
	}
	a.received, a.status = time.Now(), res.StatusCode
	_, a.leader, _ = strings.Cut(res.Header.Get("Stanchion-Leader"), " ")
	if a.status >= http.StatusInternalServerError || a.status == http.StatusTooManyRequests {
		return a, a.problem()
	}
	return a, nil
}

func encode(body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	return json.Marshal(body)
}

// problem is the problem document that an answer carries.
func (a answer) problem() *wire.Problem {
	p := &wire.Problem{Status: a.status}
	if err := json.Unmarshal(a.body, p); err != nil {
		p.Detail = fmt.Sprintf("status %d that is no problem document: %q", a.status, a.body)
	}
	return p
}

// lease reads a lease out of an answer.
func (a answer) lease() (wire.Lease, error) {
	var l wire.Lease
	if a.status != http.StatusOK && a.status != http.StatusAccepted {
		return l, a.problem()
	}
	return l, json.Unmarshal(a.body, &l)
}

// caller is one client's way through the nodes: the one it prefers, then the others, with growing, random pauses.
type caller struct {
	*client
	next int // of the nodes, owned by the caller's goroutine
}

// call repeats a request, with the same id, at one node after another until one decides it or ctx ends.
func (c *caller) call(ctx context.Context, limit time.Duration, method, path string, body any) (answer, error) {
	for tries := 0; ; tries++ {
		a, err := c.once(ctx, limit, c.nodes[c.next%len(c.nodes)], method, path, body)
		if err == nil {
			return a, nil
		}
		c.next++
		if !wait(ctx, backoff(tries)) {
			return a, errors.Join(ctx.Err(), err)
		}
	}
}

// backoff is the pause after a number of failures in a row: half of it is drawn at random.
func backoff(tries int) time.Duration {
	d := min(pauseMin<<min(tries, 10), pauseMax)
	return d/2 + mathrand.N(d/2)
}

// wait waits, or returns false when ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// newSession draws a session id.
func newSession() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

func leaseID(session string, n uint64) string { return fmt.Sprintf("%s.%d", session, n) }

func leasePath(session string, n uint64) string { return "/v1/leases/" + leaseID(session, n) }

// acquire takes a lease that must be granted at once; for tests that are about something else.
func (c *client) acquire(t *testing.T, session string, n uint64, request wire.AcquireRequest) (wire.Lease, answer) {
	t.Helper()
	a := c.must(t, http.MethodPut, leasePath(session, n), request)
	l, err := a.lease()
	if err != nil || l.State != wire.StateGranted {
		t.Fatalf("acquire %+v: got %+v, %v, want a grant", request, l, err)
	}
	return l, a
}

// must sends a request until some node decides it.
func (c *client) must(t *testing.T, method, path string, body any) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTime)
	defer cancel()
	a, err := (&caller{client: c}).call(ctx, pollTime, method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}
