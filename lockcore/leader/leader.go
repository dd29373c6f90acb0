package leader

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// Log takes entries. Propose returns at once; the owner then calls Applied when the entry is applied, or Failed when it
// was refused or its outcome is unknown.
type Log interface {
	Propose(entry []byte)
}

// Net asks a majority. Confirm returns at once; the owner then calls Confirmed with the same round, once.
type Net interface {
	Confirm(round uint64)
}

// Clock tells the time elapsed since a moment of its own. It never goes back, and where the machine's clocks disagree
// about an interval it takes the smallest, so that a lease never ends early on its account.
type Clock interface {
	Now() time.Duration
}

// Config is what a leader needs. All fields are required.
type Config struct {
	Node    string // this node's id
	Machine *lockcore.Machine
	Log     Log
	Net     Net
	Clock   Clock
	WallMS  func() int64    // wall clock, milliseconds since the Unix epoch, for people
	Jitter  func() float64  // from 0, below 1: spreads what would otherwise fall due together
	Salt    func() [16]byte // random and secret, another one for each entry: see lockcore.Entry
}

const (
	leaseClockEvery   = 5 * time.Second
	forgetAfter       = 10 * time.Minute
	hangupGrace       = 500 * time.Millisecond
	purgeMin          = 5 * time.Second
	purgePolls        = 3
	restartExtraShare = 10 // a restarted lease's timer runs up to a tenth longer
	epsilonMax        = 200 * time.Millisecond
	epsilonShare      = 10
	driftPercent      = 1
)

// Leader is one leadership of one partition. See the package comment for who may call it and when.
type Leader struct {
	machine *lockcore.Machine
	log     Log
	clock   Clock
	wallMS  func() int64
	jitter  func() float64
	salt    func() [16]byte
	node    string

	state     phase
	begun     time.Duration // when the epoch entry was proposed
	epoch     lockcore.Epoch
	readyAt   time.Duration // when the epoch entry was applied
	clockBase int64         // the lease clock then

	rounds   rounds
	batcher  batcher
	alarms   alarms
	holdings map[ref]*holding
	waits    map[ref]*wait
	sessions map[sessionRef]*activity
	longs    int // long leases held

	deliveries []delivery // of the entry being followed
	silent     []*wait    // found in this step
	lastLog    time.Duration
}

type phase uint8

const (
	phaseNew phase = iota
	phaseBeginning
	phaseReady
	phaseStopped
)

// ref names one lease request in the partition.
type ref struct {
	tenant lockcore.TenantID
	lease  lockcore.LeaseID
}

// compare orders references, so that a simulation repeats.
func (r ref) compare(o ref) int {
	return cmp.Or(cmp.Compare(r.tenant, o.tenant), bytes.Compare(r.lease.Session[:], o.lease.Session[:]),
		cmp.Compare(r.lease.Sequence, o.lease.Sequence))
}

// New makes a leader that has not begun.
func New(c Config) *Leader {
	return &Leader{
		machine: c.Machine, log: c.Log, clock: c.Clock, wallMS: c.WallMS, jitter: c.Jitter, salt: c.Salt, node: c.Node,
		rounds:   rounds{net: c.Net},
		batcher:  batcher{lanes: map[lockcore.TenantID]*lane{}},
		holdings: map[ref]*holding{}, waits: map[ref]*wait{}, sessions: map[sessionRef]*activity{},
	}
}

// Begin proposes the epoch entry. Nothing is answered before Ready.
func (l *Leader) Begin() {
	l.state, l.begun = phaseBeginning, l.clock.Now()
	entry, err := lockcore.Entry{WallMS: l.wallMS(), Salt: l.salt(),
		Commands: []lockcore.Command{lockcore.AdvanceEpoch{Node: l.node}}}.Encode()
	if err != nil {
		panic("leader: the epoch entry cannot be encoded: " + err.Error())
	}
	l.log.Propose(entry)
}

// Ready tells the leader that its own epoch entry was applied and which epoch it was given. It reads the machine and
// restarts what a new leader must restart: a short lease gets a full term, a long one what remains of it, a lock delay
// and a wait begin again. A machine that has gone past that epoch already ends the leadership.
func (l *Leader) Ready(epoch lockcore.Epoch) {
	if l.state != phaseBeginning {
		return
	}
	if l.machine.Epoch() != epoch {
		l.Stop()
		return
	}
	l.state, l.epoch, l.readyAt = phaseReady, epoch, l.clock.Now()
	l.clockBase, l.lastLog = l.machine.LeaseClockMS(), l.readyAt
	for _, t := range l.machine.Tenants() {
		l.adopt(t)
	}
	l.alarms.set(l.readyAt+leaseClockEvery, l.tickLeaseClock)
	l.flush()
}

// IsReady reports whether the leader answers.
func (l *Leader) IsReady() bool { return l.state == phaseReady }

// IsStopped reports whether the leadership is over.
func (l *Leader) IsStopped() bool { return l.state == phaseStopped }

// Epoch is the epoch of a ready leader.
func (l *Leader) Epoch() lockcore.Epoch { return l.epoch }

// Applied tells the leader what an entry led to that the machine has just applied. Entries of other epochs concern it
// only in that a newer epoch ends it.
func (l *Leader) Applied(results []lockcore.Result, events []lockcore.Event) {
	if l.state != phaseReady {
		return
	}
	if l.machine.Epoch() != l.epoch {
		l.Stop()
		return
	}
	if l.machine.EntryEpoch() != l.epoch || len(results) != len(l.batcher.inFlight) {
		return
	}
	batch, proposed := l.batcher.inFlight, l.batcher.proposed
	l.batcher.inFlight = nil
	for _, e := range events {
		l.observe(e, proposed)
	}
	for i, p := range batch {
		if p.done != nil {
			p.done(results[i], proposed, nil)
		}
	}
	l.deliver()
	if c, unstated := l.machine.UnstatedCheckpoint(); unstated {
		l.propose("", true, c, nil)
	}
	l.flush()
}

// Failed tells the leader that the entry under way was not taken. After ErrNotLeader it is known not to be in the log;
// any other error leaves that open. Either way the leadership is over.
func (l *Leader) Failed(err error) {
	if l.state == phaseStopped {
		return
	}
	if !errors.Is(err, ErrNotLeader) {
		err = ErrUnknownOutcome
	}
	l.stop(err)
}

// Stop ends the leadership: whatever was under way is unknown, and whatever waited was not proposed.
func (l *Leader) Stop() { l.stop(ErrUnknownOutcome) }

func (l *Leader) stop(underWay error) {
	if l.state == phaseStopped {
		return
	}
	l.state = phaseStopped
	inFlight := l.batcher.inFlight
	l.batcher.inFlight = nil
	for _, p := range inFlight {
		if p.done != nil {
			p.done(lockcore.Result{}, 0, underWay)
		}
	}
	for _, p := range l.batcher.drain() {
		if p.done != nil {
			p.done(lockcore.Result{}, 0, ErrNotLeader)
		}
	}
	l.rounds.drain(ErrNotLeader)
	for _, id := range slices.SortedFunc(maps.Keys(l.waits), ref.compare) {
		if p := l.waits[id].parked; p != nil {
			p.answer(Answer{}, ErrNotLeader)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(l.holdings), ref.compare) {
		l.holdings[id].decided()
	}
}

// Confirmed ends a confirm round.
func (l *Leader) Confirmed(round uint64, err error) {
	l.rounds.finish(round, err)
	l.flush()
}

// Confirm calls done after a confirm round that begins from here on, with nil if this leader still leads: what the
// machine says then is current. It makes a read linearizable.
func (l *Leader) Confirm(done func(error)) {
	if l.state != phaseReady {
		done(ErrNotLeader)
		return
	}
	l.rounds.ask(done)
}

// Step fires what has fallen due.
func (l *Leader) Step() {
	if l.state != phaseReady {
		return
	}
	now := l.clock.Now()
	for l.alarms.due(now) && l.state == phaseReady {
		l.alarms.pop().fire(now)
	}
	l.purge()
	l.flush()
}

// NextStep is the moment at which Step should be called at the latest.
func (l *Leader) NextStep() (time.Duration, bool) {
	if l.state != phaseReady {
		return 0, false
	}
	return l.alarms.next()
}

// Propose puts a command into the next entry: one of the platform's own (a tenant, a class), a mark that ends a hold, or a
// guard's report. The latter two wait in their tenant's line, the mark before what begins something, and are
// ErrOverloaded when ProposedMax of them wait there. done may be nil. Other errors: ErrNotLeader, ErrUnknownOutcome; to
// repeat a mark after that one is harmless, since it names the grant's token.
func (l *Leader) Propose(c lockcore.Command, done func(lockcore.Result, error)) {
	if done == nil {
		done = func(lockcore.Result, error) {}
	}
	p := pending{command: c, done: func(r lockcore.Result, _ time.Duration, err error) { done(r, err) }}
	tenant, urgent := lockcore.TenantID(""), true
	switch c := c.(type) {
	case lockcore.MarkEnding:
		tenant, p.given = c.Tenant, true
	case lockcore.ReportGuard:
		tenant, urgent, p.given = c.Tenant, false, true
	}
	switch {
	case l.state != phaseReady:
		done(lockcore.Result{}, ErrNotLeader)
		return
	case p.given && l.batcher.fullOfGiven(tenant):
		done(lockcore.Result{}, ErrOverloaded)
		return
	}
	l.batcher.put(tenant, urgent, p)
	l.flush()
}

// propose puts a command of the leader's own into the next entry.
func (l *Leader) propose(tenant lockcore.TenantID, urgent bool, c lockcore.Command, done func(lockcore.Result, time.Duration, error)) {
	l.batcher.put(tenant, urgent, pending{command: c, done: done})
}

// ask puts a caller's command into the next entry, or answers ErrOverloaded at once when the tenant's line is full.
func (l *Leader) ask(tenant lockcore.TenantID, urgent bool, c lockcore.Command, done func(lockcore.Result, time.Duration, error)) {
	if l.batcher.full(tenant, urgent) {
		done(lockcore.Result{}, 0, ErrOverloaded)
		return
	}
	l.propose(tenant, urgent, c, done)
}

// flush proposes the next entry, unless one is under way. Answers may ask for more, so it is called after them.
func (l *Leader) flush() {
	for l.state == phaseReady && l.batcher.inFlight == nil {
		batch := l.batcher.take()
		if len(batch) == 0 {
			return
		}
		l.send(batch)
	}
}

func (l *Leader) send(batch []pending) {
	now := l.clock.Now()
	encoded, err := l.encode(batch, now)
	if err != nil { // nothing that the API lets through: what cannot be logged does not take the rest with it
		batch = slices.DeleteFunc(batch, func(p pending) bool { return l.refusedAlone(p, now) })
		if encoded, err = l.encode(batch, now); err != nil {
			refuseAll(batch, now)
			return
		}
	}
	for _, p := range batch {
		if p.sent != nil {
			p.sent()
		}
	}
	l.batcher.inFlight, l.batcher.proposed, l.lastLog = batch, now, now
	l.log.Propose(encoded)
}

func (l *Leader) encode(batch []pending, now time.Duration) ([]byte, error) {
	entry := lockcore.Entry{Epoch: l.epoch, ClockMS: l.leaseClock(now), WallMS: l.wallMS(), Salt: l.salt()}
	for _, p := range batch {
		entry.Commands = append(entry.Commands, p.command)
	}
	return entry.Encode()
}

// refusedAlone refuses a command that cannot be logged by itself.
func (l *Leader) refusedAlone(p pending, now time.Duration) bool {
	if _, err := l.encode([]pending{p}, now); err == nil {
		return false
	}
	refuseAll([]pending{p}, now)
	return true
}

func refuseAll(batch []pending, now time.Duration) {
	for _, p := range batch {
		if p.done != nil {
			p.done(lockcore.Result{Outcome: lockcore.Refused, Reason: lockcore.RefusedInvalid}, now, nil)
		}
	}
}

// leaseClock is the lease clock at a moment of this leadership.
func (l *Leader) leaseClock(now time.Duration) int64 {
	return l.clockBase + (now - l.readyAt).Milliseconds()
}

// tickLeaseClock logs the lease clock while long leases live and nothing else was logged.
func (l *Leader) tickLeaseClock(now time.Duration) {
	next := l.lastLog + leaseClockEvery
	if next <= now {
		next = now + leaseClockEvery
		if l.longs > 0 {
			l.propose("", true, lockcore.LeaseClock{}, nil)
		}
	}
	l.alarms.set(next, l.tickLeaseClock)
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
