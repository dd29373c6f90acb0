package platform

import (
	"slices"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// TestControlAudit_knowsEveryKind: an event of a kind that the audit does not know would stop the log's projection.
func TestControlAudit_knowsEveryKind(t *testing.T) {
	kinds := []string{"cluster_set", control.EventRefused}
	for k := tenants.EventKind(1); !strings.HasPrefix(k.String(), "event("); k++ {
		kinds = append(kinds, k.String())
	}
	for _, k := range []review.EventKind{review.EventDeclared, review.EventSignatureAdded, review.EventSigned, review.EventRejected,
		review.EventWithdrawn, review.EventSuperseded, review.EventRetired, review.EventOwnerChanged} {
		kinds = append(kinds, "posture_"+string(k))
	}
	if len(kinds) < 20 {
		t.Fatalf("only %d kinds: %v", len(kinds), kinds)
	}
	for _, kind := range kinds {
		if e := controlAudit(control.Event{Kind: kind, KeyName: `a "key"`, Note: "why"}); !audit.ValidKind(e.Kind) || e.Note != "why" {
			t.Errorf("an event of the control log of kind %s becomes %+v; want a kind that the audit has", kind, e)
		}
	}
	e := controlAudit(control.Event{Kind: "api_key_rotated", APIKey: "old", KeyName: "ledger service", Successor: "new"})
	if want := `key_name="ledger service" successor=new`; e.Detail != want {
		t.Errorf("the detail is %s; want %s", e.Detail, want)
	}
}

func gap(from, to uint64) audit.Gap { return audit.Gap{Log: 1, From: from, To: to} }

func TestMissedByAll_isWhatNobodyHas(t *testing.T) {
	for name, c := range map[string]struct {
		own    audit.Gap
		others map[raftnode.NodeID][]audit.Gap
		want   []audit.Gap
	}{
		"somebody has it all":       {gap(10, 20), map[raftnode.NodeID][]audit.Gap{"n2": {gap(1, 30)}, "n3": nil}, nil},
		"all miss the middle":       {gap(10, 20), map[raftnode.NodeID][]audit.Gap{"n2": {gap(12, 25)}, "n3": {gap(5, 18)}}, []audit.Gap{gap(12, 18)}},
		"two pieces":                {gap(10, 20), map[raftnode.NodeID][]audit.Gap{"n2": {gap(18, 30), gap(1, 11)}}, []audit.Gap{gap(10, 11), gap(18, 20)}},
		"there is nobody else":      {gap(10, 20), nil, []audit.Gap{gap(10, 20)}},
		"the same range, other log": {gap(10, 20), map[raftnode.NodeID][]audit.Gap{"n2": {{Log: 2, From: 10, To: 20}}}, nil},
	} {
		others := map[raftnode.NodeID]auditStanding{}
		for node, gaps := range c.others {
			others[node] = auditStanding{Gaps: gaps}
		}
		if got := missedByAll(c.own, others); !slices.EqualFunc(got, c.want, func(a, b audit.Gap) bool { return a.From == b.From && a.To == b.To }) {
			t.Errorf("%s: got %+v; want %+v", name, got, c.want)
		}
	}
}

func TestLastHeld_endsBeforeWhatTheOtherMisses(t *testing.T) {
	s := auditStanding{Positions: []audit.Position{{Log: 1, Durable: 100}}, Gaps: []audit.Gap{gap(40, 50)}}
	for _, c := range []struct{ from, to, want uint64 }{
		{1, 30, 30}, {1, 200, 39}, {40, 60, 39}, {45, 60, 44}, {51, 60, 60}, {51, 200, 100}, {101, 200, 100},
	} {
		if got := lastHeld(s, 1, c.from, c.to); got != c.want {
			t.Errorf("from %d to %d the other has everything to %d; got %d", c.from, c.to, c.want, got)
		}
	}
}
