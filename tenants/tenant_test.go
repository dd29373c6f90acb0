package tenants_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/tenants"
)

func TestPutTenant_createsAndChanges(t *testing.T) {
	w := newWorld(t)
	events := w.ok(tenants.PutTenant{Tenant: "gamma", OwnerGroups: []tenants.Group{"b", "a", "b"},
		Quotas: tenants.QuotasDefault(), Partition: 2, TokenBase: 7, By: admin, AtMS: nowMS})
	if len(events) != 1 || events[0].Kind != tenants.EventTenantCreated || events[0].By != admin || events[0].AtMS != nowMS {
		t.Errorf("got events %+v, want one tenant_created", events)
	}
	got, _ := w.state.Tenant("gamma")
	if want := []tenants.Group{"a", "b"}; !slices.Equal(got.OwnerGroups, want) || !got.HasOwnerGroup("b") || got.HasOwnerGroup("c") {
		t.Errorf("owner groups: got %v, want %v", got.OwnerGroups, want)
	}
	change := tenants.PutTenant{Tenant: "gamma", OwnerGroups: []tenants.Group{"c"}, Quotas: tenants.QuotasDefault(),
		By: admin, AtMS: nowMS + 1}
	change.Quotas.Leases = 5
	if events := w.ok(change); len(events) != 1 || events[0].Kind != tenants.EventTenantChanged {
		t.Errorf("got events %+v, want one tenant_changed", events)
	}
	got, _ = w.state.Tenant("gamma")
	if got.Quotas.Leases != 5 || got.Partition != 2 || got.TokenBase != 7 || got.CreatedMS != nowMS || got.ChangedMS != nowMS+1 {
		t.Errorf("got %+v", got)
	}
	w.unchanged(change)
}

func TestPutTenant_refusesWhatIsOutOfRange(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		field  string
		change func(*tenants.PutTenant)
	}{
		{"tenant", func(p *tenants.PutTenant) { p.Tenant = "" }},
		{"tenant", func(p *tenants.PutTenant) { p.Tenant = "Acme" }},
		{"tenant", func(p *tenants.PutTenant) { p.Tenant = "a/b" }},
		{"tenant", func(p *tenants.PutTenant) { p.Tenant = tenants.TenantID(strings.Repeat("a", 64)) }},
		{"owner_groups", func(p *tenants.PutTenant) { p.OwnerGroups = nil }},
		{"owner_groups", func(p *tenants.PutTenant) { p.OwnerGroups = []tenants.Group{"a\nb"} }},
		{"owner_groups", func(p *tenants.PutTenant) { p.OwnerGroups = []tenants.Group{""} }},
		{"partition", func(p *tenants.PutTenant) { p.Partition = 0 }},
		{"partition", func(p *tenants.PutTenant) { p.Partition = tenants.PartitionMax + 1 }},
		{"token_base", func(p *tenants.PutTenant) { p.TokenBase = tenants.TokenBaseMax + 1 }},
		{"quotas.keys", func(p *tenants.PutTenant) { p.Quotas.Keys = 0 }},
		{"quotas.leases", func(p *tenants.PutTenant) { p.Quotas.Leases = 100_000_001 }},
		{"quotas.waiters", func(p *tenants.PutTenant) { p.Quotas.Waiters = -1 }},
		{"quotas.sessions", func(p *tenants.PutTenant) { p.Quotas.Sessions = 0 }},
		{"quotas.requests_per_second", func(p *tenants.PutTenant) { p.Quotas.RequestsPerSecond = 1_000_001 }},
		{"quotas.audit_retention_days", func(p *tenants.PutTenant) { p.Quotas.AuditRetentionDays = 3_651 }},
		{"at", func(p *tenants.PutTenant) { p.AtMS = 0 }},
		{"by", func(p *tenants.PutTenant) { p.By = tenants.Actor{} }},
		{"by", func(p *tenants.PutTenant) { p.By = tenants.ByPerson(tenants.Person{Subject: "owner@dev.test"}) }},
	} {
		put := putTenant("gamma")
		c.change(&put)
		if r := w.refused(put, tenants.RefusedInvalid); r.Field != c.field {
			t.Errorf("got field %q, want %q", r.Field, c.field)
		}
	}
}

func TestPutTenant_takesTheBordersOfItsRanges(t *testing.T) {
	w := newWorld(t)
	put := putTenant(tenants.TenantID(strings.Repeat("a", 63)))
	put.Partition, put.TokenBase = tenants.PartitionMax, tenants.TokenBaseMax
	put.Quotas = tenants.Quotas{Keys: 1, Leases: 100_000_000, Waiters: 1, Sessions: 1, RequestsPerSecond: 1_000_000, AuditRetentionDays: 3_650}
	w.ok(put)
}

func TestPutTenant_neverMovesATenant(t *testing.T) {
	w := newWorld(t)
	moved := putTenant("acme")
	moved.Partition = 2
	w.refused(moved, tenants.RefusedPlacementFixed)
	based := putTenant("acme")
	based.TokenBase = 99
	w.refused(based, tenants.RefusedPlacementFixed)
}

func TestPutTenant_createRefusesAnotherOfTheName(t *testing.T) {
	w := newWorld(t)
	again := putTenant("acme")
	again.Create = true
	w.unchanged(again)
	again.Quotas.Keys = 1
	w.refused(again, tenants.RefusedTenantExists)
}

func TestSuspendTenant_isUndoneByResume(t *testing.T) {
	w := newWorld(t)
	suspend := tenants.SuspendTenant{Tenant: "acme", Note: "unpaid", By: admin, AtMS: nowMS}
	if e := w.ok(suspend); e[0].Kind != tenants.EventTenantSuspended || e[0].Note != "unpaid" {
		t.Errorf("got %+v", e)
	}
	w.unchanged(suspend)
	if got, _ := w.state.Tenant("acme"); !got.Suspended {
		t.Errorf("got %+v, want suspended", got)
	}
	resume := tenants.ResumeTenant{Tenant: "acme", By: admin, AtMS: nowMS}
	w.ok(resume)
	w.unchanged(resume)
	if got, _ := w.state.Tenant("acme"); got.Suspended {
		t.Errorf("got %+v, want resumed", got)
	}
	suspend.Note = ""
	w.refused(suspend, tenants.RefusedInvalid)
	resume.Tenant = "nobody"
	w.refused(resume, tenants.RefusedUnknownTenant)
}

func TestDropTenant_keepsSlugAndFinalToken(t *testing.T) {
	w := newWorld(t)
	key := w.create(1, "locks:*")
	w.ok(key)
	w.refused(tenants.RecordFinalToken{Tenant: "acme", Token: 500, AtMS: nowMS}, tenants.RefusedNotDropped)
	drop := tenants.DropTenant{Tenant: "acme", Note: "team closed", By: admin, AtMS: nowMS}
	w.ok(drop)
	w.unchanged(drop)
	if keys := w.state.APIKeys("acme"); len(keys) != 0 {
		t.Errorf("got keys %v, want none", keys)
	}
	if _, err := w.state.Authenticate(credential(t, 1).Reveal(), nowMS); err != tenants.ErrUnauthorized {
		t.Errorf("got %v, want ErrUnauthorized", err)
	}
	unplaced := putTenant("acme")
	unplaced.Partition, unplaced.TokenBase = 0, 0
	w.refused(unplaced, tenants.RefusedTenantDropped)
	w.refused(tenants.SuspendTenant{Tenant: "acme", Note: "x", By: admin, AtMS: nowMS}, tenants.RefusedTenantDropped)
	w.refused(w.create(2, "locks:*"), tenants.RefusedTenantDropped)

	w.ok(tenants.RecordFinalToken{Tenant: "acme", Token: 500, AtMS: nowMS})
	w.unchanged(tenants.RecordFinalToken{Tenant: "acme", Token: 400, AtMS: nowMS})
	w.refused(tenants.RecordFinalToken{Tenant: "acme", Token: tenants.TokenLimit, AtMS: nowMS}, tenants.RefusedInvalid)
	w.ok(tenants.RecordFinalToken{Tenant: "acme", Token: tenants.TokenLimit - 1, AtMS: nowMS})
	got, _ := w.state.Tenant("acme")
	if !got.Dropped || !got.TokenFinal || got.TokenBase != tenants.TokenLimit-1 {
		t.Errorf("got %+v", got)
	}
	if _, err := tenants.DecodeState(w.bytes()); err != nil {
		t.Errorf("restore: %v", err)
	}
}

func TestRecordFinalToken_neverFallsBelowTheBase(t *testing.T) {
	w := newWorld(t)
	w.ok(tenants.DropTenant{Tenant: "acme", Note: "never used", By: admin, AtMS: nowMS})
	w.ok(tenants.RecordFinalToken{Tenant: "acme", Token: 0, AtMS: nowMS})
	if got, _ := w.state.Tenant("acme"); got.TokenBase != 100 || !got.TokenFinal {
		t.Errorf("got base %d, final %v, want 100, true", got.TokenBase, got.TokenFinal)
	}
}

func TestPutTenant_refusesOneTooMany(t *testing.T) {
	w := newWorld(t)
	for i := range tenants.TenantsMax - 2 {
		if r, _ := w.state.Apply(putTenant(tenants.TenantID(fmt.Sprintf("t%d", i)))); !r.OK() {
			t.Fatalf("tenant %d: got %v", i, r.Reason)
		}
	}
	w.refused(putTenant("one-more"), tenants.RefusedTooManyTenants)
	w.unchanged(putTenant("acme"))
}

func TestTenants_areCopies(t *testing.T) {
	w := newWorld(t)
	w.key(1, "locks:*")
	before := w.bytes()
	w.state.Tenants()[0].OwnerGroups[0] = "intruders"
	one, _ := w.state.Tenant("acme")
	one.OwnerGroups[0] = "intruders"
	w.state.APIKeys("acme")[0].Scopes[0].Classes = "other"
	w.state.APIKeys("acme")[0].Makers[0].Subject = "other"
	p, err := w.state.Authenticate(credential(t, 1).Reveal(), nowMS)
	if err != nil {
		t.Fatal(err)
	}
	p.Scopes[0].Classes = "other"
	p.Makers[0].Subject = "other"
	if string(before) != string(w.bytes()) {
		t.Error("a change to what was read changed the state")
	}
}

func TestQuotas_zeroTakesTheDefault(t *testing.T) {
	got := tenants.Quotas{Leases: 3}.OrDefaults()
	want := tenants.QuotasDefault()
	want.Leases = 3
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestPlace_choosesTheLeastLoaded(t *testing.T) {
	for _, c := range []struct {
		loads []tenants.PartitionLoad
		want  tenants.PartitionID
	}{
		{[]tenants.PartitionLoad{{2, 0, 0}, {1, 0, 0}}, 1},
		{[]tenants.PartitionLoad{{1, 1, 1000}, {2, 5, 999}}, 2},
		{[]tenants.PartitionLoad{{1, 3, 1000}, {2, 2, 1000}, {3, 2, 1000}}, 2},
	} {
		if got, err := tenants.Place(c.loads); err != nil || got != c.want {
			t.Errorf("%v: got %d, %v, want %d", c.loads, got, err, c.want)
		}
	}
	if _, err := tenants.Place(nil); err != tenants.ErrNoPartition {
		t.Errorf("got %v, want ErrNoPartition", err)
	}
}

func TestLoads_leaveDroppedTenantsOut(t *testing.T) {
	w := newWorld(t)
	w.ok(tenants.DropTenant{Tenant: "beta", Note: "x", By: admin, AtMS: nowMS})
	want := []tenants.PartitionLoad{{Partition: 1, Tenants: 1, RequestsPerSecond: 1000}, {Partition: 2}}
	if got := w.state.Loads(2); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
