package leader

import (
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// A line that is never empty must not keep the places of what was taken from it.
func TestQueue_doesNotGrowUnderASteadyBacklog(t *testing.T) {
	const backlog, turns = 300, 100_000
	var q queue
	for range backlog {
		q.push(pending{command: lockcore.LeaseClock{}})
	}
	for range turns {
		q.push(pending{command: lockcore.LeaseClock{}})
		q.pop()
	}
	if got := q.len(); got != backlog {
		t.Fatalf("%d wait, want %d", got, backlog)
	}
	if got := cap(q.items); got > 8*backlog {
		t.Errorf("the line takes %d places for a backlog of %d", got, backlog)
	}
}
