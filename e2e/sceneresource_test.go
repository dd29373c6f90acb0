package e2e_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite"

	"github.com/stanchion-locks/stanchion/client/guard"
)

// The resource has one row twice: behind a guard, and as it would be without one.
const (
	sceneGuarded   = "guarded"
	sceneUnguarded = "unguarded"

	sceneSchema = `
CREATE TABLE guarded   (day TEXT NOT NULL PRIMARY KEY, entries TEXT NOT NULL, fence INTEGER) STRICT;
CREATE TABLE unguarded (day TEXT NOT NULL PRIMARY KEY, entries TEXT NOT NULL) STRICT;`

	// sceneOpened is what stands in both rows at first.
	sceneOpened = "opened"
)

// sceneResource is the protected resource: a database file that each process opens for itself.
type sceneResource struct {
	db    *sql.DB
	day   string // names the row, and is the lock's key
	guard guard.Column
}

// openSceneResource opens the file. reporter may be nil.
func openSceneResource(path string, l lock, reporter *guard.Reporter) (sceneResource, error) {
	// A rollback journal and full syncs: what a process has committed is there for the next one, whatever becomes of both.
	q := url.Values{"_pragma": {"busy_timeout(20000)", "journal_mode(DELETE)", "synchronous(FULL)"}}
	db, err := sql.Open("sqlite", "file:"+path+"?"+q.Encode())
	if err != nil {
		return sceneResource{}, err
	}
	db.SetMaxOpenConns(1)
	return sceneResource{db: db, day: l.Key, guard: guard.Column{Dialect: guard.SQLite, Table: sceneGuarded, ID: "day",
		Reporting: guard.Reporting{Reporter: reporter, Class: l.Class}}}, nil
}

// makeRow puts the row into both tables, as nobody has entered it yet.
func (r sceneResource) makeRow(ctx context.Context) error {
	for _, table := range []string{sceneGuarded, sceneUnguarded} {
		if _, err := r.db.ExecContext(ctx, "INSERT INTO "+table+" (day, entries) VALUES (?, ?)", r.day, sceneOpened); err != nil {
			return fmt.Errorf("make the row %s of %s: %w", r.day, table, err)
		}
	}
	return nil
}

// enter raises the fence, durably, and does nothing else.
func (r sceneResource) enter(ctx context.Context, token uint64) error {
	return r.guard.Do(ctx, r.db, r.day, token, func(*guard.Entered) error { return nil })
}

func (r sceneResource) read(ctx context.Context, table string) (entries string, err error) {
	err = r.db.QueryRowContext(ctx, "SELECT entries FROM "+table+" WHERE day = ?", r.day).Scan(&entries)
	return entries, err
}

// addGuarded enters first, then reads, then writes: in one transaction.
func (r sceneResource) addGuarded(ctx context.Context, token uint64, what string) error {
	return r.guard.Do(ctx, r.db, r.day, token, func(e *guard.Entered) error {
		var entries string
		if err := e.Tx().QueryRowContext(ctx, "SELECT entries FROM guarded WHERE day = ?", r.day).Scan(&entries); err != nil {
			return err
		}
		return wroteOne(e.Tx().ExecContext(ctx, "UPDATE guarded SET entries = ? WHERE day = ?", entries+", "+what, r.day))
	})
}

// replaceUnguarded writes what its caller has made of what it read before.
func (r sceneResource) replaceUnguarded(ctx context.Context, entries string) error {
	return wroteOne(r.db.ExecContext(ctx, "UPDATE unguarded SET entries = ? WHERE day = ?", entries, r.day))
}

func wroteOne(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, fmt.Errorf("wrote %d rows, want 1", n))
	}
	return nil
}

// sceneRows is all that the resource says.
type sceneRows struct {
	guarded   string
	fence     uint64
	unguarded string
}

func (r sceneResource) rows(ctx context.Context) (all sceneRows, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT g.entries, COALESCE(g.fence, 0), u.entries
		FROM guarded g JOIN unguarded u ON u.day = g.day WHERE g.day = ?`, r.day).Scan(&all.guarded, &all.fence, &all.unguarded)
	return all, err
}
