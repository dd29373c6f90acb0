package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// merge makes one page of the streams of several logs: the next row is the one whose time comes first among the heads. It
// has no memory but the streams' positions, so that pages of any size put together are the same rows in the same order.
type merge struct {
	ctx     context.Context // of the read
	tx      *sql.Tx
	q       *Query
	streams []*stream
	budget  int // rows that may still be looked at
	result  Page
}

func newMerge(ctx context.Context, tx *sql.Tx, q Query, from cursor) (*merge, error) {
	m := &merge{ctx: ctx, tx: tx, q: &q, budget: PageScanMax}
	m.result.CompleteTo = map[Log]uint64{}
	logs, err := m.logs()
	if err != nil {
		return nil, err
	}
	for log := range from {
		if !slices.Contains(logs, log) {
			return nil, &QueryError{"cursor", "it is of other logs"}
		}
	}
	for _, log := range logs {
		st, err := m.extent(log)
		if err != nil {
			return nil, err
		}
		m.result.CompleteTo[log] = st.complete()
		s, err := newStream(ctx, tx, m.q, log, from, st.durable)
		if err != nil {
			return nil, err
		}
		m.streams = append(m.streams, s)
	}
	return m, m.readDropped()
}

// logs are those to read, in order.
func (m *merge) logs() ([]Log, error) {
	if len(m.q.Logs) > 0 {
		logs := slices.Clone(m.q.Logs)
		slices.Sort(logs)
		return slices.Compact(logs), nil
	}
	const query = `SELECT log_id FROM log_position WHERE incarnation = ? ORDER BY log_id LIMIT ?`
	return collect(m.ctx, m.tx, func(rows *sql.Rows) (log Log, err error) { return log, rows.Scan(&log) },
		query, m.q.Incarnation, LogsMax)
}

// extent reads how far a log goes; of one that is not known, nothing is there.
func (m *merge) extent(log Log) (logState, error) {
	var st logState
	const query = `SELECT durable_index FROM log_position WHERE incarnation = ? AND log_id = ?`
	err := m.tx.QueryRowContext(m.ctx, query, m.q.Incarnation, log).Scan(&st.durable)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return st, fmt.Errorf("read position of log %d: %w", log, err)
	}
	if st.gaps, err = readGaps(m.ctx, m.tx, m.q.Incarnation, log); err != nil {
		return st, fmt.Errorf("read gaps of log %d: %w", log, err)
	}
	return st, nil
}

// readDropped says what retention has taken away.
func (m *merge) readDropped() error {
	if m.q.AllTenants {
		return nil
	}
	var before int64
	const query = `SELECT before_ms FROM retention WHERE tenant_id = ?`
	err := m.tx.QueryRowContext(m.ctx, query, m.q.Tenant).Scan(&before)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && before == neverDropped) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read retention: %w", err)
	}
	m.result.DroppedBefore = time.UnixMilli(before).UTC()
	return nil
}

// page takes rows until the page is full, the streams are at their end, or enough rows have been looked at.
func (m *merge) page() (Page, error) {
	for len(m.streams) > 0 && len(m.result.Rows) < m.q.Limit {
		whole, err := m.refill()
		if err != nil {
			return Page{}, err
		}
		next := m.first()
		if !whole || next == nil { // without every head it is not known which comes first
			break
		}
		m.result.Rows = append(m.result.Rows, newRow(next.buffer[0]))
		next.at, next.buffer = next.buffer[0].place(), next.buffer[1:]
	}
	return m.result, m.finish()
}

// refill gives every stream a head if it has any; false: looking for it went beyond the page's bound.
func (m *merge) refill() (bool, error) {
	const scanLeast = 16 // so that every page gets on, whatever the number of logs
	share := max(m.budget/len(m.streams), scanLeast)
	// One more than is needed, so that the end of a single stream is known together with its last row.
	n := max((m.q.Limit-len(m.result.Rows))/len(m.streams), 1) + 1
	whole := true
	for _, s := range m.streams {
		for len(s.buffer) == 0 && !s.done && whole {
			looked, err := s.fill(m.ctx, m.tx, n, min(share, max(m.budget, scanLeast)))
			if err != nil {
				return false, err
			}
			m.budget -= looked
			if len(s.buffer) == 0 {
				s.at = s.scanned
				whole = m.budget > 0
			}
		}
		whole = whole && (len(s.buffer) > 0 || s.done)
	}
	return whole, nil
}

// first is the stream whose head comes next: by time, then by log.
func (m *merge) first() *stream {
	var first *stream
	for _, s := range m.streams {
		if len(s.buffer) > 0 && (first == nil || m.precedes(s, first)) {
			first = s
		}
	}
	return first
}

func (m *merge) precedes(a, b *stream) bool {
	x, y := a.buffer[0].AtMS, b.buffer[0].AtMS
	if m.q.descending() {
		return x > y || (x == y && a.log > b.log)
	}
	return x < y || (x == y && a.log < b.log)
}

// finish says where the search goes on, and what may be missing in this page.
func (m *merge) finish() error {
	end := true
	at := cursor{}
	for _, s := range m.streams {
		end = end && s.done && len(s.buffer) == 0
		at[s.log] = s.at
	}
	if !end {
		m.result.Next = at.text(*m.q)
	}
	for _, s := range m.streams {
		if err := m.findGaps(s); err != nil {
			return err
		}
	}
	return nil
}

// findGaps lists the gaps between the rows that the page went over, and directly beside them.
func (m *merge) findGaps(s *stream) error {
	gaps, err := readGaps(m.ctx, m.tx, m.q.Incarnation, s.log)
	if err != nil || len(gaps) == 0 || s.in.from > s.in.to {
		return err
	}
	over := s.passed()
	const beside = `SELECT
		coalesce((SELECT max(log_index) FROM grant_event WHERE incarnation = ?1 AND log_id = ?2 AND log_index < ?3), 0),
		coalesce((SELECT min(log_index) FROM grant_event WHERE incarnation = ?1 AND log_id = ?2 AND log_index > ?4), ?5)`
	err = m.tx.QueryRowContext(m.ctx, beside, m.q.Incarnation, s.log, over.from, over.to, int64(numberMax)).Scan(&over.from, &over.to)
	if err != nil {
		return fmt.Errorf("look for gaps of log %d: %w", s.log, err)
	}
	for _, g := range gaps {
		if g.meets(over) {
			m.result.Gaps = append(m.result.Gaps, g.gap(s.log))
		}
	}
	return nil
}

// passed are the indexes that the page went over.
func (s *stream) passed() span {
	over := span{max(s.start.index, s.in.from), min(s.at.index, s.in.to)}
	if s.q.descending() {
		over = span{max(s.at.index, s.in.from), min(s.start.index, s.in.to)}
	}
	if s.done && len(s.buffer) == 0 { // to the end of the range
		if s.q.descending() {
			over.from = s.in.from
		} else {
			over.to = s.in.to
		}
	}
	return over
}
