package leader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

const (
	ms      = time.Millisecond
	second  = time.Second
	acme    = lockcore.TenantID("acme")
	forever = time.Duration(-1)
)

// The classes of the tests, by what they are about. A short lease is 10 s: its poll limit is 2.5 s, its pick-up window
// 4.5 s. A long one is 60 s: poll limit 10 s, pick-up window 12 s.
var classes = []lockcore.Class{
	class("short", 10_000, nil),
	class("long", 60_000, nil),
	class("delay", 10_000, func(c *lockcore.Class) { c.LockDelayMS = 5_000 }),
	class("capped", 10_000, func(c *lockcore.Class) { c.MaxHoldMS = 20_000 }),
	class("refusing", 10_000, func(c *lockcore.Class) { c.Refuses = true }),
}

func class(name lockcore.ClassName, leaseMS int64, change func(*lockcore.Class)) lockcore.Class {
	c := lockcore.Class{Name: name, Version: 1, Digest: "sha256:0", Purpose: lockcore.PurposeCorrectness,
		Enforcement: lockcore.EnforcementFenced, QuorumLoss: lockcore.QuorumLossClosed, LeaseMS: leaseMS,
		HeartbeatMS: leaseMS / 3, MaxWaiters: 10_000}
	if change != nil {
		change(&c)
	}
	return c
}

// world is a cluster whose node a leads and whose tenant has the classes above. The audit's findings fail the test.
type world struct {
	*leadertest.Cluster
	t       *testing.T
	a, b, c *leadertest.Node
	clients uint64

	outside bool // the test does what is outside the promise of mutual exclusion: the audit finds holds that end early
}

func newWorld(t *testing.T) *world { return newWorldOf(t, leadertest.Config{}) }

func newWorldOf(t *testing.T, config leadertest.Config) *world {
	t.Helper()
	w := &world{Cluster: leadertest.New(config), t: t}
	w.a, w.b, w.c = w.Node("a"), w.Node("b"), w.Node("c")
	w.elect(w.a)
	w.tenant(acme)
	t.Cleanup(w.check)
	return w
}

func (w *world) check() {
	findings := append(w.Audit.Violations, w.Overlaps()...)
	if w.outside && len(findings) == 0 {
		w.t.Error("the audit found nothing: the test shows nothing")
	}
	for _, v := range findings {
		if !w.outside || !strings.Contains(v, "early expiry") && !strings.Contains(v, "exclusion among clients") {
			w.t.Errorf("audit: %s", v)
		}
	}
	for _, n := range w.Nodes {
		if err := n.Machine.Check(); err != nil {
			w.t.Errorf("node %s: %v", n.Name, err)
		}
	}
}

func (w *world) elect(n *leadertest.Node, voters ...*leadertest.Node) {
	w.t.Helper()
	if err := w.Elect(n, voters...); err != nil {
		w.t.Fatal(err)
	}
	w.Settle()
}

func (w *world) tenant(id lockcore.TenantID) {
	w.t.Helper()
	quotas := lockcore.Quotas{Keys: 100_000, Leases: 100_000, Waiters: 100_000, Sessions: 100_000,
		PerSession: lockcore.PerSessionMax, Ends: 1_000_000}
	w.command(lockcore.PutTenant{Tenant: id, Quotas: quotas})
	for _, c := range classes {
		w.command(lockcore.PutClass{Tenant: id, Class: c})
	}
}

// command carries out a command of the platform's own on whoever leads.
func (w *world) command(c lockcore.Command) lockcore.Result {
	w.t.Helper()
	var result lockcore.Result
	answered := false
	w.leading().Leader().Propose(c, func(r lockcore.Result, err error) {
		if err != nil || r.Outcome == lockcore.Refused {
			w.t.Fatalf("%T: %v, %v", c, r, err)
		}
		result, answered = r, true
	})
	w.Settle()
	if !answered {
		w.t.Fatalf("%T was not answered", c)
	}
	return result
}

// leading is the ready leader of the newest epoch.
func (w *world) leading() *leadertest.Node {
	w.t.Helper()
	var newest *leadertest.Node
	for _, n := range w.Nodes {
		if n.Ready() && (newest == nil || n.Leader().Epoch() > newest.Leader().Epoch()) {
			newest = n
		}
	}
	if newest == nil {
		w.t.Fatal("nobody leads")
	}
	return newest
}

func (w *world) client() *leadertest.Client {
	w.clients++
	return w.Client(w.clients, leader.Caller{Tenant: acme, Owner: "owner", APIKey: "key"})
}

func (w *world) clientOf(tenant lockcore.TenantID) *leadertest.Client {
	w.clients++
	return w.Client(w.clients, leader.Caller{Tenant: tenant, Owner: "owner", APIKey: "key"})
}

func millis(n int64) time.Duration { return time.Duration(n) * ms }

func try(class lockcore.ClassName, key lockcore.Key) leader.Acquire {
	return leader.Acquire{Class: class, Key: key}
}

// wait queues without a deadline and hangs as long as it may.
func wait(class lockcore.ClassName, key lockcore.Key) leader.Acquire {
	return leader.Acquire{Class: class, Key: key, Wait: forever, Poll: time.Hour}
}

func waitFor(class lockcore.ClassName, key lockcore.Key, d time.Duration) leader.Acquire {
	return leader.Acquire{Class: class, Key: key, Wait: d, Poll: time.Hour}
}

// holder is a client that has just been granted the key by n, as its lease 1.
func (w *world) holder(n *leadertest.Node, class lockcore.ClassName, key lockcore.Key) *leadertest.Client {
	w.t.Helper()
	k := w.client()
	r := k.Acquire(n, 1, try(class, key))
	w.Settle()
	w.wantStatus(r, leader.StatusGranted, 0)
	return k
}

// waiter is a client that has just queued for the key at n, as its lease 1, and its hanging poll.
func (w *world) waiter(n *leadertest.Node, class lockcore.ClassName, key lockcore.Key) (*leadertest.Client, *leadertest.Reply) {
	w.t.Helper()
	k := w.client()
	r := k.Acquire(n, 1, wait(class, key))
	w.Settle()
	w.wantPending(r)
	return k, r
}

func (w *world) wantStatus(r *leadertest.Reply, status leader.Status, reason lockcore.Reason) {
	w.t.Helper()
	if !r.Done || r.Err != nil || r.Answer.Status != status || r.Answer.Reason != reason {
		w.t.Fatalf("at %v: got done %v, status %d, reason %v, error %v; want status %d, reason %v",
			w.Now(), r.Done, r.Answer.Status, r.Answer.Reason, r.Err, status, reason)
	}
}

func (w *world) wantPending(r *leadertest.Reply) {
	w.t.Helper()
	if r.Done {
		w.t.Fatalf("at %v: answered already: %+v, %+v, %v", w.Now(), r.Answer, r.Beat, r.Err)
	}
}

func (w *world) wantError(r *leadertest.Reply, want error) {
	w.t.Helper()
	if !r.Done || r.Err != want {
		w.t.Fatalf("at %v: got done %v, error %v, answer %+v; want error %v", w.Now(), r.Done, r.Err, r.Answer, want)
	}
}

// wantHeld wants a heartbeat's answer that holds n leases and lost none.
func (w *world) wantHeld(r *leadertest.Reply, n int) {
	w.t.Helper()
	if !r.Done || r.Err != nil || len(r.Beat.Held) != n || len(r.Beat.Lost) != 0 {
		w.t.Fatalf("at %v: got done %v, held %d, lost %v, error %v; want %d held",
			w.Now(), r.Done, len(r.Beat.Held), r.Beat.Lost, r.Err, n)
	}
}

func (w *world) wantLost(r *leadertest.Reply, reason lockcore.Reason) {
	w.t.Helper()
	if !r.Done || r.Err != nil || len(r.Beat.Held) != 0 || len(r.Beat.Lost) != 1 || r.Beat.Lost[0].Reason != reason {
		w.t.Fatalf("at %v: got done %v, held %d, lost %v, error %v; want one lost as %v",
			w.Now(), r.Done, len(r.Beat.Held), r.Beat.Lost, r.Err, reason)
	}
}

// lease is the client's lease as the leader's machine has it.
func (w *world) lease(k *leadertest.Client, sequence uint64) *lockcore.Lease {
	w.t.Helper()
	l, ok := w.leading().Machine.Lease(k.Tenant, k.Lease(sequence))
	if !ok {
		w.t.Fatalf("no lease %s", k.Lease(sequence))
	}
	return l
}

// wantEnded wants the lease ended for the reason, between from and to after the moment since.
func (w *world) wantState(k *leadertest.Client, state lockcore.LeaseState, reason lockcore.Reason) {
	w.t.Helper()
	if l := w.lease(k, 1); l.State != state || l.Reason != reason {
		w.t.Fatalf("at %v: lease is in state %d, reason %v; want %d, %v", w.Now(), l.State, l.Reason, state, reason)
	}
}

// usable is what a client may rely on when the leader counts d for a lease of the given length: a hundredth less, and a
// tenth of the lease or 200 ms less.
func usable(d, length time.Duration) time.Duration {
	return max(0, d-d/100-min(length/10, 200*ms))
}

func (w *world) wantUse(got, want time.Duration) {
	w.t.Helper()
	if got != want {
		w.t.Fatalf("at %v: use_within is %v, want %v", w.Now(), got, want)
	}
}
