package leader

import (
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// adopt restarts a tenant's deadlines for a new leadership.
func (l *Leader) adopt(t lockcore.TenantState) {
	l.machine.EachLive(t.ID, func(lease *lockcore.Lease) bool {
		id := ref{t.ID, lease.ID}
		if lease.Held() {
			l.adoptHolding(id, lease)
		} else {
			l.queueUp(id, lease)
		}
		return true
	})
	l.machine.EachSession(t.ID, func(s *lockcore.Session) bool {
		l.see(t.ID, s.ID)
		return true
	})
	l.machine.EachLock(t.ID, "", "", func(k lockcore.Lock) bool {
		if k.DelayToken != 0 {
			l.delay(t.ID, k)
		}
		return true
	})
	for _, c := range l.machine.Classes(t.ID) {
		if c.Retired || t.Dropped {
			l.sweep(t.ID, c.Name)
		}
	}
}

// adoptHolding restarts a lease's timer. A short lease counts as taken up and gets a full term, and a little more that
// nobody is told of; what clients may rely on counts from the proposal of the epoch entry. A long lease gets what remains
// on the lease clock.
func (l *Leader) adoptHolding(id ref, lease *lockcore.Lease) {
	h := l.newHolding(id, lease, l.readyAt)
	h.ending = lease.Ending != 0
	if h.long {
		remaining := max(0, millis(lease.DeadlineMS-l.clockBase))
		h.told, h.expireAt, h.handed = l.begun+remaining, l.readyAt+remaining, lease.Handed
	} else {
		extra := time.Duration(l.jitter() * float64(h.length) / restartExtraShare)
		h.told, h.expireAt = l.begun+h.length, l.readyAt+h.length+extra
	}
	if h.ending {
		h.expireAt = max(h.expireAt, l.readyAt+h.length)
	}
	l.keep(h, lease, l.readyAt)
}

// observe follows an event of an entry of this leadership.
func (l *Leader) observe(e lockcore.Event, proposed time.Duration) {
	id := ref{e.Tenant, e.Lease}
	switch e.Kind {
	case lockcore.EventQueued, lockcore.EventGranted, lockcore.EventPromoted:
		l.see(e.Tenant, e.Lease.Session)
		l.begin(id, e, proposed)
	case lockcore.EventLeft:
		l.unqueue(id, proposed)
	case lockcore.EventEnded:
		l.drop(id)
	case lockcore.EventEnding:
		if h := l.holdings[id]; h != nil {
			h.ending = true
		}
	case lockcore.EventDelayStarted:
		if k, ok := l.machine.Lock(e.Tenant, e.Class, e.Key); ok && k.DelayToken == e.Token {
			l.delay(e.Tenant, k)
		}
	case lockcore.EventClassRetired:
		l.sweep(e.Tenant, e.Class)
	case lockcore.EventTenantDropped:
		for _, c := range l.machine.Classes(e.Tenant) {
			l.sweep(e.Tenant, c.Name)
		}
	case lockcore.EventRefused, lockcore.EventBurned, lockcore.EventSessionEnded:
		l.see(e.Tenant, e.Lease.Session)
	case lockcore.EventSessionForgotten:
		delete(l.sessions, sessionRef{e.Tenant, e.Lease.Session})
	}
}

// begin follows a request that was queued, granted or handed its lease, unless the same entry has ended it already.
func (l *Leader) begin(id ref, e lockcore.Event, proposed time.Duration) {
	lease, ok := l.machine.Lease(id.tenant, id.lease)
	switch e.Kind {
	case lockcore.EventQueued:
		if ok && lease.State == lockcore.StateWaiting {
			l.queueUp(id, lease)
		}
		return
	case lockcore.EventPromoted:
		defer l.unqueue(id, proposed)
	}
	if ok && lease.Held() && lease.Token == e.Token {
		l.hold(id, lease, proposed, e.Kind == lockcore.EventPromoted)
	}
}

// delay proposes the end of a key's lock delay when it has passed.
func (l *Leader) delay(tenant lockcore.TenantID, k lockcore.Lock) {
	end := lockcore.EndDelay{Tenant: tenant, Class: k.Class, Key: k.Key, Token: k.DelayToken}
	l.alarms.set(l.clock.Now()+millis(k.DelayMS), func(time.Duration) { l.propose(tenant, true, end, nil) })
}

type sessionRef struct {
	tenant  lockcore.TenantID
	session lockcore.SessionID
}

// activity is when a remembered session was last heard of.
type activity struct{ last time.Duration }

// see begins to watch over a session that the machine remembers.
func (l *Leader) see(tenant lockcore.TenantID, session lockcore.SessionID) {
	id := sessionRef{tenant, session}
	if a := l.sessions[id]; a != nil {
		a.last = l.clock.Now()
		return
	}
	if _, known := l.machine.Session(tenant, session); !known {
		return
	}
	a := &activity{last: l.clock.Now()}
	l.sessions[id] = a
	l.alarms.set(a.last+forgetAfter, func(now time.Duration) { l.checkSession(id, a, now) })
}

// heard notes a request of a session.
func (l *Leader) heard(tenant lockcore.TenantID, session lockcore.SessionID) {
	if a := l.sessions[sessionRef{tenant, session}]; a != nil {
		a.last = l.clock.Now()
	}
}

// checkSession forgets a session that has been silent and holds nothing, or looks again later.
func (l *Leader) checkSession(id sessionRef, a *activity, now time.Duration) {
	if l.sessions[id] != a {
		return
	}
	s, known := l.machine.Session(id.tenant, id.session)
	if !known {
		delete(l.sessions, id)
		return
	}
	next := a.last + forgetAfter
	if now >= next {
		next = now + forgetAfter
		if s.Live == 0 {
			l.propose(id.tenant, true, lockcore.ForgetSession{Tenant: id.tenant, Session: id.session}, nil)
		}
	}
	l.alarms.set(next, func(now time.Duration) { l.checkSession(id, a, now) })
}
