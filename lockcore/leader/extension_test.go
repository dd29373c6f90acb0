package leader_test

import (
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

// A client that heartbeats a long lease quickly has one extension in line, whatever it sends; each of its heartbeats is
// answered by an entry proposed after the heartbeat arrived.
func TestHeartbeatsOfLongLease_shareOneExtension(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "long", "k")
	w.a.HoldProposals()
	first := h.Heartbeat(w.a, 1) // its extension is under way
	before := w.a.LastIndex()
	var rest []*leadertest.Reply
	for range 1000 {
		rest = append(rest, h.Heartbeat(w.a, 1))
	}
	w.a.ReleaseProposals()
	w.Settle()
	if got := w.a.LastIndex() - before; got != 2 {
		t.Errorf("1,001 heartbeats made %d entries, want 2: the one under way and one for all that came meanwhile", got)
	}
	for _, r := range append(rest, first) {
		w.wantHeld(r, 1)
	}
}
