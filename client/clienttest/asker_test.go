package clienttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// inBubble runs a test in a bubble, on a platform with the class "ledger": leases of 10 s, heartbeats every 5 s.
func inBubble(t *testing.T, f func(t *testing.T, p *clienttest.Platform)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := clienttest.New(t)
		p.Class("ledger", clienttest.ClassConfig{})
		f(t, p)
	})
}

// asker speaks the lease API without the SDK, as one session.
type asker struct {
	t       *testing.T
	send    http.RoundTripper
	node    string // its address
	apiKey  string
	session string
}

func newAsker(t *testing.T, p *clienttest.Platform, n int) *asker {
	return &asker{t: t, send: p.Transport(), node: p.Node(1).URL(), apiKey: p.APIKey(), session: fmt.Sprintf("%032x", n)}
}

// at is the same session at another node.
func (a asker) at(n *clienttest.Node) *asker {
	a.node = n.URL()
	return &a
}

// said is an answer.
type said struct {
	status  int
	header  http.Header
	lease   wire.Lease
	beat    wire.HeartbeatAnswer
	list    wire.LockList
	problem wire.Problem
	err     error
}

func (s said) String() string {
	if s.err != nil {
		return s.err.Error()
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s%s", s.status, s.lease.State, s.problem.Code))
}

func (a *asker) ask(ctx context.Context, method, path, body string) (s said) {
	r, err := http.NewRequestWithContext(ctx, method, a.node+path, strings.NewReader(body))
	if err != nil {
		return said{err: err}
	}
	r.Header.Set("Authorization", "Bearer "+a.apiKey)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := a.send.RoundTrip(r)
	if err != nil {
		return said{err: err}
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return said{err: err}
	}
	s.status, s.header = res.StatusCode, res.Header
	for _, into := range s.into(path) {
		if err := json.Unmarshal(raw, into); err != nil {
			return said{err: fmt.Errorf("%s %s: %q is no JSON: %w", method, path, raw, err)}
		}
	}
	return s
}

func (s *said) into(path string) []any {
	switch {
	case s.status >= 300:
		return []any{&s.problem}
	case strings.HasSuffix(path, "/heartbeat"):
		return []any{&s.beat}
	case strings.HasPrefix(path, "/v1/leases/"):
		return []any{&s.lease}
	}
	return []any{&s.list}
}

func (a *asker) id(n int) string { return fmt.Sprintf("%s.%d", a.session, n) }

// acquire asks with wait and poll as written; empty leaves them out.
func (a *asker) acquire(n int, key, wait, poll string) said {
	return a.acquireIn(a.t.Context(), n, key, wait, poll)
}

func (a *asker) acquireIn(ctx context.Context, n int, key, wait, poll string) said {
	body := map[string]string{"class": "ledger", "key": key, "holder": "worker-" + a.session[31:]}
	if wait != "" {
		body["wait"] = wait
	}
	if poll != "" {
		body["poll"] = poll
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return said{err: err}
	}
	return a.ask(ctx, http.MethodPut, "/v1/leases/"+a.id(n), string(raw))
}

// later is an acquire that hangs; its answer comes by the channel.
func (a *asker) later(n int, key, wait, poll string) <-chan said {
	c := make(chan said, 1)
	go func() { c <- a.acquire(n, key, wait, poll) }()
	synctest.Wait()
	return c
}

func (a *asker) beat(numbers ...int) said {
	raw, err := json.Marshal(map[string][]int{"leases": append([]int{}, numbers...)})
	if err != nil {
		return said{err: err}
	}
	return a.ask(a.t.Context(), http.MethodPost, "/v1/sessions/"+a.session+"/heartbeat", string(raw))
}

func (a *asker) release(n int, query string) said {
	return a.ask(a.t.Context(), http.MethodDelete, "/v1/leases/"+a.id(n)+query, "")
}

func (a *asker) look(n int) said {
	return a.ask(a.t.Context(), http.MethodGet, "/v1/leases/"+a.id(n), "")
}

func (a *asker) endSession() said {
	return a.ask(a.t.Context(), http.MethodDelete, "/v1/sessions/"+a.session, "")
}

// must checks what an answer is in short.
func must(t *testing.T, what string, got said, want string) said {
	t.Helper()
	if got.String() != want {
		t.Fatalf("%s: got %s (%s), want %s", what, got, got.problem.Detail, want)
	}
	return got
}

func mustEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// pass lets time pass for the platform; within a bubble alone.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
