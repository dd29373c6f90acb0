package audit

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// numberStep bounds the leaves that one transaction adds for rows stored earlier, behind a gap that is closed now.
const numberStep = 2048

// Number goes on where the numbering behind a gap that is closed now was left, by the end of a context or of the process. In a
// log that goes on, Append does so as well; one that is at rest has nobody else.
func (s *Store) Number(ctx context.Context) error {
	logs, err := s.unfinished(ctx)
	if err != nil {
		return fmt.Errorf("number the audit's rows: %w", err)
	}
	for _, log := range logs {
		if err := s.numberAll(ctx, log); err != nil {
			return err
		}
	}
	return nil
}

// unfinished are the logs with rows, or gaps given up, that could have their leaf and have none.
func (s *Store) unfinished(ctx context.Context) (logs []Log, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.logs == nil { // the last write failed
		if err := s.reload(ctx); err != nil {
			return nil, err
		}
	}
	for log, st := range s.logs {
		if st.numbered < st.complete() {
			logs = append(logs, log)
		}
	}
	slices.Sort(logs)
	return logs, nil
}

// numberAll gives every row of a log that no open gap keeps from it its leaf, in steps.
func (s *Store) numberAll(ctx context.Context, log Log) error {
	for more := true; more; {
		err := s.update(ctx, func(w *write) (err error) {
			more, err = w.number(log, w.log(log))
			return err
		})
		if err != nil {
			return fmt.Errorf("number the rows of log %d: %w", log, err)
		}
	}
	return nil
}

// numberTouched goes on where numbering was left, for instance by a stop of the process.
func (w *write) numberTouched() error {
	for _, log := range slices.Sorted(maps.Keys(w.touched)) {
		if _, err := w.number(log, w.touched[log]); err != nil {
			return err
		}
	}
	return nil
}

// waiting is a leaf to come.
type waiting struct {
	index   uint64
	ordinal uint32
	hash    Hash
	gap     bool
}

// number adds leaves in order of position, up to the first open gap, at most numberStep of them. It reports whether there
// are more.
func (w *write) number(log Log, st *logState) (more bool, err error) {
	end := st.complete()
	if st.numbered >= end {
		return false, nil
	}
	rows, err := w.unnumbered(log, span{st.numbered + 1, end})
	if err != nil {
		return false, err
	}
	if more = len(rows) > numberStep; more {
		end = rows[len(rows)-1].index - 1 // of that entry there may be more to come
	}
	for _, g := range st.gaps {
		if g.givenUp && !g.leaf.Valid && g.to <= end {
			rows = append(rows, waiting{index: g.from, gap: true, hash: tlog.RecordHash(gapLeaf(w.incarnation, log, g.from, g.to))})
		}
	}
	slices.SortStableFunc(rows, byPosition)
	for _, r := range rows {
		if err := w.giveLeaf(log, st, r); err != nil {
			return false, err
		}
	}
	st.numbered = max(st.numbered, end)
	return more, nil
}

func byPosition(a, b waiting) int {
	switch {
	case a.index != b.index && a.index < b.index, a.index == b.index && a.ordinal < b.ordinal:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// unnumbered reads rows of a range that have no leaf: one more than a step, if there are.
func (w *write) unnumbered(log Log, in span) ([]waiting, error) {
	const query = `SELECT log_index, ordinal, content_hash FROM grant_event
		WHERE incarnation = ? AND log_id = ? AND log_index BETWEEN ? AND ? AND leaf IS NULL
		ORDER BY log_index, ordinal LIMIT ?`
	rows, err := collect(w.ctx, w.tx, func(rows *sql.Rows) (r waiting, err error) {
		var raw sql.RawBytes
		if err := rows.Scan(&r.index, &r.ordinal, &raw); err != nil {
			return r, err
		}
		r.hash, err = asHash(raw)
		return r, err
	}, query, w.incarnation, log, in.from, in.to, numberStep+1)
	if err != nil {
		return nil, fmt.Errorf("find rows without a leaf: %w", err)
	}
	return rows, nil
}

func (w *write) giveLeaf(log Log, st *logState, r waiting) error {
	leaf := int64(st.leaves)
	if r.gap {
		const query = `UPDATE gap SET leaf = ? WHERE incarnation = ? AND log_id = ? AND from_index = ? AND given_up = 1`
		if _, err := w.exec(query, leaf, w.incarnation, log, r.index); err != nil {
			return fmt.Errorf("number gap: %w", err)
		}
		for i := range st.gaps {
			if st.gaps[i].from == r.index {
				st.gaps[i].leaf = sql.NullInt64{Int64: leaf, Valid: true}
			}
		}
	} else {
		const query = `UPDATE grant_event SET leaf = ? WHERE incarnation = ? AND log_id = ? AND log_index = ? AND ordinal = ?`
		if _, err := w.exec(query, leaf, w.incarnation, log, r.index, r.ordinal); err != nil {
			return fmt.Errorf("number row: %w", err)
		}
	}
	return w.addLeaf(st, log, r.hash)
}
