package lockcore

import (
	"crypto/sha256"
	"fmt"

	"github.com/tidwall/btree"
)

// LevelSupported is the highest level of command kinds that this build knows.
const LevelSupported = 1

// CheckpointEvery is the distance, in log indices, at which a machine keeps its rolling hash for comparison.
const CheckpointEvery = 10_000

// Machine is one partition's state. See the package comment for what it must not know.
type Machine struct {
	index   uint64
	epoch   Epoch
	level   uint16
	clockMS int64 // the lease clock
	rolling [32]byte

	checkpoint      Checkpoint // the last one passed
	checkpointKnown uint64     // index of the last one that a leader stated

	tenants *btree.Map[string, *tenant]
	dropped *btree.Map[string, droppedSlug] // slugs that are gone

	entryEpoch Epoch       // stamped on the entry applied last; not of the state
	salt       [16]byte    // of the entry applied last; not of the state
	divergence *Divergence // nil: none; not of the state

	// of the entry being applied
	events []Event
	wallMS int64
}

// New is an empty machine, as before the first entry.
func New() *Machine {
	return &Machine{level: 1, tenants: new(btree.Map[string, *tenant]), dropped: new(btree.Map[string, droppedSlug])}
}

// Apply carries out one log entry and returns a result for each of its commands, in order, and the events that became
// true. Indices rise; one that does not is a broken log and panics, as do an entry that cannot be decoded and a command of
// an unknown kind: a replica that stops is better than one that differs. A checkpoint that differs does not panic, since
// nobody can tell here which of the two went wrong: see Divergence, which the log's owner asks after each entry.
func (m *Machine) Apply(index uint64, entry []byte) ([]Result, []Event) {
	e, err := DecodeEntry(entry)
	if err != nil {
		panic(fmt.Sprintf("lockcore: entry %d: %v", index, err))
	}
	if index <= m.index {
		panic(fmt.Sprintf("lockcore: entry %d after entry %d", index, m.index))
	}
	m.index, m.entryEpoch, m.salt, m.wallMS, m.events = index, e.Epoch, e.Salt, e.WallMS, nil
	if e.Epoch == m.epoch {
		m.clockMS = max(m.clockMS, e.ClockMS)
	}
	results := make([]Result, 0, len(e.Commands))
	for _, c := range e.Commands {
		results = append(results, m.command(e.Epoch, c))
	}
	m.roll(index, entry, results, m.events)
	events := m.events
	m.events = nil
	return results, events
}

// command fences one command by its epoch and carries it out.
func (m *Machine) command(epoch Epoch, c Command) Result {
	if advance, ok := c.(AdvanceEpoch); ok {
		return m.advanceEpoch(advance)
	}
	if epoch != m.epoch || epoch == 0 { // nobody leads before the first AdvanceEpoch
		return refuse(RefusedStaleEpoch)
	}
	switch c := c.(type) {
	case PutTenant:
		return m.putTenant(c)
	case DropTenant:
		return m.dropTenant(c)
	case LeaseClock:
		return Result{Outcome: Done}
	case Checkpoint:
		return m.compare(c)
	case RaiseLevel:
		return m.raiseLevel(c)
	}
	return m.tenantCommand(c)
}

// tenantCommand carries out a command that concerns one known tenant.
func (m *Machine) tenantCommand(c Command) Result {
	id := TenantOf(c)
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return refuse(RefusedUnknown)
	}
	defer m.forgetTenantIfGone(t)
	switch c := c.(type) {
	case PutClass:
		return m.putClass(t, c.Class)
	case RetireClass:
		return m.retireClass(t, c)
	case Acquire:
		return m.acquire(t, c)
	case Release:
		return m.release(t, c)
	case Expire:
		return m.expire(t, c)
	case EndDelay:
		return m.endDelay(t, c)
	case Leave:
		return m.leave(t, c)
	case WaiterGone:
		return m.waiterGone(t, c)
	case MarkEnding:
		return m.markEnding(t, c)
	case EndSession:
		return m.endSession(t, c)
	case ForgetSession:
		return m.forgetSession(t, c)
	case Extend:
		return m.extend(t, c)
	case ReportGuard:
		return m.reportGuard(t, c)
	}
	panic(fmt.Sprintf("lockcore: entry %d: command kind %d", m.index, c.kind()))
}

// TenantOf is the tenant that a command concerns; empty if it concerns none, or is PutTenant.
func TenantOf(c Command) TenantID {
	switch c := c.(type) {
	case PutClass:
		return c.Tenant
	case RetireClass:
		return c.Tenant
	case Acquire:
		return c.Tenant
	case Release:
		return c.Tenant
	case Expire:
		return c.Tenant
	case EndDelay:
		return c.Tenant
	case Leave:
		return c.Tenant
	case WaiterGone:
		return c.Tenant
	case MarkEnding:
		return c.Tenant
	case EndSession:
		return c.Tenant
	case ForgetSession:
		return c.Tenant
	case Extend:
		return c.Tenant
	case ReportGuard:
		return c.Tenant
	}
	return ""
}

func (m *Machine) advanceEpoch(c AdvanceEpoch) Result {
	m.epoch++
	m.emit(Event{Kind: EventEpochAdvanced, Epoch: m.epoch, By: c.Node})
	return Result{Outcome: Done, Epoch: m.epoch}
}

func (m *Machine) raiseLevel(c RaiseLevel) Result {
	switch {
	case c.Level > LevelSupported:
		panic(fmt.Sprintf("lockcore: entry %d: level %d is above %d", m.index, c.Level, LevelSupported))
	case c.Level <= m.level:
		return refuse(RefusedStaleVersion)
	}
	m.level = c.Level
	m.emit(Event{Kind: EventLevelRaised, Version: uint64(c.Level)})
	return Result{Outcome: Done}
}

// emit records an event of the entry being applied.
func (m *Machine) emit(e Event) {
	e.AtMS = m.wallMS
	m.events = append(m.events, e)
}

// Divergence is a checkpoint at which this machine and the leader that stated it had come to different ends.
type Divergence struct {
	Index  uint64   // of the checkpoint
	Here   [32]byte // the rolling hash of this machine
	Stated [32]byte // the leader's
}

// Divergence reports the first checkpoint that differed since this machine was made or restored, or false. It is not part
// of the state, which goes on as on every other replica. Whose fault it is, the machine cannot know: the owner of the log
// stops this replica, and tells somebody.
func (m *Machine) Divergence() (Divergence, bool) {
	if m.divergence == nil {
		return Divergence{}, false
	}
	return *m.divergence, true
}

// compare remembers when the leader's rolling hash at the last checkpoint is another one. The result, and all that is
// hashed, is the same either way.
func (m *Machine) compare(c Checkpoint) Result {
	if c.Index != m.checkpoint.Index {
		return refuse(RefusedStaleVersion)
	}
	if c.Hash != m.checkpoint.Hash && m.divergence == nil {
		m.divergence = &Divergence{Index: c.Index, Here: m.checkpoint.Hash, Stated: c.Hash}
	}
	m.checkpointKnown = c.Index
	return Result{Outcome: Done}
}

// roll takes the entry, its results and its events into the rolling hash and keeps it at each checkpoint.
func (m *Machine) roll(index uint64, entry []byte, results []Result, events []Event) {
	b := make([]byte, 0, 128+24*len(results)+96*len(events))
	b = append(b, m.rolling[:]...)
	b = appendUint(b, index)
	sum := sha256.Sum256(entry)
	b = append(b, sum[:]...)
	for _, r := range results {
		b = append(b, byte(r.Outcome), byte(r.Reason))
		b = appendUint(b, uint64(r.Token), uint64(r.Epoch))
	}
	for _, e := range events {
		b = e.appendTo(b)
	}
	m.rolling = sha256.Sum256(b)
	if index/CheckpointEvery > m.checkpoint.Index/CheckpointEvery {
		m.checkpoint = Checkpoint{Index: index, Hash: m.rolling}
	}
}

// appendTo writes the event in one unambiguous form, for hashing.
func (e Event) appendTo(b []byte) []byte {
	b = append(b, byte(e.Kind), byte(e.Reason))
	b = append(b, e.Lease.Session[:]...)
	b = appendUint(b, e.Lease.Sequence, uint64(e.Token), uint64(e.Epoch), e.Version, uint64(e.AtMS))
	for _, s := range [...]string{string(e.Tenant), string(e.Class), string(e.Key), e.Holder, e.APIKey, e.By, e.Note} {
		b = appendUint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if e.Kind >= EventGuardReported { // fields that came later: the hash over older kinds stays what it was
		b = appendUint(b, e.Count, uint64(e.Highest), uint64(e.SeenMS))
	}
	return b
}
