package lockcore

import "strings"

// The reads below answer from this machine's own applied state. Whether that is current is for the caller to know.

// Index is the log index applied last.
func (m *Machine) Index() uint64 { return m.index }

// Epoch is the epoch in force.
func (m *Machine) Epoch() Epoch { return m.epoch }

// EntryEpoch is the epoch that the entry applied last was proposed under. It is not part of the state.
func (m *Machine) EntryEpoch() Epoch { return m.entryEpoch }

// Salt is the salt of the entry applied last, zeros if it had none. It is not part of the state.
func (m *Machine) Salt() [16]byte { return m.salt }

// Level is the level of command kinds in force.
func (m *Machine) Level() uint16 { return m.level }

// LeaseClockMS is the replicated lease clock, in milliseconds.
func (m *Machine) LeaseClockMS() int64 { return m.clockMS }

// Rolling is the rolling hash over every entry applied, its results and its events.
func (m *Machine) Rolling() [32]byte { return m.rolling }

// UnstatedCheckpoint is the last checkpoint passed, unless a leader has stated it already.
func (m *Machine) UnstatedCheckpoint() (Checkpoint, bool) {
	return m.checkpoint, m.checkpoint.Index > m.checkpointKnown
}

// TenantState is what a partition knows of a tenant.
type TenantState struct {
	ID        TenantID
	Quotas    Quotas
	LastToken Token
	Suspended bool
	Dropped   bool
	Occupied  int // keys with a holder or a lock delay
	Waiting   int
	Keys      int
	Sessions  int
	Ends      int    // requests that are over and remembered
	Revision  uint64 // of the control log, the highest that a command of the tenant came from
}

// Tenant reports the tenant, or false.
func (m *Machine) Tenant(id TenantID) (TenantState, bool) {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return TenantState{}, false
	}
	return t.state(), true
}

func (t *tenant) state() TenantState {
	return TenantState{ID: t.ID, Quotas: t.quotas, LastToken: t.lastToken, Suspended: t.suspended, Dropped: t.dropped,
		Occupied: t.occupied, Waiting: t.waiting, Keys: t.keys.Len(), Sessions: t.sessions.Len(),
		Ends: t.ends, Revision: t.revision}
}

// Tenants lists the tenants in order of their slugs.
func (m *Machine) Tenants() []TenantState {
	var all []TenantState
	m.tenants.Scan(func(_ string, t *tenant) bool {
		all = append(all, t.state())
		return true
	})
	return all
}

// FinalToken is the last token of a slug that was dropped, and whether there is such a slug.
func (m *Machine) FinalToken(id TenantID) (Token, bool) {
	gone, ok := m.dropped.Get(string(id))
	return gone.token, ok
}

// Class reports a class, retired ones included. The value must not be changed.
func (m *Machine) Class(id TenantID, name ClassName) (*Class, bool) {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return nil, false
	}
	return t.class(name)
}

// Classes lists a tenant's classes by name, retired ones included.
func (m *Machine) Classes(id TenantID) []*Class {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return nil
	}
	return t.classes.Values()
}

// Guard reports what the guards of a class have told; false: nothing yet. It outlives the class's retirement.
func (m *Machine) Guard(id TenantID, class ClassName) (Guard, bool) {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return Guard{}, false
	}
	g, ok := t.guards.Get(string(class))
	if !ok {
		return Guard{}, false
	}
	return *g, true
}

// Lease finds a lease request by its id: live, or remembered by its session.
func (m *Machine) Lease(id TenantID, lease LeaseID) (*Lease, bool) {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return nil, false
	}
	return t.leases.Get(lease.row())
}

// Session finds a session that is remembered.
func (m *Machine) Session(id TenantID, session SessionID) (*Session, bool) {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return nil, false
	}
	return t.sessions.Get(string(session[:]))
}

// EachSession calls f for each of a tenant's sessions, in order of their ids, until it returns false.
func (m *Machine) EachSession(id TenantID, f func(*Session) bool) {
	if t, ok := m.tenants.Get(string(id)); ok {
		t.sessions.Scan(func(_ string, s *Session) bool { return f(s) })
	}
}

// EachLive calls f for each lease that is held and each request that waits, in order of their ids, until it returns false.
func (m *Machine) EachLive(id TenantID, f func(*Lease) bool) {
	if t, ok := m.tenants.Get(string(id)); ok {
		t.leases.Scan(func(_ string, l *Lease) bool { return l.State == StateEnded || f(l) })
	}
}

// SessionLeases lists what is remembered of a session's leases, by sequence.
func (m *Machine) SessionLeases(id TenantID, session SessionID) []*Lease {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return nil
	}
	return t.leasesOf(session)
}

// positionScanMax bounds the work of one Position.
const positionScanMax = 100

// Position is a waiter's place in its queue, from 1. It is exact up to 100; beyond, it is an upper bound, because
// those who left the middle of the line are still counted.
func (m *Machine) Position(id TenantID, l *Lease) int {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return 0
	}
	ahead, first, prefix := 0, uint64(0), keyName(l.Class, l.Key)+"\x00"
	t.queue.Ascend(prefix, func(row string, waiter LeaseID) bool {
		if first == 0 {
			if head := t.lease(waiter); head != nil {
				first = head.Place
			}
		}
		if !strings.HasPrefix(row, prefix) || waiter == l.ID || ahead >= positionScanMax {
			return false
		}
		ahead++
		return true
	})
	if ahead >= positionScanMax && l.Place >= first {
		return int(l.Place-first) + 1
	}
	return ahead + 1
}

// Lock is one key that somebody holds or waits for, or that is in its lock delay.
type Lock struct {
	Class      ClassName
	Key        Key
	Holder     *Lease // nil: nobody
	DelayToken Token  // the grant whose lock delay runs; 0: none
	DelayMS    int64
	Waiters    int
}

// EachLock calls f for a tenant's locks by class and key, beginning with the first that is not before the given one,
// until f returns false.
func (m *Machine) EachLock(id TenantID, fromClass ClassName, fromKey Key, f func(Lock) bool) {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return
	}
	t.keys.Ascend(keyName(fromClass, fromKey), func(name string, k *keyRow) bool {
		class, key := splitKeyName(name)
		return f(t.lock(class, key, *k))
	})
}

func (t *tenant) lock(class ClassName, key Key, k keyRow) Lock {
	l := Lock{Class: class, Key: key, DelayToken: k.delayToken, DelayMS: k.delayMS, Waiters: k.waiters}
	if !k.holder.isZero() {
		l.Holder = t.lease(k.holder)
	}
	return l
}

// Lock finds one lock; false: nobody holds it or waits for it.
func (m *Machine) Lock(id TenantID, class ClassName, key Key) (Lock, bool) {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return Lock{}, false
	}
	k, ok := t.keys.Get(keyName(class, key))
	if !ok {
		return Lock{}, false
	}
	return t.lock(class, key, *k), true
}

// Waiters lists at most limit of a key's waiters, in line.
func (m *Machine) Waiters(id TenantID, class ClassName, key Key, limit int) []*Lease {
	t, ok := m.tenants.Get(string(id))
	if !ok {
		return nil
	}
	var line []*Lease
	prefix := keyName(class, key) + "\x00"
	t.queue.Ascend(prefix, func(row string, waiter LeaseID) bool {
		if !strings.HasPrefix(row, prefix) || len(line) >= limit {
			return false
		}
		line = append(line, t.lease(waiter))
		return true
	})
	return line
}
