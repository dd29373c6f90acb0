package platform_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/tenants"
)

// auditAt is how far a node has the events of acme's partition.
func (n *testNode) auditAt(t testing.TB) audit.Position {
	t.Helper()
	p, err := n.platform.Audit().Checkpoint(t.Context(), 1)
	if err != nil {
		t.Fatalf("audit of %s: %v", n.id, err)
	}
	return p
}

// awaitEqualAudits awaits that all nodes have the same rows of acme's partition, at least so many and without a gap.
func (c *cluster) awaitEqualAudits(t testing.TB, rows uint64) audit.Position {
	t.Helper()
	var last []audit.Position
	eventually(t, "all nodes have the same audit", func() bool {
		last = last[:0]
		for _, n := range c.nodes {
			last = append(last, n.auditAt(t))
		}
		for _, p := range last {
			if p.Rows != last[0].Rows || p.Rows < rows || p.Gaps > 0 || p.Complete < p.Durable {
				return false
			}
		}
		return true
	})
	for i, p := range last {
		if p.Root != last[0].Root {
			t.Errorf("with %d rows %s has the root %x; %s has %x", p.Rows, c.nodes[i].id, p.Root, c.nodes[0].id, last[0].Root)
		}
		if p.UnrecoverableGaps != 0 {
			t.Errorf("%s has given up %d gaps; want none", c.nodes[i].id, p.UnrecoverableGaps)
		}
	}
	return last[0]
}

// kinds are the events of one key on a node, in the log's order.
func (n *testNode) kinds(t testing.TB, key string) []string {
	t.Helper()
	page, err := n.platform.Audit().Query(t.Context(), audit.Query{Tenant: string(acme), Key: key, Limit: 1000})
	if err != nil {
		t.Fatalf("audit of %s: %v", n.id, err)
	}
	var kinds []string
	for _, r := range page.Rows {
		kinds = append(kinds, r.Event.Kind)
	}
	return kinds
}

func TestAudit_isEqualOnAllNodesAlsoAfterASnapshot(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	api, _ := c.furnish(t, classLong)
	work := func(name string, n int) {
		for i := range n {
			id := newID()
			api.take(t, id, classLong, fmt.Sprintf("%s %d", name, i))
			api.release(t, id)
		}
	}
	work("first", 10)
	before := c.awaitEqualAudits(t, 20)
	for _, n := range c.nodes {
		if got, want := fmt.Sprint(n.kinds(t, "first 3")), "[granted released]"; got != want {
			t.Errorf("on %s the audit of a key has %s; want %s", n.id, got, want)
		}
	}

	down := c.follower(t, acmePartition)
	down.kill(t)
	work("while one is down", 100) // more than the log keeps behind a snapshot
	eventually(t, "the others have made a snapshot beyond what the node has", func() bool {
		return c.leader(t, acmePartition).group(acmePartition).FirstIndex > before.Durable+1
	})
	down.start(t, false)
	work("afterwards", 5)
	after := c.awaitEqualAudits(t, before.Rows+200)
	root, err := down.platform.AuditRootAt(t.Context(), 1, before.Rows)
	if err != nil || root != before.Root {
		t.Errorf("the node that came back has the root %x (%v) at %d rows; before, it was %x", root, err, before.Rows, before.Root)
	}
	if got := down.kinds(t, "while one is down 50"); fmt.Sprint(got) != "[granted released]" {
		t.Errorf("what happened while the node was down is there as %v", got)
	}
	if after.Rows <= before.Rows {
		t.Errorf("rows went from %d to %d", before.Rows, after.Rows)
	}
}

func TestDamagedAudit_isPutAsideAndFilledAnew(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	api, _ := c.furnish(t, classLong)
	for i := range 120 {
		id := newID()
		api.take(t, id, classLong, fmt.Sprintf("key %d", i))
		api.release(t, id)
	}
	before := c.awaitEqualAudits(t, 240)
	victim := c.follower(t, acmePartition)
	victim.stop(t)
	file := filepath.Join(victim.dir, "audit.db")
	damage(t, file)
	victim.start(t, false)
	if put, err := filepath.Glob(file + ".damaged-*"); err != nil || len(put) == 0 {
		t.Errorf("there is no damaged file put aside (%v): %v", err, put)
	}
	api.take(t, newID(), classLong, "afterwards")
	after := c.awaitEqualAudits(t, before.Rows+1)
	if root, err := victim.platform.AuditRootAt(t.Context(), 1, before.Rows); err != nil || root != before.Root {
		t.Errorf("refilled, the audit has the root %x (%v) at %d rows; want %x", root, err, before.Rows, before.Root)
	}
	t.Logf("%d rows, %x", after.Rows, after.Root)
}

// damage overwrites the middle of a file.
func damage(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, info.Size()/2)
	for i := range noise {
		noise[i] = byte(i * 7)
	}
	if _, err := f.WriteAt(noise, info.Size()/4); err != nil {
		t.Fatal(err)
	}
}

func TestFullAudit_stopsCorrectnessAloneAndHeals(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	only := c.nodes[0]
	only.auditEntriesMax = 32
	only.start(t, true)
	c.awaitReady(t)
	api, _ := c.furnish(t, classLong, classProtected)
	api.take(t, newID(), classProtected, "before")
	if err := only.platform.LimitAudit(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	efficiency := 0
	eventually(t, "a correctness class is refused for the audit", func() bool {
		api.take(t, newID(), classLong, fmt.Sprintf("efficiency %d", efficiency))
		efficiency++
		r, err := api.send(t.Context(), only, http.MethodPut, "/v1/leases/"+newID(),
			acquire{class: classProtected, key: fmt.Sprintf("protected %d", efficiency)}.body())
		return err == nil && r.code() == wire.CodeAuditBehind
	})
	api.take(t, newID(), classLong, "an efficiency class goes on")
	if part := auditPart(t, only); part.Ready || part.Why == "" {
		t.Errorf("readiness says of the audit %+v; want it not ready, and why", part)
	}
	if err := only.platform.LimitAudit(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the audit is well again", func() bool { return auditPart(t, only).Ready })
	if r := api.acquire(t, newID(), acquire{class: classProtected, key: "after"}); !r.granted() {
		t.Errorf("with space again a correctness class is answered %s", r)
	}
	eventually(t, "what was left out is a gap, and what came later is there", func() bool {
		p := only.auditAt(t)
		return p.Gaps+p.UnrecoverableGaps > 0 && len(only.kinds(t, "after")) == 1
	})
}

func auditPart(t *testing.T, n *testNode) wire.Part {
	t.Helper()
	for _, part := range n.platform.Ready() {
		if part.Part == "audit" {
			return part
		}
	}
	t.Fatal("readiness has no part for the audit")
	return wire.Part{}
}

func TestAuditOfTheControlLog_tellsWhoMadeWhat(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.furnish(t, classLong)
	want := map[string]bool{"tenant_created": true, "api_key_created": true, "posture_declared": true, "posture_signed": true}
	eventually(t, "every node tells of the tenant's beginning", func() bool {
		for _, n := range c.nodes {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			page, err := n.platform.Audit().Query(ctx, audit.Query{Tenant: string(acme), Logs: []audit.Log{0}, Limit: 1000})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, r := range page.Rows {
				seen[r.Event.Kind] = true
				if r.Event.Kind == "posture_signed" && r.Event.By == "" {
					t.Errorf("on %s nobody signed: %s", n.id, asJSON(r))
				}
			}
			for kind := range want {
				if !seen[kind] {
					return false
				}
			}
		}
		return true
	})
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// auditTellsAForcedHold: who ended it, why, and that the successor's grant came after.
func auditTellsAForcedHold(t *testing.T, c *calm) {
	api, admin := c.client(t, classLong), c.clientWith(t, c.tenant, "tenant:admin")
	holder, waiter := newID(), newID()
	token := api.take(t, holder, classLong, "k").lease.Token
	queue := acquire{class: classLong, key: "k", wait: "5m"}
	if r := api.acquire(t, waiter, queue); r.lease.State != wire.StateQueued {
		t.Fatalf("behind a holder the request is answered %s", r)
	}
	admin.force(t, wire.ForceReleaseRequest{Class: classLong, Key: "k", Token: token, Reason: "the host is lost"}).forced(t)
	api.release(t, holder)
	var rows []audit.Row
	eventually(t, "the audit has the successor's grant", func() bool {
		page, err := c.nodes[0].platform.Audit().Query(t.Context(), audit.Query{Tenant: string(c.tenant), Key: "k", Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		rows = page.Rows
		return len(rows) == 5
	})
	got := ""
	for _, r := range rows {
		got += fmt.Sprintf("%s %d %q; ", r.Event.Kind, r.Event.Token-min(token, r.Event.Token), r.Event.Note)
		if by := r.Event.By; (r.Event.Kind == "ending") != (by == admin.keyID()) {
			t.Errorf("%s is by %q; want the administrator's key %s for the end alone", r.Event.Kind, by, admin.keyID())
		}
	}
	const want = `granted 0 ""; queued 0 ""; ending 0 "the host is lost"; released 0 ""; promoted 1 ""; `
	if got != want {
		t.Errorf("the audit has %s\nwant %s", got, want)
	}
}

// keyID is the public part of the client's API key.
func (c *client) keyID() string { return c.key[len("stn_"):][:10] }

func TestAuditLogs_areThoseOfTheTenantAlone(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.furnish(t, classLong)
	n := c.nodes[0]
	for tenant, want := range map[tenants.TenantID]string{acme: "[0 1]", globex: "[0 2]", tenants.Platform: "[0 1 2]"} {
		if got := fmt.Sprint(n.platform.Audit().Logs(tenant)); got != want {
			t.Errorf("the logs of %q are %s; want %s", tenant, got, want)
		}
	}
}
