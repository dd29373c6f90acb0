package audit_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
)

func TestAppend_isIdempotent(t *testing.T) {
	s := open(t)
	all := entries(1, 1, 50)
	appendAll(t, s, all...)
	before := position(t, s, 1)
	if before.Durable != 50 || before.Complete != 50 || before.Rows != 51 || before.Gaps != 0 {
		t.Errorf("position: got %+v, want 50 entries of 51 rows without a gap", before)
	}
	appendAll(t, s, all...)
	appendAll(t, s, all[20:30]...)
	if got := position(t, s, 1); got != before {
		t.Errorf("position after a replay: got %+v, want %+v", got, before)
	}
	if got := len(search(t, s, audit.Query{AllTenants: true})); got != 51 {
		t.Errorf("rows: got %d, want 51", got)
	}
}

func TestAppend_refusesOtherContent(t *testing.T) {
	changes := map[string]func(*audit.Entry){
		"another text":         func(e *audit.Entry) { e.Events[0].Note = "else" },
		"another number":       func(e *audit.Entry) { e.Events[1].Token++ },
		"another salt":         func(e *audit.Entry) { e.Salt[0]++ },
		"an event more":        func(e *audit.Entry) { e.Events = append(e.Events, granted(1, 5, 9, acme)) },
		"an event less":        func(e *audit.Entry) { e.Events = e.Events[:1] },
		"no events":            func(e *audit.Entry) { e.Events = nil },
		"events the other way": func(e *audit.Entry) { slices.Reverse(e.Events) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			appendAll(t, s, entries(1, 1, 8)...)
			before := position(t, s, 1)
			e := entry(1, 5, 2)
			change(&e)
			err := s.Append(context.Background(), []audit.Entry{entry(1, 9, 1), e})
			var at *audit.EntryError
			if !errors.Is(err, audit.ErrContentDiffers) || !errors.As(err, &at) || at.Log != 1 || at.Index != 5 {
				t.Errorf("got %v, want ErrContentDiffers at entry 5 of log 1", err)
			}
			if got := position(t, s, 1); got != before {
				t.Errorf("position: got %+v, want %+v: nothing stored", got, before)
			}
		})
	}
	s := open(t)
	appendAll(t, s, entries(1, 1, 8)...)
	if err := s.Append(context.Background(), []audit.Entry{entry(1, 3, 1)}); !errors.Is(err, audit.ErrContentDiffers) {
		t.Errorf("events where there were none: got %v, want ErrContentDiffers", err)
	}
}

func TestAppend_refusesRowsWhereThereAreSaidToBeNone(t *testing.T) {
	s := open(t)
	appendAll(t, s, entries(1, 1, 8)...)
	for index, first := range map[uint64]uint64{6: 5, 7: 4, 9: 8} { // 4, 5 and 8 have events
		e := entry(1, index, int(index%3))
		e.First = first
		if err := s.Append(context.Background(), []audit.Entry{e}); !errors.Is(err, audit.ErrContentDiffers) {
			t.Errorf("%d..%d: got %v, want ErrContentDiffers", first, index, err)
		}
	}
	e := entry(1, 7, 1) // 6 has none
	e.First = 6
	appendAll(t, s, e)
}

func TestAppend_refusesWhatCannotBeStored(t *testing.T) {
	for name, change := range map[string]func(*audit.Entry){
		"no index":          func(e *audit.Entry) { e.Index = 0 },
		"first above index": func(e *audit.Entry) { e.First = 6 },
		"unknown kind":      func(e *audit.Entry) { e.Events[0].Kind = "heartbeat" },
		"number too large":  func(e *audit.Entry) { e.Events[0].Token = 1 << 63 },
		"text too long":     func(e *audit.Entry) { e.Events[0].Note = strings.Repeat("x", audit.TextBytesMax+1) },
	} {
		s := open(t)
		e := entry(1, 5, 1)
		change(&e)
		if err := s.Append(context.Background(), []audit.Entry{e}); !errors.Is(err, audit.ErrInvalidEntry) {
			t.Errorf("%s: got %v, want ErrInvalidEntry", name, err)
		}
	}
}

func TestAppend_makesTextsUTF8(t *testing.T) {
	s, peer := open(t), open(t)
	e := entry(1, 1, 1)
	e.Events[0].Note = "a\xffb"
	appendAll(t, peer, e)
	if got := search(t, peer, audit.Query{AllTenants: true})[0].Event.Note; got != "a\uFFFDb" {
		t.Errorf("note: got %q, want %q", got, "a\uFFFDb")
	}
	if err := s.RecordGap(context.Background(), 1, 1, 1, "test"); err != nil {
		t.Fatal(err)
	}
	fillFrom(t, s, peer, 10)
	samePosition(t, s, peer, 1)
}

func TestOpen_goesOnWhereItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	whole := open(t)
	appendAll(t, whole, entries(2, 1, 300)...)
	for from := uint64(1); from <= 300; from += 60 {
		s := openAt(t, path)
		appendAll(t, s, entries(2, from, from+59)...)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	samePosition(t, openAt(t, path), whole, 2)
}

func TestIncarnations_doNotCollide(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	first := openAt(t, path)
	appendAll(t, first, entries(1, 1, 10)...)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	c := config(path)
	c.Incarnation = 2
	second := openWith(t, c)
	appendAll(t, second, entry(1, 1, 1)) // entry 1 of the first life had one event as well, and a different place
	if got := position(t, second, 1); got.Durable != 1 || got.Rows != 1 {
		t.Errorf("position: got %+v, want a log that begins", got)
	}
	if got := len(search(t, second, audit.Query{AllTenants: true})); got != 1 {
		t.Errorf("rows of this life: got %d, want 1", got)
	}
	if got := len(search(t, second, audit.Query{AllTenants: true, Incarnation: 1})); got != 10 {
		t.Errorf("rows of the life before: got %d, want 10", got)
	}
}

// raw opens the file past the package, with the pragmas that triggers need.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=recursive_triggers(ON)&_pragma=foreign_keys(ON)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSchema_refusesToChangeWhatHappened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	s := openAt(t, path)
	appendAll(t, s, entries(1, 1, 10)...)
	if err := s.RecordGap(context.Background(), 1, 11, 12, "test"); err != nil {
		t.Fatal(err)
	}
	if err := s.GiveUp(context.Background(), audit.Gap{Log: 1, From: 11, To: 12}); err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	for _, statement := range []string{
		`DELETE FROM grant_event`,
		`UPDATE grant_event SET leaf = leaf + 1`,
		`UPDATE grant_event SET tenant_id = 'x'`,
		`INSERT OR REPLACE INTO grant_event SELECT incarnation, log_id, log_index, ordinal, 'x', content_hash, leaf FROM grant_event`,
		`DELETE FROM grant_body`,
		`UPDATE grant_body SET note = 'x'`,
		`UPDATE grant_body SET salt = NULL, holder = NULL, by_whom = NULL, note = NULL`,
		`INSERT OR REPLACE INTO grant_body SELECT * FROM grant_body`,
		`DELETE FROM tree_block`,
		`UPDATE tree_block SET hashes = zeroblob(length(hashes))`,
		`UPDATE tree_block SET hashes = substr(hashes, 1, length(hashes) - 32)`,
		`INSERT OR REPLACE INTO tree_block SELECT incarnation, log_id, block, zeroblob(32) FROM tree_block`,
		`DELETE FROM gap`,
		`UPDATE gap SET why = 'x'`,
		`UPDATE gap SET leaf = 0`,
	} {
		if _, err := db.Exec(statement); err == nil {
			t.Errorf("%s: got no error", statement)
		}
	}
	reports, err := audit.VerifyFile(context.Background(), path)
	if err != nil || len(reports) != 1 || !reports[0].Whole() {
		t.Errorf("file: got %+v, %v, want it whole", reports, err)
	}
}
