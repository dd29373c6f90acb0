package lockcoretest

import (
	"slices"

	"github.com/stanchion-locks/stanchion/lockcore"
)

func (m *Model) acquire(t *modelTenant, c lockcore.Acquire) lockcore.Result {
	inRange := idInRange(c.Lease) && c.Owner != "" && plain(string(c.Owner), 64) && plain(c.APIKey, 64) &&
		c.Key != "" && plain(string(c.Key), 512) && plain(c.Holder, 128) && c.WaitMS >= -1
	if !inRange {
		return refused(lockcore.RefusedInvalid)
	}
	lock := lockName{c.Class, c.Key}
	if s := t.sessions[c.Lease.Session]; s != nil {
		known := s.leases[c.Lease.Sequence]
		switch {
		case s.owner != c.Owner:
			return refused(lockcore.RefusedForeign)
		case known != nil && known.reason != lockcore.Burned && known.lock != lock:
			return refused(lockcore.RefusedIDConflict)
		case known != nil:
			return known.answer()
		case s.ended:
			return refused(lockcore.RefusedSessionOver)
		case s.tooOld(c.Lease.Sequence):
			return refused(lockcore.RefusedTooOld)
		}
	}
	if r := t.admission(c); r != 0 {
		return refused(r)
	}
	return m.acquireNew(t, c, lock)
}

// answer is what a repeated request is told.
func (l *modelLease) answer() lockcore.Result {
	switch l.state {
	case lockcore.StateHeld:
		return lockcore.Result{Outcome: lockcore.Granted, Token: l.token}
	case lockcore.StateWaiting:
		return lockcore.Result{Outcome: lockcore.Queued}
	}
	switch l.reason {
	case lockcore.RefusedHeld, lockcore.RefusedAlreadyHeld, lockcore.RefusedQueueFull:
		return refused(l.reason)
	}
	return lockcore.Result{Outcome: lockcore.Ended, Reason: l.reason, Token: l.token}
}

func (t *modelTenant) admission(c lockcore.Acquire) lockcore.Reason {
	class := t.classes[c.Class]
	session := t.sessions[c.Lease.Session]
	switch {
	case t.dropped:
		return lockcore.RefusedDropped
	case t.suspended:
		return lockcore.RefusedSuspended
	case class == nil:
		return lockcore.RefusedNotInForce
	case class.Retired:
		return lockcore.RefusedRetired
	case class.Refuses && c.WaitMS != 0,
		class.MaxWaitMS != 0 && c.WaitMS > class.MaxWaitMS,
		class.MaxWaitMS != 0 && c.WaitMS == lockcore.WaitUnlimited:
		return lockcore.RefusedWait
	case session == nil && len(t.sessions) >= t.quotas.Sessions:
		return lockcore.RefusedQuotaSessions
	case session != nil && session.live() >= t.quotas.PerSession:
		return lockcore.RefusedQuotaSession
	}
	return 0
}

func (m *Model) acquireNew(t *modelTenant, c lockcore.Acquire, name lockName) lockcore.Result {
	request := &modelLease{id: c.Lease, lock: name}
	lock := t.locks[name]
	if lock == nil {
		switch {
		case len(t.locks) >= t.quotas.Keys:
			return refused(lockcore.RefusedQuotaKeys)
		case t.occupied() >= t.quotas.Leases:
			return refused(lockcore.RefusedQuotaLeases)
		}
		t.locks[name] = &modelLock{}
		m.give(t, request, false)
		m.remember(t, c.Owner, request)
		return lockcore.Result{Outcome: lockcore.Granted, Token: request.token}
	}
	var why lockcore.Reason
	switch {
	case lock.holder != nil && lock.holder.id.Session == c.Lease.Session:
		why = lockcore.RefusedAlreadyHeld
	case c.WaitMS == 0:
		why = lockcore.RefusedHeld
	case len(lock.queue) >= t.classes[c.Class].MaxWaiters:
		why = lockcore.RefusedQueueFull
	case t.waiting() >= t.quotas.Waiters:
		return refused(lockcore.RefusedQuotaWaiters)
	}
	if why != 0 {
		request.state, request.reason = lockcore.StateEnded, why
		m.remember(t, c.Owner, request)
		return refused(why)
	}
	request.state = lockcore.StateWaiting
	lock.queue = append(lock.queue, request)
	m.remember(t, c.Owner, request)
	return lockcore.Result{Outcome: lockcore.Queued}
}

// give grants the request's lock to it.
func (m *Model) give(t *modelTenant, l *modelLease, handed bool) {
	t.lastToken++
	l.state, l.token, l.handed, l.posture = lockcore.StateHeld, t.lastToken, handed, *t.classes[l.lock.class]
	if l.long() {
		term := l.posture.LeaseMS
		if handed { // a quarter of the lease, at most 10 s, and 2 s
			term = min(term, min(term/4, 10_000)+2_000)
		}
		l.deadline = m.clockMS + term
	}
	t.locks[l.lock].holder = l
}

// giveNext grants a free lock to the first in line, unless nothing of it is granted any more.
func (m *Model) giveNext(t *modelTenant, name lockName) {
	lock := t.locks[name]
	if lock.free() && len(lock.queue) > 0 && !t.dropped && !t.classes[name.class].Retired {
		first := lock.queue[0]
		lock.queue = lock.queue[1:]
		m.give(t, first, true)
	}
	t.tidy(name)
}

// end ends a hold.
func (m *Model) end(t *modelTenant, l *modelLease, why lockcore.Reason) lockcore.Result {
	l.state, l.reason, l.ending = lockcore.StateEnded, why, 0
	lock := t.locks[l.lock]
	lock.holder = nil
	known := why == lockcore.Released || why == lockcore.SessionOver || why == lockcore.PickupMissed ||
		why == lockcore.TenantDropped
	if l.posture.LockDelayMS > 0 && !known && !t.dropped {
		lock.delayOf = l.token
	}
	m.over(t, l)
	m.giveNext(t, l.lock)
	return lockcore.Result{Outcome: lockcore.Ended, Reason: why, Token: l.token}
}

// over remembers, or not, a request that has just ended.
func (m *Model) over(t *modelTenant, l *modelLease) {
	s := t.sessions[l.id.Session]
	s.forgetOld()
	m.shedEnds(t, s, l)
}

// live counts what the session holds and waits for.
func (s *modelSession) live() int {
	n := 0
	for _, l := range s.leases {
		if l.state != lockcore.StateEnded {
			n++
		}
	}
	return n
}

// goAway takes a waiter out of its queue.
func (m *Model) goAway(t *modelTenant, l *modelLease, why lockcore.Reason) lockcore.Result {
	l.state, l.reason = lockcore.StateEnded, why
	lock := t.locks[l.lock]
	lock.queue = slices.DeleteFunc(slices.Clone(lock.queue), func(w *modelLease) bool { return w == l })
	t.tidy(l.lock)
	m.over(t, l)
	return lockcore.Result{Outcome: lockcore.Ended, Reason: why}
}

func (m *Model) release(t *modelTenant, c lockcore.Release) lockcore.Result {
	if !idInRange(c.Lease) || c.Owner == "" {
		return refused(lockcore.RefusedInvalid)
	}
	s, l := t.sessions[c.Lease.Session], t.lease(c.Lease)
	switch {
	case s == nil && c.Token != 0:
		return refused(lockcore.RefusedUnknown)
	case s == nil && len(t.sessions) >= t.quotas.Sessions:
		return refused(lockcore.RefusedQuotaSessions)
	case s != nil && s.owner != c.Owner:
		return refused(lockcore.RefusedForeign)
	case l == nil && s != nil && s.ended:
		return lockcore.Result{Outcome: lockcore.Ended, Reason: lockcore.SessionOver}
	case l == nil && s != nil && s.tooOld(c.Lease.Sequence):
		return refused(lockcore.RefusedTooOld)
	case l == nil && c.Token != 0:
		return refused(lockcore.RefusedUnknown)
	case l == nil:
		m.remember(t, c.Owner, &modelLease{id: c.Lease, state: lockcore.StateEnded, reason: lockcore.Burned})
		return lockcore.Result{Outcome: lockcore.Ended, Reason: lockcore.Burned}
	case c.Token != 0 && c.Token != l.token:
		return refused(lockcore.RefusedStaleToken)
	case l.state == lockcore.StateHeld:
		return m.end(t, l, lockcore.Released)
	case l.state == lockcore.StateWaiting:
		return m.goAway(t, l, lockcore.WaitLeft)
	}
	return lockcore.Result{Outcome: lockcore.Ended, Reason: l.reason, Token: l.token}
}

// holding is the hold that id and token name, or why there is none.
func (t *modelTenant) holding(id lockcore.LeaseID, token lockcore.Token) (*modelLease, lockcore.Reason) {
	l := t.lease(id)
	switch {
	case l == nil:
		return nil, lockcore.RefusedUnknown
	case l.state == lockcore.StateEnded:
		return nil, lockcore.RefusedEnded
	case l.state == lockcore.StateWaiting:
		return nil, lockcore.RefusedNotHeld
	case l.token != token:
		return nil, lockcore.RefusedStaleToken
	}
	return l, 0
}

func (m *Model) expire(t *modelTenant, c lockcore.Expire) lockcore.Result {
	l, why := t.holding(c.Lease, c.Token)
	switch {
	case why != 0:
		return refused(why)
	case l.long() && l.deadline > m.clockMS:
		return refused(lockcore.RefusedNotDue)
	case l.ending != 0:
		return m.end(t, l, l.ending)
	case l.handed && l.long(), l.handed && c.Missed:
		return m.end(t, l, lockcore.PickupMissed)
	}
	return m.end(t, l, lockcore.Expired)
}

func (m *Model) endDelay(t *modelTenant, c lockcore.EndDelay) lockcore.Result {
	name := lockName{c.Class, c.Key}
	lock := t.locks[name]
	if lock == nil || lock.delayOf == 0 || lock.delayOf != c.Token {
		return refused(lockcore.RefusedNotDelayed)
	}
	lock.delayOf = 0
	m.giveNext(t, name)
	return done()
}

func (m *Model) leave(t *modelTenant, c lockcore.Leave) lockcore.Result {
	causes := []lockcore.Reason{lockcore.WaitTimeout, lockcore.Disconnected, lockcore.ClassRetired, lockcore.TenantDropped}
	l := t.lease(c.Lease)
	switch {
	case !slices.Contains(causes, c.Cause):
		return refused(lockcore.RefusedInvalid)
	case l == nil:
		return refused(lockcore.RefusedUnknown)
	case l.state != lockcore.StateWaiting:
		return refused(lockcore.RefusedNotWaiting)
	}
	return m.goAway(t, l, c.Cause)
}

func (m *Model) waiterGone(t *modelTenant, c lockcore.WaiterGone) lockcore.Result {
	if len(c.Leases) == 0 || len(c.Leases) > 256 {
		return refused(lockcore.RefusedInvalid)
	}
	for _, id := range c.Leases {
		if l := t.lease(id); l != nil && l.state == lockcore.StateWaiting {
			m.goAway(t, l, lockcore.Silent)
		}
	}
	return done()
}

func (m *Model) markEnding(t *modelTenant, c lockcore.MarkEnding) lockcore.Result {
	causes := []lockcore.Reason{lockcore.Forced, lockcore.MaxHold, lockcore.ClassRetired, lockcore.TenantDropped}
	if !slices.Contains(causes, c.Cause) || !plain(c.By, 1024) || !plain(c.Note, 1024) {
		return refused(lockcore.RefusedInvalid)
	}
	l, why := t.holding(c.Lease, c.Token)
	switch {
	case why != 0:
		return refused(why)
	case c.Now:
		return m.end(t, l, c.Cause)
	case l.ending != 0:
		return refused(lockcore.RefusedEnding)
	}
	l.ending = c.Cause
	return done()
}

func (m *Model) extend(t *modelTenant, c lockcore.Extend) lockcore.Result {
	l, why := t.holding(c.Lease, c.Token)
	switch {
	case why != 0:
		return refused(why)
	case l.ending != 0:
		return refused(lockcore.RefusedEnding)
	case !l.long():
		return refused(lockcore.RefusedNotLong)
	}
	l.handed = false
	l.deadline = max(l.deadline, m.clockMS+l.posture.LeaseMS)
	return lockcore.Result{Outcome: lockcore.Granted, Token: l.token}
}

func (m *Model) endSession(t *modelTenant, c lockcore.EndSession) lockcore.Result {
	if (c.Session == lockcore.SessionID{}) || c.Owner == "" {
		return refused(lockcore.RefusedInvalid)
	}
	s := t.sessions[c.Session]
	switch {
	case s == nil && len(t.sessions) >= t.quotas.Sessions:
		return refused(lockcore.RefusedQuotaSessions)
	case s == nil:
		s = &modelSession{owner: c.Owner, leases: map[uint64]*modelLease{}}
		t.sessions[c.Session] = s
	case s.owner != c.Owner:
		return refused(lockcore.RefusedForeign)
	}
	s.ended = true
	for _, l := range s.inOrder() {
		if l.state == lockcore.StateWaiting {
			m.goAway(t, l, lockcore.SessionOver)
		}
	}
	for _, l := range s.inOrder() {
		if l.state == lockcore.StateHeld {
			m.end(t, l, lockcore.SessionOver)
		}
	}
	return done()
}

// inOrder lists what a session remembers by sequence: tokens are given in that order.
func (s *modelSession) inOrder() []*modelLease {
	var all []*modelLease
	for _, l := range s.leases {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *modelLease) int {
		if a.id.Sequence < b.id.Sequence {
			return -1
		}
		return 1
	})
	return all
}

func (t *modelTenant) forgetSession(id lockcore.SessionID) lockcore.Result {
	s := t.sessions[id]
	if s == nil {
		return refused(lockcore.RefusedUnknown)
	}
	for _, l := range s.leases {
		if l.state != lockcore.StateEnded {
			return refused(lockcore.RefusedBusy)
		}
	}
	delete(t.sessions, id)
	return done()
}
