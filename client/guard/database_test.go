package guard_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/stanchion-locks/stanchion/client/guard"
)

// patience is how long a test awaits what must come.
const patience = time.Minute

// database is a database in one way of using it: every rule of the SQL guards must hold in each.
type database struct {
	name      string
	dialect   guard.Dialect
	isolation sql.IsolationLevel
	// open gives connections to a database: for servers a pool that all tests of this way share.
	open func(t testing.TB) *sql.DB
	// waiting counts transactions that wait for a lock of db; nil where the database fails instead of waiting.
	waiting string
}

const (
	postgresWaiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
	// The server's counter, and not its table of transactions, which shows nothing new to who asks again and again.
	mariadbWaiting = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"
)

var databases = []database{
	{name: "sqlite deferred wal", dialect: guard.SQLite, open: sqlite("_pragma=journal_mode(WAL)")},
	{name: "sqlite immediate wal", dialect: guard.SQLite, open: sqlite("_pragma=journal_mode(WAL)&_txlock=immediate")},
	{name: "sqlite deferred rollback journal", dialect: guard.SQLite, open: sqlite("_pragma=journal_mode(DELETE)")},
	{name: "postgres read committed", dialect: guard.Postgres, isolation: sql.LevelReadCommitted, open: postgres, waiting: postgresWaiting},
	{name: "postgres repeatable read", dialect: guard.Postgres, isolation: sql.LevelRepeatableRead, open: postgres, waiting: postgresWaiting},
	{name: "postgres serializable", dialect: guard.Postgres, isolation: sql.LevelSerializable, open: postgres, waiting: postgresWaiting},
	{name: "mariadb read uncommitted", dialect: guard.MySQL, isolation: sql.LevelReadUncommitted, open: mariadb(""), waiting: mariadbWaiting},
	{name: "mariadb read committed", dialect: guard.MySQL, isolation: sql.LevelReadCommitted, open: mariadb(""), waiting: mariadbWaiting},
	{name: "mariadb repeatable read", dialect: guard.MySQL, isolation: sql.LevelRepeatableRead, open: mariadb(""), waiting: mariadbWaiting},
	{name: "mariadb serializable", dialect: guard.MySQL, isolation: sql.LevelSerializable, open: mariadb(""), waiting: mariadbWaiting},
	{name: "mariadb found rows", dialect: guard.MySQL, isolation: sql.LevelRepeatableRead, open: mariadb("clientFoundRows=true"), waiting: mariadbWaiting},
	{name: "mariadb interpolated", dialect: guard.MySQL, isolation: sql.LevelRepeatableRead, open: mariadb("interpolateParams=true"), waiting: mariadbWaiting},
	{name: "mariadb snapshot isolation", dialect: guard.MySQL, isolation: sql.LevelRepeatableRead, open: mariadb("innodb_snapshot_isolation=1"), waiting: mariadbWaiting},
}

// inEach runs a test with every database.
func inEach(t *testing.T, test func(t *testing.T, d database, db *sql.DB)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { test(t, d, d.open(t)) })
	}
}

// pools are the servers' connections, by driver and address, closed at the end of the run.
var pools struct {
	mu    sync.Mutex
	open  map[string]*sql.DB // guarded by mu
	count atomic.Int64       // names drawn for tables
}

func pool(t testing.TB, driver, address string) *sql.DB {
	t.Helper()
	pools.mu.Lock()
	defer pools.mu.Unlock()
	if db := pools.open[driver+address]; db != nil {
		return db
	}
	db, err := sql.Open(driver, address)
	if err == nil {
		err = db.PingContext(t.Context())
	}
	if err != nil {
		t.Fatalf("open %s: %v", driver, err)
	}
	if pools.open == nil {
		pools.open = map[string]*sql.DB{}
	}
	pools.open[driver+address] = db
	return db
}

func closePools() {
	pools.mu.Lock()
	defer pools.mu.Unlock()
	for _, db := range pools.open {
		_ = db.Close() // the server ends next
	}
}

func postgres(t testing.TB) *sql.DB {
	t.Helper()
	return pool(t, "pgx", "user=postgres database=postgres host="+postgresServer.socketDir(t))
}

func mariadb(options string) func(testing.TB) *sql.DB {
	return func(t testing.TB) *sql.DB {
		t.Helper()
		return pool(t, "mysql", fmt.Sprintf("root@unix(%s)/mysql?%s", filepath.Join(mariadbServer.socketDir(t), "s"), options))
	}
}

// sqlite opens a file of the test's own. Nothing waits for a lock: what would wait fails at once, and is tried again.
func sqlite(options string) func(testing.TB) *sql.DB {
	return func(t testing.TB) *sql.DB {
		t.Helper()
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "guard.db")+"?_pragma=busy_timeout(0)&"+options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
}

// newName draws a table's name for one test alone.
func newName(prefix string) string { return fmt.Sprintf("%s_%d", prefix, pools.count.Add(1)) }

// run runs statements that must succeed.
func run(t testing.TB, db interface {
	Exec(string, ...any) (sql.Result, error)
}, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// number reads one number.
func number(t testing.TB, db interface {
	QueryRow(string, ...any) *sql.Row
}, query string) int64 {
	t.Helper()
	var n int64
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// fences makes a table of fences for one test, and the guard on it.
func (d database) fences(t testing.TB, db *sql.DB) guard.SQL {
	t.Helper()
	g := guard.SQL{Dialect: d.dialect, Table: newName("fence"), Isolation: d.isolation}
	schema, err := g.Schema()
	if err != nil {
		t.Fatal(err)
	}
	run(t, db, schema)
	return g
}

// ledger makes a table with one row, which has a balance and a fence.
func (d database) ledger(t testing.TB, db *sql.DB) guard.Column {
	t.Helper()
	table := newName("ledger_close")
	engine := ""
	if d.dialect == guard.MySQL {
		engine = " ENGINE=InnoDB"
	}
	run(t, db, "CREATE TABLE "+table+" (id BIGINT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL, fence BIGINT)"+engine,
		"INSERT INTO "+table+" (id, balance) VALUES (1, 100)")
	return guard.Column{Dialect: d.dialect, Table: table, ID: "id", Isolation: d.isolation}
}

// begin begins a transaction at the database's isolation level.
func (d database) begin(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: d.isolation})
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// again reports whether an error is one after which the whole transaction is to be repeated.
func again(err error) bool {
	for _, code := range []string{"SQLITE_BUSY", "40001", "40P01", "Error 1213", "Error 1205", "Error 1020", "database is locked"} {
		if err != nil && strings.Contains(err.Error(), code) {
			return true
		}
	}
	return false
}

// untilDecided repeats a transaction while the database asks for that.
func untilDecided(t testing.TB, attempt func() error) error {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := attempt()
		if !again(err) {
			return err
		}
		if time.Now().After(deadline) {
			t.Fatalf("still undecided: %v", err)
		}
	}
}

// awaitWaiting awaits that a transaction waits for a lock.
func (d database) awaitWaiting(t testing.TB, db *sql.DB) {
	t.Helper()
	deadline := time.Now().Add(patience)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for number(t, db, d.waiting) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no transaction waits for a lock")
		}
		<-poll.C
	}
}

// wantStale checks a refusal and its tokens.
func wantStale(t testing.TB, when string, err error, presented, highest uint64) {
	t.Helper()
	var stale *guard.StaleError
	if !errors.As(err, &stale) || !errors.Is(err, guard.ErrStale) {
		t.Fatalf("%s: got %v, want ErrStale", when, err)
	}
	if stale.Presented != presented || stale.Highest != highest {
		t.Fatalf("%s: got %d refused because of %d, want %d because of %d", when, stale.Presented, stale.Highest, presented, highest)
	}
}
