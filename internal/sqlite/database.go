package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// Readers is how many questions are answered at a time; the others wait for their turn, as long as their context lets
	// them.
	Readers = 4
	// JournalBytesMax is what is left of the write-ahead log after it was copied into the file.
	JournalBytesMax = 64 << 20
	// BytesMin is the smallest bound of a file that makes sense: the schema itself needs some.
	BytesMin = 256 << 10

	defaultReadTimeout = 10 * time.Second
	defaultBusyTimeout = 5 * time.Second
	defaultCheckTime   = time.Minute
)

// Config says which file to open, and how. The zero values of all but Path are useful.
type Config struct {
	Path        string
	BytesMax    int64            // bound of the file, its write-ahead log apart; rounded up to pages; 0: the disk's
	ReadTimeout time.Duration    // the longest that one Read may take: a long reader lets the log grow; 0: 10 s
	BusyTimeout time.Duration    // how long to wait for a lock of another process; 0: 5 s
	CheckTime   time.Duration    // the longest that Open looks for damage; 0: a minute
	Logger      *slog.Logger     // nil: slog.Default()
	Now         func() time.Time // names a file set aside; nil: time.Now
}

func (c Config) withDefaults() (Config, error) {
	if c.Path == "" {
		return c, errors.New("open database: no path")
	}
	if c.BytesMax != 0 && c.BytesMax < BytesMin {
		return c, fmt.Errorf("open database %s: bytes_max is %d, the least is %d", c.Path, c.BytesMax, BytesMin)
	}
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return c, fmt.Errorf("open database %s: %w", c.Path, err)
	}
	c.Path = path
	if c.ReadTimeout == 0 {
		c.ReadTimeout = defaultReadTimeout
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = defaultBusyTimeout
	}
	if c.CheckTime == 0 {
		c.CheckTime = defaultCheckTime
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

// DB is an open file. Safe for concurrent use.
type DB struct {
	config  Config
	writer  *sql.DB // one connection
	reader  *sql.DB // Readers connections that cannot write
	damaged string
	pragmas []Pragma

	shortenAt atomic.Int64 // length of the write-ahead log at which Write shortens it
}

// Open opens the file, which is made if there is none. Its structure is checked first, for as long as CheckTime allows: one
// that is too large for that is opened all the same, with a warning. A damaged file is set aside under another name (see
// Damaged) and a new one begun. Then migrations are applied.
func Open(ctx context.Context, c Config) (*DB, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	damaged, err := setDamagedAside(ctx, c)
	if err != nil {
		return nil, err
	}
	db, err := openWhole(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", c.Path, translate(err))
	}
	db.damaged = damaged
	return db, nil
}

func openWhole(ctx context.Context, c Config) (_ *DB, err error) {
	db := &DB{config: c}
	db.shortenAt.Store(JournalBytesMax)
	if db.writer, err = connect(c.writerName(), 1); err != nil {
		return nil, err
	}
	if db.reader, err = connect(c.readerName(), Readers); err != nil {
		return nil, errors.Join(err, db.writer.Close())
	}
	if err = migrate(ctx, db.writer); err == nil {
		db.pragmas, err = effectivePragmas(ctx, db.writer)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func connect(name string, connections int) (*sql.DB, error) {
	pool, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool, nil
}

// pageBytes is SQLite's default page size, of which every file here is made.
const pageBytes = 4096

// writerName is what the driver opens for writing: pragmas ride in it, so that a connection made anew has them as well.
func (c Config) writerName() string {
	pragmas := []string{"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "recursive_triggers(ON)",
		fmt.Sprintf("journal_size_limit(%d)", JournalBytesMax), "secure_delete(ON)"}
	if c.BytesMax > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count(%d)", pages(c.BytesMax)))
	}
	return c.name(url.Values{"_txlock": {"immediate"}}, pragmas)
}

func (c Config) readerName() string {
	return c.name(url.Values{}, []string{"query_only(ON)"})
}

func (c Config) name(query url.Values, pragmas []string) string {
	query["_pragma"] = append([]string{fmt.Sprintf("busy_timeout(%d)", c.BusyTimeout.Milliseconds())}, pragmas...)
	query.Set("_dqs", "0")
	return fileURI(c.Path, query)
}

// fileURI is an absolute path as SQLite reads it, whatever characters it has.
func fileURI(path string, query url.Values) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: query.Encode()}
	return u.String()
}

func pages(bytes int64) int64 { return (bytes + pageBytes - 1) / pageBytes }

// Damaged is the path under which a damaged file was set aside when this one was opened; empty: it was whole.
func (db *DB) Damaged() string { return db.damaged }

// Pragma is one setting as the writing connection has it.
type Pragma struct{ Name, Value string }

// Pragmas are the settings in effect, for the log at a node's start.
func (db *DB) Pragmas() []Pragma { return db.pragmas }

func effectivePragmas(ctx context.Context, pool *sql.DB) ([]Pragma, error) {
	var all []Pragma
	for _, name := range []string{"journal_mode", "synchronous", "foreign_keys", "recursive_triggers", "busy_timeout",
		"journal_size_limit", "secure_delete", "page_size", "max_page_count"} {
		var value string
		if err := pool.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value); err != nil {
			return nil, fmt.Errorf("read pragma %s: %w", name, err)
		}
		all = append(all, Pragma{name, value})
	}
	return all, nil
}

// Write runs f in a transaction that begins by taking the write lock, so that what f reads is still true when it writes.
// It commits when f returns nil. Writes run one at a time. Once begun, the cancellation of ctx does not stop it: f must be
// bounded. An error means that nothing was changed, or, from the commit itself, that it is not known: look again.
func (db *DB) Write(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if err := transact(ctx, db.writer, f); err != nil {
		return err
	}
	db.shorten(ctx)
	return nil
}

// shorten makes the write-ahead log begin anew when it is too long. SQLite does so by itself at a moment when nobody reads,
// which never comes while one reader always overlaps the next. It waits for those who read, as long as for any lock; if that
// was in vain, the log may double before it is tried again.
func (db *DB) shorten(ctx context.Context) {
	info, err := os.Stat(db.config.Path + "-wal")
	if err != nil || info.Size() <= db.shortenAt.Load() {
		return
	}
	var busy, long, copied int64
	err = db.writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &long, &copied)
	if err != nil || busy != 0 {
		db.shortenAt.Store(2 * info.Size())
		db.config.Logger.Warn("database's write-ahead log is long and cannot be shortened: somebody reads for too long",
			"path", db.config.Path, "bytes", info.Size(), "error", err)
		return
	}
	db.shortenAt.Store(JournalBytesMax)
}

// Prepare prepares a statement for Write's transactions, to be had by their StmtContext. It lives until Close.
func (db *DB) Prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	stmt, err := db.writer.PrepareContext(ctx, query)
	return stmt, translate(err)
}

// Read runs f in a transaction that sees one state of the file from its first statement on. The context that f gets ends
// after the configured time.
func (db *DB) Read(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.config.ReadTimeout)
	defer cancel()
	err := transact(ctx, db.reader, f)
	if err != nil && ctx.Err() != nil { // the driver says only that it was interrupted
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

func transact(ctx context.Context, pool *sql.DB, f func(context.Context, *sql.Tx) error) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return translate(err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := f(ctx, tx); err != nil {
		return translate(err)
	}
	return translate(tx.Commit())
}

// SetBytesMax changes the bound of the file, down to what it has now. Zero: the disk's.
func (db *DB) SetBytesMax(ctx context.Context, bytes int64) error {
	count := int64(1<<32 - 2) // SQLite's own bound
	if bytes > 0 {
		count = pages(bytes)
	}
	var got int64
	if err := db.writer.QueryRowContext(ctx, "PRAGMA max_page_count("+strconv.FormatInt(count, 10)+")").Scan(&got); err != nil {
		return fmt.Errorf("bound the database: %w", translate(err))
	}
	return nil
}

// Bytes is the size of the file in use, its write-ahead log and free pages apart.
func (db *DB) Bytes(ctx context.Context) (int64, error) {
	var used int64
	err := db.Read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		const query = `SELECT (c.page_count - f.freelist_count) * s.page_size
			FROM pragma_page_count() c, pragma_freelist_count() f, pragma_page_size() s`
		return tx.QueryRowContext(ctx, query).Scan(&used)
	})
	if err != nil {
		return 0, fmt.Errorf("measure the database: %w", err)
	}
	return used, nil
}

// Backup writes a whole, checked copy to a path where there is no file yet. It reads one state while writes go on, and has
// no deadline but ctx.
func (db *DB) Backup(ctx context.Context, path string) error {
	pool, err := connect(db.config.name(url.Values{}, nil), 1) // of its own: a reader that may not write cannot, nor in time
	if err == nil {
		_, err = pool.ExecContext(ctx, "VACUUM INTO ?", path)
		err = errors.Join(err, pool.Close())
	}
	if err != nil {
		return fmt.Errorf("back up the database: %w", translate(err))
	}
	return nil
}

// Close waits for what runs and closes the file.
func (db *DB) Close() error {
	err := errors.Join(db.reader.Close(), db.writer.Close())
	if err != nil {
		return fmt.Errorf("close database %s: %w", db.config.Path, translate(err))
	}
	return nil
}

// OpenReadOnly opens a file that is there only to be read, also beside the node that writes it. Migrations are not
// applied, damage is not set aside. The pool is the caller's to close, and every error of it goes through Translate.
func OpenReadOnly(ctx context.Context, path string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	c := Config{BusyTimeout: defaultBusyTimeout, Path: abs}
	pool, err := connect(c.name(url.Values{"mode": {"ro"}}, []string{"query_only(ON)"}), 1)
	if err == nil {
		err = pool.PingContext(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, translate(err))
	}
	return pool, nil
}

// Translate gives an error of a pool made by OpenReadOnly its meaning.
func Translate(err error) error { return translate(err) }
