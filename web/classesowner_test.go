package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/tenants"
)

// newOrphanedClass is a cluster with a class in force whose owner group is no owner group of the tenant any more.
func newOrphanedClass(t *testing.T) *classWorld {
	t.Helper()
	w := newClassWorld(t)
	w.signed(classFile)
	w.mustControl(control.Entry{Tenants: tenants.PutTenant{Tenant: "acme", OwnerGroups: []tenants.Group{"finance"},
		Quotas: tenants.QuotasDefault(), By: tenants.ByPlatform(), AtMS: 2}})
	return w
}

func (w *classWorld) transfer(class, body string) reply {
	w.t.Helper()
	return w.do(w.t, request{method: http.MethodPost, path: "/v1/tenants/acme/classes/" + class + "/transfer-owner", key: w.operates, body: body})
}

func TestTransferOwner_isForAnOperatorAndAGroupThatIsGone(t *testing.T) {
	w := newClassWorld(t)
	w.signed(classFile)
	const good = `{"from":"ledger-owners","to":"finance","reason":"dissolved"}`
	if out := w.transfer("ledger-close", good); out.status != 409 || out.problem(t).Code != wire.CodeOwnerGroupStays {
		t.Errorf("of a group that is there: %d %s; want owner_group_stays", out.status, out.body)
	}
	w = newOrphanedClass(t)
	for _, key := range []string{w.declares, w.foreign} {
		out := w.do(t, request{method: http.MethodPost, path: "/v1/tenants/acme/classes/ledger-close/transfer-owner", key: key, body: good})
		if out.status != 403 {
			t.Errorf("by a tenant's key: %d %s; want 403", out.status, out.body)
		}
	}
	for body, want := range map[string]int{
		`{"from":"ledger-owners","to":"strangers","reason":"dissolved"}`: 409, `{"from":"others","to":"finance","reason":"dissolved"}`: 400,
		`{"from":"ledger-owners","to":"finance"}`: 400, `{"from":"ledger-owners","to":"finance","reason":" "}`: 400,
		`{"from":"ledger-owners","reason":"x"}`: 400, `{"to":"finance","reason":"x"}`: 400,
	} {
		if out := w.transfer("ledger-close", body); out.status != want {
			t.Errorf("%s: %d %s; want %d", body, out.status, out.body, want)
		}
	}
	if out := w.transfer("ledger-open", good); out.status != 404 {
		t.Errorf("of an unknown class: %d %s; want 404", out.status, out.body)
	}
	var c wire.Class
	if out := w.transfer("ledger-close", good); out.status != 200 {
		t.Fatalf("%d %s; want 200", out.status, out.body)
	} else if decode(t, out, &c); c.Owner != "finance" || c.SignedVersion != 1 || c.State != wire.ClassInForce {
		t.Errorf("got %+v; want finance as the owner, and version 1 in force as it was", c)
	}
	if next := w.signed(strings.Replace(classFile, "ledger-owners", "finance", 1)); next != 2 {
		t.Errorf("the new owner signed version %d; want 2", next)
	}
}
