package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// SQL guards resources by a table of fences, one row for each, in the database that holds what they protect. The check
// and the work are one transaction, so that the fence is as durable as the work. Everything here is a value; safe for
// concurrent use. It imports no driver: any of database/sql will do.
//
// Errors that are no refusal leave the question open, and the transaction must be rolled back and repeated from its
// start. Expected ones are serialization failures and deadlocks (PostgreSQL 40001 and 40P01; MariaDB and MySQL 1213, 1205
// and 1020) and SQLITE_BUSY. Repeating only the statement is no use, least of all for SQLITE_BUSY_SNAPSHOT, which says
// that the transaction read before it entered and what it read is old.
type SQL struct {
	Dialect Dialect
	// Table is the table of fences, made by Schema: a plain name, with its schema if need be. Tenants of a lock service
	// have tokens of their own, so two tenants must not share a table.
	Table     string
	Isolation sql.IsolationLevel // of the transactions that Do begins; zero: the database's own default
	Reporting Reporting
}

// Entered is the proof that a transaction has entered a resource. Functions that change the resource should ask for an
// *Entered instead of a *sql.Tx, so that they cannot be called without. It ends with the transaction, and is for one
// goroutine at a time, like the transaction.
type Entered struct {
	tx       *sql.Tx
	resource string
	token    uint64
}

// Tx is the transaction that entered.
func (e *Entered) Tx() *sql.Tx { return e.tx }

// Token is the token that entered.
func (e *Entered) Token() uint64 { return e.token }

// Resource is the name of what was entered.
func (e *Entered) Resource() string { return e.resource }

// Schema is the CREATE TABLE statement for the table of fences. Resource names are compared byte for byte.
func (s SQL) Schema() (string, error) {
	if err := s.validate(); err != nil {
		return "", err
	}
	format := map[Dialect]string{
		SQLite: `CREATE TABLE IF NOT EXISTS %s (
    resource TEXT    NOT NULL PRIMARY KEY,
    fence    INTEGER NOT NULL CHECK (fence BETWEEN 1 AND 9007199254740991)
) STRICT, WITHOUT ROWID`,
		Postgres: `CREATE TABLE IF NOT EXISTS %s (
    resource TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    fence    BIGINT           NOT NULL CHECK (fence BETWEEN 1 AND 9007199254740991)
)`,
		MySQL: `CREATE TABLE IF NOT EXISTS %s (
    resource VARBINARY(512) NOT NULL PRIMARY KEY,
    fence    BIGINT         NOT NULL CHECK (fence BETWEEN 1 AND 9007199254740991)
) ENGINE=InnoDB`,
	}[s.Dialect]
	return fmt.Sprintf(format, s.Table), nil
}

// Do begins a transaction, enters as its first statement, runs work and commits. Whatever work returns or panics with,
// the transaction ends. The error is Enter's, work's as it is, or that of beginning or committing; after a failed commit
// the work may have been stored. Do repeats nothing.
func (s SQL) Do(ctx context.Context, db *sql.DB, resource string, token uint64, work func(*Entered) error) error {
	return inTransaction(ctx, db, s.Isolation, work, func(tx *sql.Tx) (*Entered, error) {
		return s.Enter(ctx, tx, resource, token)
	})
}

// Enter raises the resource's fence to token, as the first statement of the caller's transaction, before it reads what it
// will change. It waits for other transactions that have entered, and holds the fence until this one ends: of two holders
// the second one decides when the first has committed or rolled back, so the resource is never changed by both at once.
// Entering again with the same token is accepted. What is rolled back has not entered.
//
// Refused with ErrStale and ErrNoToken, at every isolation level; roll back then. It never reads an old snapshot: where the
// database cannot see past one it fails instead, see SQL. ErrResource says that the name cannot be looked up.
func (s SQL) Enter(ctx context.Context, tx *sql.Tx, resource string, token uint64) (*Entered, error) {
	err := s.enter(ctx, tx, resource, token)
	s.Reporting.observe(resource, err)
	if err != nil {
		return nil, err
	}
	return &Entered{tx, resource, token}, nil
}

func (s SQL) enter(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := s.ask(resource, token); err != nil {
		return err
	}
	return s.entering(resource, token).enter(ctx, tx, resource, token)
}

// Check says whether token is the highest that has entered, and keeps others from entering until the transaction ends. It
// is for a holder's later transactions; one that has entered needs no Check. Refused with ErrStale, ErrNotEntered and
// ErrNoToken; all else is as with Enter.
func (s SQL) Check(ctx context.Context, tx *sql.Tx, resource string, token uint64) (*Entered, error) {
	err := s.check(ctx, tx, resource, token)
	s.Reporting.observe(resource, err)
	if err != nil {
		return nil, err
	}
	return &Entered{tx, resource, token}, nil
}

func (s SQL) check(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := s.ask(resource, token); err != nil {
		return err
	}
	highest, err := statements{}.fence(tx.QueryRowContext(ctx, s.checking(), s.name(resource)))
	if err != nil && !errors.Is(err, sql.ErrNoRows) { // without a row nobody has entered, and the fence is 0
		return fmt.Errorf("guard: check %s with token %d: %w", resource, token, err)
	}
	return decideCheck(resource, token, highest)
}

func (s SQL) validate() error {
	if err := s.Dialect.check(); err != nil {
		return err
	}
	return checkName("table", s.Table, true)
}

// ask refuses questions that no database need be asked.
func (s SQL) ask(resource string, token uint64) error {
	if err := s.validate(); err != nil {
		return err
	}
	if err := checkResource(resource); err != nil {
		return err
	}
	return checkToken(token)
}

// entering is one statement that inserts or raises, and so locks the row whether or not it changes it.
//
// PostgreSQL waits for the row and evaluates GREATEST on its newest version, or, at REPEATABLE READ and above, fails if
// that is newer than the snapshot. SQLite makes the transaction a writing one, of which there is one at a time. MariaDB
// and MySQL always write to the newest version; they cannot answer it in all releases, so a locking read follows, which
// sees the newest version too and not the snapshot.
func (s SQL) entering(resource string, token uint64) statements {
	args := []any{s.name(resource), int64(token)}
	insert := fmt.Sprintf("INSERT INTO %s", s.Table)
	values := fmt.Sprintf(" (resource, fence) VALUES (%s, %s)", s.Dialect.param(1), s.Dialect.param(2))
	switch s.Dialect {
	case MySQL:
		return statements{raise: insert + values + " ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))", raising: args,
			read: s.lockingRead(), reading: args[:1]}
	case Postgres:
		insert += " AS f"
		values += " ON CONFLICT (resource) DO UPDATE SET fence = GREATEST(f.fence, excluded.fence) RETURNING f.fence"
	default:
		values += " ON CONFLICT (resource) DO UPDATE SET fence = max(fence, excluded.fence) RETURNING fence"
	}
	return statements{raise: insert + values, raising: args}
}

// checking answers the fence under the row's lock. SQLite has no locks of rows; an update that changes nothing makes the
// transaction a writing one.
func (s SQL) checking() string {
	if s.Dialect == SQLite {
		return fmt.Sprintf("UPDATE %s SET fence = fence WHERE resource = ? RETURNING fence", s.Table)
	}
	return s.lockingRead()
}

func (s SQL) lockingRead() string {
	return fmt.Sprintf("SELECT fence FROM %s WHERE resource = %s FOR UPDATE", s.Table, s.Dialect.param(1))
}

// name is the resource as the column's type has it: bytes, where text would be converted from the connection's character set.
func (s SQL) name(resource string) any {
	if s.Dialect == MySQL {
		return []byte(resource)
	}
	return resource
}

// inTransaction begins, enters, works and commits, or rolls back.
func inTransaction(ctx context.Context, db *sql.DB, isolation sql.IsolationLevel, work func(*Entered) error,
	enter func(*sql.Tx) (*Entered, error)) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	if err != nil {
		return fmt.Errorf("guard: begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing once it is committed
	entered, err := enter(tx)
	if err != nil {
		return err
	}
	if err := work(entered); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("guard: commit with token %d: %w", entered.token, err)
	}
	return nil
}
