package control_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

var (
	slugs   = []tenants.TenantID{"acme", "acme", "acme", "acme", "beta", "gamma", "Bad Slug"}
	classes = []string{"ledger-close", "stock-count"}
	groups  = []tenants.Group{"ledger-owners", "stock-owners"}
	people  = []string{"dev@dev.test", "owner@dev.test", "admin@dev.test"}
	scopes  = []string{"locks:*", "locks:ledger-*", "classes:declare:*", "tenant:admin", "tenant:admin", "audit:read"}
)

const keysDrawn = 12 // few, so that ids meet again

// drawer draws commands that fit the state often enough for most to be carried out.
type drawer struct {
	t   *rapid.T
	m   *control.Machine
	now int64
}

func pick[E any](d *drawer, from []E, label string) E {
	return rapid.SampledFrom(from).Draw(d.t, label)
}

func (d *drawer) entry() control.Entry {
	d.now += rapid.SampledFrom([]int64{0, 1, 1000, hourMS, 5 * dayMS}).Draw(d.t, "later")
	switch rapid.IntRange(0, 15).Draw(d.t, "command") {
	case 0:
		return setCluster()
	case 1, 2:
		return tenantsEntry(d.putTenant())
	case 3:
		return tenantsEntry(d.tenantState())
	case 4, 5, 6:
		return tenantsEntry(d.createAPIKey())
	case 7, 8:
		return tenantsEntry(d.rotateAPIKey())
	case 9:
		return tenantsEntry(d.endAPIKey())
	case 10, 11, 12:
		return reviewEntry(d.declare())
	}
	return reviewEntry(d.decide())
}

func (d *drawer) by() tenants.Actor {
	switch rapid.IntRange(0, 3).Draw(d.t, "by") {
	case 0:
		return tenants.ByPlatform()
	case 1:
		return tenants.ByAPIKey(d.key())
	}
	return byPerson(pick(d, people, "person"))
}

// key is mostly one that is there.
func (d *drawer) key() tenants.APIKeyID {
	known := slices.Concat(d.m.APIKeys("acme"), d.m.APIKeys("beta"), d.m.APIKeys(tenants.Platform))
	if len(known) > 0 && rapid.IntRange(0, 9).Draw(d.t, "known key") > 0 {
		return pick(d, known, "key").ID
	}
	return credential(d.t, rapid.IntRange(0, keysDrawn-1).Draw(d.t, "key")).ID()
}

func (d *drawer) putTenant() tenants.PutTenant {
	put := putTenant(pick(d, slugs, "tenant"), tenants.PartitionID(rapid.IntRange(0, 3).Draw(d.t, "partition")))
	put.OwnerGroups = slices.Clone(groups[:rapid.SampledFrom([]int{0, 1, 2, 2, 2, 2}).Draw(d.t, "groups")])
	put.Quotas.Leases = rapid.SampledFrom([]int{0, 1, 2, 3, 4}).Draw(d.t, "leases")
	put.Create, put.By, put.AtMS = rapid.Bool().Draw(d.t, "create"), d.by(), d.now
	return put
}

func (d *drawer) tenantState() tenants.Command {
	id, by := pick(d, slugs, "tenant"), d.by()
	switch rapid.IntRange(0, 12).Draw(d.t, "change") {
	case 0:
		return tenants.DropTenant{Tenant: pick(d, slugs[4:], "dropped"), Note: "closed", By: by, AtMS: d.now}
	case 1, 2:
		return tenants.ResumeTenant{Tenant: id, By: by, AtMS: d.now}
	case 3:
		return tenants.RecordFinalToken{Tenant: id, Token: rapid.Uint64Range(0, 1<<54).Draw(d.t, "token"), AtMS: d.now}
	}
	return tenants.SuspendTenant{Tenant: id, Note: "unpaid", By: by, AtMS: d.now}
}

func (d *drawer) createAPIKey() tenants.CreateAPIKey {
	tenant := pick(d, append(slices.Clone(slugs), tenants.Platform), "tenant")
	wanted := rapid.SliceOfN(rapid.SampledFrom(scopes), 1, 4).Draw(d.t, "scopes")
	if tenant == tenants.Platform && rapid.Bool().Draw(d.t, "operator") {
		wanted = []string{"platform:operator"}
	}
	c := createAPIKey(d.t, tenant, rapid.IntRange(0, keysDrawn-1).Draw(d.t, "key"), wanted...)
	c.By, c.AtMS = d.by(), d.now
	c.ExpiresMS = d.now + rapid.SampledFrom([]int64{0, dayMS, 90 * dayMS, 366 * dayMS, 366*dayMS + 1}).Draw(d.t, "life")
	return c
}

func (d *drawer) rotateAPIKey() tenants.RotateAPIKey {
	next := credential(d.t, rapid.IntRange(0, keysDrawn-1).Draw(d.t, "successor"))
	return tenants.RotateAPIKey{Tenant: pick(d, slugs, "tenant"), Key: d.key(), Successor: next.ID(), Hash: next.Hash(),
		ExpiresMS: d.now + 90*dayMS, OverlapEndsMS: d.now + rapid.SampledFrom([]int64{0, hourMS, 31 * dayMS}).Draw(d.t, "overlap"),
		By: d.by(), AtMS: d.now}
}

func (d *drawer) endAPIKey() tenants.Command {
	if rapid.Bool().Draw(d.t, "revoke") {
		return tenants.RevokeAPIKey{Tenant: pick(d, slugs, "tenant"), Key: d.key(), By: d.by(), AtMS: d.now}
	}
	return tenants.EndOverlap{Tenant: pick(d, slugs, "tenant"), Key: d.key(), By: d.by(), AtMS: d.now}
}

func (d *drawer) declare() review.Declare {
	tenant, class := pick(d, slugs, "tenant"), pick(d, classes, "class")
	by := author(pick(d, people, "author"))
	presented := credential(d.t, rapid.IntRange(0, keysDrawn-1).Draw(d.t, "key")).Reveal()
	if p, err := d.m.Authenticate(presented, d.now); err == nil && rapid.Bool().Draw(d.t, "by key") {
		by = control.AuthorOf(p)
	}
	known, _ := d.m.Class(tenant, review.ClassName(class))
	lease := time.Duration(rapid.IntRange(10, 12).Draw(d.t, "lease")) * time.Second
	c := declare(d.t, review.TenantID(tenant), class, string(pick(d, groups, "owner")), lease, by, known.Base())
	c.AtMS = d.now
	return c
}

// decide signs, rejects, withdraws or retires some version that is there, or one that is not.
func (d *drawer) decide() review.Command {
	tenant, name := pick(d, slugs, "tenant"), review.ClassName(pick(d, classes, "class"))
	id, version, who := review.TenantID(tenant), uint64(1), pick(d, people, "who")
	known := d.m.ClassVersions(tenant, name)
	v := review.Version{Number: version}
	if len(known) > 0 {
		v = known[rapid.IntRange(0, len(known)-1).Draw(d.t, "version")]
	}
	all := []review.Group{"ledger-owners", "stock-owners"}
	switch rapid.IntRange(0, 6).Draw(d.t, "decision") {
	case 0:
		return review.Reject{Tenant: id, Class: name, Version: v.Number, Digest: v.Digest, By: person(who), Groups: all,
			Reason: "not so", AtMS: d.now}
	case 1:
		return review.Withdraw{Tenant: id, Class: name, Version: v.Number, By: author(who), AtMS: d.now}
	case 2:
		return review.Retire{Tenant: id, Class: name, By: author(who), AtMS: d.now}
	}
	return review.Sign{Tenant: id, Class: name, Version: v.Number, Digest: v.Digest, Signer: person(who), SignerGroups: all,
		Ticked: v.Warnings, ClaimsVersion: 1, AuthTimeMS: d.now, AtMS: d.now}
}

// Equal logs lead to equal machines, whether or not one of them was restored from a snapshot on the way; a refused entry
// changes nothing but index and rolling hash; what is live stays within the rules.
func TestMachine_isDeterministicAndRestoresExactly(t *testing.T) {
	outcomes := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		a, b := control.New(), control.New()
		d := &drawer{t: t, m: a, now: nowMS}
		restoreAt := rapid.IntRange(0, 60).Draw(t, "restore at")
		entries := []control.Entry{setCluster(), tenantsEntry(putTenant("acme", 1)), tenantsEntry(putTenant("beta", 2))}
		for i := range 60 {
			if i == restoreAt {
				b = restored(t, snapshotBytes(t, b))
			}
			if i >= len(entries) {
				entries = append(entries, d.entry())
			}
			outcomes[step(t, a, b, entries[i])]++
		}
		if a.Rolling() != b.Rolling() || a.Hash() != b.Hash() || !bytes.Equal(snapshotBytes(t, a), snapshotBytes(t, b)) {
			t.Errorf("machines differ after equal logs")
		}
	})
	t.Logf("outcomes: %v", outcomes)
	for _, want := range []string{"", "unchanged", "invalid", "unknown_tenant", "tenant_dropped", "forbidden", "api_key_exists",
		"unknown_api_key", "placement_fixed", "tenant_exists", "author",
		"not_in_review", "not_author", control.RefusedOwnerGroup, control.RefusedNoPartition} {
		if outcomes[want] == 0 {
			t.Errorf("outcome %q never occurred: %v", want, outcomes)
		}
	}
}

// step applies one entry to both machines, holds them against each other, and names the outcome.
func step(t *rapid.T, a, b *control.Machine, e control.Entry) string {
	t.Helper()
	entry, err := e.Encode()
	if err != nil {
		t.Fatalf("encode %+v: %v", e, err)
	}
	before, index := a.Hash(), a.Revision()+1
	ra, ea := a.Apply(index, entry)
	rb, eb := b.Apply(index, entry)
	if fmt.Sprintf("%+v %+v", ra, ea) != fmt.Sprintf("%+v %+v", rb, eb) {
		t.Fatalf("%+v: got %+v %+v and %+v %+v", e, ra, ea, rb, eb)
	}
	after := a.Hash()
	switch {
	case a.Rolling() != b.Rolling() || after != b.Hash():
		t.Fatalf("%+v: hashes differ", e)
	case (!ra.OK || ra.Unchanged) && after != before:
		t.Fatalf("%+v: %+v, and the state changed", e, ra)
	case ra.OK != (ra.Reason == ""):
		t.Fatalf("%+v: contradictory result %+v", e, ra)
	case ra.Unchanged:
		return "unchanged"
	}
	checkRules(t, a)
	return ra.Reason
}

// checkRules holds what must be true of every state.
func checkRules(t *rapid.T, m *control.Machine) {
	t.Helper()
	var dropped []tenants.TenantID
	for _, tenant := range m.Tenants() {
		if tenant.Partition < 1 || tenant.Partition > 2 || tenant.TokenBase >= tenants.TokenLimit {
			t.Fatalf("tenant %+v is out of its ranges", tenant)
		}
		if tenant.Dropped {
			dropped = append(dropped, tenant.ID)
		}
		for _, k := range m.APIKeys(tenant.ID) {
			if k.Tenant != tenant.ID || tenant.Dropped || k.ExpiresMS-k.CreatedMS > tenants.ExpiryMSMax || len(k.Makers) == 0 ||
				k.Scopes.Allows(tenants.VerbOperatePlatform, "") {
				t.Fatalf("API key %+v breaks a rule", k)
			}
		}
	}
	for partition := range tenants.PartitionID(3) {
		for _, d := range m.DesiredState(partition) {
			if d.Dropped && len(d.Classes) > 0 || d.Dropped != slices.Contains(dropped, d.Tenant) {
				t.Fatalf("desired %+v breaks a rule", d)
			}
		}
	}
}
