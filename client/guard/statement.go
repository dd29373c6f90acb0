package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// statements enter and check a fence that is a row. Each takes the row's lock until the transaction ends, before it
// learns what the fence is, and answers the fence as it stands behind that lock. None trusts a count of changed rows: what
// it counts depends on the connection's settings. None trusts a snapshot: see each dialect.
type statements struct {
	// raise lifts the fence to the token if that is higher, and answers the fence unless read is set.
	raise    string
	raising  []any
	read     string // answers the fence under the row's lock; empty: raise did
	reading  []any
	noRowErr error // nil: that raise leaves no row cannot happen
}

// enter raises and judges.
func (s statements) enter(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	highest, err := s.run(ctx, tx)
	if err != nil {
		return fmt.Errorf("guard: enter %s with token %d: %w", resource, token, err)
	}
	if highest < token { // somebody's trigger, proxy or table definition: never take it for a yes
		return fmt.Errorf("guard: enter %s with token %d: the fence stands at %d afterwards", resource, token, highest)
	}
	return decideEnter(resource, token, highest)
}

func (s statements) run(ctx context.Context, tx *sql.Tx) (uint64, error) {
	if s.read == "" {
		return s.fence(tx.QueryRowContext(ctx, s.raise, s.raising...))
	}
	if _, err := tx.ExecContext(ctx, s.raise, s.raising...); err != nil {
		return 0, err
	}
	return s.fence(tx.QueryRowContext(ctx, s.read, s.reading...))
}

// fence reads the fence out of an answer.
func (s statements) fence(row *sql.Row) (uint64, error) {
	var fence int64
	err := row.Scan(&fence)
	if errors.Is(err, sql.ErrNoRows) && s.noRowErr != nil {
		return 0, s.noRowErr
	}
	if err != nil {
		return 0, err
	}
	if fence < 0 || fence > TokenMax {
		return 0, fmt.Errorf("the stored fence %d is no token", fence)
	}
	return uint64(fence), nil
}
