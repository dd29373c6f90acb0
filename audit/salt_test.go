package audit_test

import (
	"errors"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
)

// What is erased must not be found by guessing, with the salts of the rows beside it, which stay: an entry ends one holder's
// lease and grants to the next.
func TestSalt_opensItsOwnRowAlone(t *testing.T) {
	s := open(t)
	appendAll(t, s, entry(1, 1, 3))
	rows := search(t, s, audit.Query{AllTenants: true})
	if len(rows) != 3 {
		t.Fatalf("rows: got %d, want 3", len(rows))
	}
	for i, row := range rows {
		guess := row.Record()
		if err := guess.Verify(); err != nil {
			t.Errorf("row %d with its own salt: %v", i, err)
		}
		for j, other := range rows {
			if guess.Salt = other.Record().Salt; i != j && !errors.Is(guess.Verify(), audit.ErrWrongHash) {
				t.Errorf("row %d: the salt of row %d tells whether a guess at its text is right", i, j)
			}
		}
	}
}
