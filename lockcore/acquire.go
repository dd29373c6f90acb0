package lockcore

// acquire grants, queues or refuses a lease request; a known id answers what it is.
func (m *Machine) acquire(t *tenant, c Acquire) Result {
	r := m.decideAcquire(t, c)
	if r.Outcome == Refused {
		m.emit(Event{Kind: EventRefused, Reason: r.Reason, Tenant: t.ID, Class: c.Class, Key: c.Key, Lease: c.Lease,
			Holder: c.Holder, APIKey: c.APIKey})
	}
	return r
}

func (m *Machine) decideAcquire(t *tenant, c Acquire) Result {
	if !c.valid() {
		return refuse(RefusedInvalid)
	}
	if answer, known := t.knownAcquire(c); known {
		return answer
	}
	if reason := t.admit(c); reason != 0 {
		return refuse(reason)
	}
	k := t.key(c.Class, c.Key)
	if !k.occupied() && k.waiters == 0 {
		return m.acquireFree(t, c, k)
	}
	return m.acquireBusy(t, c, k)
}

func (c Acquire) valid() bool {
	return !c.Lease.Session.isZero() && c.Lease.Sequence >= 1 && c.Lease.Sequence <= SequenceMax &&
		c.Owner != "" && validText(string(c.Owner), 64) && validText(c.APIKey, 64) &&
		ValidKey(string(c.Key)) && validText(c.Holder, HolderBytesMax) && c.WaitMS >= WaitUnlimited
}

func (s SessionID) isZero() bool { return s == SessionID{} }

// knownAcquire answers an acquire whose session or id was seen before, where that alone decides.
func (t *tenant) knownAcquire(c Acquire) (Result, bool) {
	s := t.session(c.Lease.Session)
	if s == nil {
		return Result{}, false
	}
	if s.Owner != c.Owner {
		return refuse(RefusedForeign), true
	}
	if l := t.lease(c.Lease); l != nil {
		if l.Reason != Burned && (l.Class != c.Class || l.Key != c.Key) {
			return refuse(RefusedIDConflict), true
		}
		return l.answer(), true
	}
	if s.Ended {
		return refuse(RefusedSessionOver), true
	}
	return refuse(RefusedTooOld), s.Forgot(c.Lease.Sequence)
}

// answer is what a repeated request gets.
func (l *Lease) answer() Result {
	switch {
	case l.State == StateHeld:
		return Result{Outcome: Granted, Token: l.Token}
	case l.State == StateWaiting:
		return Result{Outcome: Queued}
	case l.Reason.usesUp():
		return refuse(l.Reason)
	}
	return Result{Outcome: Ended, Reason: l.Reason, Token: l.Token}
}

// admit checks what must hold before the key is looked at. Zero is yes.
func (t *tenant) admit(c Acquire) Reason {
	class, known := t.class(c.Class)
	session := t.session(c.Lease.Session)
	switch {
	case t.dropped:
		return RefusedDropped
	case t.suspended:
		return RefusedSuspended
	case !known:
		return RefusedNotInForce
	case class.Retired:
		return RefusedRetired
	case class.Refuses && c.WaitMS != 0:
		return RefusedWait
	case class.MaxWaitMS > 0 && (c.WaitMS > class.MaxWaitMS || c.WaitMS == WaitUnlimited):
		return RefusedWait
	case session == nil && t.sessions.Len() >= t.quotas.Sessions:
		return RefusedQuotaSessions
	case session != nil && session.Live >= t.quotas.PerSession:
		return RefusedQuotaSession
	}
	return 0
}

func (m *Machine) acquireFree(t *tenant, c Acquire, k keyRow) Result {
	switch {
	case t.keys.Len() >= t.quotas.Keys:
		return refuse(RefusedQuotaKeys)
	case t.occupied >= t.quotas.Leases:
		return refuse(RefusedQuotaLeases)
	}
	t.see(c.Lease, c.Owner)
	l := &Lease{ID: c.Lease, Class: c.Class, Key: c.Key, Holder: c.Holder, APIKey: c.APIKey}
	return m.grant(t, l, k, EventGranted)
}

// acquireBusy queues behind the holder, or uses the id up.
func (m *Machine) acquireBusy(t *tenant, c Acquire, k keyRow) Result {
	class, _ := t.class(c.Class)
	switch {
	case k.holder.Session == c.Lease.Session:
		return t.useUp(m, c, RefusedAlreadyHeld)
	case c.WaitMS == 0:
		return t.useUp(m, c, RefusedHeld)
	case k.waiters >= class.MaxWaiters:
		return t.useUp(m, c, RefusedQueueFull)
	case t.waiting >= t.quotas.Waiters:
		return refuse(RefusedQuotaWaiters)
	}
	return m.enqueue(t, c, k)
}

// useUp remembers a refusal under its id, so that a copy of the request that arrives later is refused as well.
func (t *tenant) useUp(m *Machine, c Acquire, r Reason) Result {
	t.see(c.Lease, c.Owner)
	t.putLease(&Lease{ID: c.Lease, State: StateEnded, Class: c.Class, Key: c.Key, Index: m.index, Reason: r})
	return refuse(r)
}

func (m *Machine) enqueue(t *tenant, c Acquire, k keyRow) Result {
	t.see(c.Lease, c.Owner)
	l := &Lease{ID: c.Lease, State: StateWaiting, Class: c.Class, Key: c.Key, Holder: c.Holder, APIKey: c.APIKey,
		Index: m.index, AtMS: m.wallMS, Place: k.nextPlace, WaitMS: c.WaitMS}
	k.nextPlace++
	k.waiters++
	t.waiting++
	t.setKey(c.Class, c.Key, k)
	t.queue.Set(queueRow(c.Class, c.Key, l.Place), l.ID)
	t.putLease(l)
	m.emit(l.event(EventQueued, t))
	return Result{Outcome: Queued}
}

// grant gives the key to the request under the version in force, with the tenant's next token.
func (m *Machine) grant(t *tenant, l *Lease, k keyRow, kind EventKind) Result {
	class, _ := t.class(l.Class)
	t.lastToken++
	l.State, l.Token, l.Epoch, l.Version = StateHeld, t.lastToken, m.epoch, class.Version
	l.Purpose, l.Enforcement = class.Purpose, class.Enforcement
	l.LeaseMS, l.HeartbeatMS = class.LeaseMS, class.HeartbeatMS
	l.LockDelayMS, l.MaxHoldMS = class.LockDelayMS, class.MaxHoldMS
	l.Index, l.AtMS, l.Place, l.WaitMS = m.index, m.wallMS, 0, 0
	l.Handed = kind == EventPromoted
	if l.Long() {
		l.DeadlineMS = m.clockMS + l.term()
	}
	k.holder = l.ID
	t.setKey(l.Class, l.Key, k)
	t.putLease(l)
	m.emit(l.event(kind, t))
	return Result{Outcome: Granted, Token: l.Token}
}

// term is how long the lease runs from its grant: its length, or the pick-up window when it was handed over.
func (l *Lease) term() int64 {
	if l.Handed {
		return PickupMS(l.LeaseMS)
	}
	return l.LeaseMS
}

func (l *Lease) event(kind EventKind, t *tenant) Event {
	return Event{Kind: kind, Tenant: t.ID, Class: l.Class, Key: l.Key, Lease: l.ID, Token: l.Token, Epoch: l.Epoch,
		Version: l.Version, Holder: l.Holder, APIKey: l.APIKey}
}
