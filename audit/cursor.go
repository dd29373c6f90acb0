package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
)

// place is a position in a log between rows: going up, rows after it are still to come; going down, rows before it.
type place struct {
	index   uint64
	ordinal uint32
}

// cursor says where in each log a search goes on.
type cursor map[Log]place

const (
	cursorVersion = 1
	cursorLog     = 4 + 8 + 4
	cursorSum     = 8
)

// text writes the cursor for a query. It is bound to the query's filters, not to its limit or logs.
func (c cursor) text(q Query) string {
	raw := []byte{cursorVersion}
	for _, log := range slices.Sorted(maps.Keys(c)) {
		p := c[log]
		raw = binary.BigEndian.AppendUint32(raw, uint32(log))
		raw = binary.BigEndian.AppendUint64(raw, p.index)
		raw = binary.BigEndian.AppendUint32(raw, p.ordinal)
	}
	return base64.RawURLEncoding.EncodeToString(append(raw, cursorCheck(q, raw)...))
}

// cursorCheck ties the places to what is searched for. It finds mistakes, such as a filter changed between pages; a cursor
// that is made up leads nowhere that its query may not look.
func cursorCheck(q Query, places []byte) []byte {
	q.Logs, q.Limit, q.Cursor = nil, 0, ""
	q.From, q.To = q.From.UTC(), q.To.UTC()
	filters, err := json.Marshal(q)
	if err != nil { // times beyond the year 9999: any constant will do
		filters = nil
	}
	sum := sha256.Sum256(append(filters, places...))
	return sum[:cursorSum]
}

// parseCursor reads the query's cursor; none is an empty one.
func parseCursor(q Query) (cursor, error) {
	c := cursor{}
	if q.Cursor == "" {
		return c, nil
	}
	bad := &QueryError{"cursor", "it is not one of this search"}
	if base64.RawURLEncoding.DecodedLen(len(q.Cursor)) > 1+LogsMax*cursorLog+cursorSum {
		return nil, bad
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(q.Cursor)
	if err != nil || len(raw) < 1+cursorSum || raw[0] != cursorVersion || (len(raw)-1-cursorSum)%cursorLog != 0 {
		return nil, bad
	}
	places, check := raw[:len(raw)-cursorSum], raw[len(raw)-cursorSum:]
	if string(cursorCheck(q, places)) != string(check) {
		return nil, bad
	}
	for b := places[1:]; len(b) > 0; b = b[cursorLog:] {
		log := Log(binary.BigEndian.Uint32(b))
		p := place{binary.BigEndian.Uint64(b[4:]), binary.BigEndian.Uint32(b[12:])}
		if _, twice := c[log]; twice || p.index > numberMax {
			return nil, bad
		}
		c[log] = p
	}
	return c, nil
}
