package web_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/web/api"
)

var second = api.LeaderRef{NodeID: "n2", URL: "http://n2.test"}

// dialer reaches a node whatever the address says.
func dialer(t *testing.T, address string) *http.Transport {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// pair runs a node that leads, behind its peer listener, and one in front that passes requests on to it.
func pair(t *testing.T, l *locks) (front *node, leads *platform) {
	t.Helper()
	leads = &platform{locks: l, leader: &api.LeaderRef{NodeID: "n2", URL: "http://n2.test", Self: true}}
	behind := start(t, leads, options{peer: true})
	u, err := url.Parse(behind.base)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, &platform{leader: &second, forward: dialer(t, u.Host)}, options{}), leads
}

func TestForward_answersAsTheLeaderDoes(t *testing.T) {
	var foreign int
	l := owned("acme", &foreign)
	direct := leading(t, l)
	front, _ := pair(t, l)
	for _, r := range front.server.Routes() {
		if r.Permission.Public() || r.Permission == api.ReadAudit { // whichever node is asked answers
			continue
		}
		if r.Permission.AtControlLeader() {
			continue // see TestForward_goesToTheLeaderOfTheControlGroup
		}
		for _, key := range []string{goodKey, foreignKey, "stn_wrong"} {
			in := example(r)
			in.key, in.id = key, "same"
			want, got := direct.do(t, in), front.do(t, in)
			if got.status != want.status || !bytes.Equal(got.body, want.body) || got.header.Get("Content-Type") != want.header.Get("Content-Type") {
				t.Errorf("%s %s passed on: %d %s\nasked directly: %d %s", r.Method, r.Path, got.status, got.body, want.status, want.body)
			}
			if leader := got.header.Get("Stanchion-Leader"); key == goodKey && leader != "n2 http://n2.test" {
				t.Errorf("%s %s names the leader %q", r.Method, r.Path, leader)
			}
		}
	}
}

func TestForward_keepsQueryBytes(t *testing.T) {
	var asked lockcore.Key
	front, _ := pair(t, &locks{list: func(_ context.Context, q api.LockQuery) (api.LockPage, error) {
		asked = q.Key
		return api.LockPage{}, nil
	}})
	for _, key := range awkwardKeys {
		front.do(t, request{method: http.MethodGet, path: "/v1/locks?key=" + url.QueryEscape(key), key: goodKey})
		if string(asked) != key {
			t.Errorf("key %q arrives as %q", key, asked)
		}
	}
}

func TestForward_goesOneHopOnly(t *testing.T) {
	front, leads := pair(t, never(t))
	leads.leads(&api.LeaderRef{NodeID: "n3", URL: "http://n3.test"})
	out := front.do(t, put(leaseOne, plainAcquire))
	p := out.problem(t)
	if p.Code != wire.CodeNotLeader || p.Retry != wire.RetrySameID || p.Leader == nil || p.Leader.Node != "n3" {
		t.Errorf("%s; want not_leader naming n3", out.body)
	}
}

func TestForward_tellsTheLeaderThatTheClientIsGone(t *testing.T) {
	entered, left := make(chan struct{}), make(chan error, 1)
	front, _ := pair(t, &locks{acquire: func(ctx context.Context, _ leader.Acquire) (leader.Answer, error) {
		close(entered)
		<-ctx.Done()
		left <- ctx.Err()
		return leader.Answer{}, ctx.Err()
	}})
	ctx, hangUp := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := front.try(ctx, put(leaseOne, `{"class":"c","key":"k","poll":"10s"}`))
		answered <- err
	}()
	receive(t, entered, "the acquire at the leader")
	hangUp()
	if err := receive(t, left, "the end of the acquire at the leader"); err != context.Canceled {
		t.Errorf("the acquire ended with %v; want context.Canceled", err)
	}
	receive(t, answered, "the client")
}

func TestForward_unreachableLeaderDidNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	refusesTLS := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the peer's certificate names another node")
	}}
	for name, transport := range map[string]http.RoundTripper{"nobody listens": dialer(t, closed), "no handshake": refusesTLS} {
		front := start(t, &platform{leader: &second, forward: transport}, options{})
		out := front.do(t, put(leaseOne, plainAcquire))
		if p := out.problem(t); p.Code != wire.CodeNotLeader || p.Retry != wire.RetrySameID {
			t.Errorf("%s: %s; want not_leader, same_id", name, out.body)
		}
	}
}

// tripper is a transport that fails as a test says.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// breaksOff is a body that ends in the middle.
type breaksOff struct{}

func (breaksOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
func (breaksOff) Close() error             { return nil }

func TestForward_brokenConnectionIsAnUnknownOutcome(t *testing.T) {
	hangsUp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hangsUp.Close() }()
	accepted := make(chan struct{})
	go func() { // ends with the listener
		defer close(accepted)
		for {
			conn, err := hangsUp.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	for name, transport := range map[string]http.RoundTripper{
		"closed after the request": dialer(t, hangsUp.Addr().String()),
		"failed, who knows when":   tripper(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }),
		"answer cut short": tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: breaksOff{}}, nil
		}),
	} {
		front := start(t, &platform{leader: &second, forward: transport}, options{})
		out := front.do(t, put(leaseOne, plainAcquire))
		p := out.problem(t)
		if p.Code != wire.CodeOutcomeUnknown || p.Retry != wire.RetrySameID || p.Leader == nil || p.Leader.Node != "n2" {
			t.Errorf("%s: %s; want outcome_unknown, same_id, naming n2", name, out.body)
		}
	}
	_ = hangsUp.Close()
	receive(t, accepted, "the listener's end")
}

func TestForward_passesOnlyWhatIsNeeded(t *testing.T) {
	var passed *http.Request
	var left time.Duration
	front := start(t, &platform{leader: &second, forward: tripper(func(r *http.Request) (*http.Response, error) {
		passed = r
		if deadline, ok := r.Context().Deadline(); ok {
			left = time.Until(deadline)
		}
		header := http.Header{"Content-Type": {"application/json"}, "Set-Cookie": {"a=b"}, "X-Request-Id": {"other"}}
		return &http.Response{StatusCode: 202, Header: header, Body: io.NopCloser(bytes.NewReader([]byte("{}")))}, nil
	})}, options{})
	in := put(leaseOne, plainAcquire)
	in.id = "mine"
	out, err := front.try(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if out.status != 202 || out.header.Get("Set-Cookie") != "" || out.header.Get("X-Request-Id") != "mine" {
		t.Errorf("%d %v; want 202, no foreign headers, the caller's request id", out.status, out.header)
	}
	want := http.Header{"Authorization": {"Bearer " + goodKey}, "Content-Type": {"application/json"}, "X-Request-Id": {"mine"},
		"Stanchion-Forwarded-By": {"n1"}}
	for name, values := range passed.Header {
		if len(values) > 0 && (len(want[name]) != 1 || want[name][0] != values[0]) {
			t.Errorf("header %s %q is passed on", name, values)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("headers %v are not passed on", want)
	}
	if passed.URL.Host != "n2" || left <= 0 || left > api.AnswerMax {
		t.Errorf("passed on to %s with %v left", passed.URL.Host, left)
	}
}

// An answer that is lost on a connection that was idle leaves open what was done. What makes an API key is not passed on
// again, for it would make another one; what carries its own id is.
func TestForward_passesOnceWhatWouldBeDoneTwice(t *testing.T) {
	var passed atomic.Int32
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "{}")
			return
		}
		passed.Add(1)
		panic(http.ErrAbortHandler) // the connection breaks off without an answer
	}))
	defer behind.Close()
	toLeader := dialer(t, behind.Listener.Addr().String())
	front := start(t, &platform{leader: &second, controlLeader: &second, forward: toLeader}, options{})
	for _, c := range []struct {
		in    request
		times int32
	}{
		{request{method: http.MethodPost, path: "/v1/api-keys", key: adminKey,
			body: `{"name":"job","scopes":["tenant:admin"],"expires_in":"1h"}`}, 1},
		{request{method: http.MethodPost, path: "/v1/tenants/acme/api-keys", key: operatorKey,
			body: `{"name":"job","scopes":["audit:read"],"expires_in":"1h"}`}, 1},
		{request{method: http.MethodPost, path: "/v1/api-keys/self/rotate", key: goodKey, body: `{"expires_in":"1h"}`}, 1},
		{request{method: http.MethodPost, path: "/v1/api-keys/" + string(targetKey) + "/rotate", key: adminKey,
			body: `{"expires_in":"1h"}`}, 1},
		{put(leaseOne, plainAcquire), 2},
		{beat, 2},
	} {
		passed.Store(0)
		if _, err := front.try(t.Context(), request{method: http.MethodGet, path: "/v1/locks", key: goodKey}); err != nil {
			t.Fatal(err) // it leaves an idle connection behind
		}
		out, err := front.try(t.Context(), c.in)
		if err != nil {
			t.Fatal(err)
		}
		if p := out.problem(t); p.Code != wire.CodeOutcomeUnknown || passed.Load() != c.times {
			t.Errorf("%s %s: %s, passed on %d times; want outcome_unknown and %d", c.in.method, c.in.path, p.Code, passed.Load(),
				c.times)
		}
	}
}
