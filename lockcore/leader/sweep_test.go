package leader_test

import (
	"fmt"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

// crowd is 300 holders of class short, with 500 waiters in one line and one in some others.
func (w *world) crowd() (holders []*leadertest.Client, polls []*leadertest.Reply) {
	for i := range 300 {
		holders = append(holders, w.holder(w.a, "short", lockcore.Key(fmt.Sprintf("k%03d", i))))
	}
	for i := range 500 {
		polls = append(polls, w.client().Acquire(w.a, 1, wait("short", "k100")))
		if i%50 == 0 {
			polls = append(polls, w.client().Acquire(w.a, 1, wait("short", lockcore.Key(fmt.Sprintf("k%03d", i/2)))))
		}
	}
	w.Settle()
	return holders, polls
}

func (w *world) wantSwept(n *leadertest.Node, class lockcore.ClassName, cause lockcore.Reason) {
	w.t.Helper()
	waiting, kept := 0, 0
	n.Machine.EachLive(acme, func(l *lockcore.Lease) bool {
		switch {
		case l.Class != class:
		case l.State == lockcore.StateWaiting:
			waiting++
		case l.Ending != cause:
			kept++
		}
		return true
	})
	if waiting > 0 || kept > 0 {
		w.t.Errorf("%d still wait and %d are not told to end", waiting, kept)
	}
}

func TestRetiredClass_isSweptInBoundedSteps(t *testing.T) {
	for _, changeLeader := range []bool{false, true} {
		t.Run(fmt.Sprintf("change of leader %v", changeLeader), func(t *testing.T) {
			w := newWorld(t)
			holders, polls := w.crowd()
			other := w.holder(w.a, "delay", "k")
			leads := w.a
			if changeLeader {
				w.a.HoldInbox()
				w.a.Leader().Propose(lockcore.RetireClass{Tenant: acme, Class: "short", Version: 1}, nil)
				w.Settle()
				w.elect(w.b, w.c)
				leads = w.b
			} else {
				w.command(lockcore.RetireClass{Tenant: acme, Class: "short", Version: 1})
			}
			before := leads.LastIndex()
			w.Settle()
			w.wantSwept(leads, "short", lockcore.ClassRetired)
			if got := leads.LastIndex() - before; got > 20 {
				t.Errorf("the sweep took %d entries", got)
			}
			if !changeLeader {
				for _, p := range polls {
					w.wantStatus(p, leader.StatusEnded, lockcore.ClassRetired)
				}
			}
			beat := holders[0].Heartbeat(leads, 1)
			w.Settle()
			w.wantLost(beat, lockcore.ClassRetired)
			w.wantState(other, lockcore.StateHeld, 0)
			w.Advance(11 * second)
			w.wantState(holders[299], lockcore.StateEnded, lockcore.ClassRetired)
		})
	}
}

func TestDroppedTenant_isSweptAndGone(t *testing.T) {
	w := newWorld(t)
	w.crowd()
	last, _ := w.a.Machine.Tenant(acme)
	w.command(lockcore.DropTenant{Tenant: acme})
	w.Settle()
	w.wantSwept(w.a, "short", lockcore.TenantDropped)
	w.Advance(11 * second)
	if state, known := w.a.Machine.Tenant(acme); known {
		t.Fatalf("the tenant is still there: %+v", state)
	}
	if got, _ := w.a.Machine.FinalToken(acme); got != last.LastToken {
		t.Errorf("final token %d, want %d", got, last.LastToken)
	}
}
