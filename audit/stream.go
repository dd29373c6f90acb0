package audit

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"
)

// stream reads what a query matches in one log, in order of position.
type stream struct {
	log     Log
	q       *Query
	in      span     // the indexes that may match, by the query's times
	start   place    // where the page began
	at      place    // where to go on: behind the last row taken or, with nothing buffered, looked at
	scanned place    // behind what has been looked at
	buffer  []Record // matches looked at and not taken
	done    bool     // nothing lies behind scanned
}

func (q *Query) descending() bool { return q.Order == Descending }

// before reports whether a comes before b in the query's order.
func (q *Query) before(a, b place) bool {
	if q.descending() {
		a, b = b, a
	}
	return a.index < b.index || (a.index == b.index && a.ordinal < b.ordinal)
}

// newStream places a stream where the cursor says, or at the query's beginning.
func newStream(ctx context.Context, tx *sql.Tx, q *Query, log Log, from cursor, durable uint64) (*stream, error) {
	s := &stream{log: log, q: q}
	var err error
	if s.in, err = indexesWithin(ctx, tx, q, log); err != nil {
		return nil, err
	}
	at, going := from[log]
	if !going && q.descending() {
		at = place{index: min(durable+1, numberMax)} // what arrives later is not part of the search
	}
	s.start, s.at, s.scanned = at, at, at
	s.done = s.in.from > s.in.to
	return s, nil
}

// indexesWithin narrows a log to the blocks of entries in which something happened between the query's times.
func indexesWithin(ctx context.Context, tx *sql.Tx, q *Query, log Log) (span, error) {
	if q.From.IsZero() && q.To.IsZero() {
		return span{1, numberMax}, nil
	}
	from, to := q.times()
	var first, last sql.NullInt64
	const query = `SELECT min(block), max(block) FROM time_block
		WHERE incarnation = ? AND log_id = ? AND at_max >= ? AND at_min < ?`
	if err := tx.QueryRowContext(ctx, query, q.Incarnation, log, from, to).Scan(&first, &last); err != nil {
		return span{}, fmt.Errorf("find the time in log %d: %w", log, err)
	}
	if !first.Valid {
		return span{1, 0}, nil
	}
	return span{uint64(max(first.Int64*blockEntries, 1)), uint64(last.Int64*blockEntries + blockEntries - 1)}, nil
}

// times are the query's borders in milliseconds, the first included, the second excluded.
func (q *Query) times() (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !q.From.IsZero() {
		from = ceilMS(q.From)
	}
	if !q.To.IsZero() {
		to = ceilMS(q.To)
	}
	return from, to
}

// ceilMS is the first millisecond that does not lie before a time.
func ceilMS(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// statement is a piece of SQL with its arguments.
type statement struct {
	text strings.Builder
	args []any
}

func (s *statement) add(text string, args ...any) {
	s.text.WriteString(text)
	s.args = append(s.args, args...)
}

// candidates writes the positions to look at, in order: those of the tenant, of its key or token where indexes know them.
func (s *stream) candidates(out *statement) { s.candidatesUntil(out, nil) }

// candidatesUntil ends them with a place, if there is one.
func (s *stream) candidatesUntil(out *statement, last *place) {
	q := s.q
	if q.AllTenants {
		out.add(`SELECT c.tenant_id, c.log_index, c.ordinal FROM grant_event c WHERE c.incarnation = ? AND c.log_id = ?`,
			q.Incarnation, s.log)
	} else {
		out.add(`SELECT c.tenant_id, c.log_index, c.ordinal FROM grant_body c WHERE c.tenant_id = ? AND c.incarnation = ? AND c.log_id = ?`,
			q.Tenant, q.Incarnation, s.log)
		switch {
		case q.Key != "":
			out.add(` AND c.lock_key = ? AND c.lock_key <> ''`, q.Key) // the second lets the partial index be used
		case q.Token != 0:
			out.add(` AND c.token = ? AND c.token > 0`, q.Token)
		}
	}
	comparison, order := ">", ""
	end := s.edge()
	if last != nil {
		end = *last
	}
	in := span{max(s.in.from, s.scanned.index), min(s.in.to, end.index)} // the index is entered where the scan goes on
	if q.descending() {
		comparison, order = "<", " DESC"
		in = span{max(s.in.from, end.index), min(s.in.to, s.scanned.index)}
	}
	out.add(` AND c.log_index BETWEEN ? AND ? AND (c.log_index, c.ordinal) `+comparison+` (?, ?)`,
		in.from, in.to, s.scanned.index, s.scanned.ordinal)
	if last != nil {
		out.add(` AND (?, ?) `+comparison+`= (c.log_index, c.ordinal)`, last.index, last.ordinal)
	}
	out.add(` ORDER BY c.log_index` + order + `, c.ordinal` + order)
}

// edge is behind every place that the stream may come to.
func (s *stream) edge() place {
	if s.q.descending() {
		return place{}
	}
	return place{index: numberMax}
}

// filters writes the conditions on what an event says.
func (q *Query) filters(out *statement) {
	for _, f := range []struct {
		column, value string
	}{{"class", q.Class}, {"lock_key", q.Key}, {"holder", q.Holder}, {"api_key", q.APIKey}} {
		if f.value != "" {
			out.add(` AND b.`+f.column+` = ?`, f.value)
		}
	}
	if q.Token != 0 {
		out.add(` AND b.token = ?`, q.Token)
	}
	if q.KeyPrefix != "" {
		out.add(` AND substr(CAST(b.lock_key AS BLOB), 1, ?) = ?`, len(q.KeyPrefix), []byte(q.KeyPrefix))
	}
	if len(q.Kinds) > 0 {
		out.add(` AND b.kind IN (?` + strings.Repeat(`, ?`, len(q.Kinds)-1) + `)`)
		for _, kind := range q.Kinds {
			out.args = append(out.args, kind)
		}
	}
	if !q.From.IsZero() || !q.To.IsZero() {
		from, to := q.times()
		out.add(` AND b.at_ms >= ? AND b.at_ms < ?`, from, to)
	}
	if q.Text != "" {
		out.add(` AND (instr(b.lock_key, ?) OR instr(b.holder, ?) OR instr(b.by_whom, ?) OR instr(b.note, ?) OR instr(b.reason, ?)
			OR instr(b.class, ?))`, q.Text, q.Text, q.Text, q.Text, q.Text, q.Text)
	}
}

// fill looks at up to scan rows for up to n matches more, and returns how many rows it looked at.
func (s *stream) fill(ctx context.Context, tx *sql.Tx, n, scan int) (int, error) {
	var find statement
	find.add(`SELECT ` + recordColumns + ` FROM (`)
	s.candidates(&find)
	find.add(` LIMIT ?) p CROSS JOIN grant_body b ON b.tenant_id = p.tenant_id AND b.incarnation = ? AND b.log_id = ?
		AND b.log_index = p.log_index AND b.ordinal = p.ordinal CROSS JOIN grant_event e ON e.incarnation = b.incarnation
		AND e.log_id = b.log_id AND e.log_index = b.log_index AND e.ordinal = b.ordinal WHERE true`, scan, s.q.Incarnation, s.log)
	s.q.filters(&find)
	find.add(` LIMIT ?`, n)
	found, err := collect(ctx, tx, func(rows *sql.Rows) (Record, error) { return scanRecord(rows, s.q.Incarnation) },
		find.text.String(), find.args...)
	if err != nil {
		return 0, fmt.Errorf("search log %d: %w", s.log, err)
	}
	if err := s.take(found); err != nil {
		return 0, err
	}
	if len(found) == n {
		return s.lookedAt(ctx, tx, found[n-1].place(), scan)
	}
	return s.lookedAtAll(ctx, tx, scan)
}

func (r *Record) place() place { return place{r.Index, r.Ordinal} }

// take buffers matches. Their order is what the whole paging stands on, so it is looked at.
func (s *stream) take(found []Record) error {
	last := s.scanned
	for i := range found {
		if next := found[i].place(); s.q.before(last, next) {
			last = next
			continue
		}
		return fmt.Errorf("search log %d: rows came out of order", s.log)
	}
	s.buffer = append(s.buffer, found...)
	return nil
}

// lookedAt counts the candidates up to the last match and goes on behind it.
func (s *stream) lookedAt(ctx context.Context, tx *sql.Tx, last place, scan int) (int, error) {
	var counting statement
	counting.add(`SELECT count(*) FROM (`)
	s.candidatesUntil(&counting, &last)
	counting.add(` LIMIT ?)`, scan)
	var looked int
	if err := tx.QueryRowContext(ctx, counting.text.String(), counting.args...).Scan(&looked); err != nil {
		return 0, fmt.Errorf("search log %d: %w", s.log, err)
	}
	s.scanned = last
	return looked, nil
}

// lookedAtAll goes on behind the last candidate of the scan; with fewer candidates than that, the stream is done.
func (s *stream) lookedAtAll(ctx context.Context, tx *sql.Tx, scan int) (int, error) {
	var counting, last statement
	counting.add(`SELECT count(*) FROM (`)
	s.candidates(&counting)
	counting.add(` LIMIT ?)`, scan)
	var looked int
	if err := tx.QueryRowContext(ctx, counting.text.String(), counting.args...).Scan(&looked); err != nil {
		return 0, fmt.Errorf("search log %d: %w", s.log, err)
	}
	if looked < scan {
		s.done = true
		return looked, nil
	}
	last.add(`SELECT p.log_index, p.ordinal FROM (`)
	s.candidates(&last)
	last.add(` LIMIT 1 OFFSET ?) p`, scan-1)
	err := tx.QueryRowContext(ctx, last.text.String(), last.args...).Scan(&s.scanned.index, &s.scanned.ordinal)
	if err != nil {
		return 0, fmt.Errorf("search log %d: %w", s.log, err)
	}
	return scan, nil
}
