package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web"
	"github.com/stanchion-locks/stanchion/web/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	session  = "4f2c9a1be07d4c55a3b6d2f0918e7c43"
	leaseOne = session + ".1"

	goodKey     = "stn_good"     // every scope of a tenant
	narrowKey   = "stn_narrow"   // locks:ledger-* only
	foreignKey  = "stn_foreign"  // of another tenant
	unscopedKey = "stn_unscoped" // audit:read only
	adminKey    = "stn_admin"    // tenant:admin only
	guardKey    = "stn_guard"    // guard:report only
	operatorKey = "stn_operator" // platform:operator, of no tenant
)

// locks is a partition that answers as a test says.
type locks struct {
	acquire    func(context.Context, leader.Acquire) (leader.Answer, error)
	release    func(context.Context, leader.Release) (leader.Answer, error)
	heartbeat  func(context.Context, leader.Heartbeat) (leader.HeartbeatAnswer, error)
	endSession func(context.Context, leader.EndSession) error
	look       func(context.Context, leader.Look) (leader.Answer, error)
	list       func(context.Context, api.LockQuery) (api.LockPage, error)
	command    func(context.Context, lockcore.Command) (lockcore.Result, error)
}

func (l *locks) Acquire(ctx context.Context, r leader.Acquire) (leader.Answer, error) {
	if l.acquire == nil {
		return grantedTo(r), nil
	}
	return l.acquire(ctx, r)
}

func (l *locks) Release(ctx context.Context, r leader.Release) (leader.Answer, error) {
	if l.release == nil {
		return leader.Answer{}, leader.ErrNotFound
	}
	return l.release(ctx, r)
}

func (l *locks) Heartbeat(ctx context.Context, r leader.Heartbeat) (leader.HeartbeatAnswer, error) {
	if l.heartbeat == nil {
		return leader.HeartbeatAnswer{}, leader.ErrNotFound
	}
	return l.heartbeat(ctx, r)
}

func (l *locks) EndSession(ctx context.Context, r leader.EndSession) error {
	if l.endSession == nil {
		return leader.ErrNotFound
	}
	return l.endSession(ctx, r)
}

func (l *locks) Look(ctx context.Context, r leader.Look) (leader.Answer, error) {
	if l.look == nil {
		return leader.Answer{}, leader.ErrNotFound
	}
	return l.look(ctx, r)
}

func (l *locks) List(ctx context.Context, q api.LockQuery) (api.LockPage, error) {
	if l.list == nil {
		return api.LockPage{Index: 1}, nil
	}
	return l.list(ctx, q)
}

func (l *locks) Command(ctx context.Context, c lockcore.Command) (lockcore.Result, error) {
	if l.command == nil {
		return lockcore.Result{Outcome: lockcore.Refused, Reason: lockcore.RefusedUnknown}, nil
	}
	return l.command(ctx, c)
}

func heldLease(id lockcore.LeaseID, class lockcore.ClassName, key lockcore.Key) *lockcore.Lease {
	return &lockcore.Lease{ID: id, State: lockcore.StateHeld, Class: class, Key: key, Holder: "host-a:1", Token: 33, Epoch: 7,
		Version: 3, Purpose: lockcore.PurposeCorrectness, Enforcement: lockcore.EnforcementFenced, APIKey: "good",
		AtMS: 1_782_860_400_125}
}

func grantedTo(r leader.Acquire) leader.Answer {
	return leader.Answer{Status: leader.StatusGranted, Lease: heldLease(r.Lease, r.Class, r.Key), Index: 1042,
		UseWithin: 9_700_900 * time.Microsecond, ContactWithin: 5 * time.Second}
}

// platform is a node as a test says.
type platform struct {
	locks   *locks
	mu      sync.Mutex
	leader  *api.LeaderRef // guarded by mu; nil: nobody knows
	forward http.RoundTripper
	parts   []wire.Part
	// control is the control log, of which this node is the leader unless controlLeader says otherwise. Nil: nobody knows one.
	control       *control.Machine // guarded by mu
	controlLeader *api.LeaderRef   // guarded by mu
	// facts is what the node knows of a lock. Nil: nothing.
	facts func(api.FactsQuery) api.Facts
	audit api.Audit // nil: one in which nothing has happened
	// inForce is what the tenants' partitions grant under. Nil: nothing.
	inForce func(lockcore.TenantID, lockcore.ClassName) uint64
	// catchingUp: keys that are unknown may only be unknown yet.
	catchingUp bool
}

func (p *platform) Authenticate(presented string) (tenants.Principal, error) {
	principal := tenants.Principal{Tenant: "acme", KeyID: "good", Lineage: "first", KeyName: "ledger service"}
	scopes := "locks:* classes:declare:* audit:read guard:report tenant:admin"
	switch presented {
	case goodKey:
	case narrowKey:
		scopes = "locks:ledger-*"
	case unscopedKey:
		scopes = "audit:read"
	case adminKey:
		scopes = "tenant:admin"
	case guardKey:
		scopes = "guard:report"
	case foreignKey:
		principal.Tenant, principal.KeyID, principal.Lineage = "globex", "theirs", "theirs"
	case operatorKey:
		principal.Tenant, scopes = tenants.Platform, "platform:operator"
	default:
		if principal, err := p.authenticateByControl(presented); err == nil {
			return principal, nil
		}
		if p.catchingUp {
			return tenants.Principal{}, api.ErrNotReady
		}
		return tenants.Principal{}, tenants.ErrUnauthorized
	}
	p.nameInLog(&principal, presented)
	parsed, err := tenants.ParseScopes(strings.Fields(scopes)...)
	principal.Scopes = parsed
	return principal, err
}

func (p *platform) Locks(lockcore.TenantID) (api.Locks, bool) { return p.locks, p.locks != nil }

func (p *platform) Leader(lockcore.TenantID) (api.LeaderRef, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == nil {
		return api.LeaderRef{}, false
	}
	return *p.leader, true
}

func (p *platform) leads(ref *api.LeaderRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leader = ref
}

func (p *platform) ControlLeader() (api.LeaderRef, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.controlLeader != nil:
		return *p.controlLeader, true
	case p.control != nil:
		return self, true
	}
	return api.LeaderRef{}, false
}

// Control carries the entry out at once, as a log of one node would.
func (p *platform) Control(_ context.Context, e control.Entry) (control.Result, error) {
	b, err := e.Encode()
	if err != nil {
		return control.Result{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.control == nil {
		return control.Result{}, leader.ErrNotLeader
	}
	r, _ := p.control.Apply(p.control.Revision()+1, b)
	return r, nil
}

func (p *platform) ReadControl(_ context.Context, f func(*control.Machine)) error {
	p.ViewControl(f)
	return nil
}

func (p *platform) ViewControl(f func(*control.Machine)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.control == nil {
		f(control.New())
		return
	}
	f(p.control)
}

func (p *platform) Forward(string) http.RoundTripper { return p.forward }

func (p *platform) KeyName(_ lockcore.TenantID, apiKeyID string) string {
	if apiKeyID == "good" {
		return "ledger service"
	}
	return ""
}

func (p *platform) Facts(_ context.Context, q api.FactsQuery) api.Facts {
	if p.facts == nil {
		return api.Facts{Node: "n1", SinceContact: -1}
	}
	return p.facts(q)
}

// InUse is what an idle tenant uses.
func (p *platform) InUse(id lockcore.TenantID) (lockcore.TenantState, bool) {
	return lockcore.TenantState{ID: id, LastToken: 33}, p.locks != nil
}

func (p *platform) AwaitApplied(context.Context) (applied, behind []string) {
	return []string{"n1", "n2"}, []string{"n3"}
}

func (p *platform) Ready() []wire.Part { return p.parts }

var self = api.LeaderRef{NodeID: "n1", URL: "http://n1.test", Self: true}

// node is a running server.
type node struct {
	server *web.Server
	base   string
	client *http.Client
	log    *syncBuffer
	stop   context.CancelFunc
	done   chan error
}

type options struct {
	peer        bool
	inFlightMax int
	limits      *api.Limits // nil: the API's own
	listener    net.Listener
}

// start runs a server on loopback until the test ends.
func start(t *testing.T, p *platform, o options) *node {
	t.Helper()
	n := &node{log: &syncBuffer{}, done: make(chan error, 1), client: &http.Client{Transport: &http.Transport{}}}
	a, err := api.New(api.Config{Platform: p, NodeID: "n1", Peer: o.peer, InFlightMax: o.inFlightMax, Limits: o.limits, HoldBack: -1})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(n.log, nil))
	if n.server, err = web.New(web.Config{API: a, Log: logger, AccessLog: logger}); err != nil {
		t.Fatal(err)
	}
	if o.listener == nil {
		if o.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	n.base = "http://" + o.listener.Addr().String()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	n.stop = stop
	go func() { n.done <- n.server.Run(ctx, o.listener) }()
	t.Cleanup(func() {
		n.client.CloseIdleConnections()
		stop()
		if err := <-n.done; err != nil {
			t.Errorf("Run = %v; want nil", err)
		}
		close(n.done)
	})
	return n
}

// leading runs a node that leads every tenant's partition.
func leading(t *testing.T, l *locks) *node {
	t.Helper()
	return start(t, &platform{locks: l, leader: &self}, options{})
}

// request is one call. Empty fields are left out.
type request struct {
	method, path string
	key          string
	body         string
	contentType  string
	id           string
}

type reply struct {
	status int
	header http.Header
	body   []byte
}

// problem reads the reply as a problem, and fails the test if it is none.
func (r reply) problem(t *testing.T) wire.Problem {
	t.Helper()
	var p wire.Problem
	if err := json.Unmarshal(r.body, &p); err != nil || r.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %s %.200s is no problem document: %v", r.status, r.header.Get("Content-Type"), r.body, err)
	}
	if p.Status != r.status {
		t.Errorf("status %d is told as %d in the body", r.status, p.Status)
	}
	return p
}

func (r reply) lease(t *testing.T) wire.Lease {
	t.Helper()
	var l wire.Lease
	if err := json.Unmarshal(r.body, &l); err != nil {
		t.Fatalf("%d %.200s is no lease: %v", r.status, r.body, err)
	}
	return l
}

func (n *node) try(ctx context.Context, in request) (reply, error) {
	var body io.Reader
	if in.body != "" {
		body = strings.NewReader(in.body)
	}
	req, err := http.NewRequestWithContext(ctx, in.method, n.base+in.path, body)
	if err != nil {
		return reply{}, err
	}
	if in.key != "" {
		req.Header.Set("Authorization", "Bearer "+in.key)
	}
	if in.body != "" && in.contentType == "" {
		in.contentType = "application/json"
	}
	if in.contentType != "" {
		req.Header.Set("Content-Type", in.contentType)
	}
	if in.id != "" {
		req.Header.Set("X-Request-Id", in.id)
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, data}, err
}

// do makes one call and holds the answer against the API's description.
func (n *node) do(t *testing.T, in request) reply {
	t.Helper()
	out, err := n.try(t.Context(), in)
	if err != nil {
		t.Fatalf("%s %s: %v", in.method, in.path, err)
	}
	checkDescribed(t, in, out)
	if got := out.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("%s %s answers with Cache-Control %q; want no-store", in.method, in.path, got)
	}
	return out
}

func put(id, body string) request {
	return request{method: http.MethodPut, path: "/v1/leases/" + id, key: goodKey, body: body}
}

const plainAcquire = `{"class":"ledger-close","key":"2026-06","poll":"0s"}`

// syncBuffer is a buffer that a server may write to while a test reads it.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// receive waits for a value that another goroutine sends.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
