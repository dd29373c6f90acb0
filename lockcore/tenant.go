package lockcore

// putTenant makes a tenant or changes its quotas. One that is being dropped must be gone first. A higher token base makes a
// known tenant's tokens jump, never fall.
//
// The control log's revision fences it as the epoch fences everything: a leader whose copy of that log lags must not take
// back what an earlier leader put from a newer one. Several commands come from one revision, so an equal one is good,
// unless the slug is gone: then it is the drop's own revision, or an older one.
func (m *Machine) putTenant(c PutTenant) Result {
	if !ValidName(string(c.Tenant)) || c.TokenBase > TokenBaseMax || !c.Quotas.valid() {
		return refuse(RefusedInvalid)
	}
	t, known := m.tenants.Get(string(c.Tenant))
	gone, wasDropped := m.dropped.Get(string(c.Tenant))
	switch {
	case known && c.Revision < t.revision, wasDropped && c.Revision <= gone.revision:
		return refuse(RefusedStaleVersion)
	case known && t.dropped:
		return refuse(RefusedBusy)
	case !known:
		m.dropped.Delete(string(c.Tenant))
		t = newTenant(c.Tenant, gone.token)
	}
	t.lastToken = max(t.lastToken, c.TokenBase)
	t.quotas, t.suspended, t.revision = c.Quotas, c.Suspended, c.Revision
	m.tenants.Set(string(c.Tenant), t)
	m.emit(Event{Kind: EventTenantPut, Tenant: t.ID, Token: t.lastToken})
	return Result{Outcome: Done}
}

func (q Quotas) valid() bool {
	for _, n := range [...]int{q.Keys, q.Leases, q.Waiters, q.Sessions, q.PerSession, q.Ends} {
		if n < 1 || n > quotaMax {
			return false
		}
	}
	return q.PerSession <= PerSessionMax
}

func (m *Machine) dropTenant(c DropTenant) Result {
	t, known := m.tenants.Get(string(c.Tenant))
	gone, wasDropped := m.dropped.Get(string(c.Tenant))
	switch {
	case known && c.Revision < t.revision, wasDropped && c.Revision < gone.revision:
		return refuse(RefusedStaleVersion)
	case !known:
		return refuse(RefusedUnknown)
	}
	t.revision = c.Revision
	if !t.dropped {
		t.dropped = true
		m.emit(Event{Kind: EventTenantDropped, Tenant: t.ID, By: c.By})
	}
	m.forgetTenantIfGone(t)
	return Result{Outcome: Done}
}

// forgetTenantIfGone leaves of a dropped tenant, once nobody holds or waits, only its final token, the base of whoever
// gets the slug again, and the revision that dropped it.
func (m *Machine) forgetTenantIfGone(t *tenant) {
	if !t.dropped || t.occupied > 0 || t.waiting > 0 {
		return
	}
	m.tenants.Delete(string(t.ID))
	m.dropped.Set(string(t.ID), droppedSlug{token: t.lastToken, revision: t.revision})
	m.emit(Event{Kind: EventTenantGone, Tenant: t.ID, Token: t.lastToken})
}
