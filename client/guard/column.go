package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Column guards rows of the caller's own table by a column of theirs: the fence stands in the row that it protects. The
// row must exist before anybody enters it. The column is BIGINT (SQLite: INTEGER), NULL or 0 where nobody has entered yet.
// Everything said of SQL holds here too: the row's lock, the isolation levels, which errors to repeat after.
type Column struct {
	Dialect   Dialect
	Table     string             // a plain name, with its schema if need be
	ID        string             // the column that names a row, unique
	Fence     string             // the column of the fence; empty: fence
	Isolation sql.IsolationLevel // of the transactions that Do begins; zero: the database's own default
	Reporting Reporting          // the resource's name is the id, as text
}

// Do begins a transaction, enters as its first statement, runs work and commits: see SQL.Do.
func (c Column) Do(ctx context.Context, db *sql.DB, id any, token uint64, work func(*Entered) error) error {
	return inTransaction(ctx, db, c.Isolation, work, func(tx *sql.Tx) (*Entered, error) { return c.Enter(ctx, tx, id, token) })
}

// Enter raises the row's fence to token, as the first statement of the caller's transaction: see SQL.Enter. Refused with
// ErrStale and ErrNoToken; ErrNoRow says that no row has the id.
func (c Column) Enter(ctx context.Context, tx *sql.Tx, id any, token uint64) (*Entered, error) {
	return c.observed(tx, id, token, c.enter(ctx, tx, id, token))
}

func (c Column) enter(ctx context.Context, tx *sql.Tx, id any, token uint64) error {
	if err := c.ask(token); err != nil {
		return err
	}
	return c.entering(id, token).enter(ctx, tx, fmt.Sprint(id), token)
}

// Check says whether token is the highest that has entered the row, and keeps others from entering until the transaction
// ends: see SQL.Check. Refused with ErrStale, ErrNotEntered and ErrNoToken; ErrNoRow says that no row has the id.
func (c Column) Check(ctx context.Context, tx *sql.Tx, id any, token uint64) (*Entered, error) {
	return c.observed(tx, id, token, c.check(ctx, tx, id, token))
}

func (c Column) check(ctx context.Context, tx *sql.Tx, id any, token uint64) error {
	if err := c.ask(token); err != nil {
		return err
	}
	highest, err := statements{noRowErr: ErrNoRow}.fence(tx.QueryRowContext(ctx, c.checking(), id))
	if err != nil {
		return fmt.Errorf("guard: check row %v with token %d: %w", id, token, err)
	}
	return decideCheck(fmt.Sprint(id), token, highest)
}

func (c Column) observed(tx *sql.Tx, id any, token uint64, err error) (*Entered, error) {
	resource := fmt.Sprint(id)
	c.Reporting.observe(resource, err)
	if err != nil {
		return nil, err
	}
	return &Entered{tx, resource, token}, nil
}

func (c Column) ask(token uint64) error {
	return errors.Join(c.Dialect.check(), checkName("table", c.Table, true), checkName("id column", c.ID, false),
		checkName("fence column", c.fence(), false), checkToken(token))
}

func (c Column) fence() string {
	if c.Fence == "" {
		return "fence"
	}
	return c.Fence
}

// now is the fence as a number, 0 where nobody has entered.
func (c Column) now() string { return "COALESCE(" + c.fence() + ", 0)" }

func (c Column) entering(id any, token uint64) statements {
	raise := fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s = %s", c.Table, c.fence(),
		c.Dialect.greatest(c.now(), c.Dialect.param(1)), c.ID, c.Dialect.param(2))
	s := statements{raise: raise + " RETURNING " + c.fence(), raising: []any{int64(token), id}, noRowErr: ErrNoRow}
	if c.Dialect == MySQL {
		s.raise, s.read, s.reading = raise, c.lockingRead(), []any{id}
	}
	return s
}

func (c Column) checking() string {
	if c.Dialect == SQLite {
		return fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s = ? RETURNING %s", c.Table, c.fence(), c.fence(), c.ID, c.now())
	}
	return c.lockingRead()
}

func (c Column) lockingRead() string {
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s FOR UPDATE", c.now(), c.Table, c.ID, c.Dialect.param(1))
}
