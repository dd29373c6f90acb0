package control_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

func dropTenant(id tenants.TenantID) control.Entry {
	return tenantsEntry(tenants.DropTenant{Tenant: id, Note: "team closed", By: byPerson("operator@dev.test"), AtMS: nowMS})
}

func finalToken(id tenants.TenantID, token uint64) control.Entry {
	return tenantsEntry(tenants.RecordFinalToken{Tenant: id, Token: token, AtMS: nowMS})
}

func TestDropTenant_leavesNoClassThatCanComeIntoForce(t *testing.T) {
	l := newLog(t)
	signed := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")
	l.ok(reviewEntry(signed))
	l.ok(reviewEntry(sign(signed, 1, "owner@dev.test")))
	proposed := declare(t, "acme", "ledger-close", "ledger-owners", 11*time.Second, author("dev@dev.test"), signed.Digest)
	l.ok(reviewEntry(proposed))
	fresh := declare(t, "acme", "ledger-open", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")
	l.ok(reviewEntry(fresh))

	_, events := l.ok(dropTenant("acme"))
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	if want := []string{"tenant_dropped", "posture_withdrawn", "posture_retired", "posture_withdrawn"}; !slices.Equal(kinds, want) {
		t.Errorf("got events %v, want %v", kinds, want)
	}
	if r, events := l.ok(dropTenant("acme")); !r.Unchanged || len(events) != 0 {
		t.Errorf("dropped again: got %+v %+v, want nothing new", r, events)
	}
	l.refused(tenantsEntry(putTenant("acme", 2)), "tenant_ending")
	l.ok(finalToken("acme", 7))
	l.ok(tenantsEntry(putTenant("acme", 2)))

	if got := l.m.DesiredState(1); len(got) != 0 {
		t.Errorf("the old partition ought to carry %+v, want nothing", got)
	}
	desired := l.m.DesiredState(2)
	if len(desired) != 1 || !desired[0].Again || desired[0].TokenBase != 8 || len(desired[0].Classes) != 1 || !desired[0].Classes[0].Retired {
		t.Errorf("the new partition ought to carry %+v, want the tenant above token 7 and one class, retired", desired)
	}
	l.refused(reviewEntry(sign(proposed, 2, "owner@dev.test")), string(review.RefusedNotInReview))
	l.refused(reviewEntry(sign(fresh, 1, "owner@dev.test")), string(review.RefusedNotInReview))

	class, _ := l.m.Class("acme", "ledger-close")
	if class.Purpose != review.PurposeCorrectness || len(class.Versions) != 2 {
		t.Errorf("the class is %+v, want its purpose and its history kept", class)
	}
	again := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), class.Base())
	r, _ := l.ok(reviewEntry(again))
	l.ok(reviewEntry(sign(again, r.Version, "owner@dev.test")))
	if got := l.m.DesiredState(2)[0].Classes[0]; got.Retired || got.Version != r.Version {
		t.Errorf("signed anew, the class ought to be %+v, want version %d in force", got, r.Version)
	}
}

func TestRecordKeyUses_isNeitherNewsNorARepetition(t *testing.T) {
	l := newLog(t)
	key := createAPIKey(t, "acme", 1, "locks:*")
	l.ok(tenantsEntry(key))
	use := tenantsEntry(tenants.RecordKeyUses{Uses: []tenants.KeyUse{{Key: key.Key, AtMS: nowMS}}, AtMS: nowMS})
	if !l.m.UseIsNews(key.Key, nowMS) {
		t.Error("the first use is no news")
	}
	if r, events := l.ok(use); r.Unchanged || len(events) != 0 {
		t.Errorf("got %+v %+v, want a change without events", r, events)
	}
	if k, _ := l.m.APIKey("acme", key.Key); k.LastUsedMS != nowMS || l.m.UseIsNews(key.Key, nowMS+1) {
		t.Errorf("got last use %d, want %d and a use right after it to be no news", k.LastUsedMS, nowMS)
	}
}
