package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// Gap is a range of entries, both ends included, that this node knows it does not have.
type Gap struct {
	Log           Log     `json:"log"`
	From          uint64  `json:"from"`
	To            uint64  `json:"to"`
	Why           string  `json:"why"`
	RecordedMS    int64   `json:"recorded_ms"`    // this node's wall time
	Unrecoverable bool    `json:"unrecoverable"`  // nobody has it any more; it stays for ever
	Leaf          *uint64 `json:"leaf,omitempty"` // of an unrecoverable gap, once the log is numbered to here
}

func (g gapState) gap(log Log) Gap {
	out := Gap{Log: log, From: g.from, To: g.to, Why: g.why, RecordedMS: g.recordedMS, Unrecoverable: g.givenUp}
	if g.leaf.Valid {
		n := uint64(g.leaf.Int64)
		out.Leaf = &n
	}
	return out
}

// ErrUnknownGap says that no open gap covers the range.
var ErrUnknownGap = errors.New("no such gap is open")

// RecordGap notes that the entries from..to are missing, as far as they are above what is durable already: what is rows or
// a gap stays what it is. Durable then stands at to, if it was below.
func (s *Store) RecordGap(ctx context.Context, log Log, from, to uint64, why string) error {
	if from == 0 || to < from || to > numberMax {
		return fmt.Errorf("record audit gap %d..%d of log %d: %w: no such range", from, to, log, ErrInvalidEntry)
	}
	recorded := false
	err := s.update(ctx, func(w *write) error {
		st := w.log(log)
		if to <= st.durable {
			return nil
		}
		recorded = true
		// What lies between durable and from has not come either.
		if err := w.addGap(st, log, span{st.durable + 1, to}, why); err != nil {
			return err
		}
		st.durable = to
		return nil
	})
	if err != nil {
		return fmt.Errorf("record audit gap %d..%d of log %d: %w", from, to, log, err)
	}
	if recorded {
		s.logger.Warn("audit has a gap", "log", log, "from", from, "to", to, "why", why)
	}
	return nil
}

// Gaps are all gaps of this incarnation, by log and position: the open ones, and those given up.
func (s *Store) Gaps(ctx context.Context) ([]Gap, error) {
	var all []Gap
	err := s.db.Read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		logs, err := s.readLogs(ctx, tx)
		if err != nil {
			return err
		}
		for _, log := range logs {
			gaps, err := readGaps(ctx, tx, s.incarnation, log)
			if err != nil {
				return err
			}
			for _, g := range gaps {
				all = append(all, g.gap(log))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list audit gaps: %w", err)
	}
	return all, nil
}

// GiveUp makes an open gap, or a range within one, unrecoverable: it stays for ever and becomes one leaf of the Merkle log,
// which then goes on. Nodes that give up different ranges have different roots from there on. A range that no open gap covers
// is ErrUnknownGap.
func (s *Store) GiveUp(ctx context.Context, g Gap) error {
	lost := span{g.From, g.To}
	err := s.update(ctx, func(w *write) error {
		st := w.log(g.Log)
		i := slices.IndexFunc(st.gaps, func(o gapState) bool { return !o.givenUp && lost.within(o.span) })
		if i < 0 || g.To < g.From {
			return ErrUnknownGap
		}
		open := st.gaps[i]
		if err := w.closeGap(st, g.Log, lost); err != nil {
			return err
		}
		open.span, open.givenUp = lost, true
		return w.putGap(st, g.Log, open)
	})
	if err != nil {
		return fmt.Errorf("give up audit gap %d..%d of log %d: %w", g.From, g.To, g.Log, err)
	}
	s.logger.Error("audit gap is given up", "log", g.Log, "from", g.From, "to", g.To)
	return s.numberAll(ctx, g.Log)
}

// addGap records entries above what is durable as missing. A gap that directly follows an open one of the same cause
// makes that one longer.
func (w *write) addGap(st *logState, log Log, missing span, why string) error {
	if n := len(st.gaps); n > 0 {
		last := st.gaps[n-1]
		if !last.givenUp && last.to+1 == missing.from && last.why == why {
			const query = `UPDATE gap SET to_index = ? WHERE incarnation = ? AND log_id = ? AND from_index = ?`
			if _, err := w.exec(query, missing.to, w.incarnation, log, last.from); err != nil {
				return fmt.Errorf("extend gap: %w", err)
			}
			st.gaps[n-1].to = missing.to
			return nil
		}
	}
	return w.putGap(st, log, gapState{span: missing, why: why, recordedMS: w.nowMS})
}

func (w *write) putGap(st *logState, log Log, g gapState) error {
	const query = `INSERT INTO gap (incarnation, log_id, from_index, to_index, why, recorded_ms, given_up, leaf)
		VALUES (?, ?, ?, ?, ?, ?, ?, NULL)`
	if _, err := w.exec(query, w.incarnation, log, g.from, g.to, g.why, g.recordedMS, g.givenUp); err != nil {
		return fmt.Errorf("record gap: %w", err)
	}
	i, _ := slices.BinarySearchFunc(st.gaps, g.from, func(o gapState, from uint64) int {
		if o.from < from {
			return -1
		}
		return 1
	})
	st.gaps = slices.Insert(st.gaps, i, g)
	return nil
}

// closeGap takes a range out of the open gaps: it is filled.
func (w *write) closeGap(st *logState, log Log, filled span) error {
	for _, g := range st.open() {
		if !g.meets(filled) {
			continue
		}
		const query = `DELETE FROM gap WHERE incarnation = ? AND log_id = ? AND from_index = ?`
		if _, err := w.exec(query, w.incarnation, log, g.from); err != nil {
			return fmt.Errorf("close gap: %w", err)
		}
		st.gaps = slices.DeleteFunc(st.gaps, func(o gapState) bool { return o.from == g.from })
		for _, rest := range g.minus(filled) {
			left := g
			left.span = rest
			if err := w.putGap(st, log, left); err != nil {
				return err
			}
		}
	}
	return nil
}
