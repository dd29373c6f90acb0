package lockcore

import (
	"encoding/binary"
	"strings"

	"github.com/tidwall/btree"
)

// The tables are ordered copy-on-write trees: iteration is by key, so nothing depends on Go's map order, and a copy
// costs nothing, so a snapshot stalls no apply. Rows are never changed in place; a change puts a new row.

// tenant is everything of one tenant in this partition. Nothing in it refers to another tenant.
type tenant struct {
	ID        TenantID
	lastToken Token
	quotas    Quotas
	suspended bool
	dropped   bool
	revision  uint64 // highest seen of the control log

	classes  *btree.Map[string, *Class]
	keys     *btree.Map[string, *keyRow]
	leases   *btree.Map[string, *Lease]
	queue    *btree.Map[string, LeaseID] // by key, then place
	sessions *btree.Map[SessionKey, *Session]

	guards    *btree.Map[string, *Guard]     // by class
	reporters *btree.Map[string, *reporter]  // at most ReportersMax
	idle      *btree.Map[string, ReporterID] // the same, the idlest first

	occupied int // keys with a holder or a lock delay
	waiting  int
	ends     int // leases that are remembered and over
}

// droppedSlug is what stays of a tenant that is gone.
type droppedSlug struct {
	token    Token  // its last one
	revision uint64 // highest seen of the control log
}

// SessionKey is a session's id as a table key.
type SessionKey = string

// keyRow is one lock that somebody holds or waits for, or that is in its lock delay; others have no row.
type keyRow struct {
	holder     LeaseID // zero: nobody
	delayToken Token   // grant whose lock delay runs; 0: none
	delayMS    int64
	waiters    int
	nextPlace  uint64 // the place that the next waiter takes
}

func (k keyRow) occupied() bool { return !k.holder.isZero() || k.delayToken != 0 }

// LeaseState is where a lease request stands.
type LeaseState uint8

// The states.
const (
	StateWaiting LeaseState = iota + 1
	StateHeld
	StateEnded
)

// Lease is one lease request and, once granted, the lease. Values are immutable: a change makes a new one, so a reader
// may keep what it was given.
type Lease struct {
	ID     LeaseID    `cbor:"1,keyasint"`
	State  LeaseState `cbor:"2,keyasint"`
	Class  ClassName  `cbor:"3,keyasint"`
	Key    Key        `cbor:"4,keyasint"`
	Holder string     `cbor:"5,keyasint,omitempty"` // not of an ended one
	APIKey string     `cbor:"6,keyasint,omitempty"` // not of an ended one
	Index  uint64     `cbor:"7,keyasint"`           // entry that last changed it
	AtMS   int64      `cbor:"8,keyasint,omitempty"` // leader's wall clock when it was queued or granted

	Place  uint64 `cbor:"9,keyasint,omitempty"`  // waiting: position in line, ordered, not dense
	WaitMS int64  `cbor:"10,keyasint,omitempty"` // waiting: WaitUnlimited or how long it asked to

	Token       Token  `cbor:"11,keyasint,omitempty"` // held, and ended after a grant
	Epoch       Epoch  `cbor:"12,keyasint,omitempty"` // of the grant
	Version     uint64 `cbor:"13,keyasint,omitempty"` // posture version it was granted under
	LeaseMS     int64  `cbor:"14,keyasint,omitempty"`
	HeartbeatMS int64  `cbor:"15,keyasint,omitempty"`
	LockDelayMS int64  `cbor:"16,keyasint,omitempty"`
	MaxHoldMS   int64  `cbor:"17,keyasint,omitempty"` // 0: unlimited
	DeadlineMS  int64  `cbor:"18,keyasint,omitempty"` // long leases: on the lease clock
	Handed      bool   `cbor:"19,keyasint,omitempty"` // granted to a waiter; long leases: until it is taken up
	Ending      Reason `cbor:"20,keyasint,omitempty"` // held: being ended from outside

	Reason Reason `cbor:"21,keyasint,omitempty"` // ended: how; or the refusal that used the id up

	Purpose     Purpose     `cbor:"22,keyasint,omitempty"` // of the posture it was granted under
	Enforcement Enforcement `cbor:"23,keyasint,omitempty"` // of the posture it was granted under
}

// Long reports whether the lease keeps what remains of it across a change of leader.
func (l *Lease) Long() bool { return l.LeaseMS >= LongLeaseMS }

// Held reports whether the request holds its key.
func (l *Lease) Held() bool { return l.State == StateHeld }

// Session is what is remembered of one session.
type Session struct {
	ID    SessionID `cbor:"1,keyasint"`
	Owner OwnerID   `cbor:"2,keyasint"`
	High  uint64    `cbor:"3,keyasint,omitempty"` // highest sequence seen
	Live  int       `cbor:"4,keyasint,omitempty"` // leases held and requests waiting
	Ended bool      `cbor:"5,keyasint,omitempty"`
	Floor uint64    `cbor:"6,keyasint,omitempty"` // highest sequence forgotten for the quota of ends; 0: none
	Ends  int       `cbor:"7,keyasint,omitempty"` // requests that are over and remembered
}

// Window is the number of sequences, counted back from a session's highest, whose ends are remembered: fewer above a
// floor, where the tenant's quota of ends did not suffice.
const Window = 1024

func newTenant(id TenantID, base Token) *tenant {
	return &tenant{
		ID: id, lastToken: base,
		classes: new(btree.Map[string, *Class]), keys: new(btree.Map[string, *keyRow]),
		leases: new(btree.Map[string, *Lease]), queue: new(btree.Map[string, LeaseID]),
		sessions: new(btree.Map[SessionKey, *Session]),
		guards:   new(btree.Map[string, *Guard]), reporters: new(btree.Map[string, *reporter]),
		idle: new(btree.Map[string, ReporterID]),
	}
}

// capture copies the tenant in constant time; the copy does not change any more.
func (t *tenant) capture() *tenant {
	c := *t
	c.classes, c.keys, c.leases = t.classes.Copy(), t.keys.Copy(), t.leases.Copy()
	c.queue, c.sessions = t.queue.Copy(), t.sessions.Copy()
	c.guards, c.reporters, c.idle = t.guards.Copy(), t.reporters.Copy(), t.idle.Copy()
	return &c
}

func (t *tenant) class(name ClassName) (*Class, bool) { return t.classes.Get(string(name)) }

func (t *tenant) lease(id LeaseID) *Lease {
	l, _ := t.leases.Get(id.row())
	return l
}

func (t *tenant) session(id SessionID) *Session {
	s, _ := t.sessions.Get(string(id[:]))
	return s
}

func (t *tenant) key(class ClassName, key Key) keyRow {
	if k, ok := t.keys.Get(keyName(class, key)); ok {
		return *k
	}
	return keyRow{nextPlace: 1}
}

// setKey stores the row and keeps the count of occupied keys; a row that says nothing is forgotten.
func (t *tenant) setKey(class ClassName, key Key, k keyRow) {
	name := keyName(class, key)
	if old, ok := t.keys.Get(name); ok && old.occupied() {
		t.occupied--
	}
	if k.occupied() {
		t.occupied++
	}
	if !k.occupied() && k.waiters == 0 {
		t.keys.Delete(name)
		return
	}
	t.keys.Set(name, &k)
}

// putLease stores a lease and keeps the counts of live and ended ones. The session exists, and no end is put twice. The
// end of a lease whose sequence the session has forgotten is not kept, and one above the tenant's quota only at the cost of
// the session's older ones.
func (t *tenant) putLease(l *Lease) {
	row := l.ID.row()
	s := *t.session(l.ID.Session)
	if old, ok := t.leases.Get(row); ok && old.State != StateEnded {
		s.Live--
	}
	switch {
	case l.State != StateEnded:
		s.Live++
		t.leases.Set(row, l)
	case s.Forgot(l.ID.Sequence):
		t.leases.Delete(row)
	default:
		t.leases.Set(row, l)
		s.Ends++
		t.ends++
		t.shedEnds(&s)
	}
	t.sessions.Set(string(s.ID[:]), &s)
}

// hasKeys reports whether somebody holds or waits for a key of the class, or one is in its lock delay.
func (t *tenant) hasKeys(class ClassName) bool {
	prefix, found := string(class)+"\x00", false
	t.keys.Ascend(prefix, func(name string, _ *keyRow) bool {
		found = strings.HasPrefix(name, prefix)
		return false
	})
	return found
}

// keyName orders keys by class, then byte for byte. Neither part can hold a zero byte.
func keyName(class ClassName, key Key) string { return string(class) + "\x00" + string(key) }

func splitKeyName(name string) (ClassName, Key) {
	class, key, _ := strings.Cut(name, "\x00")
	return ClassName(class), Key(key)
}

// queueRow orders a key's waiters by their place.
func queueRow(class ClassName, key Key, place uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(keyName(class, key)+"\x00"), place))
}

// head is the first waiter of a key's queue.
func (t *tenant) head(class ClassName, key Key) (LeaseID, bool) {
	var id LeaseID
	found, prefix := false, keyName(class, key)+"\x00"
	t.queue.Ascend(prefix, func(row string, waiter LeaseID) bool {
		id, found = waiter, strings.HasPrefix(row, prefix)
		return false
	})
	return id, found
}
