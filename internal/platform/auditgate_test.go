package platform

import (
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
)

func TestTruncationGate_stopsCorrectnessUntilTwoNodesHaveStoredWhatIsGone(t *testing.T) {
	n := auditNode(t)
	a := n.audit
	n.stores(t, 1, 1, 10, oneEvent())
	other := func(durable uint64) {
		a.told("n2", auditStanding{Positions: []audit.Position{{Log: 1, Durable: durable}}})
	}
	other(4)
	gate := a.truncationGate(1, 3)
	for _, c := range []struct {
		what       string
		last, want uint64
		bytes      int64
		behind     bool
	}{
		{"of a short log, what two nodes have", 9, 4, auditLogBytesMax, false},
		{"of a long log as well, if that is all", 4, 4, auditLogBytesMax + 1, false},
		{"of a long log, everything", 9, 9, auditLogBytesMax + 1, true},
		{"of the log that is short again", 10, 4, 1, true},
	} {
		if got := gate(1, c.last, c.bytes); got != c.want || a.behind() != c.behind {
			t.Errorf("%s: got %d, behind %v, want %d, %v", c.what, got, a.behind(), c.want, c.behind)
		}
	}
	for _, c := range []struct {
		durable uint64
		behind  bool
	}{{8, true}, {9, false}} {
		other(c.durable)
		if a.settle(3); a.behind() != c.behind {
			t.Errorf("with the other at %d: got behind %v, want %v", c.durable, a.behind(), c.behind)
		}
	}
}
