package tenants

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// State holds all tenants and API keys. Apply and Snapshot need it for themselves; the reading methods may run beside
// each other. What they return is the caller's own.
//
// Rows are replaced and never changed, so that snapshots share them.
type State struct {
	tenants  *btree.Map[TenantID, *Tenant]
	keys     *btree.Map[APIKeyID, *keyRow]
	byTenant *btree.Map[string, *keyRow] // the same rows, by keyPlace

	events []Event // of the command being applied
}

// New is the state before the first command.
func New() *State {
	return &State{
		tenants:  new(btree.Map[TenantID, *Tenant]),
		keys:     new(btree.Map[APIKeyID, *keyRow]),
		byTenant: new(btree.Map[string, *keyRow]),
	}
}

// Apply carries out one command. Refused, it leaves the state as it was and returns one EventRefused; carried out, the
// events that became true, which are none when the command only repeated what was done, and none of RecordKeyUses, which
// is no news. It panics for a Command that is none of this package's.
func (s *State) Apply(c Command) (Result, []Event) {
	s.events = nil
	r := s.apply(c)
	if !r.OK() {
		s.events = []Event{refusal(c, r)}
	}
	events := s.events
	s.events = nil
	return r, events
}

func (s *State) apply(c Command) Result {
	switch about := c.about(); {
	case !validTime(about.atMS):
		return refuseField("at")
	case !about.by.valid():
		return refuseField("by")
	}
	switch c := c.(type) {
	case PutTenant:
		return s.putTenant(c)
	case SuspendTenant:
		return s.suspendTenant(c)
	case ResumeTenant:
		return s.resumeTenant(c)
	case DropTenant:
		return s.dropTenant(c)
	case RecordFinalToken:
		return s.recordFinalToken(c)
	case CreateAPIKey:
		return s.createAPIKey(c)
	case RotateAPIKey:
		return s.rotateAPIKey(c)
	case RevokeAPIKey:
		return s.revokeAPIKey(c)
	case EndOverlap:
		return s.endOverlap(c)
	case ChangeTenant:
		return s.alterTenant(c)
	case RecordKeyUses:
		return s.recordKeyUses(c)
	}
	panic(fmt.Sprintf("tenants: command kind %d", c.Kind()))
}

// emit records an event of the command being applied; what the event leaves open is as the command says.
func (s *State) emit(c Command, e Event) {
	about := c.about()
	e.Tenant, e.By, e.Note, e.AtMS = about.tenant, about.by, about.note, about.atMS
	e.Key = cmp.Or(e.Key, about.key)
	s.events = append(s.events, e)
}

// refusal is the event of a refused command. What is not in its proper form stays out of it.
func refusal(c Command, r Result) Event {
	about := c.about()
	e := Event{Kind: EventRefused, Refused: c.Kind(), Reason: r.Reason, Field: r.Field}
	if ValidSlug(string(about.tenant)) {
		e.Tenant = about.tenant
	}
	if about.key.Valid() {
		e.Key = about.key
	}
	if about.by.valid() {
		e.By = about.by
	}
	if validTime(about.atMS) {
		e.AtMS = about.atMS
	}
	return e
}

// Tenant is the tenant with that slug, dropped ones included.
func (s *State) Tenant(id TenantID) (Tenant, bool) {
	t, ok := s.tenants.Get(id)
	if !ok {
		return Tenant{}, false
	}
	return t.copied(), true
}

// Tenants are all tenants in the order of their slugs, dropped ones included.
func (s *State) Tenants() []Tenant {
	all := make([]Tenant, 0, s.tenants.Len())
	s.tenants.Scan(func(_ TenantID, t *Tenant) bool {
		all = append(all, t.copied())
		return true
	})
	return all
}

// TenantsFrom are at most limit tenants in the order of their slugs, beginning with the first that is not before from.
func (s *State) TenantsFrom(from TenantID, limit int) []Tenant {
	var page []Tenant
	s.tenants.Ascend(from, func(_ TenantID, t *Tenant) bool {
		if len(page) == limit {
			return false
		}
		page = append(page, t.copied())
		return true
	})
	return page
}

// APIKey is the tenant's API key with that id. Another tenant's is as unknown as one that never was.
func (s *State) APIKey(tenant TenantID, id APIKeyID) (APIKey, bool) {
	row, r := s.key(tenant, id)
	if !r.OK() {
		return APIKey{}, false
	}
	return row.APIKey.copied(), true
}

// APIKeys are the API keys of a tenant, or of the Platform, in the order in which they were made; ended ones stay for a
// while.
func (s *State) APIKeys(tenant TenantID) []APIKey {
	rows := s.keysOf(tenant)
	keys := make([]APIKey, 0, len(rows))
	for _, row := range rows {
		keys = append(keys, row.APIKey.copied())
	}
	slices.SortFunc(keys, func(a, b APIKey) int {
		return cmp.Or(cmp.Compare(a.CreatedMS, b.CreatedMS), cmp.Compare(a.ID, b.ID))
	})
	return keys
}

// keyPlace orders API keys by tenant. A slug has no slash.
func keyPlace(tenant TenantID, id APIKeyID) string { return string(tenant) + "/" + string(id) }

func (s *State) keysOf(tenant TenantID) []*keyRow {
	var rows []*keyRow
	first := keyPlace(tenant, "")
	s.byTenant.Ascend(first, func(place string, row *keyRow) bool {
		if !strings.HasPrefix(place, first) {
			return false
		}
		rows = append(rows, row)
		return true
	})
	return rows
}

func (s *State) setKey(row keyRow) {
	s.keys.Set(row.APIKey.ID, &row)
	s.byTenant.Set(keyPlace(row.APIKey.Tenant, row.APIKey.ID), &row)
}

func (s *State) removeKey(row *keyRow) {
	s.keys.Delete(row.APIKey.ID)
	s.byTenant.Delete(keyPlace(row.APIKey.Tenant, row.APIKey.ID))
}
