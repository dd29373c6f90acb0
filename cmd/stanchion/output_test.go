package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// withoutOutput are the commands that have no --output, and why.
var withoutOutput = map[string]string{
	"stanchion serve":      "runs until it is stopped, and writes a log",
	"stanchion dev":        "runs until it is stopped; dev.json in its folder is for programs",
	"stanchion completion": "prints a script for a shell",
}

// commandsUnder are the commands that do something, with those under them.
func commandsUnder(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	if c.Hidden || c.Name() == "help" {
		return nil
	}
	if c.Runnable() && c.Annotations[groupOfCommands] == "" {
		all = append(all, c)
	}
	for _, sub := range c.Commands() {
		all = append(all, commandsUnder(sub)...)
	}
	return all
}

// TestOutput_isTableOrJSONEverywhere: every command that prints a result says in which form, in the same words.
func TestOutput_isTableOrJSONEverywhere(t *testing.T) {
	seen := 0
	for _, c := range commandsUnder(newRoot()) {
		f := c.Flags().Lookup("output")
		if reason := withoutOutput[c.CommandPath()]; reason != "" {
			seen++
			if f != nil {
				t.Errorf("%s has --output, and is said to have none: it %s", c.CommandPath(), reason)
			}
			continue
		}
		if f == nil {
			t.Errorf("%s has no --output", c.CommandPath())
			continue
		}
		closed, ok := f.Value.(choice)
		if !ok || f.DefValue != "table" || !slices.Contains(closed.of, "table") || !slices.Contains(closed.of, "json") {
			t.Errorf("%s --output takes %v, by default %q; want at least table and json, made by outputFlag or choiceFlag", c.CommandPath(), closed.of, f.DefValue)
			continue
		}
		err := f.Value.Set("xml")
		if want := "xml is none of " + strings.Join(closed.of, ", "); !errors.Is(err, errUsage) || err.Error() != want {
			t.Errorf("%s --output xml: %v; want the usage error %q", c.CommandPath(), err, want)
		}
	}
	if seen != len(withoutOutput) {
		t.Errorf("%d of the %d commands without --output exist", seen, len(withoutOutput))
	}
}

// TestOutput_ofJSONIsOneDocumentAndNothingElse on standard output, and nothing on standard error.
func TestOutput_ofJSONIsOneDocumentAndNothingElse(t *testing.T) {
	file := writeFile(t, "ledger.yaml", closeFile)
	socket := filepath.Join(t.TempDir(), "admin.sock")
	serveSocket(t, socket, `{"node":"n1","cluster":"c","groups":[{"group":"control"}],"audit":[]}`)
	class := wire.Class{Class: "ledger-close", State: wire.ClassInForce, LatestVersion: 1}
	version := wire.ClassVersion{Class: "ledger-close", Version: 1, State: wire.VersionInForce}
	tenant, key := wire.Tenant{Tenant: "acme"}, wire.APIKey{ID: "aaaaaaaaaa"}
	for line, answer := range map[string]any{
		"version": nil, "profile list": nil, "profile show": nil, "class lint " + file: nil, "cluster status --socket " + socket: nil,
		"class list": wire.ClassList{Classes: []wire.Class{class}, NextCursor: ""}, "class show ledger-close": class,
		"class show ledger-close --version 1": version, "class wait ledger-close --version 1": version, "class diff " + file: wire.Class{},
		"class apply " + file:                  wire.ClassDeclaration{Class: "ledger-close", Version: 1, State: wire.VersionInForce},
		"class retire ledger-close --reason r": wire.ClassRetirement{Class: "ledger-close"},
		"class transfer-owner ledger-close --tenant acme --from a --to b --reason r": class,
		"tenant list": wire.TenantList{Tenants: []wire.Tenant{tenant}}, "tenant show acme": tenant, "tenant create acme --owner-group g": tenant,
		"tenant update acme --quota-keys 1": tenant, "tenant suspend acme --reason r": tenant, "tenant resume acme": tenant,
		"tenant drop acme --reason r": tenant,
		"api-key list":                wire.APIKeyList{APIKeys: []wire.APIKey{key}}, "api-key show self": key,
		"api-key create --name n --scope audit:read": wire.APIKeyMade{APIKey: key, Secret: "stn_secret"},
		"api-key rotate self":                        wire.APIKeyMade{APIKey: key, Secret: "stn_secret"},
		"api-key revoke aaaaaaaaaa --reason r":       wire.APIKeyEnded{APIKey: key}, "api-key end-overlap aaaaaaaaaa": wire.APIKeyEnded{APIKey: key},
		"locks": wire.LockList{Locks: []wire.Lock{heldLock("a", "host")}},
		"locks force-release ledger-close a --token 33 --reason r --yes": wire.ForceRelease{Class: "ledger-close", Key: "a"},
		"why ledger-close a": wire.Why{Class: "ledger-close", Key: "a"}, "audit search": wire.AuditPage{},
	} {
		bare(t)
		apiWith(t, http.StatusOK, answer)
		out, said, _ := executed(t, append(strings.Fields(line), "--output", "json")...)
		d := json.NewDecoder(strings.NewReader(out))
		var document map[string]any
		err := d.Decode(&document)
		if _, rest := d.Token(); err != nil || len(document) == 0 || !errors.Is(rest, io.EOF) || said != "" {
			t.Errorf("%s: printed\n%s\nand %q, %v; want one document", line, out, said, err)
		}
	}
}

// serveSocket answers everything at a node's operator socket the same.
func serveSocket(t *testing.T, path, answer string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	_ = s.Listener.Close() // the one that it came with
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// TestAuditExportAndVerify_tellProgramsWhatTheyTellPeople: whole or not, and what is in the file.
func TestAuditExportAndVerify_tellProgramsWhatTheyTellPeople(t *testing.T) {
	startAuditNode(t)
	file := filepath.Join(t.TempDir(), "e.ndjson")
	out, notes, code := auditCommand(t, "export", "--out", file, "--output", "json", "--limit", "3")
	var e exported
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != exitFailed || e.Events != 3 || e.NextCursor == "" || len(e.Checkpoints) == 0 {
		t.Fatalf("an export that is full: exit %d, %s%s, %v", code, out, notes, err)
	}
	whole := verified(t, 0, "--export", file)
	if !whole.Whole || whole.Rows != 3 || whole.Export == nil || len(whole.Export.Checkpoints) == 0 || whole.Findings == nil {
		t.Errorf("a whole export: %+v", whole)
	}
	if now := verified(t, 0, "--export", file, "--now"); !now.Whole || len(now.Today) == 0 || now.Today[0].Now < now.Today[0].Then {
		t.Errorf("against today: %+v", now)
	}
	if row := verified(t, 0, "--export", file, "--row", "control/1/0"); !row.Whole || row.Event == nil || row.Event.Position != "control/1/0" {
		t.Errorf("one row: %+v", row)
	}
	if none := verified(t, exitFailed, "--export", file, "--row", "control/99/0"); none.Whole || len(none.Findings) != 1 {
		t.Errorf("a row that is not in it: %+v", none)
	}
	damaged := writeFile(t, "damaged.ndjson", "{}\n")
	if bad := verified(t, exitFailed, "--export", damaged); bad.Whole || len(bad.Findings) != 1 || bad.File != damaged {
		t.Errorf("a damaged export: %+v", bad)
	}
}

// verified is what `stanchion audit verify --output json` reports.
func verified(t *testing.T, exit int, args ...string) *auditReport {
	t.Helper()
	out, notes, code := auditCommand(t, append([]string{"verify", "--output", "json"}, args...)...)
	report := new(auditReport)
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(report); err != nil || code != exit {
		t.Fatalf("verify %q: exit %d, %s%s, %v; want exit %d and a report", args, code, out, notes, err, exit)
	}
	return report
}

// TestTable_makesForeignTextVisible and leaves what was made visible already.
func TestTable_makesForeignTextVisible(t *testing.T) {
	var out bytes.Buffer
	table := newTable(&out, "A", "B")
	table.row("x\x1b[2J", quoted("y z"))
	table.row(7, escaped(`\x1b`))
	if err := table.end(); err != nil || out.String() != "A         B\nx\\x1b[2J  \"y z\"\n7         \\x1b\n" {
		t.Errorf("printed\n%q, %v", out.String(), err)
	}
}
