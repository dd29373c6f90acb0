package audit_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
)

// Two gaps are lost while one below them is open: when that is filled, all of it is numbered in one go, in steps.
func TestFill_numbersLostGapsAtTheirPlaceWhateverTheSteps(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "audit.db")
	var all []audit.Entry
	for i := uint64(1); i <= 40; i++ {
		all = append(all, entry(1, i, 100)) // more rows than one step numbers
	}
	whole, s, other := open(t), openAt(t, path), open(t)
	appendAll(t, whole, all...)
	lost := []audit.Gap{{Log: 1, From: 5, To: 6}, {Log: 1, From: 9, To: 10}}
	lose := func(s *audit.Store, first uint64) {
		t.Helper()
		appendAll(t, s, all[first-1:4]...)
		for _, g := range lost {
			recordGap(t, s, 1, g.From, g.To)
			if err := s.GiveUp(ctx, g); err != nil {
				t.Fatal(err)
			}
			appendAll(t, s, all[g.To:g.To+2]...)
		}
		appendAll(t, s, all[12:]...)
	}
	lose(other, 1) // numbers every row as it comes
	lose(s, 3)     // misses the first two
	fillFrom(t, s, whole, 4096)
	appendAll(t, s, entry(1, 41, 1))
	appendAll(t, other, entry(1, 41, 1))
	samePosition(t, s, other, 1)
	if reports, err := audit.VerifyFile(ctx, path); err != nil || !reports[0].Whole() {
		t.Errorf("file: got %+v, %v, want it whole", reports, err)
	}
}
