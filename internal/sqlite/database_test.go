package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/internal/sqlite"
)

func config(path string) sqlite.Config {
	return sqlite.Config{Path: path, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Now: func() time.Time { return time.Date(2026, 3, 29, 3, 0, 0, 0, time.FixedZone("", 7200)) }}
}

func open(t *testing.T, c sqlite.Config) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // some tests close it themselves
	return db
}

func temp(t *testing.T) string { return filepath.Join(t.TempDir(), "audit.db") }

func exec(db *sqlite.DB, query string, args ...any) error {
	return db.Write(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

func one(t *testing.T, db *sqlite.DB, query string) (n int64) {
	t.Helper()
	err := db.Read(context.Background(), func(ctx context.Context, tx *sql.Tx) error { return tx.QueryRowContext(ctx, query).Scan(&n) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOpen_hasThePragmasThatMakeCommitsDurable(t *testing.T) {
	c := config(temp(t))
	c.BytesMax = 1 << 20
	got := map[string]string{}
	for _, p := range open(t, c).Pragmas() {
		got[p.Name] = p.Value
	}
	for name, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "recursive_triggers": "1",
		"busy_timeout": "5000", "journal_size_limit": "67108864", "secure_delete": "1", "page_size": "4096", "max_page_count": "256"} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}

func TestOpen_takesAnyPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%20é&mode=ro")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.db")
	if err := exec(open(t, config(path)), `CREATE TABLE x (n INTEGER) STRICT`); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file: %v", err)
	}
	for name, c := range map[string]sqlite.Config{"no path": {}, "too small": {Path: path, BytesMax: 1}} {
		if _, err := sqlite.Open(context.Background(), c); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestRead_cannotWrite(t *testing.T) {
	db := open(t, config(temp(t)))
	err := db.Read(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE x (n INTEGER) STRICT`)
		return err
	})
	if !errors.Is(err, sqlite.ErrReadOnly) {
		t.Errorf("got %v, want ErrReadOnly", err)
	}
}

func TestRead_isLimitedInTime(t *testing.T) {
	c := config(temp(t))
	c.ReadTimeout = 20 * time.Millisecond
	err := open(t, c).Read(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		var n int64
		return tx.QueryRowContext(ctx, `WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r`).Scan(&n)
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a deadline exceeded", err)
	}
}

func TestWrite_isAllOrNothing(t *testing.T) {
	db := open(t, config(temp(t)))
	if err := exec(db, `CREATE TABLE x (n INTEGER NOT NULL UNIQUE CHECK (n < 10)) STRICT`); err != nil {
		t.Fatal(err)
	}
	for name, query := range map[string]string{"key": `INSERT INTO x VALUES (1), (1)`, "check": `INSERT INTO x VALUES (2), (11)`,
		"null": `INSERT INTO x VALUES (3), (NULL)`, "type": `INSERT INTO x VALUES (4), ('a')`} {
		if err := exec(db, query); !errors.Is(err, sqlite.ErrConstraint) {
			t.Errorf("%s: got %v, want ErrConstraint", name, err)
		}
	}
	stop := errors.New("stop")
	err := db.Write(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO x VALUES (5)`); err != nil {
			return err
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want the caller's error", err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := db.Write(cancelled, func(context.Context, *sql.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: got %v, want canceled", err)
	}
	running, cancel := context.WithCancel(context.Background())
	err = db.Write(running, func(ctx context.Context, tx *sql.Tx) error {
		cancel()
		_, err := tx.ExecContext(ctx, `INSERT INTO x VALUES (6)`)
		return err
	})
	if err != nil {
		t.Errorf("cancelled meanwhile: got %v, want it carried through", err)
	}
	if n := one(t, db, `SELECT sum(n) FROM x WHERE n >= 4`); n != 6 {
		t.Errorf("rows: got %d, want the 6 alone", n)
	}
}

// Many read and then write on what they read: each succeeds or finds itself late, none is told that the database is busy.
func TestWrite_thatReadsFirstIsNeverBusy(t *testing.T) {
	path := temp(t)
	dbs := []*sqlite.DB{open(t, config(path)), open(t, config(path))} // as two processes would
	if err := exec(dbs[0], `CREATE TABLE x (n INTEGER NOT NULL) STRICT`); err != nil {
		t.Fatal(err)
	}
	if err := exec(dbs[0], `INSERT INTO x VALUES (0)`); err != nil {
		t.Fatal(err)
	}
	const workers, each = 8, 25
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for range each {
				err := dbs[i%2].Write(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
					var n int64
					if err := tx.QueryRowContext(ctx, `SELECT n FROM x`).Scan(&n); err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, `UPDATE x SET n = ?`, n+1)
					return err
				})
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
			}
		})
	}
	all.Wait()
	if n := one(t, dbs[0], `SELECT n FROM x`); n != workers*each {
		t.Errorf("sum: got %d, want %d", n, workers*each)
	}
}

// overlap reads until stop is called, and begins each time before it has ended the time before.
func overlap(t *testing.T, db *sqlite.DB) (stop func()) {
	t.Helper()
	begin := func() (end func() error) {
		began, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- db.Read(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
				defer close(began)
				var n int
				if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM x LIMIT 1)`).Scan(&n); err != nil {
					return err
				}
				began <- struct{}{}
				<-release
				return nil
			})
		}()
		<-began
		return func() error { close(release); return <-ended }
	}
	quit, over := make(chan struct{}), make(chan error, 1)
	go func() {
		end := begin()
		for {
			select {
			case <-quit:
				over <- end()
				return
			default:
			}
			next := begin()
			if err := end(); err != nil {
				over <- errors.Join(err, next())
				return
			}
			end = next
		}
	}()
	return func() {
		close(quit)
		if err := <-over; err != nil {
			t.Errorf("read: %v", err)
		}
	}
}

func TestWrite_boundsTheLogThoughSomebodyAlwaysReads(t *testing.T) {
	path := temp(t)
	db := open(t, config(path))
	if err := exec(db, `CREATE TABLE x (b BLOB) STRICT`); err != nil {
		t.Fatal(err)
	}
	defer overlap(t, db)()
	for range 4 * sqlite.JournalBytesMax >> 22 {
		if err := exec(db, `INSERT INTO x (b) VALUES (zeroblob(4 << 20))`); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path + "-wal")
	if err != nil || info.Size() > 2*sqlite.JournalBytesMax {
		t.Errorf("write-ahead log: got %d bytes, %v, want at most %d", info.Size(), err, 2*sqlite.JournalBytesMax)
	}
}

func TestWrite_isBusyWhenAnotherProcessHoldsTheLock(t *testing.T) {
	c := config(temp(t))
	c.BusyTimeout = 10 * time.Millisecond
	a, b := open(t, c), open(t, c)
	err := a.Write(context.Background(), func(context.Context, *sql.Tx) error { return exec(b, `CREATE TABLE x (n INTEGER) STRICT`) })
	if !errors.Is(err, sqlite.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
}

func TestWrite_toAFullFileHeals(t *testing.T) {
	c := config(temp(t))
	c.BytesMax = sqlite.BytesMin
	db := open(t, c)
	if err := exec(db, `CREATE TABLE x (n BLOB) STRICT`); err != nil {
		t.Fatal(err)
	}
	insert := func() error { return exec(db, `INSERT INTO x VALUES (zeroblob(200000))`) }
	var err error
	for n := 0; err == nil && n < 100; n++ {
		err = insert()
	}
	if !errors.Is(err, sqlite.ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	used, err := db.Bytes(context.Background())
	if err != nil || used == 0 || used > sqlite.BytesMin {
		t.Errorf("bytes: got %d, %v, want up to %d", used, err, sqlite.BytesMin)
	}
	if err := db.SetBytesMax(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if err := insert(); err != nil {
		t.Errorf("with space again: %v", err)
	}
}

func TestOpen_setsDamageAside(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"no database": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600)
		},
		"cut off": func(path string) error { return os.Truncate(path, 8192) },
		"an orphaned log": func(path string) error {
			if err := os.WriteFile(path+"-wal", []byte("left over"), 0o600); err != nil {
				return err
			}
			return os.Remove(path)
		},
	} {
		path := temp(t)
		db := open(t, config(path))
		if err := exec(db, `CREATE TABLE x (n INTEGER) STRICT`); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := damage(path); err != nil {
			t.Fatal(err)
		}
		db = open(t, config(path))
		if want := path + ".damaged-20260329T010000.000Z"; db.Damaged() != want {
			t.Errorf("%s: got damaged %q, want %q", name, db.Damaged(), want)
		}
		if err := exec(db, `CREATE TABLE x (n INTEGER) STRICT`); err != nil {
			t.Errorf("%s: the new file is not empty: %v", name, err)
		}
		left, err := filepath.Glob(path + ".damaged-*")
		if err != nil || len(left) == 0 {
			t.Errorf("%s: got %v, %v, want what was set aside", name, left, err)
		}
	}
}

func TestOpen_opensAFileThatIsTooLargeToBeChecked(t *testing.T) {
	c := config(temp(t))
	db := open(t, c)
	if err := exec(db, `CREATE TABLE x (n INTEGER) STRICT`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c.CheckTime = time.Nanosecond // over before it begins
	db = open(t, c)
	if got := one(t, db, `SELECT count(*) FROM x`); got != 0 || db.Damaged() != "" {
		t.Errorf("got %d rows, damaged %q, want the empty table and a file that is not set aside", got, db.Damaged())
	}
}

func TestOpen_refusesAnotherSchema(t *testing.T) {
	path := temp(t)
	db := open(t, config(path))
	if n := one(t, db, `SELECT count(*) FROM applied_migration`); n < 3 {
		t.Errorf("migrations: got %d recorded", n)
	}
	if err := exec(db, `UPDATE applied_migration SET sha256 = 'x' WHERE version = 2`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(context.Background(), config(path)); !errors.Is(err, sqlite.ErrSchema) {
		t.Errorf("got %v, want ErrSchema", err)
	}
}

func TestBackup_isWhole(t *testing.T) {
	db := open(t, config(temp(t)))
	if err := exec(db, `CREATE TABLE x (n INTEGER) STRICT`); err != nil {
		t.Fatal(err)
	}
	if err := exec(db, `INSERT INTO x VALUES (7)`); err != nil {
		t.Fatal(err)
	}
	path := temp(t)
	if err := db.Backup(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	if n := one(t, open(t, config(path)), `SELECT n FROM x`); n != 7 {
		t.Errorf("copy: got %d, want 7", n)
	}
	if err := db.Backup(context.Background(), path); err == nil {
		t.Error("over a file that is there: got no error")
	}
}

func TestOpenReadOnly_makesNoFile(t *testing.T) {
	path := temp(t)
	pool, err := sqlite.OpenReadOnly(context.Background(), path)
	if err == nil {
		_ = pool.Close()
		t.Error("a file that is not there: got no error")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file: got one")
	}
	if got := fmt.Sprint(sqlite.Translate(nil)); got != "<nil>" {
		t.Errorf("no error: got %s", got)
	}
}
