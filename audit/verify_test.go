package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
)

func TestVerifyFile_findsEveryChange(t *testing.T) {
	for name, statements := range map[string][]string{
		"a text":             {`DROP TRIGGER grant_body_is_erased_only`, `UPDATE grant_body SET detail = 'x' WHERE log_index = 20`},
		"personal text":      {`DROP TRIGGER grant_body_is_erased_only`, `UPDATE grant_body SET note = 'x' WHERE log_index = 20`},
		"a token":            {`DROP TRIGGER grant_body_is_erased_only`, `UPDATE grant_body SET token = 1 WHERE log_index = 20`},
		"a hash":             {`DROP TRIGGER grant_event_is_numbered_once`, `UPDATE grant_event SET content_hash = zeroblob(32) WHERE log_index = 20`},
		"a number":           {`DROP TRIGGER grant_event_is_numbered_once`, `UPDATE grant_event SET leaf = 4000 WHERE log_index = 20`},
		"a row gone":         {`PRAGMA foreign_keys = OFF`, `DROP TRIGGER grant_event_is_not_deleted`, `DELETE FROM grant_event WHERE log_index = 20`},
		"the last row gone":  {`PRAGMA foreign_keys = OFF`, `DROP TRIGGER grant_event_is_not_deleted`, `DELETE FROM grant_event WHERE log_index = 50`},
		"the tree":           {`DROP TRIGGER tree_block_only_grows`, `UPDATE tree_block SET hashes = CAST(zeroblob(32) || substr(hashes, 33) AS BLOB) WHERE block = 0`},
		"a hash of the tree": {`DROP TRIGGER tree_block_only_grows`, `UPDATE tree_block SET hashes = substr(hashes, 33) WHERE block = 1`},
		"a block gone":       {`DROP TRIGGER tree_block_is_not_deleted`, `DELETE FROM tree_block WHERE block = 0`},
		"a hash too many":    {`UPDATE tree_block SET hashes = CAST(hashes || zeroblob(32) AS BLOB) WHERE block = 1`},
		"the length":         {`UPDATE log_position SET leaf_count = 3`},
		"whose it is": {`DROP TRIGGER grant_event_is_numbered_once`, `UPDATE grant_event SET tenant_id = 'x' WHERE log_index = 20`,
			`DROP TRIGGER grant_body_is_erased_only`, `UPDATE grant_body SET tenant_id = 'x' WHERE log_index = 20`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.db")
			s := openAt(t, path)
			appendAll(t, s, entries(1, 1, 50)...)
			if reports, err := audit.VerifyFile(context.Background(), path); err != nil || len(reports) != 1 || !reports[0].Whole() {
				t.Fatalf("before: got %+v, %v, want it whole", reports, err)
			}
			db := raw(t, path)
			db.SetMaxOpenConns(1)
			for _, statement := range statements {
				if _, err := db.Exec(statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			reports, err := audit.VerifyFile(context.Background(), path)
			if err != nil || len(reports) != 1 || reports[0].Whole() {
				t.Errorf("got %+v, %v, want a problem", reports, err)
			}
		})
	}
}

func TestVerifyRow_leadsToTheRoot(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	appendAll(t, s, entries(1, 1, 70)...)
	size := position(t, s, 1).Rows
	root, err := s.RootAt(ctx, 1, size)
	if err != nil || root != position(t, s, 1).Root {
		t.Fatalf("root: got %x, %v, want the position's", root, err)
	}
	for _, row := range search(t, s, audit.Query{AllTenants: true}) {
		proof, err := s.ProveRow(ctx, 1, *row.Leaf, size)
		if err != nil {
			t.Fatal(err)
		}
		if err := audit.VerifyRow(row.Record(), proof, size, root); err != nil {
			t.Errorf("%v: %v", row.Position, err)
		}
		changed := row.Record()
		changed.Token++
		other := root
		other[0]++
		if err := audit.VerifyRow(changed, proof, size, root); !errors.Is(err, audit.ErrWrongHash) {
			t.Errorf("%v changed: got %v, want ErrWrongHash", row.Position, err)
		}
		if err := audit.VerifyRow(row.Record(), proof, size, other); !errors.Is(err, audit.ErrWrongHash) {
			t.Errorf("%v with another root: got %v, want ErrWrongHash", row.Position, err)
		}
	}
	if _, err := s.ProveRow(ctx, 1, size, size); !errors.Is(err, audit.ErrNotNumbered) {
		t.Errorf("a row that is not: got %v, want ErrNotNumbered", err)
	}
	if _, err := s.RootAt(ctx, 1, size+1); !errors.Is(err, audit.ErrNotNumbered) {
		t.Errorf("a root that is not yet: got %v, want ErrNotNumbered", err)
	}
}

func TestVerifyPrefix_provesThatTheOldLogIsTheNewOnesBeginning(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	appendAll(t, s, entries(1, 1, 40)...)
	old := position(t, s, 1)
	appendAll(t, s, entries(1, 41, 100)...)
	now := position(t, s, 1)
	proof, err := s.ProvePrefix(ctx, 1, old.Rows, now.Rows)
	if err != nil {
		t.Fatal(err)
	}
	if err := audit.VerifyPrefix(proof, old.Rows, old.Root, now.Rows, now.Root); err != nil {
		t.Error(err)
	}
	forged := old.Root
	forged[5]++
	if err := audit.VerifyPrefix(proof, old.Rows, forged, now.Rows, now.Root); !errors.Is(err, audit.ErrWrongHash) {
		t.Errorf("another old root: got %v, want ErrWrongHash", err)
	}
	if _, err := s.ProvePrefix(ctx, 1, 0, now.Rows); !errors.Is(err, audit.ErrNotNumbered) {
		t.Errorf("nothing: got %v, want ErrNotNumbered", err)
	}
}

// exported is a whole log of 40 entries with a gap given up, and a row erased.
func exported(t *testing.T) (*audit.Store, string) {
	t.Helper()
	ctx := context.Background()
	s := open(t)
	appendAll(t, s, entries(1, 1, 20)...)
	recordGap(t, s, 1, 21, 25)
	if err := s.GiveUp(ctx, audit.Gap{Log: 1, From: 21, To: 25}); err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, entries(1, 26, 40)...)
	if _, err := s.EraseText(ctx, acme, "worker-7:7"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	report, err := s.Export(ctx, 1, &out)
	if err != nil || !report.Whole() || report.Root != position(t, s, 1).Root {
		t.Fatalf("export: got %+v, %v, want the log's root", report, err)
	}
	return s, out.String()
}

func TestVerifyExport_recomputesTheLog(t *testing.T) {
	s, text := exported(t)
	reports, err := audit.VerifyExport(strings.NewReader(text))
	if err != nil || len(reports) != 1 {
		t.Fatalf("got %+v, %v", reports, err)
	}
	got, want := reports[0], position(t, s, 1)
	if !got.Whole() || !got.RootKnown || got.Root != want.Root || got.Leaves != want.Rows || got.Rows != want.Rows-1 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestVerifyExport_findsEveryChangedField(t *testing.T) {
	_, text := exported(t)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var fields map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		var record map[string]any
		if err := json.Unmarshal([]byte(lines[5]), &record); err != nil {
			t.Fatal(err)
		}
		switch v := record[name].(type) {
		case string:
			record[name] = "A" + v[1:]
			if v[0] == 'A' {
				record[name] = "B" + v[1:]
			}
		case float64:
			record[name] = v + 1
		}
		changed, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		all := append([]string{}, lines...)
		all[5] = string(changed)
		reports, err := audit.VerifyExport(strings.NewReader(strings.Join(all, "\n")))
		whole := err == nil
		for _, r := range reports {
			whole = whole && r.Whole() && r.RootKnown
		}
		if whole && len(reports) == 1 {
			t.Errorf("%s changed: got a whole export", name)
		}
	}
}

func TestVerifyExport_findsLinesGoneTwiceOrMoved(t *testing.T) {
	_, text := exported(t)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for name, all := range map[string][]string{
		"twice": append(append([]string{}, lines[:6]...), lines[5:]...),
		"moved": append([]string{lines[1], lines[0]}, lines[2:]...),
	} {
		reports, err := audit.VerifyExport(strings.NewReader(strings.Join(all, "\n")))
		if err != nil || reports[0].Whole() {
			t.Errorf("%s: got %+v, %v, want a problem", name, reports, err)
		}
	}
	gone := append(append([]string{}, lines[:5]...), lines[6:]...)
	if reports, err := audit.VerifyExport(strings.NewReader(strings.Join(gone, "\n"))); err != nil || reports[0].RootKnown || !reports[0].Whole() {
		t.Errorf("gone: got %+v, %v, want sound rows without a root, as of a filtered export", reports, err)
	}
	if _, err := audit.VerifyExport(strings.NewReader("no record")); err == nil {
		t.Error("no record: got no error")
	}
}
