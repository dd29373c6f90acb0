package lockcoretest_test

import (
	"errors"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/lockcoretest"
)

var (
	one = lockcoretest.LeaseNumber(1, 1)
	two = lockcoretest.LeaseNumber(2, 1)
)

// told is one entry as a faulty machine might tell of it.
type told struct {
	entry   lockcore.Entry
	results []lockcore.Result
	events  []lockcore.Event
}

func epochEntry() told {
	return told{lockcore.Entry{Commands: []lockcore.Command{lockcore.AdvanceEpoch{}}},
		[]lockcore.Result{{Outcome: lockcore.Done, Epoch: 1}},
		[]lockcore.Event{{Kind: lockcore.EventEpochAdvanced, Epoch: 1}}}
}

func acquireEntry(id lockcore.LeaseID, r lockcore.Result, events ...lockcore.Event) told {
	c := lockcore.Acquire{Tenant: "acme", Lease: id, Class: "jobs", Key: "k", WaitMS: 1000}
	return told{lockcore.Entry{Epoch: 1, Commands: []lockcore.Command{c}}, []lockcore.Result{r}, events}
}

func event(kind lockcore.EventKind, id lockcore.LeaseID, token lockcore.Token) lockcore.Event {
	e := lockcore.Event{Kind: kind, Tenant: "acme", Class: "jobs", Key: "k", Lease: id, Token: token, Epoch: 1}
	if kind == lockcore.EventEnded {
		e.Reason = lockcore.Released
	}
	return e
}

func grantedWith(token lockcore.Token) lockcore.Result {
	return lockcore.Result{Outcome: lockcore.Granted, Token: token}
}

// TestLedger_findsBrokenInvariants tells the ledger of machines that break a rule each.
func TestLedger_findsBrokenInvariants(t *testing.T) {
	held := acquireEntry(one, grantedWith(1), event(lockcore.EventGranted, one, 1))
	ended := acquireEntry(one, lockcore.Result{Outcome: lockcore.Done}, event(lockcore.EventEnded, one, 1))
	queued := acquireEntry(two, lockcore.Result{Outcome: lockcore.Queued}, event(lockcore.EventQueued, two, 0))
	three := lockcoretest.LeaseNumber(3, 1)
	elsewhere := event(lockcore.EventGranted, two, 2)
	elsewhere.Tenant = "birch"
	for name, c := range map[string]struct {
		story []told
		want  error
	}{
		"a second holder": {[]told{epochEntry(), held,
			acquireEntry(two, grantedWith(2), event(lockcore.EventGranted, two, 2))}, lockcoretest.ErrExclusion},
		"a grant within a lock delay": {[]told{epochEntry(), held, ended,
			acquireEntry(two, grantedWith(2), event(lockcore.EventDelayStarted, one, 1), event(lockcore.EventGranted, two, 2))},
			lockcoretest.ErrExclusion},
		"the end of another's hold": {[]told{epochEntry(), held,
			acquireEntry(two, lockcore.Result{Outcome: lockcore.Done}, event(lockcore.EventEnded, two, 1))}, lockcoretest.ErrExclusion},
		"a token again": {[]told{epochEntry(), held, ended,
			acquireEntry(two, grantedWith(1), event(lockcore.EventGranted, two, 1))}, lockcoretest.ErrTokenOrder},
		"a second grant of an id": {[]told{epochEntry(), held, ended,
			acquireEntry(one, grantedWith(2), event(lockcore.EventGranted, one, 2))}, lockcoretest.ErrGrantOnce},
		"an answer with another token": {[]told{epochEntry(), held, acquireEntry(one, grantedWith(2))}, lockcoretest.ErrGrantOnce},
		"granted after the end":        {[]told{epochEntry(), held, ended, acquireEntry(one, grantedWith(1))}, lockcoretest.ErrGrantOnce},
		"granted and no event":         {[]told{epochEntry(), held, acquireEntry(two, grantedWith(2))}, lockcoretest.ErrGrantOnce},
		"out of turn": {[]told{epochEntry(), held, queued,
			acquireEntry(three, lockcore.Result{Outcome: lockcore.Queued}, event(lockcore.EventQueued, three, 0)),
			acquireEntry(one, lockcore.Result{Outcome: lockcore.Done}, event(lockcore.EventEnded, one, 1),
				event(lockcore.EventPromoted, three, 2))}, lockcoretest.ErrFIFO},
		"past the queue": {[]told{epochEntry(), held, queued,
			acquireEntry(three, grantedWith(2), event(lockcore.EventEnded, one, 1), event(lockcore.EventGranted, three, 2))},
			lockcoretest.ErrFIFO},
		"before the first epoch": {[]told{held}, lockcoretest.ErrEpochOrder},
		"by a stale entry": {[]told{epochEntry(), epochEntry2(),
			acquireEntry(one, grantedWith(1), event(lockcore.EventGranted, one, 1))}, lockcoretest.ErrEpochOrder},
		"of another tenant": {[]told{epochEntry(), acquireEntry(two, grantedWith(2), elsewhere)}, lockcoretest.ErrIsolation},
		"nothing wrong": {[]told{epochEntry(), held, queued, acquireEntry(one, lockcore.Result{Outcome: lockcore.Done},
			event(lockcore.EventEnded, one, 1), event(lockcore.EventPromoted, two, 2))}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := lockcoretest.NewLedger()
			var got error
			for _, e := range c.story {
				if got = l.Entry(e.entry, e.results, e.events); got != nil {
					break
				}
			}
			if !errors.Is(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func epochEntry2() told {
	e := epochEntry()
	e.results[0].Epoch, e.events[0].Epoch = 2, 2
	return e
}
