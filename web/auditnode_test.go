package web_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web/api"
)

func init() {
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.RegisteredBodyDecoder("text/plain"))
}

func (p *platform) Audit() api.Audit {
	if p.audit == nil {
		return noAudit{}
	}
	return p.audit
}

// noAudit is an audit in which nothing has happened.
type noAudit struct{}

func (noAudit) Query(context.Context, audit.Query) (audit.Page, error) { return audit.Page{}, nil }
func (noAudit) Logs(tenants.TenantID) []audit.Log                      { return []audit.Log{0} }
func (noAudit) Wait(ctx context.Context, _ audit.Log, _ uint64) error  { <-ctx.Done(); return ctx.Err() }

func (noAudit) Checkpoint(_ context.Context, log audit.Log) (audit.Position, error) {
	return audit.Position{Log: log}, nil
}

func (noAudit) ProveRow(context.Context, audit.Log, uint64, uint64) (tlog.RecordProof, error) {
	return nil, audit.ErrNotNumbered
}

func (noAudit) ProvePrefix(context.Context, audit.Log, uint64, uint64) (tlog.TreeProof, error) {
	return nil, audit.ErrNotNumbered
}

// nodeAudit is a node's audit on a real file, with the control log and two partitions.
type nodeAudit struct {
	*audit.Store
	wait func(ctx context.Context, log audit.Log, index uint64) error // nil: never reached
}

func (nodeAudit) Logs(t tenants.TenantID) []audit.Log {
	if t == "globex" {
		return []audit.Log{0, 1}
	}
	return []audit.Log{0, 1, 2}
}

func (n nodeAudit) Wait(ctx context.Context, log audit.Log, index uint64) error {
	if n.wait == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return n.wait(ctx, log, index)
}

func (n nodeAudit) Checkpoint(ctx context.Context, log audit.Log) (audit.Position, error) {
	all, err := n.Positions(ctx)
	for _, p := range all {
		if p.Log == log {
			return p, nil
		}
	}
	return audit.Position{Log: log}, err
}

// openAudit opens a store in a folder of the test's own.
func openAudit(t *testing.T) *audit.Store {
	t.Helper()
	s, err := audit.Open(t.Context(), audit.Config{Path: filepath.Join(t.TempDir(), "audit.db"), Incarnation: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the audit: %v", err)
		}
	})
	return s
}

// project stores an entry of some events.
func project(t *testing.T, s *audit.Store, log audit.Log, index uint64, events ...audit.Event) {
	t.Helper()
	if err := s.Append(t.Context(), []audit.Entry{entryOf(log, index, events...)}); err != nil {
		t.Fatal(err)
	}
}

func entryOf(log audit.Log, index uint64, events ...audit.Event) audit.Entry {
	e := audit.Entry{Log: log, Index: index, Events: events}
	copy(e.Salt[:], fmt.Sprintf("salt %d %d", log, index))
	return e
}

const auditTime = 1_782_860_400_125 // 2026-06-30T23:00:00.125Z

// grantOf is a grant to acme.
func grantOf(key string, token uint64, atMS int64) audit.Event {
	return audit.Event{Kind: "granted", Tenant: "acme", Class: "ledger-close", Key: key, Request: "c0ffee0123456789.1", Token: token,
		Epoch: 7, Version: 3, APIKey: "good", Holder: "host-a:4711", AtMS: atMS}
}

// auditWorld runs a node with an audit on a real file, and a control log that knows acme on partition 1 and globex on 2.
func auditWorld(t *testing.T, s *audit.Store) *node {
	t.Helper()
	return start(t, &platform{leader: &self, control: controlLog(t), audit: nodeAudit{Store: s}}, options{})
}

// search asks for events and fails the test if the answer is none.
func (n *node) search(t *testing.T, key, query string) wire.AuditPage {
	t.Helper()
	var page wire.AuditPage
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?" + query, key: key})
	if out.status != http.StatusOK {
		t.Fatalf("%s: %d %s", query, out.status, out.body)
	}
	decode(t, out, &page)
	return page
}

// searchAll follows the cursors from page to page; between calls it does something else.
func (n *node) searchAll(t *testing.T, key, query string, between func()) []wire.AuditEvent {
	t.Helper()
	var all []wire.AuditEvent
	for cursor := ""; ; {
		page := n.search(t, key, query+cursor)
		all = append(all, page.Events...)
		if page.NextCursor == "" {
			return all
		}
		cursor = "&cursor=" + page.NextCursor
		if between != nil {
			between()
		}
	}
}

// exported reads an export in NDJSON: its events, and its trailer if it has one whose hash is right.
func exported(t *testing.T, body []byte) ([]wire.AuditEvent, *wire.AuditTrailer) {
	t.Helper()
	var events []wire.AuditEvent
	for line := range bytes.Lines(body) {
		if !bytes.HasPrefix(line, []byte(`{"trailer":`)) {
			var e wire.AuditEvent
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			events = append(events, e)
			continue
		}
		var last wire.AuditTrailerLine
		if err := json.Unmarshal(line, &last); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum := sha256.Sum256(body[:bytes.LastIndex(body, []byte(`,"sha256":"`))])
		if got := hex.EncodeToString(sum[:]); got != last.SHA256 {
			t.Errorf("the export has the hash %s and says %s", got, last.SHA256)
		}
		return events, last.Trailer
	}
	return events, nil
}

// positions are the events' positions.
func positions(events []wire.AuditEvent) []string {
	all := make([]string, len(events))
	for i, e := range events {
		all[i] = e.Position
	}
	return all
}

// awaitAudit asks again and again until something is so.
func awaitAudit(t *testing.T, what string, so func() bool) {
	t.Helper()
	patience, again := time.After(20*time.Second), time.NewTicker(5*time.Millisecond)
	defer again.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-patience:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
