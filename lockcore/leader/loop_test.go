package leader

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// loop is one leader whose entries commit and whose rounds are confirmed when the loop is run.
type loop struct {
	leader  *Leader
	machine *lockcore.Machine
	now     time.Duration
	index   uint64
	entries [][]byte
	rounds  []uint64
}

func (l *loop) Propose(entry []byte) { l.entries = append(l.entries, entry) }
func (l *loop) Confirm(round uint64) { l.rounds = append(l.rounds, round) }
func (l *loop) Now() time.Duration   { return l.now }

// run commits and confirms until nothing is under way.
func (l *loop) run() {
	for len(l.entries)+len(l.rounds) > 0 {
		entries, rounds := l.entries, l.rounds
		l.entries, l.rounds = nil, nil
		for _, e := range entries {
			l.index++
			results, events := l.machine.Apply(l.index, e)
			if results[0].Epoch != 0 {
				l.leader.Ready(results[0].Epoch)
				continue
			}
			l.leader.Applied(results, events)
		}
		for _, r := range rounds {
			l.leader.Confirmed(r, nil)
		}
	}
}

// newLoop is a ready leader of tenant acme with a class of 10 s.
func newLoop(tb testing.TB) *loop {
	tb.Helper()
	l := &loop{machine: lockcore.New()}
	l.leader = New(Config{Node: "a", Machine: l.machine, Log: l, Net: l, Clock: l,
		WallMS: func() int64 { return 0 }, Jitter: func() float64 { return 0 },
		Salt: func() [16]byte { return [16]byte{1} }})
	l.leader.Begin()
	l.run()
	quotas := lockcore.Quotas{Keys: 1_000_000, Leases: 1_000_000, Waiters: 1_000_000, Sessions: 1_000_000,
		PerSession: lockcore.PerSessionMax, Ends: 1_000_000}
	l.leader.Propose(lockcore.PutTenant{Tenant: "acme", Quotas: quotas}, nil)
	l.leader.Propose(lockcore.PutClass{Tenant: "acme", Class: lockcore.Class{Name: "short", Version: 1,
		Purpose: lockcore.PurposeCorrectness, Enforcement: lockcore.EnforcementFenced,
		QuorumLoss: lockcore.QuorumLossClosed, LeaseMS: 10_000, HeartbeatMS: 3_000, MaxHoldMS: 3_600_000,
		MaxWaiters: 100}}, nil)
	l.run()
	return l
}

func benchSession(n uint64) lockcore.SessionID {
	var s lockcore.SessionID
	binary.BigEndian.PutUint64(s[8:], n)
	return s
}

var benchCaller = Caller{Tenant: "acme", Owner: "owner", APIKey: "key"}

func (l *loop) acquire(tb testing.TB, id lockcore.LeaseID, key lockcore.Key) {
	l.leader.Acquire(Acquire{Caller: benchCaller, Lease: id, Class: "short", Key: key}, func(a Answer, err error) {
		if err != nil || a.Status != StatusGranted {
			tb.Fatalf("acquire: %+v, %v", a, err)
		}
	})
}

func (l *loop) release(tb testing.TB, id lockcore.LeaseID) {
	l.leader.Release(Release{Caller: benchCaller, Lease: id}, func(a Answer, err error) {
		if err != nil || a.Status != StatusEnded {
			tb.Fatalf("release: %+v, %v", a, err)
		}
	})
}

// What is over leaves nothing behind that would stay until a long max_hold or max_wait has passed.
func TestEndedLeasesAndWaits_keepNoAlarm(t *testing.T) {
	l := newLoop(t)
	before := len(l.leader.alarms.heap)
	session, waiter := benchSession(1), benchSession(2)
	for n := uint64(1); n <= 100; n++ {
		id := lockcore.LeaseID{Session: session, Sequence: n}
		l.acquire(t, id, "k")
		l.run()
		waiting := lockcore.LeaseID{Session: waiter, Sequence: n}
		l.leader.Acquire(Acquire{Caller: benchCaller, Lease: waiting, Class: "short", Key: "k", Wait: 20 * time.Hour},
			func(Answer, error) {})
		l.run()
		l.release(t, waiting)
		l.release(t, id)
		l.run()
	}
	if got := len(l.leader.alarms.heap) - before; got > 2 { // the two sessions'
		t.Errorf("%d alarms are left after 100 leases and 100 waits, want 2", got)
	}
}

func TestAlarms_goOffInOrderAndNotWhenTakenBack(t *testing.T) {
	var a alarms
	var got []int
	set := map[int]*alarm{}
	for i, at := range []time.Duration{5, 3, 5, 1, 4, 2} {
		set[i] = a.set(at, func(time.Duration) { got = append(got, i) })
	}
	a.takeBack(set[4])
	a.takeBack(set[3])
	a.takeBack(set[3])
	a.takeBack(nil)
	for a.due(10) {
		a.pop().fire(10)
	}
	a.takeBack(set[0])
	if want := []int{5, 1, 0, 2}; !slices.Equal(got, want) {
		t.Errorf("went off: %v, want %v", got, want)
	}
}

// foreign applies an entry that another node proposed and tells the leader, as when it has not heard yet that it is deposed.
func (l *loop) foreign(tb testing.TB, e lockcore.Entry) {
	tb.Helper()
	encoded, err := e.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	l.index++
	l.leader.Applied(l.machine.Apply(l.index, encoded))
}

var otherEpoch = lockcore.Entry{Commands: []lockcore.Command{lockcore.AdvanceEpoch{Node: "b"}}}

func TestNewerEpochApplied_endsTheLeadershipBeforeItIsToldSo(t *testing.T) {
	l := newLoop(t)
	var underWay, waiting, round error
	ask := func(n uint64, err *error) {
		l.leader.Acquire(Acquire{Caller: benchCaller, Lease: lockcore.LeaseID{Session: benchSession(n), Sequence: 1},
			Class: "short", Key: "k"}, func(_ Answer, e error) { *err = e })
	}
	ask(1, &underWay)
	ask(2, &waiting)
	l.leader.Heartbeat(Heartbeat{Caller: benchCaller, Session: benchSession(3)}, func(_ HeartbeatAnswer, e error) { round = e })
	l.foreign(t, otherEpoch)
	if !l.leader.IsStopped() || l.leader.IsReady() {
		t.Error("the leadership goes on under a newer epoch")
	}
	if !errors.Is(underWay, ErrUnknownOutcome) || !errors.Is(waiting, ErrNotLeader) || !errors.Is(round, ErrNotLeader) {
		t.Errorf("got %v, %v, %v; want unknown, not the leader, not the leader", underWay, waiting, round)
	}
	l.run() // the entry under way comes late, and so does the round
	l.leader.Step()
	if _, ok := l.leader.NextStep(); ok {
		t.Error("a leadership that is over still has something to do")
	}
}

func TestEpochEntry_overtakenByANewerEpoch_beginsNothing(t *testing.T) {
	l := &loop{machine: lockcore.New()}
	l.leader = New(Config{Node: "a", Machine: l.machine, Log: l, Net: l, Clock: l,
		WallMS: func() int64 { return 0 }, Jitter: func() float64 { return 0 },
		Salt: func() [16]byte { return [16]byte{1} }})
	l.leader.Begin()
	l.index++
	results, _ := l.machine.Apply(l.index, l.entries[0])
	l.foreign(t, otherEpoch)
	l.leader.Ready(results[0].Epoch)
	if l.leader.IsReady() || !l.leader.IsStopped() {
		t.Error("a leader is ready under an epoch that is not in force")
	}
}

func TestEpochEntry_ofALeadershipThatFailed_beginsNothing(t *testing.T) {
	l := &loop{machine: lockcore.New()}
	l.leader = New(Config{Node: "a", Machine: l.machine, Log: l, Net: l, Clock: l,
		WallMS: func() int64 { return 0 }, Jitter: func() float64 { return 0 },
		Salt: func() [16]byte { return [16]byte{1} }})
	l.leader.Begin()
	l.leader.Failed(errors.New("leadership lost"))
	l.run()
	if l.leader.IsReady() {
		t.Error("a leader is ready after it was told that its epoch entry failed")
	}
}

func TestLastContact_isTheHoldersLastRequest(t *testing.T) {
	l := newLoop(t)
	id := lockcore.LeaseID{Session: benchSession(1), Sequence: 1}
	if _, held := l.leader.LastContact("acme", id); held {
		t.Error("a contact without a lease")
	}
	l.acquire(t, id, "k")
	l.run()
	l.now = 3 * time.Second
	l.leader.Heartbeat(Heartbeat{Caller: benchCaller, Session: id.Session, Sequences: []uint64{1}},
		func(HeartbeatAnswer, error) {})
	l.now = 5 * time.Second
	if at, held := l.leader.LastContact("acme", id); !held || at != 3*time.Second {
		t.Errorf("last contact at %v, %v; want 3s, true", at, held)
	}
}
