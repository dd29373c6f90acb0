package lockcore

func (m *Machine) leave(t *tenant, c Leave) Result {
	switch c.Cause {
	case WaitTimeout, Disconnected, ClassRetired, TenantDropped:
	default:
		return refuse(RefusedInvalid)
	}
	l, reason := t.waitingAs(c.Lease)
	if reason != 0 {
		return refuse(reason)
	}
	m.depart(t, l, c.Cause)
	return Result{Outcome: Ended, Reason: c.Cause}
}

func (m *Machine) waiterGone(t *tenant, c WaiterGone) Result {
	if len(c.Leases) < 1 || len(c.Leases) > WaiterGoneMax {
		return refuse(RefusedInvalid)
	}
	for _, id := range c.Leases {
		if l, reason := t.waitingAs(id); reason == 0 {
			m.depart(t, l, Silent)
		}
	}
	return Result{Outcome: Done}
}

// waitingAs finds a waiting request; else the reason why there is none.
func (t *tenant) waitingAs(id LeaseID) (*Lease, Reason) {
	l := t.lease(id)
	switch {
	case l == nil:
		return nil, RefusedUnknown
	case l.State != StateWaiting:
		return nil, RefusedNotWaiting
	}
	return l, 0
}

// depart takes a waiter out of its queue. Nobody is granted by it: whoever waits, waits for a holder or a lock delay.
func (m *Machine) depart(t *tenant, l *Lease, reason Reason) {
	t.queue.Delete(queueRow(l.Class, l.Key, l.Place))
	k := t.key(l.Class, l.Key)
	k.waiters--
	t.waiting--
	t.setKey(l.Class, l.Key, k)

	t.putLease(l.over(reason, m.index))
	e := l.event(EventLeft, t)
	e.Reason = reason
	m.emit(e)
}
