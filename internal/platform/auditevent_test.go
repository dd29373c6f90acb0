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

func TestHeldOf_isWhatTheOtherHasBetweenItsGaps(t *testing.T) {
	s := auditStanding{Positions: []audit.Position{{Log: 1, Durable: 100}}, Gaps: []audit.Gap{gap(40, 50), gap(60, 60),
		{Log: 2, From: 1, To: 100}}}
	for _, c := range []struct {
		missing audit.Gap
		want    []audit.Gap
	}{
		{gap(1, 30), []audit.Gap{gap(1, 30)}}, {gap(1, 200), []audit.Gap{gap(1, 39), gap(51, 59), gap(61, 100)}},
		{gap(40, 60), []audit.Gap{gap(51, 59)}}, {gap(45, 50), nil}, {gap(60, 61), []audit.Gap{gap(61, 61)}},
		{gap(101, 200), nil}, {audit.Gap{Log: 3, From: 1, To: 9}, nil},
	} {
		if got := heldOf(c.missing, s); !slices.Equal(got, c.want) {
			t.Errorf("of %d to %d the other has %+v; got %+v", c.missing.From, c.missing.To, c.want, got)
		}
	}
}
