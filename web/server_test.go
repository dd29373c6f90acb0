package web_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/web"
	"github.com/stanchion-locks/stanchion/web/api"
)

func TestNew_refusesAnIncompleteConfiguration(t *testing.T) {
	for _, c := range []api.Config{{}, {Platform: &platform{}}, {NodeID: "n1"}, {Platform: &platform{}, NodeID: "n1", InFlightMax: -1}} {
		if a, err := api.New(c); err == nil {
			t.Errorf("api.New(%+v) = %v; want an error", c, a)
		}
	}
	if s, err := web.New(web.Config{}); err == nil {
		t.Errorf("web.New without an API = %v; want an error", s)
	}
}

// hanging is a partition whose acquires hang until they are given up.
func hanging(entered chan<- struct{}) *locks {
	return &locks{acquire: func(ctx context.Context, _ leader.Acquire) (leader.Answer, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return leader.Answer{}, ctx.Err()
	}}
}

// poll sends an acquire that hangs, and delivers its answer.
func poll(t *testing.T, n *node) <-chan reply {
	answered := make(chan reply, 1)
	go func() {
		out, err := n.try(t.Context(), put(leaseOne, `{"class":"c","key":"k","poll":"10s"}`))
		if err != nil {
			t.Error(err)
		}
		answered <- out
	}()
	return answered
}

func TestStop_sendsHangingRequestsElsewhere(t *testing.T) {
	entered := make(chan struct{}, 2)
	behind := hanging(entered)
	direct := leading(t, behind)
	front, _ := pair(t, behind)
	for name, n := range map[string]*node{"at the leader": direct, "passed on": front} {
		answered := poll(t, n)
		receive(t, entered, "the poll "+name)
		n.stop()
		out := receive(t, answered, "the answer "+name)
		if p := out.problem(t); p.Code != wire.CodeStopping || p.Retry != wire.RetrySameID {
			t.Errorf("%s: %s; want stopping, same_id", name, out.body)
		}
	}
}

func TestStop_letsShortRequestsFinish(t *testing.T) {
	entered, goOn := make(chan struct{}), make(chan struct{})
	n := leading(t, &locks{release: func(ctx context.Context, r leader.Release) (leader.Answer, error) {
		close(entered)
		select {
		case <-goOn:
		case <-ctx.Done():
			return leader.Answer{}, ctx.Err()
		}
		return leader.Answer{Status: leader.StatusEnded, Lease: heldLease(r.Lease, "c", "k"), Reason: 1}, nil
	}})
	answered := make(chan reply, 1)
	go func() {
		out, err := n.try(t.Context(), request{method: http.MethodDelete, path: "/v1/leases/" + leaseOne, key: goodKey})
		if err != nil {
			t.Error(err)
		}
		answered <- out
	}()
	receive(t, entered, "the release")
	n.stop()
	close(goOn)
	if out := receive(t, answered, "the answer"); out.status != 200 {
		t.Errorf("a release under way is answered %d %s; want 200", out.status, out.body)
	}
}

func TestRun_endsWithABrokenListener(t *testing.T) {
	a, err := api.New(api.Config{Platform: &platform{}, NodeID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := web.New(web.Config{API: a})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := s.Run(t.Context(), l); err == nil {
		t.Error("Run on a closed listener = nil; want an error")
	}
}

func TestReady_saysWhichPartIsNot(t *testing.T) {
	p := &platform{parts: []wire.Part{{Part: "control", Ready: true}, {Part: "partition 2", Why: "no leader is known"}}}
	n := start(t, p, options{})
	out := n.do(t, request{method: http.MethodGet, path: "/readyz"})
	got := out.problem(t)
	if got.Code != wire.CodeNotReady || got.Detail != "partition 2: no leader is known" || len(got.Parts) != 3 {
		t.Errorf("%s; want not_ready with three parts", out.body)
	}
	if alive := n.do(t, request{method: http.MethodGet, path: "/healthz"}); alive.status != 200 {
		t.Errorf("a node that is not ready is alive: %d; want 200", alive.status)
	}
	ready := leading(t, &locks{}).do(t, request{method: http.MethodGet, path: "/readyz"})
	if want := `{"ready":true,"parts":[{"part":"api","ready":true}]}` + "\n"; ready.status != 200 || string(ready.body) != want {
		t.Errorf("%d %s; want 200 %s", ready.status, ready.body, want)
	}
}

func TestInFlight_waitingRequestsDoNotKeepHeartbeatsOut(t *testing.T) {
	entered := make(chan struct{}, 1)
	l := hanging(entered)
	l.heartbeat = func(context.Context, leader.Heartbeat) (leader.HeartbeatAnswer, error) {
		return leader.HeartbeatAnswer{}, nil
	}
	n := start(t, &platform{locks: l, leader: &self}, options{inFlightMax: 1})
	answered := poll(t, n)
	receive(t, entered, "the poll")
	out := n.do(t, put(session+".2", plainAcquire))
	if p := out.problem(t); p.Code != wire.CodeOverloaded || out.header.Get("Retry-After") == "" {
		t.Errorf("an acquire over the limit: %s; want overloaded with Retry-After", out.body)
	}
	in := request{method: http.MethodPost, path: "/v1/sessions/" + session + "/heartbeat", key: goodKey, body: `{"leases":[1]}`}
	if out := n.do(t, in); out.status != 200 {
		t.Errorf("a heartbeat beside a waiting acquire: %d %s; want 200", out.status, out.body)
	}
	in.key = foreignKey
	if out := n.do(t, in); out.status != 200 {
		t.Errorf("another tenant's heartbeat: %d %s; want 200", out.status, out.body)
	}
	n.stop()
	receive(t, answered, "the poll's answer")
}

// A body that comes slowly takes room at the node that it arrives at, whose quota of requests does not count what it passes
// on: of whatever else a tenant asks, nothing may keep its heartbeats and releases out.
func TestInFlight_nothingElseKeepsHeartbeatsOut(t *testing.T) {
	for _, in := range []request{
		{method: http.MethodGet, path: "/v1/locks"}, {method: http.MethodGet, path: "/v1/leases/" + leaseOne},
		{method: http.MethodPost, path: "/v1/guard/reports", body: plainReport},
	} {
		entered, over := make(chan struct{}), make(chan struct{})
		hang := func() {
			close(entered)
			<-over
		}
		l := keeping()
		l.list = func(context.Context, api.LockQuery) (api.LockPage, error) { hang(); return api.LockPage{}, nil }
		l.look = func(context.Context, leader.Look) (leader.Answer, error) {
			hang()
			return leader.Answer{}, leader.ErrNotFound
		}
		l.command = func(context.Context, lockcore.Command) (lockcore.Result, error) {
			hang()
			return lockcore.Result{}, leader.ErrNotLeader
		}
		n := start(t, &platform{locks: l, leader: &self}, options{inFlightMax: 1})
		in.key = goodKey
		answered := make(chan error, 1)
		go func() {
			_, err := n.try(context.WithoutCancel(t.Context()), in)
			answered <- err
		}()
		receive(t, entered, in.path)
		if out := n.do(t, beat); out.status != 200 {
			t.Errorf("a heartbeat beside %s %s: %d %s; want 200", in.method, in.path, out.status, out.body)
		}
		close(over)
		if err := receive(t, answered, "the answer of "+in.path); err != nil {
			t.Error(err)
		}
	}
}

func TestInFlight_failuresLeaveNothingBehind(t *testing.T) {
	n := start(t, &platform{locks: refusing(0), leader: &self}, options{inFlightMax: 1})
	bad := []request{put(leaseOne, plainAcquire), put(leaseOne, `{`), put("x", plainAcquire),
		{method: http.MethodPut, path: "/v1/leases/" + leaseOne, key: narrowKey, body: `{"class":"other","key":"k"}`}}
	for i := range 1_000 {
		out, err := n.try(t.Context(), bad[i%len(bad)])
		if err != nil {
			t.Fatal(err)
		}
		if out.status == http.StatusTooManyRequests {
			t.Fatalf("request %d finds the room taken by those before it: %s", i, out.body)
		}
	}
}

func TestServer_goesOnAfterAPanic(t *testing.T) {
	first := true
	n := leading(t, &locks{acquire: func(_ context.Context, r leader.Acquire) (leader.Answer, error) {
		if first {
			first = false
			panic("broken")
		}
		return grantedTo(r), nil
	}})
	out := n.do(t, put(leaseOne, plainAcquire))
	p := out.problem(t)
	if p.Code != wire.CodeInternal || p.RequestID == "" || !strings.Contains(n.log.String(), "request_id="+p.RequestID) {
		t.Errorf("%s; want internal, with a request id that the log knows:\n%s", out.body, n.log)
	}
	if out := n.do(t, put(leaseOne, plainAcquire)); out.status != 200 {
		t.Errorf("after a panic: %d; want 200", out.status)
	}
}
