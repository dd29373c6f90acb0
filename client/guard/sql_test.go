package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stanchion-locks/stanchion/client/guard"
)

const thirty = "2026-06-30"

// enterAlone enters in a transaction of its own.
func enterAlone(t testing.TB, g guard.SQL, db *sql.DB, token uint64) error {
	t.Helper()
	return g.Do(t.Context(), db, thirty, token, func(*guard.Entered) error { return nil })
}

func mustEnter(t testing.TB, g guard.SQL, db *sql.DB, token uint64) {
	t.Helper()
	if err := enterAlone(t, g, db, token); err != nil {
		t.Fatalf("enter with %d: got %v, want none", token, err)
	}
}

func TestEnter_raisesTheFenceAndRefusesWhatIsLower(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		g := d.fences(t, db)
		for _, token := range []uint64{32, 32, 33, guard.TokenMax - 1, guard.TokenMax, guard.TokenMax} {
			mustEnter(t, g, db, token)
		}
		for _, token := range []uint64{1, 33, guard.TokenMax - 1} {
			wantStale(t, "enter", enterAlone(t, g, db, token), token, guard.TokenMax)
		}
		for _, token := range []uint64{0, guard.TokenMax + 1, 1<<64 - 1} {
			if err := enterAlone(t, g, db, token); !errors.Is(err, guard.ErrNoToken) {
				t.Errorf("enter with %d: got %v, want ErrNoToken", token, err)
			}
		}
		mustEnter(t, g, db, guard.TokenMax)
	})
}

func TestEnter_refusesNoTokenWhereNobodyHasEntered(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		g := d.fences(t, db)
		if err := enterAlone(t, g, db, 0); !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("enter with 0: got %v, want ErrNoToken", err)
		}
		if n := number(t, db, "SELECT count(*) FROM "+g.Table); n != 0 {
			t.Errorf("fences after the refusal: got %d, want 0", n)
		}
	})
}

func TestCheck_acceptsTheHighestEnteredOnly(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		g := d.fences(t, db)
		check := func(token uint64) error {
			tx := d.begin(t, db)
			defer func() { _ = tx.Rollback() }()
			_, err := g.Check(t.Context(), tx, thirty, token)
			return err
		}
		if err := check(32); !errors.Is(err, guard.ErrNotEntered) {
			t.Errorf("check where nobody has entered: got %v, want ErrNotEntered", err)
		}
		mustEnter(t, g, db, 33)
		if err := check(33); err != nil {
			t.Errorf("check of what entered: got %v, want none", err)
		}
		wantStale(t, "check", check(32), 32, 33)
		var early *guard.NotEnteredError
		if err := check(34); !errors.As(err, &early) || early.Presented != 34 || early.Highest != 33 {
			t.Errorf("check of what has not entered: got %v, want 34 not entered above 33", err)
		}
		if err := check(0); !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("check of 0: got %v, want ErrNoToken", err)
		}
	})
}

func TestEnter_keepsResourcesApartByEveryByte(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		g := d.fences(t, db)
		for i, name := range []string{"close", "Close", "close ", "clôse", "clo\u0302se", "%", "_"} {
			token := uint64(100 - i)
			if err := g.Do(t.Context(), db, name, token, func(*guard.Entered) error { return nil }); err != nil {
				t.Errorf("enter %q with %d: got %v, want none", name, token, err)
			}
		}
	})
}

func TestEnter_thatIsRolledBackHasNotEntered(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		g := d.fences(t, db)
		mustEnter(t, g, db, 32)
		broken := errors.New("work failed")
		if err := g.Do(t.Context(), db, thirty, 33, func(*guard.Entered) error { return broken }); !errors.Is(err, broken) {
			t.Fatalf("do: got %v, want the work's error", err)
		}
		mustEnter(t, g, db, 32)
	})
}

// TestEnter_holdsBackAConcurrentHolder has 33 enter and not commit yet. Stale 32 waits, or is told to try again, and is
// refused once 33 has committed.
func TestEnter_holdsBackAConcurrentHolder(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		g := d.fences(t, db)
		mustEnter(t, g, db, 32)
		newer := d.begin(t, db)
		if _, err := g.Enter(t.Context(), newer, thirty, 33); err != nil {
			t.Fatalf("enter with 33: %v", err)
		}
		err := d.meanwhile(t, db, newer, func() error { return enterAlone(t, g, db, 32) })
		wantStale(t, "the stale holder", err, 32, 33)
	})
}

// TestEnter_waitsForAnOlderHolderToEnd has stale 32 in the middle of its work when 33 enters: 33 goes on after 32 has
// committed, and so reads what 32 wrote.
func TestEnter_waitsForAnOlderHolderToEnd(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		g, ledger := d.fences(t, db), d.ledger(t, db)
		older := d.begin(t, db)
		if _, err := g.Enter(t.Context(), older, thirty, 32); err != nil {
			t.Fatalf("enter with 32: %v", err)
		}
		run(t, older, "UPDATE "+ledger.Table+" SET balance = balance + 10")
		var balance int64
		err := d.meanwhile(t, db, older, func() error {
			return g.Do(t.Context(), db, thirty, 33, func(e *guard.Entered) error {
				return e.Tx().QueryRow("SELECT balance FROM " + ledger.Table).Scan(&balance)
			})
		})
		if err != nil || balance != 110 {
			t.Fatalf("33 after 32: got balance %d, error %v, want 110 and none", balance, err)
		}
	})
}

// TestCheck_holdsBackAConcurrentHolder has 32 check and go on; 33 enters only after that transaction has ended.
func TestCheck_holdsBackAConcurrentHolder(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		g := d.fences(t, db)
		mustEnter(t, g, db, 32)
		older := d.begin(t, db)
		if _, err := g.Check(t.Context(), older, thirty, 32); err != nil {
			t.Fatalf("check with 32: %v", err)
		}
		if err := d.meanwhile(t, db, older, func() error { return enterAlone(t, g, db, 33) }); err != nil {
			t.Fatalf("33 after 32: got %v, want none", err)
		}
	})
}

// meanwhile runs a transaction beside one that has entered. It must wait, or be told to begin again, until the first has
// committed; its outcome after that is returned.
func (d database) meanwhile(t *testing.T, db *sql.DB, first *sql.Tx, second func() error) error {
	t.Helper()
	if d.waiting == "" {
		if err := second(); !again(err) {
			t.Fatalf("beside a transaction that has entered: got %v, want SQLITE_BUSY", err)
		}
		if err := first.Commit(); err != nil {
			t.Fatalf("commit the first: %v", err)
		}
		return untilDecided(t, second)
	}
	outcome := make(chan error, 1)
	go func() { outcome <- untilDecided(t, second) }()
	d.awaitWaiting(t, db)
	select {
	case err := <-outcome:
		t.Fatalf("beside a transaction that has entered: got %v, want to wait", err)
	default:
	}
	if err := first.Commit(); err != nil {
		t.Fatalf("commit the first: %v", err)
	}
	return <-outcome
}

// TestEnter_isNotFooledByASnapshot has a stale transaction read before it enters, against the rule, so that its snapshot
// shows its own token as the highest. It must never be let in: refused, or failed and then refused.
func TestEnter_isNotFooledByASnapshot(t *testing.T) {
	for _, act := range []string{"enter", "check"} {
		t.Run(act, func(t *testing.T) {
			inEach(t, func(t *testing.T, d database, db *sql.DB) {
				g := d.fences(t, db)
				mustEnter(t, g, db, 32)
				stale := d.begin(t, db)
				if n := number(t, stale, "SELECT fence FROM "+g.Table); n != 32 {
					t.Fatalf("fence before: got %d, want 32", n)
				}
				if err := d.enterAtOnce(t, g, db, 33); again(err) { // the reader keeps the writer out: its snapshot stays true
					if d.isolation != sql.LevelSerializable && d.dialect != guard.SQLite {
						t.Fatalf("33 beside a reader: got %v, want to enter", err)
					}
					return
				} else if err != nil {
					t.Fatalf("enter with 33: %v", err)
				}
				ask := g.Enter
				if act == "check" {
					ask = g.Check
				}
				_, err := ask(t.Context(), stale, thirty, 32)
				if !errors.Is(err, guard.ErrStale) && !again(err) {
					t.Fatalf("32 with an old snapshot: got %v, want ErrStale or to begin again", err)
				}
				_ = stale.Rollback()
				wantStale(t, "32 afterwards", enterAlone(t, g, db, 32), 32, 33)
			})
		})
	}
}

// enterAtOnce enters in a transaction of its own, or fails instead of waiting for a lock.
func (d database) enterAtOnce(t *testing.T, g guard.SQL, db *sql.DB, token uint64) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: d.isolation})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if d.dialect == guard.MySQL {
		run(t, tx, "SET SESSION innodb_lock_wait_timeout = 0")
	}
	_, err = g.Enter(t.Context(), tx, thirty, token)
	if d.dialect == guard.MySQL {
		run(t, tx, "SET SESSION innodb_lock_wait_timeout = DEFAULT")
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

// interleaving is the history that a guard must come first for: 33 reads, stale 32 writes, 33 writes what it computed from
// its reading, stale 32 tries once more. change is how one holder writes; it returns whether it was let in.
type interleaving struct {
	enter  func(token uint64) error // in a transaction of its own, with the read
	change func(token uint64, balance int64) error
	read   func() int64
}

// run returns the balance at the end and how often stale 32 was let in after 33's first act. It starts at 100; 33 adds 1
// to what it read, 32 adds 10 to what is there.
func (i interleaving) run(t *testing.T) (balance int64, letIn int) {
	t.Helper()
	if err := i.enter(32); err != nil {
		t.Fatalf("32 enters: %v", err)
	}
	if err := i.enter(33); err != nil {
		t.Fatalf("33 enters: %v", err)
	}
	seen := i.read()
	stale := func() {
		err := i.change(32, i.read()+10)
		if err == nil {
			letIn++
		} else {
			wantStale(t, "stale 32 writes", err, 32, 33)
		}
	}
	stale()
	if err := i.change(33, seen+1); err != nil {
		t.Fatalf("33 writes: %v", err)
	}
	stale()
	return i.read(), letIn
}

func TestInterleaving_losesNothingBehindTheGuard(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		ledger := d.ledger(t, db)
		read := func() int64 { return number(t, db, "SELECT balance FROM "+ledger.Table) }
		set := func(e *guard.Entered, balance int64) error {
			_, err := e.Tx().Exec(fmt.Sprintf("UPDATE %s SET balance = %d", ledger.Table, balance))
			return err
		}
		g := d.fences(t, db)
		table := interleaving{read: read,
			enter: func(token uint64) error { return enterAlone(t, g, db, token) },
			change: func(token uint64, balance int64) error {
				return g.Do(t.Context(), db, thirty, token, func(e *guard.Entered) error { return set(e, balance) })
			}}
		column := interleaving{read: read,
			enter: func(token uint64) error {
				return ledger.Do(t.Context(), db, 1, token, func(*guard.Entered) error { return nil })
			},
			change: func(token uint64, balance int64) error {
				return ledger.Do(t.Context(), db, 1, token, func(e *guard.Entered) error { return set(e, balance) })
			}}
		if balance, letIn := table.run(t); balance != 101 || letIn != 0 {
			t.Errorf("table of fences: got balance %d, stale writes %d, want 101 and 0", balance, letIn)
		}
		if balance, letIn := column.run(t); balance != 102 || letIn != 0 {
			t.Errorf("column: got balance %d, stale writes %d, want 102 and 0", balance, letIn)
		}
	})
}

// TestInterleaving_losesAnUpdateWithoutTheGuard shows that the history is dangerous at every isolation level, or the
// test above would prove nothing.
func TestInterleaving_losesAnUpdateWithoutTheGuard(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		ledger := d.ledger(t, db)
		change := func(_ uint64, balance int64) error {
			tx := d.begin(t, db)
			run(t, tx, fmt.Sprintf("UPDATE %s SET balance = %d", ledger.Table, balance))
			return tx.Commit()
		}
		balance, letIn := interleaving{change: change, enter: func(uint64) error { return nil },
			read: func() int64 { return number(t, db, "SELECT balance FROM "+ledger.Table) }}.run(t)
		if letIn != 2 || balance != 111 { // 100, 32 adds 10, 33 writes 101 over it, 32 adds 10: one 10 is lost
			t.Errorf("unguarded: got balance %d, stale writes %d, want 111 and 2: the first 10 lost", balance, letIn)
		}
	})
}

func TestColumn_refusesWhatHasNoRow(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		ledger := d.ledger(t, db)
		nothing := func(*guard.Entered) error { return nil }
		if err := ledger.Do(t.Context(), db, 2, 33, nothing); !errors.Is(err, guard.ErrNoRow) {
			t.Errorf("enter a row that is not there: got %v, want ErrNoRow", err)
		}
		tx := d.begin(t, db)
		if _, err := ledger.Check(t.Context(), tx, 2, 33); !errors.Is(err, guard.ErrNoRow) {
			t.Errorf("check a row that is not there: got %v, want ErrNoRow", err)
		}
		_ = tx.Rollback()
	})
}

func TestColumn_checksTheHighestEnteredOnly(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		ledger := d.ledger(t, db)
		check := func(token uint64) error {
			tx := d.begin(t, db)
			defer func() { _ = tx.Rollback() }()
			_, err := ledger.Check(t.Context(), tx, 1, token)
			return err
		}
		if err := check(1); !errors.Is(err, guard.ErrNotEntered) {
			t.Errorf("check where nobody has entered: got %v, want ErrNotEntered", err)
		}
		if err := ledger.Do(t.Context(), db, 1, 33, func(*guard.Entered) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := check(33); err != nil {
			t.Errorf("check of what entered: got %v, want none", err)
		}
		wantStale(t, "check", check(32), 32, 33)
		if err := check(34); !errors.Is(err, guard.ErrNotEntered) {
			t.Errorf("check above: got %v, want ErrNotEntered", err)
		}
	})
}

// TestSQL_refusesWhatItCannotName asks no database, so that none could be asked something else.
func TestSQL_refusesWhatItCannotName(t *testing.T) {
	good := guard.SQL{Dialect: guard.Postgres, Table: "locks.stanchion_fence"}
	if _, err := good.Schema(); err != nil {
		t.Errorf("a table with its schema: got %v, want none", err)
	}
	for _, table := range []string{"", "a b", "a;b", "a.b.c", ".a", "a.", "1a", "a-b", `"a"`, "é", fmt.Sprintf("%064d", 0)} {
		g := guard.SQL{Dialect: guard.SQLite, Table: table}
		if _, err := g.Schema(); err == nil {
			t.Errorf("table %q: got none, want an error", table)
		}
	}
	if _, err := (guard.SQL{Table: "fence"}).Schema(); err == nil {
		t.Error("no dialect: got none, want an error")
	}
	long := make([]byte, guard.ResourceBytesMax+1)
	for i := range long {
		long[i] = 'a'
	}
	for _, resource := range []string{"", "a\x00b", "a\nb", "\xff", string(long)} {
		if _, err := good.Enter(context.Background(), nil, resource, 33); !errors.Is(err, guard.ErrResource) {
			t.Errorf("resource %.10q: got %v, want ErrResource", resource, err)
		}
	}
}
