package audit

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// write is one transaction of the writer: the states that it works on are copies until it is committed.
type write struct {
	ctx         context.Context // of this transaction alone
	tx          *sql.Tx
	incarnation uint64
	nowMS       int64
	known       map[Log]*logState
	touched     map[Log]*logState
	statements  map[string]*sql.Stmt
	blocks      map[block]atRange
	trees       map[Log]*treeTail
	prepared    map[string]*sql.Stmt // of the store
}

// update runs f in a transaction and, when it is committed, makes its states the store's.
func (s *Store) update(ctx context.Context, f func(*write) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.logs == nil { // the last write failed, perhaps after it had been committed
		if err := s.reload(ctx); err != nil {
			return err
		}
	}
	w := &write{incarnation: s.incarnation, nowMS: s.now().UnixMilli(), known: s.logs, touched: map[Log]*logState{},
		statements: map[string]*sql.Stmt{}, blocks: map[block]atRange{}, trees: map[Log]*treeTail{}, prepared: s.prepared}
	err := s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		w.ctx, w.tx = ctx, tx
		if err := f(w); err != nil {
			return err
		}
		return w.save()
	})
	if err != nil {
		s.logs = nil
		return err
	}
	for log, st := range w.touched {
		s.logs[log] = st
		s.publish(log, st)
	}
	return nil
}

// log is the state of a log to be changed.
func (w *write) log(log Log) *logState {
	if st, ok := w.touched[log]; ok {
		return st
	}
	st := &logState{}
	if known, ok := w.known[log]; ok {
		st = known.clone()
	}
	w.touched[log] = st
	return st
}

// exec runs a statement, prepared once per transaction.
func (w *write) exec(query string, args ...any) (sql.Result, error) {
	stmt, err := w.prepare(query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(w.ctx, args...)
}

func (w *write) prepare(query string) (*sql.Stmt, error) {
	if stmt, ok := w.statements[query]; ok {
		return stmt, nil
	}
	stmt, err := w.prepared[query], error(nil)
	if stmt != nil {
		stmt = w.tx.StmtContext(w.ctx, stmt)
	} else if stmt, err = w.tx.PrepareContext(w.ctx, query); err != nil { // closed with the transaction
		return nil, err
	}
	w.statements[query] = stmt
	return stmt, nil
}

// The statements of every transaction, which are prepared once.
const (
	insertEvent = `INSERT INTO grant_event (incarnation, log_id, log_index, ordinal, tenant_id, content_hash, leaf)
		VALUES (?, ?, ?, ?, ?, ?, ?)`
	insertBody = `INSERT INTO grant_body (tenant_id, incarnation, log_id, log_index, ordinal, at_ms, kind, class, lock_key,
		request, token, epoch, version, reason, api_key, counted, unprotected, detail, personal_hash, salt, holder, by_whom, note)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	savePosition = `INSERT INTO log_position (incarnation, log_id, durable_index, numbered_index, leaf_count)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT (incarnation, log_id) DO UPDATE SET durable_index = excluded.durable_index,
		numbered_index = excluded.numbered_index, leaf_count = excluded.leaf_count`
	saveTimes = `INSERT INTO time_block (incarnation, log_id, block, at_min, at_max) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (incarnation, log_id, block) DO UPDATE SET at_min = min(at_min, excluded.at_min), at_max = max(at_max, excluded.at_max)`
)

// save writes the positions of the logs that were touched, and when the new rows happened.
func (w *write) save() error {
	for _, log := range slices.Sorted(maps.Keys(w.touched)) {
		st := w.touched[log]
		if _, err := w.exec(savePosition, w.incarnation, log, st.durable, st.numbered, st.leaves); err != nil {
			return fmt.Errorf("save position of log %d: %w", log, err)
		}
	}
	if err := w.saveTrees(); err != nil {
		return err
	}
	for b, at := range w.blocks {
		if _, err := w.exec(saveTimes, w.incarnation, b.log, b.number, at.min, at.max); err != nil {
			return fmt.Errorf("save times of log %d: %w", b.log, err)
		}
	}
	return nil
}

// blockEntries is how many neighbouring entries share a row of time_block. The schema says so too.
const blockEntries = 1024

type block struct {
	log    Log
	number uint64
}

type atRange struct{ min, max int64 }

func (w *write) noteTime(p RowPosition, atMS int64) {
	b := block{p.Log, p.Index / blockEntries}
	at, ok := w.blocks[b]
	if !ok {
		at = atRange{atMS, atMS}
	}
	w.blocks[b] = atRange{min(at.min, atMS), max(at.max, atMS)}
}

// insert stores a row, numbered if it is to be.
func (w *write) insert(st *logState, r *Record, number bool) error {
	var leaf sql.NullInt64
	if number {
		leaf = sql.NullInt64{Int64: int64(st.leaves), Valid: true}
	}
	if _, err := w.exec(insertEvent, w.incarnation, r.Log, r.Index, r.Ordinal, r.Tenant, r.Hash[:], leaf); err != nil {
		return fmt.Errorf("store event %d of entry %d of log %d: %w", r.Ordinal, r.Index, r.Log, err)
	}
	if !r.Dropped {
		if err := w.insertBody(r); err != nil {
			return fmt.Errorf("store what event %d of entry %d of log %d says: %w", r.Ordinal, r.Index, r.Log, err)
		}
		w.noteTime(r.Position(), r.AtMS)
	}
	if !number {
		return nil
	}
	return w.addLeaf(st, r.Log, r.Hash)
}

func (w *write) insertBody(r *Record) error {
	var salt, holder, by, note any
	if !r.Erased {
		salt, holder, by, note = r.Salt, r.Holder, r.By, r.Note
	}
	_, err := w.exec(insertBody, r.Tenant, w.incarnation, r.Log, r.Index, r.Ordinal, r.AtMS, r.Kind, r.Class, r.Key,
		r.Request, r.Token, r.Epoch, r.Version, r.Reason, r.APIKey, r.Count, r.Unprotected, r.Detail, r.Personal, salt, holder, by, note)
	return err
}

// addLeaf makes the Merkle log one leaf longer.
func (w *write) addLeaf(st *logState, log Log, leaf Hash) error {
	hashes, peaks, err := growTree(st.leaves, st.peaks, leaf)
	if err != nil {
		return fmt.Errorf("grow the tree of log %d: %w", log, err)
	}
	if err := w.growTail(log, tlog.StoredHashIndex(0, int64(st.leaves)), hashes); err != nil {
		return err
	}
	st.leaves, st.peaks = st.leaves+1, peaks
	return nil
}
