package lockcore_test

import (
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/lockcoretest"
)

const (
	propertyCommands = 1_000_000
	sequenceCommands = 5_000
	reasonTimesMin   = 1_000
)

// TestMachine_keepsItsInvariants holds at least a million random commands to the sequential model and to the invariants
// that lockcoretest's Trial checks: one holder for a key, rising tokens, one grant for an id, turns in order, epochs,
// isolation of tenants, quotas, equal machines, snapshots. A failure prints its shape and, at the end, the shortest
// sequence found as transcript lines.
func TestMachine_keepsItsInvariants(t *testing.T) {
	var all lockcoretest.Tally
	var failure *lockcoretest.Failure
	t.Cleanup(func() {
		if failure != nil {
			var b strings.Builder
			failure.Report(&b)
			t.Log(b.String())
		}
	})
	for all.Commands < propertyCommands {
		rapid.Check(t, func(t *rapid.T) {
			tallies, failed := runPair(drawShape(t))
			if failed != nil {
				failure = failed
				t.Fatalf("shape %+v: %v", failed.Shape, failed.Err)
			}
			all.Add(tallies[0])
			all.Add(tallies[1])
		})
	}
	assertCoverage(t, all)
}

func drawShape(t *rapid.T) lockcoretest.Shape {
	return lockcoretest.Shape{
		Seed:     rapid.Uint64().Draw(t, "seed"),
		Tenants:  rapid.IntRange(1, 4).Draw(t, "tenants"),
		BatchMax: rapid.SampledFrom([]int{1, 4, 8, 16, 32}).Draw(t, "batch"),
		Keys:     rapid.IntRange(1, 6).Draw(t, "keys"),
	}
}

// runPair runs the shape twice, from two seeds, side by side.
func runPair(s lockcoretest.Shape) (tallies [2]lockcoretest.Tally, failed *lockcoretest.Failure) {
	var failures [2]*lockcoretest.Failure
	var wg sync.WaitGroup
	for i := range tallies {
		wg.Go(func() {
			shape := s
			shape.Seed = shape.Seed&^1 + uint64(i)
			tallies[i], failures[i] = lockcoretest.Run(shape, sequenceCommands)
		})
	}
	wg.Wait()
	if failures[0] != nil {
		return tallies, failures[0]
	}
	return tallies, failures[1]
}

func assertCoverage(t *testing.T, all lockcoretest.Tally) {
	t.Helper()
	t.Logf("%d commands in %d entries, %d restores, %d ends shed; outcomes %v; reasons %v", all.Commands, all.Entries, all.Restores,
		all.Shed, all.Outcomes, all.Reasons)
	if got, want := all.Outcomes[lockcore.Granted]*5, all.Commands; got < want {
		t.Errorf("granted %d of %d, want a fifth", got/5, want)
	}
	for _, o := range lockcore.Outcomes() {
		if got := all.Outcomes[o]; got < reasonTimesMin {
			t.Errorf("outcome %s occurred %d times, want %d", o, got, reasonTimesMin)
		}
	}
	for _, r := range lockcore.Reasons() {
		if got := all.Reasons[r]; got < reasonTimesMin {
			t.Errorf("reason %s occurred %d times, want %d", r, got, reasonTimesMin)
		}
	}
	if got, want := all.Shed, 10*reasonTimesMin; got < want {
		t.Errorf("forgot %d ends for a quota, want %d", got, want)
	}
	if got := all.Fenced; got < reasonTimesMin {
		t.Errorf("guards fenced %d times, want %d", got, reasonTimesMin)
	}
	if all.Restores < 100 {
		t.Errorf("restored %d snapshots, want 100", all.Restores)
	}
}
