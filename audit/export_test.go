package audit

// What tests look at from outside.

// EventLeaf is the leaf encoding of an event.
func EventLeaf(incarnation uint64, p RowPosition, e Event, salt [16]byte) []byte {
	return eventLeaf(incarnation, p, &e, personalHash(rowSalt(salt, p.Ordinal), &e))
}

// GapLeaf is the leaf encoding of a gap given up.
var GapLeaf = gapLeaf

// CheckCursor reads a query's cursor and writes it again.
func CheckCursor(q Query) (string, error) {
	if err := q.validate(); err != nil {
		return "", err
	}
	c, err := parseCursor(q)
	if err != nil || q.Cursor == "" {
		return "", err
	}
	return c.text(q), nil
}
