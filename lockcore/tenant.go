package lockcore

// putTenant makes a tenant or changes its quotas. One that is being dropped must be gone first. A higher token base makes a
// known tenant's tokens jump, never fall.
func (m *Machine) putTenant(c PutTenant) Result {
	if !ValidName(string(c.Tenant)) || c.TokenBase > TokenBaseMax || !c.Quotas.valid() {
		return refuse(RefusedInvalid)
	}
	t, known := m.tenants.Get(string(c.Tenant))
	switch {
	case known && t.dropped:
		return refuse(RefusedBusy)
	case !known:
		final, _ := m.dropped.Get(string(c.Tenant))
		m.dropped.Delete(string(c.Tenant))
		t = newTenant(c.Tenant, final)
	}
	t.lastToken = max(t.lastToken, c.TokenBase)
	t.quotas, t.suspended = c.Quotas, c.Suspended
	m.tenants.Set(string(c.Tenant), t)
	m.emit(Event{Kind: EventTenantPut, Tenant: t.ID, Token: t.lastToken})
	return Result{Outcome: Done}
}

func (q Quotas) valid() bool {
	const most = 100_000_000
	for _, n := range [...]int{q.Keys, q.Leases, q.Waiters, q.Sessions} {
		if n < 1 || n > most {
			return false
		}
	}
	return true
}

func (m *Machine) dropTenant(t *tenant, c DropTenant) Result {
	if !t.dropped {
		t.dropped = true
		m.emit(Event{Kind: EventTenantDropped, Tenant: t.ID, By: c.By})
	}
	return Result{Outcome: Done}
}

// forgetTenantIfGone leaves of a dropped tenant, once nobody holds or waits, only its final token: the base of whoever
// gets the slug again.
func (m *Machine) forgetTenantIfGone(t *tenant) {
	if !t.dropped || t.occupied > 0 || t.waiting > 0 {
		return
	}
	m.tenants.Delete(string(t.ID))
	m.dropped.Set(string(t.ID), t.lastToken)
	m.emit(Event{Kind: EventTenantGone, Tenant: t.ID, Token: t.lastToken})
}
