package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// PeerRowsMax bounds the rows that one node asks another for at a time, but for a single entry that has more.
const PeerRowsMax = 4096

// PeerRows are rows of another node: everything that it has of the entries From..Through. It travels as JSON.
type PeerRows struct {
	Incarnation uint64   `json:"incarnation"`
	Log         Log      `json:"log"`
	From        uint64   `json:"from"`
	Through     uint64   `json:"through"` // the last entry covered; entries without rows had no events
	Rows        []Record `json:"rows"`    // in order of position
	// DroppedBefore says of the tenants of rows that come as hashes alone how far retention has gone there, in milliseconds.
	DroppedBefore map[string]int64 `json:"dropped_before,omitempty"`
}

// ErrIncomplete says that this node does not have the entries itself. Ask another.
var ErrIncomplete = errors.New("audit does not have these entries")

// Peer reads what another node needs to fill a gap: the rows of the entries from.., as far as to, as far as this node has
// them all, and at most limit rows (1..PeerRowsMax; an entry is never cut). Through says how far that is; ask again from
// there. Without even the first entry it is ErrIncomplete.
func (s *Store) Peer(ctx context.Context, log Log, from, to uint64, limit int) (PeerRows, error) {
	out := PeerRows{Incarnation: s.incarnation, Log: log, From: from, Rows: []Record{}}
	if from == 0 || to < from {
		return out, fmt.Errorf("read rows %d..%d of log %d for a peer: %w", from, to, log, ErrIncomplete)
	}
	limit = min(max(limit, 1), PeerRowsMax)
	err := s.db.Read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		end, err := s.completeFrom(ctx, tx, log, from)
		if err != nil {
			return err
		}
		out.Through = min(to, end)
		out.Rows, out.Through, err = wholeEntries(ctx, tx, s.incarnation, log, span{from, out.Through}, limit)
		if err != nil {
			return err
		}
		out.DroppedBefore, err = droppedBefore(ctx, tx, out.Rows)
		return err
	})
	if err != nil {
		return PeerRows{}, fmt.Errorf("read rows %d..%d of log %d for a peer: %w", from, to, log, err)
	}
	return out, nil
}

// droppedBefore reads how far retention has gone for the tenants of rows that it dropped.
func droppedBefore(ctx context.Context, tx *sql.Tx, rows []Record) (map[string]int64, error) {
	before := map[string]int64{}
	for i := range rows {
		if _, known := before[rows[i].Tenant]; known || !rows[i].Dropped {
			continue
		}
		var ms int64
		err := tx.QueryRowContext(ctx, `SELECT before_ms FROM retention WHERE tenant_id = ?`, rows[i].Tenant).Scan(&ms)
		if errors.Is(err, sql.ErrNoRows) {
			ms = neverDropped
		} else if err != nil {
			return nil, fmt.Errorf("read retention: %w", err)
		}
		before[rows[i].Tenant] = ms
	}
	return before, nil
}

// completeFrom is the last entry up to which, from one on, this node has everything.
func (s *Store) completeFrom(ctx context.Context, tx *sql.Tx, log Log, from uint64) (uint64, error) {
	st, err := s.readState(ctx, tx, log)
	if err != nil {
		return 0, err
	}
	end := st.durable
	for _, g := range st.gaps {
		if g.to >= from {
			end = min(end, g.from-1)
		}
	}
	if end < from {
		return 0, ErrIncomplete
	}
	return end, nil
}

// wholeEntries reads rows of a range of entries: at most limit, unless the first entry alone has more.
func wholeEntries(ctx context.Context, tx *sql.Tx, incarnation uint64, log Log, in span, limit int) ([]Record, uint64, error) {
	rows, err := readRecords(ctx, tx, incarnation, log, in, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, in.to, err
	}
	cut := rows[len(rows)-1].Index
	rows = slices.DeleteFunc(rows, func(r Record) bool { return r.Index == cut })
	if len(rows) > 0 {
		return rows, cut - 1, nil
	}
	rows, err = readRecords(ctx, tx, incarnation, log, span{cut, cut}, everyRow)
	return rows, cut, err
}

// recordColumns are what scanRecord reads, from grant_event as e and its body, if there, as b.
const recordColumns = `e.log_id, e.log_index, e.ordinal, e.tenant_id, e.content_hash, e.leaf, b.at_ms, b.kind, b.class, b.lock_key,
	b.request, b.token, b.epoch, b.version, b.reason, b.api_key, b.counted, b.unprotected, b.detail, b.personal_hash, b.salt,
	b.holder, b.by_whom, b.note`

const recordTables = `grant_event e LEFT JOIN grant_body b ON b.tenant_id = e.tenant_id AND b.incarnation = e.incarnation
	AND b.log_id = e.log_id AND b.log_index = e.log_index AND b.ordinal = e.ordinal`

// everyRow is SQLite's way of saying no limit.
const everyRow = -1

func readRecords(ctx context.Context, tx *sql.Tx, incarnation uint64, log Log, in span, limit int) ([]Record, error) {
	const query = `SELECT ` + recordColumns + ` FROM ` + recordTables + `
		WHERE e.incarnation = ? AND e.log_id = ? AND e.log_index BETWEEN ? AND ? ORDER BY e.log_index, e.ordinal LIMIT ?`
	return collect(ctx, tx, func(rows *sql.Rows) (Record, error) { return scanRecord(rows, incarnation) },
		query, incarnation, log, in.from, in.to, limit)
}

// scanRecord reads a row of recordColumns.
func scanRecord(rows *sql.Rows, incarnation uint64) (Record, error) {
	r := Record{Incarnation: incarnation}
	var hash sql.RawBytes
	var leaf, atMS, token, epoch, version, count sql.NullInt64
	var kind, class, key, request, reason, apiKey, detail, holder, by, note sql.NullString
	var unprotected sql.NullBool
	err := rows.Scan(&r.Log, &r.Index, &r.Ordinal, &r.Tenant, &hash, &leaf, &atMS, &kind, &class, &key, &request, &token, &epoch,
		&version, &reason, &apiKey, &count, &unprotected, &detail, &r.Personal, &r.Salt, &holder, &by, &note)
	if err != nil {
		return r, err
	}
	if leaf.Valid {
		n := uint64(leaf.Int64)
		r.Leaf = &n
	}
	r.Dropped, r.Erased = !kind.Valid, kind.Valid && r.Salt == nil
	r.AtMS, r.Kind, r.Class, r.Key, r.Request = atMS.Int64, kind.String, class.String, key.String, request.String
	r.Token, r.Epoch, r.Version, r.Count = uint64(token.Int64), uint64(epoch.Int64), uint64(version.Int64), uint64(count.Int64)
	r.Reason, r.APIKey, r.Unprotected, r.Detail = reason.String, apiKey.String, unprotected.Bool, detail.String
	r.Holder, r.By, r.Note = holder.String, by.String, note.String
	r.Hash, err = asHash(hash)
	return r, err
}

// Fill stores another node's rows where a gap is open here, and closes that part of it. Every row's hash is recomputed: one
// that is not what it says refuses them all with ErrWrongHash, and rows that contradict what this node has are
// ErrContentDiffers, an [*EntryError]. Rows that retention dropped there come as hashes alone; compare roots afterwards.
// Parts that a gap given up covers come too late and are left out.
func (s *Store) Fill(ctx context.Context, p PeerRows) error {
	if err := p.validate(s.incarnation); err != nil {
		return fmt.Errorf("fill audit gap in log %d from a peer: %w", p.Log, err)
	}
	err := s.update(ctx, func(w *write) error { return w.fill(p) })
	if err != nil {
		return fmt.Errorf("fill audit gap in log %d from a peer: %w", p.Log, err)
	}
	return s.numberAll(ctx, p.Log)
}

// validate recomputes every row and sees that they are whole entries in order.
func (p PeerRows) validate(incarnation uint64) error {
	if p.Incarnation != incarnation || p.From == 0 || p.Through < p.From || p.Through > numberMax {
		return fmt.Errorf("%w: incarnation %d, entries %d..%d", ErrInvalidEntry, p.Incarnation, p.From, p.Through)
	}
	if n := len(p.Rows); n > PeerRowsMax && p.Rows[0].Index != p.Rows[n-1].Index {
		return fmt.Errorf("%w: %d rows", ErrInvalidEntry, len(p.Rows))
	}
	next := RowPosition{Log: p.Log}
	for i := range p.Rows {
		r := &p.Rows[i]
		if r.Index != next.Index {
			next = RowPosition{Log: p.Log, Index: r.Index}
		}
		ordered := i == 0 || r.Index >= p.Rows[i-1].Index
		if r.Position() != next || !ordered || !(span{p.From, p.Through}).has(r.Index) || r.GapTo != 0 || r.Incarnation != incarnation {
			return fmt.Errorf("%w: row %d is out of its order", ErrInvalidEntry, i)
		}
		if err := r.checked(); err != nil {
			return err
		}
		next.Ordinal++
	}
	return nil
}

// checked holds a record from elsewhere to what this node would have stored.
func (r *Record) checked() error {
	if err := r.Verify(); err != nil || r.Dropped {
		return err
	}
	e := r.Event()
	if fault := e.fault(); fault != "" {
		return &EntryError{r.Log, r.Index, fmt.Errorf("%w: %s", ErrInvalidEntry, fault)}
	}
	return nil
}

func (w *write) fill(p PeerRows) error {
	st := w.log(p.Log)
	for rows := p.Rows; len(rows) > 0; {
		n := 1
		for n < len(rows) && rows[n].Index == rows[0].Index {
			n++
		}
		if err := w.fillEntry(st, p.Log, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	if err := w.noteDropped(p.DroppedBefore); err != nil {
		return err
	}
	return w.closeGap(st, p.Log, span{p.From, min(p.Through, st.durable)})
}

// noteDropped takes over how far retention had gone elsewhere, so that a search here says so too.
func (w *write) noteDropped(before map[string]int64) error {
	const mark = `INSERT INTO retention (tenant_id, before_ms, done_ms, open_for) VALUES (?, ?, ?, '') ON CONFLICT (tenant_id)
		DO UPDATE SET before_ms = max(before_ms, excluded.before_ms)`
	for tenant, ms := range before {
		if _, err := w.exec(mark, tenant, ms, w.nowMS); err != nil {
			return fmt.Errorf("note retention: %w", err)
		}
	}
	return nil
}

// fillEntry stores the rows of one entry if it lies in an open gap; if this node has the entry, they must be what it has.
func (w *write) fillEntry(st *logState, log Log, rows []Record) error {
	index := rows[0].Index
	gap, missing := st.gapAt(index)
	switch {
	case index > st.durable: // it is still to come by itself
		return nil
	case !missing:
		return w.compare(log, index, hashesOf(rows))
	case gap.givenUp:
		return nil
	}
	for i := range rows {
		if err := w.insert(st, &rows[i], false); err != nil {
			return err
		}
	}
	return nil
}
