package lockcore

// release ends a lease or leaves the queue, for its owner. It is idempotent.
func (m *Machine) release(t *tenant, c Release) Result {
	r := m.decideRelease(t, c)
	if r.Outcome == Refused {
		m.emit(Event{Kind: EventRefused, Reason: r.Reason, Tenant: t.ID, Lease: c.Lease, Token: c.Token})
	}
	return r
}

func (m *Machine) decideRelease(t *tenant, c Release) Result {
	if c.Lease.Session.isZero() || c.Lease.Sequence < 1 || c.Lease.Sequence > SequenceMax || c.Owner == "" {
		return refuse(RefusedInvalid)
	}
	s := t.session(c.Lease.Session)
	if s == nil {
		return m.burn(t, c)
	}
	if s.Owner != c.Owner {
		return refuse(RefusedForeign)
	}
	l := t.lease(c.Lease)
	switch {
	case l == nil && s.Ended:
		return Result{Outcome: Ended, Reason: SessionOver}
	case l == nil && s.Forgot(c.Lease.Sequence):
		return refuse(RefusedTooOld)
	case l == nil:
		return m.burn(t, c)
	case c.Token != 0 && c.Token != l.Token:
		return refuse(RefusedStaleToken)
	case l.State == StateHeld:
		m.end(t, l, Released)
		return Result{Outcome: Ended, Reason: Released, Token: l.Token}
	case l.State == StateWaiting:
		m.depart(t, l, WaitLeft)
		return Result{Outcome: Ended, Reason: WaitLeft}
	}
	return Result{Outcome: Ended, Reason: l.Reason, Token: l.Token}
}

// burn remembers an id that was released before it was acquired: the acquire may still be on its way.
func (m *Machine) burn(t *tenant, c Release) Result {
	switch {
	case c.Token != 0:
		return refuse(RefusedUnknown)
	case t.session(c.Lease.Session) == nil && t.sessions.Len() >= t.quotas.Sessions:
		return refuse(RefusedQuotaSessions)
	}
	t.see(c.Lease, c.Owner)
	t.putLease(&Lease{ID: c.Lease, State: StateEnded, Index: m.index, Reason: Burned})
	m.emit(Event{Kind: EventBurned, Tenant: t.ID, Lease: c.Lease, Reason: Burned})
	return Result{Outcome: Ended, Reason: Burned}
}

// end ends a held lease and, unless a lock delay begins, grants its key to the next waiter.
func (m *Machine) end(t *tenant, l *Lease, reason Reason) {
	t.putLease(l.over(reason, m.index))
	e := l.event(EventEnded, t)
	e.Reason = reason
	m.emit(e)

	k := t.key(l.Class, l.Key)
	k.holder = LeaseID{}
	if l.LockDelayMS > 0 && delays(reason) && !t.dropped {
		k.delayToken, k.delayMS = l.Token, l.LockDelayMS
		t.setKey(l.Class, l.Key, k)
		m.emit(l.event(EventDelayStarted, t))
		return
	}
	m.promote(t, l.Class, l.Key, k)
}

// over is what is remembered of the request once it has ended at an index: enough to answer a repetition, without the
// texts for people, which its last event tells.
func (l *Lease) over(reason Reason, index uint64) *Lease {
	ended := *l
	ended.State, ended.Reason, ended.Index = StateEnded, reason, index
	ended.Ending, ended.Place, ended.WaitMS = 0, 0, 0
	ended.Holder, ended.APIKey = "", ""
	return &ended
}

// delays reports whether a lock delay follows such an end: its holder may not know of it.
func delays(r Reason) bool {
	return r == Expired || r == Forced || r == MaxHold || r == ClassRetired
}

// promote grants a free key to its first waiter. A retired class and a dropped tenant grant nothing more: their waiters
// are taken out by commands of their own.
func (m *Machine) promote(t *tenant, class ClassName, key Key, k keyRow) {
	posture, _ := t.class(class)
	id, waits := t.head(class, key)
	if !waits || t.dropped || posture.Retired {
		t.setKey(class, key, k)
		return
	}
	next := *t.lease(id)
	t.queue.Delete(queueRow(class, key, next.Place))
	k.waiters--
	t.waiting--
	m.grant(t, &next, k, EventPromoted)
}

func (m *Machine) expire(t *tenant, c Expire) Result {
	l, reason := t.heldAs(c.Lease, c.Token)
	switch {
	case reason != 0:
		return refuse(reason)
	case l.Long() && m.clockMS < l.DeadlineMS:
		return refuse(RefusedNotDue)
	}
	m.end(t, l, l.expiry(c.Missed))
	return Result{Outcome: Ended, Reason: l.expiry(c.Missed), Token: l.Token}
}

// expiry is how a lease that ran out ended. Whether a long one was fetched in time, the log itself knows.
func (l *Lease) expiry(missed bool) Reason {
	switch {
	case l.Ending != 0:
		return l.Ending
	case l.Handed && (missed || l.Long()):
		return PickupMissed
	}
	return Expired
}

// heldAs finds a held lease by id and token; else the reason why there is none.
func (t *tenant) heldAs(id LeaseID, token Token) (*Lease, Reason) {
	l := t.lease(id)
	switch {
	case l == nil:
		return nil, RefusedUnknown
	case l.State == StateEnded:
		return nil, RefusedEnded
	case l.State == StateWaiting:
		return nil, RefusedNotHeld
	case l.Token != token:
		return nil, RefusedStaleToken
	}
	return l, 0
}

func (m *Machine) extend(t *tenant, c Extend) Result {
	l, reason := t.heldAs(c.Lease, c.Token)
	switch {
	case reason != 0:
		return refuse(reason)
	case l.Ending != 0:
		return refuse(RefusedEnding)
	case !l.Long():
		return refuse(RefusedNotLong)
	}
	extended := *l
	extended.Handed = false
	extended.DeadlineMS = max(l.DeadlineMS, m.clockMS+l.LeaseMS)
	t.putLease(&extended)
	return Result{Outcome: Granted, Token: l.Token}
}

func (m *Machine) markEnding(t *tenant, c MarkEnding) Result {
	if !c.valid() {
		return refuse(RefusedInvalid)
	}
	l, reason := t.heldAs(c.Lease, c.Token)
	switch {
	case reason != 0:
		return refuse(reason)
	case l.Ending != 0 && !c.Now:
		return refuse(RefusedEnding)
	}
	e := l.event(EventEnding, t)
	e.Reason, e.By, e.Note = c.Cause, c.By, c.Note
	m.emit(e)
	if c.Now {
		m.end(t, l, c.Cause)
		return Result{Outcome: Ended, Reason: c.Cause, Token: l.Token}
	}
	ending := *l
	ending.Ending = c.Cause
	t.putLease(&ending)
	return Result{Outcome: Done}
}

func (c MarkEnding) valid() bool {
	switch c.Cause {
	case Forced, MaxHold, ClassRetired, TenantDropped:
		return validText(c.By, NoteBytesMax) && validText(c.Note, NoteBytesMax)
	}
	return false
}

func (m *Machine) endDelay(t *tenant, c EndDelay) Result {
	k := t.key(c.Class, c.Key)
	if k.delayToken == 0 || k.delayToken != c.Token {
		return refuse(RefusedNotDelayed)
	}
	k.delayToken, k.delayMS = 0, 0
	m.emit(Event{Kind: EventDelayEnded, Tenant: t.ID, Class: c.Class, Key: c.Key, Token: c.Token})
	m.promote(t, c.Class, c.Key, k)
	return Result{Outcome: Done}
}
