package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// ErrContentDiffers says that a position has another content than it had before. The node's copy of the log, or its audit,
// is not what the others have: stop projecting the log and alarm.
var ErrContentDiffers = errors.New("audit has another content at this position")

// Append stores what entries led to, in one transaction. Entries of one log rise. An entry that is known already must have
// the same content, else nothing is stored and the error, an [*EntryError], is ErrContentDiffers. Indexes that no entry
// covers are recorded as a gap; an entry that lies in an open gap fills its place there, one in a gap that was given up
// comes too late and changes nothing. What can never be stored is ErrInvalidEntry, an [*EntryError] as well. After any other
// error, such as ErrFull, the same call may be repeated.
func (s *Store) Append(ctx context.Context, entries []Entry) error {
	for _, e := range entries {
		if err := e.validate(); err != nil {
			return fmt.Errorf("append to audit: %w", err)
		}
	}
	err := s.update(ctx, func(w *write) error {
		for _, e := range entries {
			if err := w.entry(e); err != nil {
				return err
			}
		}
		return w.numberTouched()
	})
	if err != nil {
		return fmt.Errorf("append to audit: %w", err)
	}
	return nil
}

// Begin says where a log begins on a node that has nothing of it: entries below index are none of its business and no gap.
// For a log that has begun it does nothing.
func (s *Store) Begin(ctx context.Context, log Log, index uint64) error {
	if index == 0 || index > numberMax || s.extent(log).durable > 0 {
		return nil
	}
	err := s.update(ctx, func(w *write) error {
		if st := w.log(log); st.durable == 0 {
			st.durable, st.numbered = index-1, index-1
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("begin audit of log %d: %w", log, err)
	}
	return nil
}

func (w *write) entry(e Entry) error {
	st := w.log(e.Log)
	if err := w.compareEmpty(e.Log, span{e.first(), min(e.Index-1, st.durable)}); err != nil {
		return err
	}
	if e.Index <= st.durable {
		return w.repeated(st, e)
	}
	if from := e.first(); from > st.durable+1 {
		if err := w.addGap(st, e.Log, span{st.durable + 1, from - 1}, "the entries did not come"); err != nil {
			return err
		}
	}
	if err := w.closeGap(st, e.Log, span{e.first(), e.Index}); err != nil {
		return err
	}
	number := st.whole()
	if err := w.insertEvents(st, e, number); err != nil {
		return err
	}
	st.durable = e.Index
	if number {
		st.numbered = e.Index
	}
	return nil
}

func (w *write) insertEvents(st *logState, e Entry, number bool) error {
	for _, r := range w.records(e) {
		if err := w.insert(st, &r, number); err != nil {
			return err
		}
	}
	return nil
}

func (w *write) records(e Entry) []Record {
	all := make([]Record, len(e.Events))
	for i := range e.Events {
		all[i] = recordOf(w.incarnation, RowPosition{e.Log, e.Index, uint32(i)}, e.Salt, e.Events[i].clean())
	}
	return all
}

// repeated handles an entry that the log is past: it fills its place in an open gap, or must be what is there.
func (w *write) repeated(st *logState, e Entry) error {
	gap, missing := st.gapAt(e.Index)
	switch {
	case missing && !gap.givenUp:
		if err := w.insertEvents(st, e, false); err != nil {
			return err
		}
	case !missing:
		if err := w.compare(e.Log, e.Index, hashesOf(w.records(e))); err != nil {
			return err
		}
	}
	return w.closeGap(st, e.Log, span{e.first(), e.Index})
}

func hashesOf(records []Record) []Hash {
	hashes := make([]Hash, len(records))
	for i := range records {
		hashes[i] = records[i].Hash
	}
	return hashes
}

// compare holds the content of an entry against what is stored of it.
func (w *write) compare(log Log, index uint64, want []Hash) error {
	const query = `SELECT content_hash FROM grant_event WHERE incarnation = ? AND log_id = ? AND log_index = ? ORDER BY ordinal`
	got, err := collect(w.ctx, w.tx, func(rows *sql.Rows) (Hash, error) { return scanHash(rows) }, query, w.incarnation, log, index)
	if err != nil {
		return fmt.Errorf("compare entry %d of log %d: %w", index, log, err)
	}
	if !slices.Equal(got, want) {
		return &EntryError{log, index, ErrContentDiffers}
	}
	return nil
}

// compareEmpty sees that entries which are said to carry nothing have no rows.
func (w *write) compareEmpty(log Log, in span) error {
	if in.from > in.to {
		return nil
	}
	const query = `SELECT log_index FROM grant_event WHERE incarnation = ? AND log_id = ? AND log_index BETWEEN ? AND ? LIMIT 1`
	found, err := collect(w.ctx, w.tx, func(rows *sql.Rows) (index uint64, err error) { return index, rows.Scan(&index) },
		query, w.incarnation, log, in.from, in.to)
	if err != nil {
		return fmt.Errorf("compare entries %d..%d of log %d: %w", in.from, in.to, log, err)
	}
	if len(found) > 0 {
		return &EntryError{log, found[0], ErrContentDiffers}
	}
	return nil
}

// scanHash reads a row of one hash.
func scanHash(rows *sql.Rows) (Hash, error) {
	var raw sql.RawBytes
	if err := rows.Scan(&raw); err != nil {
		return Hash{}, err
	}
	return asHash(raw)
}

func asHash(raw []byte) (h Hash, err error) {
	if len(raw) != len(h) {
		return h, fmt.Errorf("a hash of %d bytes", len(raw))
	}
	copy(h[:], raw)
	return h, nil
}
