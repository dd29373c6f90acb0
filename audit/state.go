package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// span is a range of indexes, both ends included.
type span struct{ from, to uint64 }

func (s span) has(index uint64) bool { return s.from <= index && index <= s.to }
func (s span) meets(o span) bool     { return s.from <= o.to && o.from <= s.to }
func (s span) within(o span) bool    { return o.from <= s.from && s.to <= o.to }
func (s span) minus(o span) (out []span) { // what is left of s
	if !s.meets(o) {
		return []span{s}
	}
	if s.from < o.from {
		out = append(out, span{s.from, o.from - 1})
	}
	if o.to < s.to {
		out = append(out, span{o.to + 1, s.to})
	}
	return out
}

// gapState is a row of the table gap.
type gapState struct {
	span
	why        string
	recordedMS int64
	givenUp    bool
	leaf       sql.NullInt64
}

// logState is how far a log is projected, as the writer knows it.
type logState struct {
	durable  uint64      // every entry up to here is rows or a recorded gap
	numbered uint64      // every row up to here has its leaf
	leaves   uint64      // size of the Merkle log
	peaks    []tlog.Hash // of the whole subtrees that it is made of, the largest first
	gaps     []gapState  // by from; those given up included
}

// open finds the open gaps.
func (st *logState) open() []gapState {
	return slices.DeleteFunc(slices.Clone(st.gaps), func(g gapState) bool { return g.givenUp })
}

// complete is the last index below which no gap is open.
func (st *logState) complete() uint64 {
	for _, g := range st.gaps {
		if !g.givenUp {
			return g.from - 1
		}
	}
	return st.durable
}

// whole reports whether no gap is open and every row has its leaf, so that the next one is numbered at once.
func (st *logState) whole() bool {
	return st.numbered == st.durable && !slices.ContainsFunc(st.gaps, func(g gapState) bool { return !g.givenUp })
}

// gapAt finds the gap that an index lies in.
func (st *logState) gapAt(index uint64) (gapState, bool) {
	for _, g := range st.gaps {
		if g.has(index) {
			return g, true
		}
	}
	return gapState{}, false
}

func (st *logState) clone() *logState {
	c := *st
	c.peaks, c.gaps = slices.Clone(st.peaks), slices.Clone(st.gaps)
	return &c
}

// extent is what of a log's state others than the writer look at, from memory.
type extent struct {
	durable uint64
	open    []span
}

// load reads every log's state anew.
func (s *Store) load(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.reload(ctx)
}

// reload reads the states that the writer goes by. The caller holds writing.
func (s *Store) reload(ctx context.Context) error {
	logs := map[Log]*logState{}
	err := s.db.Read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		names, err := s.readLogs(ctx, tx)
		if err != nil {
			return err
		}
		for _, log := range names {
			if logs[log], err = s.readState(ctx, tx, log); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read audit positions: %w", err)
	}
	s.logs = logs
	for log, st := range logs {
		s.publish(log, st)
	}
	return nil
}

// publish lets everybody see a committed state.
func (s *Store) publish(log Log, st *logState) {
	x := extent{durable: st.durable}
	for _, g := range st.open() {
		x.open = append(x.open, g.span)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published[log] = x
}

// extent is a log's committed state, from memory.
func (s *Store) extent(log Log) extent {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.published[log]
}

func (s *Store) readLogs(ctx context.Context, tx *sql.Tx) ([]Log, error) {
	const query = `SELECT log_id FROM log_position WHERE incarnation = ? ORDER BY log_id`
	return collect(ctx, tx, func(rows *sql.Rows) (log Log, err error) {
		return log, rows.Scan(&log)
	}, query, s.incarnation)
}

// readState reads a log's state; one that is not known has the zero state.
func (s *Store) readState(ctx context.Context, tx *sql.Tx, log Log) (*logState, error) {
	st := &logState{}
	const query = `SELECT durable_index, numbered_index, leaf_count FROM log_position WHERE incarnation = ? AND log_id = ?`
	err := tx.QueryRowContext(ctx, query, s.incarnation, log).Scan(&st.durable, &st.numbered, &st.leaves)
	if errors.Is(err, sql.ErrNoRows) {
		return st, nil
	}
	if err != nil {
		return nil, err
	}
	if st.gaps, err = readGaps(ctx, tx, s.incarnation, log); err != nil {
		return nil, err
	}
	st.peaks, err = readPeaks(ctx, tx, s.incarnation, log, st.leaves)
	return st, err
}

func readGaps(ctx context.Context, tx *sql.Tx, incarnation uint64, log Log) ([]gapState, error) {
	const query = `SELECT from_index, to_index, why, recorded_ms, given_up, leaf FROM gap
		WHERE incarnation = ? AND log_id = ? ORDER BY from_index`
	return collect(ctx, tx, func(rows *sql.Rows) (g gapState, err error) {
		return g, rows.Scan(&g.from, &g.to, &g.why, &g.recordedMS, &g.givenUp, &g.leaf)
	}, query, incarnation, log)
}

// collect reads all rows of a query whose answer is bounded.
func collect[T any](ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
