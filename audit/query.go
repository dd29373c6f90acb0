package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Order is how a search's rows come. Within a log it is the order of positions; logs are merged by time.
type Order string

// The orders; empty means Ascending.
const (
	Ascending  Order = "asc"
	Descending Order = "desc"
)

const (
	// LimitMax bounds the rows of a page.
	LimitMax = 1000
	// limitDefault is the page of a Query that says nothing.
	limitDefault = 100
	// PageScanMax bounds the rows that are looked at for one page. A page that a rare filter leaves short of its limit has
	// a Next, from which the search goes on.
	PageScanMax = 20_000
	// LogsMax bounds the logs of a search.
	LogsMax = 1024
	// KindsMax bounds the kinds of a search.
	KindsMax = 64
)

// Query says which events to find. Filters that are zero match everything; all that are set must match. Names are compared
// byte for byte.
type Query struct {
	Tenant     string // whose events; needed unless AllTenants is set
	AllTenants bool   // events of all tenants, and the platform's own
	Logs       []Log  // the logs to read; none: all that this node has
	// Incarnation is the life of the cluster's data to look into; zero: the store's own.
	Incarnation uint64

	Class     string
	Key       string
	KeyPrefix string
	Holder    string
	Token     uint64
	Kinds     []string // any of them
	APIKey    string
	Text      string // occurs in key, holder, by, note, reason or class; searched in the whole range, not in one page

	From time.Time // included; zero: from the beginning
	To   time.Time // excluded; zero: to the end

	Order  Order
	Limit  int    // 1..LimitMax; 0: 100
	Cursor string // Next of the page before, of the same query; empty: the first page
}

// Row is an event as it was found.
type Row struct {
	Position RowPosition
	Leaf     *uint64 // its number in the Merkle log, from 0; nil while a gap is open before it
	Event    Event
	Erased   bool // its personal text was erased
	record   Record
}

// Record is the row with everything that proves it, salt included: hand it only to who may see the personal text.
func (r Row) Record() Record { return r.record }

// Page is a part of what a query finds.
type Page struct {
	Rows []Row
	Next string // cursor of the next page; empty: this is the end
	// CompleteTo says for each log read up to which entry this node has everything but for gaps given up.
	CompleteTo map[Log]uint64
	// Gaps lie within the range of this page, or directly beside it: events may be missing there.
	Gaps []Gap
	// DroppedBefore: earlier events of the tenant were dropped by retention. Zero: none, or AllTenants.
	DroppedBefore time.Time
}

// ErrInvalidQuery says that a query asks for what there cannot be; a [*QueryError] says in which field.
var ErrInvalidQuery = errors.New("invalid audit query")

// QueryError names the field of a query that is wrong: tenant, logs, kind, limit, order, time, text or cursor. It is an
// ErrInvalidQuery.
type QueryError struct{ Field, Why string }

func (e *QueryError) Error() string {
	return fmt.Sprintf("%v: %s: %s", ErrInvalidQuery, e.Field, e.Why)
}

func (e *QueryError) Unwrap() error { return ErrInvalidQuery }

// validate sees that the query makes sense and fills in what it leaves open.
func (q *Query) validate() error {
	if q.Limit == 0 {
		q.Limit = limitDefault
	}
	if q.Order == "" {
		q.Order = Ascending
	}
	switch {
	case (q.Tenant == "") != q.AllTenants:
		return &QueryError{"tenant", "name one, or ask for all"}
	case len(q.Logs) > LogsMax:
		return &QueryError{"logs", fmt.Sprintf("at most %d", LogsMax)}
	case len(q.Kinds) > KindsMax:
		return &QueryError{"kind", fmt.Sprintf("at most %d", KindsMax)}
	case q.Limit < 1 || q.Limit > LimitMax:
		return &QueryError{"limit", fmt.Sprintf("1 to %d", LimitMax)}
	case q.Order != Ascending && q.Order != Descending:
		return &QueryError{"order", "asc or desc"}
	case !q.From.IsZero() && !q.To.IsZero() && q.To.Before(q.From):
		return &QueryError{"time", "it ends before it starts"}
	case q.Incarnation > numberMax || q.Token > numberMax:
		return &QueryError{"token", "out of range"}
	}
	for _, text := range []string{q.Tenant, q.Class, q.Key, q.KeyPrefix, q.Holder, q.APIKey, q.Text} {
		if len(text) > TextBytesMax {
			return &QueryError{"text", fmt.Sprintf("at most %d bytes", TextBytesMax)}
		}
	}
	for _, kind := range q.Kinds {
		if !ValidKind(kind) {
			return &QueryError{"kind", fmt.Sprintf("there is no kind %q", kind)}
		}
	}
	return nil
}

// Query finds events, a page at a time. Each row comes exactly once on the way from page to page, also while rows arrive:
// the cursor is a position in each log. Going up, rows that arrive are found in their turn; going down, the first page
// fixes where the search begins. What is wrong with a query is a [*QueryError].
func (s *Store) Query(ctx context.Context, q Query) (Page, error) {
	if err := q.validate(); err != nil {
		return Page{}, err
	}
	if q.Incarnation == 0 {
		q.Incarnation = s.incarnation
	}
	from, err := parseCursor(q)
	if err != nil {
		return Page{}, err
	}
	var page Page
	err = s.db.Read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		m, err := newMerge(ctx, tx, q, from)
		if err != nil {
			return err
		}
		page, err = m.page()
		return err
	})
	if err != nil {
		return Page{}, fmt.Errorf("search audit: %w", err)
	}
	return page, nil
}

// ErrUnknownRow says that there is no such event, or that it is another tenant's, or that retention dropped it.
var ErrUnknownRow = errors.New("no such audit event")

// Row reads one event of a tenant by its position; an empty tenant reads anybody's.
func (s *Store) Row(ctx context.Context, tenant string, p RowPosition) (Row, error) {
	var row Row
	err := s.db.Read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		const query = `SELECT ` + recordColumns + ` FROM ` + recordTables + `
			WHERE e.incarnation = ? AND e.log_id = ? AND e.log_index = ? AND e.ordinal = ?`
		found, err := collect(ctx, tx, func(rows *sql.Rows) (Record, error) { return scanRecord(rows, s.incarnation) },
			query, s.incarnation, p.Log, p.Index, p.Ordinal)
		if err != nil {
			return err
		}
		if len(found) == 0 || found[0].Dropped || (tenant != "" && found[0].Tenant != tenant) {
			return ErrUnknownRow
		}
		row = newRow(found[0])
		return nil
	})
	if err != nil {
		return Row{}, fmt.Errorf("read audit event %d/%d/%d: %w", p.Log, p.Index, p.Ordinal, err)
	}
	return row, nil
}

func newRow(r Record) Row {
	return Row{Position: r.Position(), Leaf: r.Leaf, Event: r.Event(), Erased: r.Erased, record: r}
}
