package tenants_test

import (
	"slices"
	"testing"

	"github.com/stanchion-locks/stanchion/tenants"
)

// again makes a dropped tenant again.
func again(id tenants.TenantID, partition tenants.PartitionID) tenants.PutTenant {
	put := putTenant(id)
	put.TokenBase, put.Partition, put.Create, put.AtMS = 0, partition, true, nowMS+1
	return put
}

func (w *world) drop(id tenants.TenantID) {
	w.t.Helper()
	w.ok(tenants.DropTenant{Tenant: id, Note: "team closed", By: admin, AtMS: nowMS})
}

func TestPutTenant_makesADroppedTenantAgainOnceItsTokensAreKnown(t *testing.T) {
	w := newWorld(t)
	w.key(1, "locks:*")
	w.ok(tenants.SuspendTenant{Tenant: "acme", Note: "unpaid", By: admin, AtMS: nowMS})
	w.drop("acme")
	w.refused(again("acme", 2), tenants.RefusedTenantEnding)
	w.ok(tenants.RecordFinalToken{Tenant: "acme", Token: 500, AtMS: nowMS})
	w.refused(again("acme", 0), tenants.RefusedInvalid)

	events := w.ok(again("acme", 2))
	if len(events) != 1 || events[0].Kind != tenants.EventTenantCreated || events[0].Token != 501 {
		t.Errorf("got events %+v, want one tenant_created that names the base 501", events)
	}
	got, _ := w.state.Tenant("acme")
	if got.Partition != 2 || got.TokenBase != 501 || got.Suspended || got.Dropped || got.TokenFinal || got.EarlierLives != 1 ||
		got.CreatedMS != nowMS+1 {
		t.Errorf("got %+v, want a new tenant in partition 2 above token 500", got)
	}
	if keys := w.state.APIKeys("acme"); len(keys) != 0 {
		t.Errorf("got API keys %v of the earlier life, want none", keys)
	}
	if _, err := w.state.Authenticate(credential(t, 1).Reveal(), nowMS); err != tenants.ErrUnauthorized {
		t.Errorf("an API key of the earlier life: got %v, want ErrUnauthorized", err)
	}
	repeated := again("acme", 0)
	w.unchanged(repeated)
	repeated.Quotas.Keys = 1
	w.refused(repeated, tenants.RefusedTenantExists)
	w.key(2, "locks:*")
}

func TestPutTenant_takesAHigherBaseForADroppedTenantAndNeverALower(t *testing.T) {
	for asked, want := range map[uint64]uint64{1: 501, 501: 501, 9000: 9000} {
		w := newWorld(t)
		w.drop("acme")
		w.ok(tenants.RecordFinalToken{Tenant: "acme", Token: 500, AtMS: nowMS})
		put := again("acme", 1)
		put.TokenBase = asked
		w.ok(put)
		if got, _ := w.state.Tenant("acme"); got.TokenBase != want {
			t.Errorf("asked for base %d: got %d, want %d", asked, got.TokenBase, want)
		}
	}
}

func TestPutTenant_refusesASlugWhoseTokensAreSpent(t *testing.T) {
	w := newWorld(t)
	w.drop("acme")
	w.ok(tenants.RecordFinalToken{Tenant: "acme", Token: tenants.TokenBaseMax, AtMS: nowMS})
	w.refused(again("acme", 1), tenants.RefusedTokensSpent)
	w.drop("beta")
	w.ok(tenants.RecordFinalToken{Tenant: "beta", Token: tenants.TokenBaseMax - 1, AtMS: nowMS})
	w.ok(again("beta", 1))
}

// A node whose copy lags may still report what an earlier life ended with.
func TestRecordFinalToken_refusesOneOfAnEarlierLife(t *testing.T) {
	w := newWorld(t)
	w.drop("acme")
	late := tenants.RecordFinalToken{Tenant: "acme", Token: 500, AtMS: nowMS}
	w.ok(late)
	w.ok(again("acme", 1))
	w.refused(late, tenants.RefusedNotDropped)
	w.drop("acme")
	w.refused(late, tenants.RefusedStaleToken)
	w.refused(again("acme", 1), tenants.RefusedTenantEnding)
	w.ok(tenants.RecordFinalToken{Tenant: "acme", Token: 501, AtMS: nowMS})
	w.ok(again("acme", 2))
	if got, _ := w.state.Tenant("acme"); got.TokenBase != 502 || got.EarlierLives != 2 {
		t.Errorf("got %+v, want the base 502 in the third life", got)
	}
}

func TestChangeTenant_keepsWhatItDoesNotName(t *testing.T) {
	w := newWorld(t)
	w.ok(tenants.ChangeTenant{Tenant: "acme", Quotas: tenants.Quotas{Leases: 7}, By: owner, AtMS: nowMS})
	events := w.ok(tenants.ChangeTenant{Tenant: "acme", OwnerGroups: []tenants.Group{"b", "a"}, By: owner, AtMS: nowMS + 1})
	if len(events) != 1 || events[0].Kind != tenants.EventTenantChanged || events[0].By != owner {
		t.Errorf("got events %+v, want one tenant_changed", events)
	}
	w.unchanged(tenants.ChangeTenant{Tenant: "acme", By: owner, AtMS: nowMS + 2})
	want := tenants.QuotasDefault()
	want.Leases = 7
	got, _ := w.state.Tenant("acme")
	if got.Quotas != want || !slices.Equal(got.OwnerGroups, []tenants.Group{"a", "b"}) || got.TokenBase != 100 {
		t.Errorf("got %+v, want both changes and nothing else", got)
	}
	if r := w.refused(tenants.ChangeTenant{Tenant: "acme", Quotas: tenants.Quotas{Keys: -1}, By: owner, AtMS: nowMS},
		tenants.RefusedInvalid); r.Field != "quotas.keys" {
		t.Errorf("got field %q, want quotas.keys", r.Field)
	}
	w.refused(tenants.ChangeTenant{Tenant: "nobody", By: owner, AtMS: nowMS}, tenants.RefusedUnknownTenant)
	w.drop("acme")
	w.refused(tenants.ChangeTenant{Tenant: "acme", By: owner, AtMS: nowMS}, tenants.RefusedTenantDropped)
}

func TestTenantsFrom_pagesInOrder(t *testing.T) {
	w := newWorld(t)
	w.ok(putTenant("gamma"))
	for _, c := range []struct {
		from  tenants.TenantID
		limit int
		want  []tenants.TenantID
	}{{"", 2, []tenants.TenantID{"acme", "beta"}}, {"beta", 9, []tenants.TenantID{"beta", "gamma"}}, {"c", 1, []tenants.TenantID{"gamma"}},
		{"z", 9, nil}} {
		var got []tenants.TenantID
		for _, tenant := range w.state.TenantsFrom(c.from, c.limit) {
			got = append(got, tenant.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("from %q, %d: got %v, want %v", c.from, c.limit, got, c.want)
		}
	}
}
