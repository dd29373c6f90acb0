package tenants

import "slices"

// Tenant is one tenant, live or dropped.
type Tenant struct {
	ID           TenantID    `cbor:"1,keyasint"`
	OwnerGroups  []Group     `cbor:"2,keyasint"` // in order
	Quotas       Quotas      `cbor:"3,keyasint"`
	Partition    PartitionID `cbor:"4,keyasint"`
	TokenBase    uint64      `cbor:"5,keyasint,omitempty"` // tokens count from above it; once final, the last one issued
	Suspended    bool        `cbor:"6,keyasint,omitempty"`
	Dropped      bool        `cbor:"7,keyasint,omitempty"`
	TokenFinal   bool        `cbor:"8,keyasint,omitempty"` // dropped, and TokenBase is what the partition ended with
	CreatedMS    int64       `cbor:"9,keyasint"`
	ChangedMS    int64       `cbor:"10,keyasint"`
	EarlierLives uint32      `cbor:"11,keyasint,omitempty"` // how often the slug was dropped and given again
}

// HasOwnerGroup reports whether g signs for the tenant.
func (t Tenant) HasOwnerGroup(g Group) bool {
	_, ok := slices.BinarySearch(t.OwnerGroups, g)
	return ok
}

func (t *Tenant) copied() Tenant {
	c := *t
	c.OwnerGroups = slices.Clone(t.OwnerGroups)
	return c
}

// putTenant makes the tenant or changes it.
func (s *State) putTenant(c PutTenant) Result {
	c.OwnerGroups = slices.Compact(slices.Sorted(slices.Values(c.OwnerGroups)))
	if field := c.wrongField(); field != "" {
		return refuseField(field)
	}
	old, known := s.tenants.Get(c.Tenant)
	if !known {
		return s.createTenant(c)
	}
	same := old.Quotas == c.Quotas && slices.Equal(old.OwnerGroups, c.OwnerGroups)
	switch {
	case old.Dropped:
		return s.createAgain(c, *old)
	case c.Partition != 0 && c.Partition != old.Partition, c.TokenBase != 0 && c.TokenBase != old.TokenBase:
		return refuse(RefusedPlacementFixed)
	case same:
		return Result{}
	case c.Create:
		return refuse(RefusedTenantExists)
	}
	t := *old
	t.Quotas, t.OwnerGroups = c.Quotas, c.OwnerGroups
	s.changeTenant(t, c, Event{Kind: EventTenantChanged})
	return Result{}
}

func (s *State) createTenant(c PutTenant) Result {
	switch {
	case c.Partition == 0:
		return refuseField("partition")
	case s.tenants.Len() >= TenantsMax:
		return refuse(RefusedTooManyTenants)
	}
	t := Tenant{ID: c.Tenant, OwnerGroups: c.OwnerGroups, Quotas: c.Quotas, Partition: c.Partition,
		TokenBase: c.TokenBase, CreatedMS: c.AtMS}
	s.changeTenant(t, c, Event{Kind: EventTenantCreated, Token: t.TokenBase})
	return Result{}
}

// createAgain gives a dropped tenant's slug to its successor. The token base is one above the final token: so the marks
// that the lives of a slug leave in partitions differ, and one of an earlier life is never taken for that of a later.
func (s *State) createAgain(c PutTenant, old Tenant) Result {
	base := max(old.TokenBase+1, c.TokenBase)
	switch {
	case c.Partition == 0 && !c.Create:
		return refuse(RefusedTenantDropped)
	case !old.TokenFinal:
		return refuse(RefusedTenantEnding)
	case c.Partition == 0:
		return refuseField("partition")
	case base > TokenBaseMax:
		return refuse(RefusedTokensSpent)
	}
	t := Tenant{ID: c.Tenant, OwnerGroups: c.OwnerGroups, Quotas: c.Quotas, Partition: c.Partition, TokenBase: base,
		CreatedMS: c.AtMS, EarlierLives: old.EarlierLives + 1}
	s.changeTenant(t, c, Event{Kind: EventTenantCreated, Token: base})
	return Result{}
}

// alterTenant changes what the command names.
func (s *State) alterTenant(c ChangeTenant) Result {
	t, r := s.liveTenant(c.Tenant)
	if !r.OK() {
		return r
	}
	put := PutTenant{Tenant: c.Tenant, OwnerGroups: t.OwnerGroups, Quotas: c.Quotas.or(t.Quotas), By: c.By, AtMS: c.AtMS}
	if len(c.OwnerGroups) > 0 {
		put.OwnerGroups = c.OwnerGroups
	}
	return s.putTenant(put)
}

// wrongField names the first field out of its range, or is empty. Owner groups are in order.
func (c PutTenant) wrongField() string {
	switch {
	case !ValidSlug(string(c.Tenant)):
		return "tenant"
	case !validGroups(c.OwnerGroups):
		return "owner_groups"
	case c.Partition > PartitionMax:
		return "partition"
	case c.TokenBase > TokenBaseMax:
		return "token_base"
	}
	return c.Quotas.wrongField()
}

func validGroups(groups []Group) bool {
	if len(groups) == 0 || len(groups) > OwnerGroupsMax {
		return false
	}
	return !slices.ContainsFunc(groups, func(g Group) bool { return !validLabel(string(g), GroupBytesMax) })
}

// changeTenant replaces the tenant's row; rows themselves never change, as snapshots share them.
func (s *State) changeTenant(t Tenant, c Command, e Event) {
	t.ChangedMS = c.about().atMS
	s.tenants.Set(t.ID, &t)
	s.emit(c, e)
}

// liveTenant is the tenant, or why it cannot be changed.
func (s *State) liveTenant(id TenantID) (Tenant, Result) {
	t, ok := s.tenants.Get(id)
	switch {
	case !ok:
		return Tenant{}, refuse(RefusedUnknownTenant)
	case t.Dropped:
		return Tenant{}, refuse(RefusedTenantDropped)
	}
	return *t, Result{}
}

func (s *State) suspendTenant(c SuspendTenant) Result {
	if !validLabel(c.Note, NoteBytesMax) {
		return refuseField("note")
	}
	t, r := s.liveTenant(c.Tenant)
	if !r.OK() || t.Suspended {
		return r
	}
	t.Suspended = true
	s.changeTenant(t, c, Event{Kind: EventTenantSuspended})
	return Result{}
}

func (s *State) resumeTenant(c ResumeTenant) Result {
	if !validText(c.Note, NoteBytesMax) {
		return refuseField("note")
	}
	t, r := s.liveTenant(c.Tenant)
	if !r.OK() || !t.Suspended {
		return r
	}
	t.Suspended = false
	s.changeTenant(t, c, Event{Kind: EventTenantResumed})
	return Result{}
}

func (s *State) dropTenant(c DropTenant) Result {
	if !validLabel(c.Note, NoteBytesMax) {
		return refuseField("note")
	}
	t, ok := s.tenants.Get(c.Tenant)
	switch {
	case !ok:
		return refuse(RefusedUnknownTenant)
	case t.Dropped:
		return Result{}
	}
	for _, k := range s.keysOf(c.Tenant) {
		s.removeKey(k)
	}
	dropped := *t
	dropped.Dropped, dropped.Suspended = true, false
	s.changeTenant(dropped, c, Event{Kind: EventTenantDropped})
	return Result{}
}

func (s *State) recordFinalToken(c RecordFinalToken) Result {
	t, ok := s.tenants.Get(c.Tenant)
	switch {
	case c.Token >= TokenLimit:
		return refuseField("token")
	case !ok:
		return refuse(RefusedUnknownTenant)
	case !t.Dropped:
		return refuse(RefusedNotDropped)
	case t.TokenFinal && c.Token <= t.TokenBase:
		return Result{}
	case t.EarlierLives > 0 && c.Token < t.TokenBase:
		return refuse(RefusedStaleToken)
	}
	final := *t
	final.TokenBase, final.TokenFinal = max(t.TokenBase, c.Token), true
	s.changeTenant(final, c, Event{Kind: EventFinalTokenRecorded, Token: final.TokenBase})
	return Result{}
}
