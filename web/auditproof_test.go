package web_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
)

func TestAudit_refusesWhatMakesNoSense(t *testing.T) {
	s := openAudit(t)
	grants(t, s, 1, 3)
	n := auditWorld(t, s)
	cursor := n.search(t, goodKey, "limit=1").NextCursor
	other := []byte(cursor)
	other[len(other)/2] ^= 1
	for query, field := range map[string]string{
		"kind=granted,nothing": "kind", "kind=": "kind", "class=A": "class", "key=": "key", "key=%00": "key", "prefix=a&key=b": "prefix",
		"holder=": "holder", "token=0": "token", "token=01": "token", "token=9007199254740992": "token", "api_key=a%20b": "api_key",
		"q=": "q", "q=%ff": "q", "from=2026-06-30": "from", "to=yesterday": "to", "from=2026-06-30T23:00:00+02:00": "from",
		"from=2026-06-30T23:00:00Z&to=2026-06-30T23:00:00Z": "to", "order=up": "order", "limit=0": "limit", "limit=1001": "limit",
		"format=ndjson&limit=1000001": "limit", "format=xml": "format", "proofs=true": "proofs", "proofs=yes&format=ndjson": "proofs",
		"format=csv&proofs=true": "proofs", "index=0": "index", "tenant=A": "tenant", "nothing=1": "nothing", "key=a&key=b": "key",
		"cursor=": "cursor", "cursor=x": "cursor", "cursor=" + string(other): "cursor", "order=asc&cursor=" + cursor: "cursor",
		"key=k&cursor=" + cursor: "cursor", "cursor=" + strings.Repeat("A", 15_000): "cursor",
	} {
		out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?" + query, key: goodKey})
		if p := out.problem(t); p.Code != wire.CodeInvalidRequest || p.Field != field {
			t.Errorf("?%.80s: %d %s; want invalid_request of %s", query, out.status, out.body, field)
		}
	}
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?kind=nothing", key: goodKey})
	for _, k := range audit.Kinds() {
		if p := out.problem(t); !strings.Contains(p.Detail, k.Name) {
			t.Errorf("an unknown kind is refused without naming %s", k.Name)
		}
	}
	if out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?index=3", key: operatorKey}); out.problem(t).Field != "index" {
		t.Errorf("an index of no tenant: %s", out.body)
	}
}

func TestAudit_waitsForTheIndexAsked(t *testing.T) {
	s := openAudit(t)
	grants(t, s, 1, 3)
	var log audit.Log
	var index uint64
	reached := nodeAudit{Store: s, wait: func(_ context.Context, l audit.Log, i uint64) error {
		log, index = l, i
		project(t, s, 1, 4, grantOf("k", 4, auditTime))
		return nil
	}}
	n := start(t, &platform{leader: &self, control: controlLog(t), audit: reached}, options{})
	if got := n.search(t, goodKey, "index=4&limit=1"); log != 1 || index != 4 || got.Events[0].Position != "partition-1/4/0" {
		t.Errorf("waited for log %d, index %d, and got %v", log, index, positions(got.Events))
	}
	if n.search(t, foreignKey, "index=1"); log != 2 {
		t.Errorf("the other tenant's partition is 2; waited for %d", log)
	}
	n = start(t, &platform{leader: &self, control: controlLog(t), audit: nodeAudit{Store: s, wait: func(context.Context, audit.Log, uint64) error {
		return context.DeadlineExceeded
	}}}, options{})
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?index=9", key: goodKey})
	if p := out.problem(t); p.Code != wire.CodeNotReady || len(p.Parts) != 1 || !strings.Contains(p.Parts[0].Why, "entry 4, not yet entry 9") {
		t.Errorf("an index that is not reached: %s; want not_ready with the one that is", out.body)
	}
}

func TestAudit_saysWhatIsMissing(t *testing.T) {
	s := openAudit(t)
	grants(t, s, 1, 3)
	if err := s.RecordGap(t.Context(), 1, 4, 6, "snapshot"); err != nil {
		t.Fatal(err)
	}
	project(t, s, 1, 7, grantOf("k", 7, auditTime+7))
	n := auditWorld(t, s)
	page := n.search(t, goodKey, "")
	want := wire.AuditGap{Log: "partition-1", From: 4, To: 6, Why: "snapshot", Recoverable: true}
	if len(page.Gaps) != 1 || page.Gaps[0] != want || page.CompleteTo["partition-1"] != 3 || page.Events[0].Row != nil {
		t.Errorf("gaps %+v, complete to %v, row %v; want %+v, 3 and none", page.Gaps, page.CompleteTo, page.Events[0].Row, want)
	}
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?format=ndjson&proofs=true", key: goodKey})
	events, trailer := exported(t, out.body)
	if len(events) != 4 || trailer == nil || len(trailer.Gaps) != 1 || trailer.Gaps[0] != want || events[0].Proof.Inclusion != nil {
		t.Errorf("%d events, the first with proof %+v, trailer %+v", len(events), events[0].Proof, trailer)
	}
}

func TestAuditProofs_leadFromRowToRootAndFromRootToRoot(t *testing.T) {
	s := openAudit(t)
	grants(t, s, 1, 11)
	n := auditWorld(t, s)
	checkpoint := func() wire.AuditCheckpoint {
		var all wire.AuditCheckpoints
		decode(t, n.do(t, request{method: http.MethodGet, path: "/v1/audit/checkpoint", key: unscopedKey}), &all)
		if len(all.Checkpoints) != 3 || all.CompleteTo["partition-1"] != all.Checkpoints[1].Rows {
			t.Fatalf("checkpoints %+v", all)
		}
		return all.Checkpoints[1]
	}
	old := checkpoint()
	page, err := s.Query(t.Context(), audit.Query{Tenant: "acme", Key: "k", Token: 6})
	if err != nil {
		t.Fatal(err)
	}
	var row wire.AuditRowProof
	decode(t, n.do(t, request{method: http.MethodGet, path: "/v1/audit/proof?log=partition-1&row=5&rows=11", key: goodKey}), &row)
	if err := audit.VerifyRow(page.Rows[0].Record(), hashesOf(t, row.Proof), old.Rows, hashOf(t, old.Root)); err != nil {
		t.Error(err)
	}
	for i := range uint64(7) {
		project(t, s, 1, 12+i, grantOf("k", 12+i, auditTime))
	}
	now := checkpoint()
	var grown wire.AuditConsistency
	query := "log=partition-1&from=11&to=" + strconv.FormatUint(now.Rows, 10)
	decode(t, n.do(t, request{method: http.MethodGet, path: "/v1/audit/consistency?" + query, key: operatorKey}), &grown)
	if err := audit.VerifyPrefix(hashesOf(t, grown.Proof), old.Rows, hashOf(t, old.Root), now.Rows, hashOf(t, now.Root)); err != nil {
		t.Error(err)
	}
	for path, field := range map[string]string{"proof?row=1&rows=2": "log", "proof?log=partition-9&row=1&rows=2": "log",
		"proof?log=control&row=2&rows=2": "row", "proof?log=control&row=0&rows=0": "rows", "consistency?log=control&from=3&to=2": "from",
		"consistency?log=control&from=0&to=2": "from", "consistency?log=control&from=1": "to", "checkpoint?log=control": "log"} {
		out := n.do(t, request{method: http.MethodGet, path: "/v1/audit/" + path, key: goodKey})
		if p := out.problem(t); p.Code != wire.CodeInvalidRequest || p.Field != field {
			t.Errorf("%s: %s; want invalid_request of %s", path, out.body, field)
		}
	}
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit/proof?log=partition-1&row=5&rows=99", key: goodKey})
	if p := out.problem(t); p.Code != wire.CodeNotReady {
		t.Errorf("a tree that is not there yet: %s; want not_ready", out.body)
	}
}

func TestAuditKinds_needNoAPIKey(t *testing.T) {
	n := auditWorld(t, openAudit(t))
	var all wire.AuditKinds
	decode(t, n.do(t, request{method: http.MethodGet, path: "/v1/audit/kinds"}), &all)
	kinds := audit.Kinds()
	if len(all.Kinds) != len(kinds) {
		t.Fatalf("%d kinds; want %d", len(all.Kinds), len(kinds))
	}
	for i, k := range kinds {
		if all.Kinds[i] != (wire.AuditKind{Kind: k.Name, Meaning: k.Meaning}) {
			t.Errorf("kind %d is %+v; want %+v", i, all.Kinds[i], k)
		}
	}
}
