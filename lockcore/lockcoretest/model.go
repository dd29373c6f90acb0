package lockcoretest

import (
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// Model is the lock protocol's rules written as naively as possible, over Go maps and slices: what a machine must
// answer. It counts by walking and looks things up by scanning. Not safe for concurrent use.
type Model struct {
	epoch        lockcore.Epoch
	clockMS      int64
	wallMS       int64 // of the entry under way
	lastIndex    uint64
	checkpointAt uint64 // index of the last checkpoint passed
	tenants      map[lockcore.TenantID]*modelTenant
	gone         map[lockcore.TenantID]modelGone // slugs whose tenant is gone
	shed         int                             // ends forgotten for a quota of ends, ever
}

type modelGone struct {
	final    lockcore.Token
	revision uint64
}

type modelTenant struct {
	quotas    lockcore.Quotas
	suspended bool
	dropped   bool
	revision  uint64
	lastToken lockcore.Token
	classes   map[lockcore.ClassName]*lockcore.Class
	locks     map[lockName]*modelLock
	sessions  map[lockcore.SessionID]*modelSession
	guards    map[lockcore.ClassName]lockcore.Guard
	reporters map[lockcore.ReporterID]modelReporter
}

type lockName struct {
	class lockcore.ClassName
	key   lockcore.Key
}

type modelLock struct {
	holder  *modelLease
	delayOf lockcore.Token
	queue   []*modelLease // first in, first out
}

func (l *modelLock) free() bool { return l.holder == nil && l.delayOf == 0 }

type modelSession struct {
	owner  lockcore.OwnerID
	ended  bool
	high   uint64
	floor  uint64                 // highest sequence forgotten for the quota of ends
	leases map[uint64]*modelLease // by sequence
}

type modelLease struct {
	id       lockcore.LeaseID
	lock     lockName
	state    lockcore.LeaseState
	token    lockcore.Token
	reason   lockcore.Reason
	ending   lockcore.Reason
	posture  lockcore.Class // it was granted under
	handed   bool
	deadline int64 // on the lease clock, of a long lease
}

func (l *modelLease) long() bool { return l.posture.LeaseMS >= 30_000 }

// NewModel is the model of an empty machine.
func NewModel() *Model {
	return &Model{tenants: map[lockcore.TenantID]*modelTenant{}, gone: map[lockcore.TenantID]modelGone{}}
}

// Apply predicts the results of one log entry.
func (m *Model) Apply(index uint64, e lockcore.Entry) []lockcore.Result {
	if e.Epoch == m.epoch && e.ClockMS > m.clockMS {
		m.clockMS = e.ClockMS
	}
	m.wallMS = e.WallMS
	var results []lockcore.Result
	for _, c := range e.Commands {
		results = append(results, m.command(index, e.Epoch, c))
	}
	if index/10_000 > m.lastIndex/10_000 {
		m.checkpointAt = index
	}
	m.lastIndex = index
	return results
}

func (m *Model) command(index uint64, epoch lockcore.Epoch, c lockcore.Command) lockcore.Result {
	if _, ok := c.(lockcore.AdvanceEpoch); ok {
		m.epoch++
		return lockcore.Result{Outcome: lockcore.Done, Epoch: m.epoch}
	}
	if epoch != m.epoch || m.epoch == 0 {
		return refused(lockcore.RefusedStaleEpoch)
	}
	switch c := c.(type) {
	case lockcore.PutTenant:
		return m.putTenant(c)
	case lockcore.DropTenant:
		if old, gone := m.gone[c.Tenant]; gone && old.revision > c.Revision {
			return refused(lockcore.RefusedStaleVersion)
		}
	case lockcore.LeaseClock:
		return done()
	case lockcore.Checkpoint:
		if c.Index != m.checkpointAt {
			return refused(lockcore.RefusedStaleVersion)
		}
		return done()
	case lockcore.RaiseLevel:
		return refused(lockcore.RefusedStaleVersion) // one level is all there is
	}
	id := TenantOf(c)
	t := m.tenants[id]
	if t == nil {
		return refused(lockcore.RefusedUnknown)
	}
	r := m.tenantCommand(index, t, c)
	if t.dropped && t.occupied() == 0 && t.waiting() == 0 {
		delete(m.tenants, id)
		m.gone[id] = modelGone{t.lastToken, t.revision}
	}
	return r
}

func (m *Model) tenantCommand(index uint64, t *modelTenant, c lockcore.Command) lockcore.Result {
	switch c := c.(type) {
	case lockcore.DropTenant:
		if t.revision > c.Revision {
			return refused(lockcore.RefusedStaleVersion)
		}
		t.dropped, t.revision = true, c.Revision
		return done()
	case lockcore.PutClass:
		return t.putClass(c.Class)
	case lockcore.RetireClass:
		return t.retireClass(c)
	case lockcore.Acquire:
		return m.acquire(t, c)
	case lockcore.Release:
		return m.release(t, c)
	case lockcore.Expire:
		return m.expire(t, c)
	case lockcore.EndDelay:
		return m.endDelay(t, c)
	case lockcore.Leave:
		return m.leave(t, c)
	case lockcore.WaiterGone:
		return m.waiterGone(t, c)
	case lockcore.MarkEnding:
		return m.markEnding(t, c)
	case lockcore.EndSession:
		return m.endSession(t, c)
	case lockcore.ForgetSession:
		return t.forgetSession(c.Session)
	case lockcore.Extend:
		return m.extend(t, c)
	case lockcore.ReportGuard:
		return m.reportGuard(index, t, c)
	}
	panic("the model does not know this command")
}

// TenantOf is the tenant that a command names, or "" where it names none.
func TenantOf(c lockcore.Command) lockcore.TenantID {
	switch c := c.(type) {
	case lockcore.PutTenant:
		return c.Tenant
	case lockcore.DropTenant:
		return c.Tenant
	case lockcore.PutClass:
		return c.Tenant
	case lockcore.RetireClass:
		return c.Tenant
	case lockcore.Acquire:
		return c.Tenant
	case lockcore.Release:
		return c.Tenant
	case lockcore.Expire:
		return c.Tenant
	case lockcore.EndDelay:
		return c.Tenant
	case lockcore.Leave:
		return c.Tenant
	case lockcore.WaiterGone:
		return c.Tenant
	case lockcore.MarkEnding:
		return c.Tenant
	case lockcore.EndSession:
		return c.Tenant
	case lockcore.ForgetSession:
		return c.Tenant
	case lockcore.Extend:
		return c.Tenant
	case lockcore.ReportGuard:
		return c.Tenant
	}
	return ""
}

func done() lockcore.Result { return lockcore.Result{Outcome: lockcore.Done} }

func refused(r lockcore.Reason) lockcore.Result {
	return lockcore.Result{Outcome: lockcore.Refused, Reason: r}
}

var name = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

func (m *Model) putTenant(c lockcore.PutTenant) lockcore.Result {
	q := c.Quotas
	if !name.MatchString(string(c.Tenant)) || c.TokenBase > 1<<52 ||
		min(q.Keys, q.Leases, q.Waiters, q.Sessions, q.PerSession, q.Ends) < 1 || q.PerSession > 10_000 ||
		max(q.Keys, q.Leases, q.Waiters, q.Sessions, q.Ends) > 100_000_000 {
		return refused(lockcore.RefusedInvalid)
	}
	t := m.tenants[c.Tenant]
	old, gone := m.gone[c.Tenant]
	if gone && c.Revision <= old.revision || t != nil && c.Revision < t.revision {
		return refused(lockcore.RefusedStaleVersion)
	}
	if t != nil && t.dropped {
		return refused(lockcore.RefusedBusy)
	}
	if t == nil {
		t = &modelTenant{
			lastToken: old.final,
			classes:   map[lockcore.ClassName]*lockcore.Class{},
			locks:     map[lockName]*modelLock{},
			sessions:  map[lockcore.SessionID]*modelSession{},
			guards:    map[lockcore.ClassName]lockcore.Guard{},
			reporters: map[lockcore.ReporterID]modelReporter{},
		}
		m.tenants[c.Tenant] = t
		delete(m.gone, c.Tenant)
	}
	t.lastToken = max(t.lastToken, c.TokenBase)
	t.quotas, t.suspended, t.revision = c.Quotas, c.Suspended, c.Revision
	return done()
}

func (t *modelTenant) putClass(c lockcore.Class) lockcore.Result {
	old := t.classes[c.Name]
	switch {
	case !classInRange(c):
		return refused(lockcore.RefusedInvalid)
	case t.dropped:
		return refused(lockcore.RefusedDropped)
	case c.Purpose == lockcore.PurposeCorrectness && c.QuorumLoss == lockcore.QuorumLossOpen:
		return refused(lockcore.RefusedPosture)
	case old != nil && old.Purpose != c.Purpose:
		return refused(lockcore.RefusedPurpose)
	case old != nil && old.Version >= c.Version:
		return refused(lockcore.RefusedStaleVersion)
	case old != nil && old.Retired && t.uses(c.Name):
		return refused(lockcore.RefusedBusy)
	}
	t.classes[c.Name] = &c
	return done()
}

// classInRange repeats the ranges of the class file, in seconds where it gives them in seconds.
func classInRange(c lockcore.Class) bool {
	const s, hour, day = 1000, 3_600_000, 86_400_000
	queues := c.Refuses || (c.MaxWaiters >= 1 && c.MaxWaiters <= 100_000)
	return name.MatchString(string(c.Name)) && c.Version >= 1 && !c.Retired && len(c.Digest) <= 128 &&
		(c.Purpose == 1 || c.Purpose == 2) && (c.Enforcement == 1 || c.Enforcement == 2) &&
		(c.QuorumLoss == 1 || c.QuorumLoss == 2) && c.LeaseMS >= 1*s && c.LeaseMS <= 1*hour &&
		c.HeartbeatMS >= 1 && 2*c.HeartbeatMS <= c.LeaseMS && c.LockDelayMS >= 0 && c.LockDelayMS <= 60*s &&
		c.MaxHoldMS >= 0 && c.MaxHoldMS <= 3660*day && c.MaxWaitMS >= 0 && c.MaxWaitMS <= 24*hour && queues
}

func (t *modelTenant) uses(class lockcore.ClassName) bool {
	for n := range t.locks {
		if n.class == class {
			return true
		}
	}
	return false
}

func (t *modelTenant) retireClass(c lockcore.RetireClass) lockcore.Result {
	old := t.classes[c.Class]
	switch {
	case c.Version < 1:
		return refused(lockcore.RefusedInvalid)
	case old == nil:
		return refused(lockcore.RefusedNotInForce)
	case c.Version < old.Version:
		return refused(lockcore.RefusedStaleVersion)
	}
	retired := *old
	retired.Retired, retired.Version = true, c.Version
	t.classes[c.Class] = &retired
	return done()
}

// occupied counts the keys with a holder or a lock delay, which the quota of leases bounds.
func (t *modelTenant) occupied() int {
	n := 0
	for _, l := range t.locks {
		if !l.free() {
			n++
		}
	}
	return n
}

func (t *modelTenant) waiting() int {
	n := 0
	for _, l := range t.locks {
		n += len(l.queue)
	}
	return n
}

// ends counts what the sessions remember and is over.
func (t *modelTenant) ends() int {
	n := -t.waiting()
	for _, l := range t.locks {
		if l.holder != nil {
			n--
		}
	}
	for _, s := range t.sessions {
		n += len(s.leases)
	}
	return n
}

func (t *modelTenant) lease(id lockcore.LeaseID) *modelLease {
	if s := t.sessions[id.Session]; s != nil {
		return s.leases[id.Sequence]
	}
	return nil
}

// remember puts a request under its id and raises its session's highest sequence.
func (m *Model) remember(t *modelTenant, owner lockcore.OwnerID, l *modelLease) {
	s := t.sessions[l.id.Session]
	if s == nil {
		s = &modelSession{owner: owner, leases: map[uint64]*modelLease{}}
		t.sessions[l.id.Session] = s
	}
	s.high = max(s.high, l.id.Sequence)
	s.leases[l.id.Sequence] = l
	if s.forgetOld(); l.state == lockcore.StateEnded {
		m.shedEnds(t, s, l)
	}
}

func (s *modelSession) tooOld(sequence uint64) bool {
	return sequence <= s.floor || s.high >= 1024 && sequence <= s.high-1024
}

// forgetOld forgets the ends that lie 1,024 or more below their session's highest sequence, or not above its floor. Live
// ones stay.
func (s *modelSession) forgetOld() {
	for sequence, l := range s.leases {
		if l.state == lockcore.StateEnded && s.tooOld(sequence) {
			delete(s.leases, sequence)
		}
	}
}

// shedEnds forgets, if the session just remembered an end, its oldest ones while the tenant has more than it may.
func (m *Model) shedEnds(t *modelTenant, s *modelSession, just *modelLease) {
	if s.leases[just.id.Sequence] != just {
		return
	}
	for _, l := range s.inOrder() {
		if l.state == lockcore.StateEnded && t.ends() > t.quotas.Ends {
			delete(s.leases, l.id.Sequence)
			s.floor = l.id.Sequence
			m.shed++
		}
	}
}

// tidy forgets a lock that says nothing.
func (t *modelTenant) tidy(n lockName) {
	if l := t.locks[n]; l != nil && l.free() && len(l.queue) == 0 {
		delete(t.locks, n)
	}
}

func idInRange(id lockcore.LeaseID) bool {
	return id.Session != lockcore.SessionID{} && id.Sequence >= 1 && id.Sequence < 1<<53
}

// plain reports whether s is UTF-8 of at most most bytes, without control characters.
func plain(s string, most int) bool {
	return utf8.ValidString(s) && len(s) <= most && !slices.ContainsFunc([]rune(s), unicode.IsControl)
}
