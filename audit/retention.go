package audit

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"
)

const (
	// retainStep bounds the bodies that one transaction drops or erases, retainScan the rows that it looks at for them.
	retainStep = 512
	retainScan = 20_000
	// neverDropped is the border of a tenant of whose events none was dropped.
	neverDropped = math.MinInt64
)

// Retain drops what the events of each tenant say once they are older than the days that keep returns for it; 0 or less
// keeps them for ever. Positions, hashes and proofs stay. It works in bounded steps, so that the projection goes on beside
// it, and returns how many events it dropped, also with an error: call it again. The empty tenant is the platform's own.
func (s *Store) Retain(ctx context.Context, keep func(tenant string) (days int), now time.Time) (int, error) {
	tenants, err := s.tenants(ctx)
	if err != nil {
		return 0, fmt.Errorf("drop old audit events: %w", err)
	}
	total := 0
	for _, tenant := range tenants {
		days := keep(tenant)
		if days <= 0 {
			continue
		}
		before := now.Add(-time.Duration(min(days, 100_000)) * 24 * time.Hour).UnixMilli() // a Duration reaches that far
		n, err := s.sweep(ctx, dropping(tenant, before))
		total += n
		if err != nil {
			return total, fmt.Errorf("drop old audit events of tenant %q: %w", tenant, err)
		}
	}
	return total, nil
}

// EraseText erases holder, by and note of every event of a tenant in which the holder, or by, is exactly text; the salt goes
// with them. What else the events say, their hashes and their proofs stay. It concerns this node only: let every node do it.
// It returns how many events it erased, also with an error.
func (s *Store) EraseText(ctx context.Context, tenant, text string) (int, error) {
	n, err := s.sweep(ctx, erasing(tenant, text))
	if err != nil {
		return n, fmt.Errorf("erase personal text of tenant %q: %w", tenant, err)
	}
	return n, nil
}

// tenants are those of whom something is stored, found by skipping from one to the next.
func (s *Store) tenants(ctx context.Context) (all []string, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		const query = `WITH RECURSIVE t (id) AS (SELECT min(tenant_id) FROM grant_body
			UNION ALL SELECT (SELECT min(tenant_id) FROM grant_body WHERE tenant_id > t.id) FROM t WHERE t.id IS NOT NULL)
			SELECT id FROM t WHERE id IS NOT NULL`
		all, err = collect(ctx, tx, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) }, query)
		return err
	})
	return all, err
}

// sweeping is a change of a tenant's bodies that their triggers allow only while the tenant's row of the table retention
// is open for it.
type sweeping struct {
	tenant   string
	openFor  string
	beforeMS int64  // of the marker: how far dropping may go
	where    string // which bodies, as a condition on b
	args     []any
	change   string // what is done to the one with the position that follows
	narrow   bool   // leave out blocks of entries that are all younger
}

func dropping(tenant string, before int64) sweeping {
	return sweeping{tenant: tenant, openFor: "drop", beforeMS: before, where: `b.at_ms < ?`, args: []any{before},
		change: `DELETE FROM grant_body`, narrow: true}
}

func erasing(tenant, text string) sweeping {
	return sweeping{tenant: tenant, openFor: "erase", beforeMS: neverDropped, where: `(b.holder = ? OR b.by_whom = ?)`,
		args: []any{text, text}, change: `UPDATE grant_body SET salt = NULL, holder = NULL, by_whom = NULL, note = NULL`}
}

// bodyPosition is where a body lies within its tenant.
type bodyPosition struct {
	incarnation uint64
	log         Log
	place
}

// sweep goes over a tenant's bodies in order, finding them beside the writer and changing them in steps of their own.
func (s *Store) sweep(ctx context.Context, c sweeping) (int, error) {
	total := 0
	after := bodyPosition{}
	for more := true; more; {
		var hits []bodyPosition
		err := s.db.Read(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			hits, after, more, err = c.find(ctx, tx, after)
			return err
		})
		if err != nil {
			return total, err
		}
		if len(hits) == 0 {
			continue
		}
		if err := s.update(ctx, func(w *write) error { return w.sweep(c, hits) }); err != nil {
			return total, err
		}
		total += len(hits)
	}
	return total, nil
}

// find looks at up to retainScan bodies for up to retainStep that are concerned.
func (c sweeping) find(ctx context.Context, tx *sql.Tx, after bodyPosition) ([]bodyPosition, bodyPosition, bool, error) {
	var list statement
	list.add(`SELECT b.incarnation, b.log_id, b.log_index, b.ordinal, `+c.where+` FROM grant_body b WHERE b.tenant_id = ?
		AND (b.incarnation, b.log_id, b.log_index, b.ordinal) > (?, ?, ?, ?)`, append(append([]any{}, c.args...),
		c.tenant, after.incarnation, after.log, after.index, after.ordinal)...)
	if c.narrow {
		list.add(` AND EXISTS (SELECT 1 FROM time_block t WHERE t.incarnation = b.incarnation AND t.log_id = b.log_id
			AND t.block = b.log_index / 1024 AND t.at_min < ?)`, c.beforeMS)
	}
	list.add(` ORDER BY b.incarnation, b.log_id, b.log_index, b.ordinal LIMIT ?`, retainScan)
	rows, err := tx.QueryContext(ctx, list.text.String(), list.args...)
	if err != nil {
		return nil, after, false, err
	}
	defer rows.Close()
	var hits []bodyPosition
	looked := 0
	for ; len(hits) < retainStep && rows.Next(); looked++ {
		var hit sql.NullBool // a condition on erased text is null
		if err := rows.Scan(&after.incarnation, &after.log, &after.index, &after.ordinal, &hit); err != nil {
			return nil, after, false, err
		}
		if hit.Bool {
			hits = append(hits, after)
		}
	}
	return hits, after, looked == retainScan || len(hits) == retainStep, rows.Err()
}

// sweep changes bodies that were found, with the tenant's marker open for it.
func (w *write) sweep(c sweeping, hits []bodyPosition) error {
	const open = `INSERT INTO retention (tenant_id, before_ms, done_ms, open_for) VALUES (?, ?, ?, ?) ON CONFLICT (tenant_id)
		DO UPDATE SET before_ms = max(before_ms, excluded.before_ms), done_ms = excluded.done_ms, open_for = excluded.open_for`
	if _, err := w.exec(open, c.tenant, c.beforeMS, w.nowMS, c.openFor); err != nil {
		return fmt.Errorf("open retention: %w", err)
	}
	query := c.change + ` WHERE tenant_id = ? AND incarnation = ? AND log_id = ? AND log_index = ? AND ordinal = ?`
	for _, at := range hits {
		if _, err := w.exec(query, c.tenant, at.incarnation, at.log, at.index, at.ordinal); err != nil {
			return fmt.Errorf("%s event %d/%d/%d: %w", c.openFor, at.log, at.index, at.ordinal, err)
		}
	}
	if _, err := w.exec(`UPDATE retention SET open_for = '' WHERE tenant_id = ?`, c.tenant); err != nil {
		return fmt.Errorf("close retention: %w", err)
	}
	return nil
}
