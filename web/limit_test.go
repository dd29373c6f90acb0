package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web"
	"github.com/stanchion-locks/stanchion/web/api"
)

// stoppedClock goes on only when it is told to.
type stoppedClock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func newStoppedClock() *stoppedClock { return &stoppedClock{now: time.Unix(1_800_000_000, 0)} }

func (c *stoppedClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stoppedClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// keeping is a partition that takes every heartbeat.
func keeping() *locks {
	return &locks{heartbeat: func(context.Context, leader.Heartbeat) (leader.HeartbeatAnswer, error) {
		return leader.HeartbeatAnswer{}, nil
	}}
}

func quota(t *testing.T, m *control.Machine, id tenants.TenantID, perSecond int) *control.Machine {
	t.Helper()
	admitTenants(t, m, tenants.ChangeTenant{Tenant: id, Quotas: tenants.Quotas{RequestsPerSecond: perSecond}, By: tenants.ByPlatform(), AtMS: 1})
	return m
}

var beat = request{method: http.MethodPost, path: "/v1/sessions/" + session + "/heartbeat", key: goodKey, body: `{"leases":[1]}`}

// passes counts how many times in a row a request is let through, at most so many times.
func (n *node) passes(t *testing.T, in request, most int) int {
	t.Helper()
	for i := range most {
		out := n.do(t, in)
		if out.status == http.StatusTooManyRequests {
			if p := out.problem(t); p.Code != wire.CodeRateLimited || !drawnSeconds.MatchString(out.header.Get("Retry-After")) {
				t.Errorf("got %s, Retry-After %q, want rate_limited with one", out.body, out.header.Get("Retry-After"))
			}
			return i
		}
	}
	return most
}

func TestLimit_keepsHeartbeatsApartFromAFlood(t *testing.T) {
	clock := newStoppedClock()
	n := start(t, &platform{locks: keeping(), leader: &self, control: quota(t, controlLog(t), "acme", 20)},
		options{limits: api.NewLimits(clock.read)})
	look := request{method: http.MethodGet, path: "/v1/locks", key: goodKey}
	steps := []struct {
		what string
		in   request
		want int
	}{
		{"acquires", put(leaseOne, plainAcquire), 20}, {"acquires again", put(leaseOne, plainAcquire), 0}, {"reads", look, 0},
		{"heartbeats", beat, 20}, {"heartbeats again", beat, 0},
		{"another tenant's", request{method: http.MethodGet, path: "/v1/locks", key: foreignKey}, 25},
	}
	for _, s := range steps {
		if got := n.passes(t, s.in, 25); got != s.want {
			t.Errorf("%s: got %d let through, want %d", s.what, got, s.want)
		}
	}
	clock.advance(1500 * time.Millisecond)
	if got := n.passes(t, look, 25); got != 10 {
		t.Errorf("a second and a half later: got %d let through, want what is left when the 20 heartbeats are counted", got)
	}
}

// An API key that may only report keeps no holder from keeping what it has, and nobody from ending a hold.
func TestLimit_keepsHeartbeatsApartFromGuardReports(t *testing.T) {
	n := start(t, &platform{locks: keeping(), leader: &self, control: quota(t, controlLog(t), "acme", 20)},
		options{limits: api.NewLimits(newStoppedClock().read)})
	for _, s := range []struct {
		what string
		in   request
		most int
		want int
	}{
		{"reports", request{method: http.MethodPost, path: "/v1/guard/reports", key: guardKey, body: `{}`}, 25, 20},
		{"force-releases", request{method: http.MethodPost, path: "/v1/locks/force-release", key: adminKey, body: `{}`}, 5, 5},
		{"heartbeats", beat, 25, 15},
		{"acquires, when force-releases and heartbeats have used up the quota", put(leaseOne, plainAcquire), 25, 0},
	} {
		if got := n.passes(t, s.in, s.most); got != s.want {
			t.Errorf("%s: got %d let through, want %d", s.what, got, s.want)
		}
	}
}

func TestLimit_letsTenThroughAtOnceAndOperatorsAHundred(t *testing.T) {
	n := start(t, &platform{locks: keeping(), leader: &self, control: quota(t, controlLog(t), "acme", 1)},
		options{limits: api.NewLimits(newStoppedClock().read)})
	if got := n.passes(t, request{method: http.MethodGet, path: "/v1/locks", key: goodKey}, 25); got != 10 {
		t.Errorf("a quota of one: got %d let through, want 10", got)
	}
	if got := n.passes(t, request{method: http.MethodGet, path: "/v1/tenants/acme", key: operatorKey}, 150); got != 100 {
		t.Errorf("an operator: got %d let through, want 100", got)
	}
	if out := n.do(t, request{method: http.MethodGet, path: "/healthz"}); out.status != 200 {
		t.Errorf("what asks for no API key: got %d, want no limit", out.status)
	}
}

func TestLimit_followsTheQuota(t *testing.T) {
	clock := newStoppedClock()
	p := &platform{locks: keeping(), leader: &self, control: quota(t, controlLog(t), "acme", 20)}
	n := start(t, p, options{limits: api.NewLimits(clock.read)})
	look := request{method: http.MethodGet, path: "/v1/locks", key: goodKey}
	n.passes(t, look, 25)
	quota(t, p.control, "acme", 40)
	clock.advance(2 * time.Second)
	n.do(t, look) // by now the new quota is known, and fills the bucket
	clock.advance(2 * time.Second)
	if got := n.passes(t, look, 50); got != 40 {
		t.Errorf("got %d let through, want the new quota of 40", got)
	}
}

// A tenant has one quota at a node, through whichever of its doors; a node that only passes on counts nothing.
func TestLimit_countsWhereARequestIsAnswered(t *testing.T) {
	limits, look := api.NewLimits(newStoppedClock().read), request{method: http.MethodGet, path: "/v1/locks", key: goodKey}
	leads := &platform{locks: keeping(), leader: &api.LeaderRef{NodeID: "n2", URL: "http://n2.test", Self: true},
		control: quota(t, controlLog(t), "acme", 20)}
	behind, public := start(t, leads, options{peer: true, limits: limits}), start(t, leads, options{limits: limits})
	u, err := url.Parse(behind.base)
	if err != nil {
		t.Fatal(err)
	}
	passing := &platform{locks: keeping(), leader: &second, forward: dialer(t, u.Host), control: quota(t, controlLog(t), "acme", 20)}
	front := start(t, passing, options{limits: api.NewLimits(newStoppedClock().read)})
	if got := front.passes(t, look, 15); got != 15 {
		t.Errorf("passed on: got %d let through, want 15", got)
	}
	if got := public.passes(t, look, 25); got != 5 {
		t.Errorf("at the leader's public door: got %d let through, want the 5 that were left", got)
	}
	if got := front.passes(t, look, 25); got != 0 {
		t.Errorf("passed on: got %d let through, want none", got)
	}
	passing.leads(&self)
	if got := front.passes(t, look, 25); got != 20 {
		t.Errorf("at the node that only passed on, once it leads: got %d let through, want its whole quota", got)
	}
}

// A node that answers in the place of a leader that it cannot reach asks all voters to do so: that counts as well.
func TestLimit_countsWhatIsAnsweredInTheLeadersPlace(t *testing.T) {
	lost := tripper(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
	n := start(t, &platform{leader: &second, forward: lost, control: quota(t, controlLog(t), "acme", 20)},
		options{limits: api.NewLimits(newStoppedClock().read)})
	why := request{method: http.MethodGet, path: "/v1/locks/why?class=ledger-close&key=2026-06", key: goodKey}
	if got := n.passes(t, why, 25); got != 20 {
		t.Errorf("got %d let through, want the quota of 20", got)
	}
}

// BenchmarkRateLimited measures what a refused request costs a node.
func BenchmarkRateLimited(b *testing.B) {
	p := &platform{locks: &locks{}, leader: &self}
	principal, err := p.Authenticate(goodKey)
	if err != nil {
		b.Fatal(err)
	}
	a, err := api.New(api.Config{Platform: quickPlatform{p, principal}, NodeID: "n1", Limits: api.NewLimits(newStoppedClock().read)})
	if err != nil {
		b.Fatal(err)
	}
	s, err := web.New(web.Config{API: a, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	w := &discarder{header: http.Header{}}
	body := strings.NewReader(plainAcquire)
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPut, "/v1/leases/"+leaseOne, body)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+goodKey)
	r.Header.Set("Content-Type", "application/json")
	r.Body = io.NopCloser(body)
	for range 2000 { // more than the default quota lets through
		s.ServeHTTP(w, r)
	}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		s.ServeHTTP(w, r)
		if w.status != http.StatusTooManyRequests {
			b.Fatalf("status %d", w.status)
		}
	}
}
