package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web"
	"github.com/stanchion-locks/stanchion/web/api"
)

// auditNode is a node of which there is the audit alone, on a real file.
type auditNode struct {
	api.Platform
	store *audit.Store
	file  string
}

func (n *auditNode) Authenticate(string) (tenants.Principal, error) {
	scopes, err := tenants.ParseScopes("audit:read")
	return tenants.Principal{Tenant: "acme", KeyID: "auditor", Lineage: "auditor", Scopes: scopes}, err
}

func (n *auditNode) ViewControl(f func(*control.Machine))                  { f(control.New()) }
func (n *auditNode) Leader(lockcore.TenantID) (api.LeaderRef, bool)        { return api.LeaderRef{}, false }
func (n *auditNode) Audit() api.Audit                                      { return n }
func (n *auditNode) Logs(tenants.TenantID) []audit.Log                     { return []audit.Log{0, 1} }
func (n *auditNode) Wait(ctx context.Context, _ audit.Log, _ uint64) error { return nil }

func (n *auditNode) Query(ctx context.Context, q audit.Query) (audit.Page, error) {
	return n.store.Query(ctx, q)
}

func (n *auditNode) Checkpoint(ctx context.Context, log audit.Log) (audit.Position, error) {
	all, err := n.store.Positions(ctx)
	for _, p := range all {
		if p.Log == log {
			return p, nil
		}
	}
	return audit.Position{Log: log}, err
}

func (n *auditNode) ProveRow(ctx context.Context, log audit.Log, row, size uint64) (tlog.RecordProof, error) {
	return n.store.ProveRow(ctx, log, row, size)
}

func (n *auditNode) ProvePrefix(ctx context.Context, log audit.Log, oldSize, newSize uint64) (tlog.TreeProof, error) {
	return n.store.ProvePrefix(ctx, log, oldSize, newSize)
}

// grow stores an entry of one event.
func (n *auditNode) grow(t *testing.T, log audit.Log, index uint64, e audit.Event) {
	t.Helper()
	entry := audit.Entry{Log: log, Index: index, Events: []audit.Event{e}, Salt: [16]byte{1, byte(index)}}
	if err := n.store.Append(t.Context(), []audit.Entry{entry}); err != nil {
		t.Fatal(err)
	}
}

const auditMoment = 1_782_860_400_125 // 2026-06-30T23:00:00.125Z

// fencedOf is an event with something in every field.
func fencedOf(token uint64) audit.Event {
	return audit.Event{Kind: "fenced", Tenant: "acme", Class: "ledger-close", Key: "2026-06", Request: "c0ffee0123456789.1", Token: token,
		Epoch: 7, Version: 3, Reason: "stale_token", APIKey: "guard", Count: 2, Unprotected: true, Detail: "highest=33",
		Holder: "host-a:4711", By: "owner@dev.test", Note: "seen twice", AtMS: auditMoment + int64(token)}
}

// startAuditNode serves an audit of nine events, two of them another tenant's, and points the commands to it.
func startAuditNode(t *testing.T) *auditNode {
	t.Helper()
	n := &auditNode{file: filepath.Join(t.TempDir(), "audit.db")}
	var err error
	if n.store, err = audit.Open(t.Context(), audit.Config{Path: n.file, Incarnation: 7}); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(7) {
		n.grow(t, 1, i+1, fencedOf(i+1))
	}
	n.grow(t, 0, 1, audit.Event{Kind: "tenant_created", Tenant: "acme", By: "operator@dev.test", AtMS: auditMoment})
	for i := range uint64(2) {
		theirs := fencedOf(8 + i)
		theirs.Tenant = "globex"
		n.grow(t, 1, i+8, theirs)
	}
	a, err := api.New(api.Config{Platform: n, NodeID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	server, err := web.New(web.Config{API: a})
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(server)
	t.Cleanup(func() {
		listening.Close()
		if err := n.store.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("STANCHION_ENDPOINTS", listening.URL)
	t.Setenv("STANCHION_API_KEY", "stn_any")
	return n
}

// auditCommand runs `stanchion audit` and gives what it prints, and its exit code.
func auditCommand(t *testing.T, args ...string) (out, notes string, code int) {
	t.Helper()
	command := newAudit()
	var printed, noted bytes.Buffer
	command.SetOut(&printed)
	command.SetErr(&noted)
	command.SetArgs(args)
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(t.Context())
	if own, ok := errors.AsType[exitError](err); ok {
		return printed.String(), noted.String(), int(own)
	}
	switch {
	case errors.Is(err, errUsage):
		code = exitUsage
	case err != nil:
		code = exitFailed
	}
	if err != nil {
		noted.WriteString(err.Error())
	}
	return printed.String(), noted.String(), code
}

// exportOf exports everything into a new file.
func exportOf(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export.ndjson")
	out, notes, code := auditCommand(t, "export", "--out", file)
	if code != 0 || !strings.Contains(out, "8 events, whole") {
		t.Fatalf("export: exit %d, %s%s", code, out, notes)
	}
	if _, err := os.Stat(file + ".part"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the part of a whole export is still there: %v", err)
	}
	return file
}

func TestAuditVerify_ofAnUntouchedExportIsWhole(t *testing.T) {
	n := startAuditNode(t)
	file := exportOf(t)
	for _, args := range [][]string{{"--export", file}, {"--export", file, "--now"}, {"--export", file, "--row", "partition-1/3/0"},
		{"--file", n.file}} {
		out, notes, code := auditCommand(t, append([]string{"verify"}, args...)...)
		if code != 0 {
			t.Errorf("verify %v: exit %d, %s%s", args, code, out, notes)
		}
	}
	n.grow(t, 1, 10, fencedOf(10))
	if out, notes, code := auditCommand(t, "verify", "--export", file, "--now"); code != 0 || !strings.Contains(out, "10 rows of today begin with the 9") {
		t.Errorf("after the log has grown: exit %d, %s%s", code, out, notes)
	}
}

// TestAuditVerify_provesWhatWasErasedToo: erased personal text, and rows whose content is past its retention, leave the rest
// and every root as they were.
func TestAuditVerify_provesWhatWasErasedToo(t *testing.T) {
	n := startAuditNode(t)
	before := exportOf(t)
	if count, err := n.store.EraseText(t.Context(), "acme", "owner@dev.test"); err != nil || count != 7 {
		t.Fatalf("erased %d, %v; want 7", count, err)
	}
	after := exportOf(t)
	raw, err := os.ReadFile(after)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("owner@dev.test")) || bytes.Count(raw, []byte(`"erased":true`)) != 7 {
		t.Errorf("the export still has personal text, or does not say what was erased:\n%s", raw)
	}
	if out, notes, code := auditCommand(t, "verify", "--export", after); code != 0 {
		t.Errorf("after erasure: exit %d, %s%s", code, out, notes)
	}
	if _, err := n.store.Retain(t.Context(), func(string) int { return 1 }, time.UnixMilli(auditMoment+3).Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	late := filepath.Join(t.TempDir(), "late.ndjson")
	if out, notes, code := auditCommand(t, "export", "--out", late); code != 0 || !strings.Contains(out, "5 events") ||
		!strings.Contains(out, "2026-06-30T23:00:00.128Z") {
		t.Errorf("after retention: exit %d, %s%s; want 5 events, and before when there are none", code, out, notes)
	}
	for _, file := range []string{late, before} {
		if out, notes, code := auditCommand(t, "verify", "--export", file, "--now"); code != 0 {
			t.Errorf("%s after retention: exit %d, %s%s", filepath.Base(file), code, out, notes)
		}
	}
	expectNotWhole(t, "text put in where it was erased", rewritten(t, after, func(lines [][]byte) [][]byte {
		lines[3] = bytes.Replace(lines[3], []byte(`"erased":true`), []byte(`"note":"made up","erased":true`), 1)
		return lines
	}))
}

// rewritten changes an export's lines and gives it the hash that it then has, as somebody would who wants to deceive.
func rewritten(t *testing.T, file string, change func(lines [][]byte) [][]byte) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := change(bytes.SplitAfter(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")))
	body := bytes.Join(lines, nil)
	body = body[:bytes.LastIndex(body, hashBegin)]
	sum := sha256.Sum256(body)
	body = append(append(append(body, hashBegin...), hex.EncodeToString(sum[:])...), "\"}\n"...)
	forged := filepath.Join(t.TempDir(), "forged.ndjson")
	if err := os.WriteFile(forged, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return forged
}

// expectNotWhole verifies an export that must not be found whole.
func expectNotWhole(t *testing.T, what, file string, more ...string) {
	t.Helper()
	out, notes, code := auditCommand(t, append([]string{"verify", "--export", file}, more...)...)
	if code != exitFailed || !strings.Contains(out, "NOT WHOLE") {
		t.Errorf("%s: exit %d, %s%s; want 1 and what is not whole", what, code, out, notes)
	}
}

func TestAuditVerify_findsEveryByteThatIsChanged(t *testing.T) {
	startAuditNode(t)
	whole := filepath.Join(t.TempDir(), "whole.ndjson")
	if out, notes, code := auditCommand(t, "export", "--out", whole, "--token", "3"); code != 0 {
		t.Fatalf("export: exit %d, %s%s", code, out, notes)
	}
	raw, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "damaged.ndjson")
	for at := range raw {
		damaged := bytes.Clone(raw)
		damaged[at] ^= 1
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		report := newAuditReport(file)
		if err := verifyExport(report, file); err == nil && report.Whole {
			t.Fatalf("byte %d of %d is changed, %.60q, and nothing is found", at, len(raw), raw[max(0, at-30):])
		}
	}
	for _, length := range []int{0, 1, len(raw) / 2, bytes.LastIndexByte(raw[:len(raw)-1], '\n') + 1, len(raw) - 1} {
		if err := os.WriteFile(file, raw[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		expectNotWhole(t, "an export that was cut off", file)
	}
}

// TestAuditVerify_findsEveryFieldThatIsForged: the export's own hash is right, and each field of a row is another in turn.
func TestAuditVerify_findsEveryFieldThatIsForged(t *testing.T) {
	startAuditNode(t)
	file := exportOf(t)
	forge := func(what string, change func(*wire.AuditEvent)) {
		expectNotWhole(t, what, rewritten(t, file, func(lines [][]byte) [][]byte {
			var e wire.AuditEvent
			if err := json.Unmarshal(lines[3], &e); err != nil {
				t.Fatal(err)
			}
			change(&e)
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			lines[3] = append(line, '\n')
			return lines
		}))
	}
	fields := reflect.TypeFor[wire.AuditEvent]()
	for i := range fields.NumField() {
		forge(fields.Field(i).Name, func(e *wire.AuditEvent) {
			switch f := reflect.ValueOf(e).Elem().Field(i); f.Kind() {
			case reflect.String:
				f.SetString(f.String() + "x")
			case reflect.Int64:
				f.SetInt(f.Int() + 1)
			case reflect.Uint64:
				f.SetUint(f.Uint() + 1)
			case reflect.Bool:
				f.SetBool(!f.Bool())
			case reflect.Pointer:
				f.SetZero()
			default:
				t.Fatalf("field %s is of a kind that this test does not know", fields.Field(i).Name)
			}
		})
	}
	forge("another row's number", func(e *wire.AuditEvent) { *e.Row++ })
	forge("another row's position", func(e *wire.AuditEvent) { e.Position = "partition-1/2/0" })
	forge("another leaf", func(e *wire.AuditEvent) { e.Proof.Leaf = strings.Repeat("a", 64) })
	forge("another salt", func(e *wire.AuditEvent) { e.Proof.Salt = strings.Repeat("a", 32) })
	forge("no salt", func(e *wire.AuditEvent) { e.Proof.Salt = "" })
	forge("another incarnation", func(e *wire.AuditEvent) { e.Proof.Incarnation++ })
	forge("another way to the root", func(e *wire.AuditEvent) { e.Proof.Inclusion[0] = strings.Repeat("a", 64) })
}

func TestAuditVerify_findsRowsTwiceAndRootsForged(t *testing.T) {
	startAuditNode(t)
	file := exportOf(t)
	expectNotWhole(t, "a row in another's place", rewritten(t, file, func(lines [][]byte) [][]byte {
		lines[3] = lines[4]
		return lines
	}))
	expectNotWhole(t, "a row taken out", rewritten(t, file, func(lines [][]byte) [][]byte { return append(lines[:2:2], lines[3:]...) }))
	otherRoot := rewritten(t, file, func(lines [][]byte) [][]byte {
		last := len(lines) - 1
		var end wire.AuditTrailerLine
		if err := json.Unmarshal(lines[last], &end); err != nil {
			t.Fatal(err)
		}
		old := []byte(end.Trailer.Checkpoints[0].Root)
		lines[last] = bytes.Replace(lines[last], old, bytes.Repeat([]byte("a"), 64), 1)
		return lines
	})
	expectNotWhole(t, "another root", otherRoot)
	expectNotWhole(t, "a row under another root", otherRoot, "--row", "control/1/0")
	expectNotWhole(t, "a row that is not there", file, "--row", "partition-1/8/0")
}

// TestAuditVerify_findsThatHistoryWasRewritten: another log than the one exported, row for row as long or longer.
func TestAuditVerify_findsThatHistoryWasRewritten(t *testing.T) {
	startAuditNode(t)
	file := exportOf(t)
	other := startAuditNode(t) // the environment names this one from here on
	if out, notes, code := auditCommand(t, "verify", "--export", file, "--now"); code != 0 {
		t.Fatalf("the same history elsewhere: exit %d, %s%s", code, out, notes)
	}
	for _, rows := range []int{9, 10} {
		rewrite := &auditNode{file: filepath.Join(t.TempDir(), "audit.db")}
		var err error
		if rewrite.store, err = audit.Open(t.Context(), audit.Config{Path: rewrite.file, Incarnation: 7}); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			e := fencedOf(uint64(i + 1))
			e.Note = "seen once"
			rewrite.grow(t, 1, uint64(i+1), e)
		}
		old := other.store
		other.store = rewrite.store
		expectNotWhole(t, "history rewritten", file, "--now")
		other.store = old
		if err := rewrite.store.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAuditExport_keepsWhatIsThere(t *testing.T) {
	startAuditNode(t)
	file := exportOf(t)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, notes, code := auditCommand(t, "export", "--out", file); code != exitUsage {
		t.Errorf("a second export into the file: exit %d, %s; want 2", code, notes)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file was changed: %v", err)
	}
	short := filepath.Join(t.TempDir(), "short.ndjson")
	if out, _, code := auditCommand(t, "export", "--out", short, "--limit", "3"); code != exitFailed || !strings.Contains(out, "--cursor ") {
		t.Errorf("an export that is full: exit %d, %s; want 1 and where to go on", code, out)
	}
	if out, notes, code := auditCommand(t, "verify", "--export", short); code != 0 || !strings.Contains(out, "3 rows") {
		t.Errorf("its beginning is whole all the same: exit %d, %s%s", code, out, notes)
	}
}

func TestAuditSearch_printsNothingThatActsOnATerminal(t *testing.T) {
	n := startAuditNode(t)
	hostile := fencedOf(10)
	hostile.Holder, hostile.Note, hostile.Detail = "\x1b[2Jgone", "first\nsecond\tthird", "a=\u202eb"
	n.grow(t, 1, 10, hostile)
	out, notes, code := auditCommand(t, "search", "--token", "10")
	if code != 0 || strings.ContainsAny(out, "\x1b\t\u202e") || strings.Count(out, "\n") != 2 {
		t.Errorf("exit %d, %q; want a heading and one plain line", code, out)
	}
	for _, want := range []string{"2026-06-30 23:00:00.135", `\x1b[2Jgone`, `first\nsecond\tthird`, "partition-1/10/0"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
	if !strings.Contains(notes, "Complete to entry 1 of control, 10 of partition-1.") {
		t.Errorf("standard error says %q", notes)
	}
}

func TestAuditSearch_passesFormsThrough(t *testing.T) {
	startAuditNode(t)
	for _, test := range []struct {
		args  []string
		lines int
		has   string
	}{
		{[]string{"--output", "ndjson", "--limit", "3"}, 4, `"next_cursor"`}, {[]string{"--output", "ndjson", "--all"}, 9, `"rows":8`},
		{[]string{"--output", "csv", "--all"}, 10, "\r\ntrailer,"}, {[]string{"--output", "json", "--kind", "tenant_created"}, 1, "control/1/0"},
		{[]string{"--all", "--limit", "2"}, 9, "AT (UTC)"}, {[]string{"--limit", "2", "--order", "asc"}, 3, "control/1/0"},
	} {
		out, notes, code := auditCommand(t, append([]string{"search"}, test.args...)...)
		if code != 0 || strings.Count(out, "\n") != test.lines || !strings.Contains(out, test.has) {
			t.Errorf("search %v: exit %d, %s%s; want %d lines with %s", test.args, code, out, notes, test.lines, test.has)
		}
	}
	for _, args := range [][]string{{"search", "--output", "xml"}, {"search", "--output", "json", "--all"}, {"search", "--order", "up"},
		{"verify"}, {"verify", "--file", "a", "--export", "b"}, {"verify", "--file", "a", "--now"}, {"verify", "--export", "a", "--row", "x"},
		{"verify", "--export", "a", "--row", "control/1/0", "--now"}} {
		if _, notes, code := auditCommand(t, args...); code != exitUsage {
			t.Errorf("%v: exit %d, %s; want 2", args, code, notes)
		}
	}
}

func TestAuditVerify_ofAFileFindsAChangedRow(t *testing.T) {
	n := startAuditNode(t)
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := n.store.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	if out, notes, code := auditCommand(t, "verify", "--file", copied); code != 0 || !strings.Contains(out, "whole") {
		t.Fatalf("a backup: exit %d, %s%s", code, out, notes)
	}
	raw, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte("seen twice")) {
		t.Fatal("the copy has no row to change")
	}
	if err := os.WriteFile(copied, bytes.Replace(raw, []byte("seen twice"), []byte("seen trice"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, notes, code := auditCommand(t, "verify", "--file", copied); code != exitFailed || !strings.Contains(out, "NOT WHOLE") {
		t.Errorf("a changed row: exit %d, %s%s; want 1 and what is not whole", code, out, notes)
	}
	if _, _, code := auditCommand(t, "verify", "--file", filepath.Join(t.TempDir(), "none.db")); code != exitFailed {
		t.Errorf("no file: exit %d; want 1", code)
	}
}

func TestVisible_leavesNothingThatActs(t *testing.T) {
	for text, want := range map[string]string{"": "", "plain text": "plain text", "é 🔒 مفتاح": "é 🔒 مفتاح", "a\nb": `a\nb`, "\x1b[31m": `\x1b[31m`,
		"\u202eabc": `\u202eabc`, "\u00a0": `\u00a0`, `a\nb`: `a\\nb`, "\xff": `\xff`, "\x00": `\x00`} {
		if got := visible(text); got != want {
			t.Errorf("%q is shown as %q; want %q", text, got, want)
		}
	}
}
