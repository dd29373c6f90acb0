package control_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

func TestSetCluster_isGivenOnce(t *testing.T) {
	l := &log{t: t, m: control.New()}
	l.refused(tenantsEntry(putTenant("acme", 1)), control.RefusedNoCluster)
	for _, bad := range []control.SetCluster{
		{ClusterID: "0B9AA3F2-1111-4222-8333-444455556666", PartitionCount: 1, CreatedMS: nowMS},
		{ClusterID: setCluster().Cluster.ClusterID, CreatedMS: nowMS},
		{ClusterID: setCluster().Cluster.ClusterID, PartitionCount: tenants.PartitionMax + 1, CreatedMS: nowMS},
		{ClusterID: setCluster().Cluster.ClusterID, PartitionCount: 1},
	} {
		l.refused(control.Entry{Cluster: &bad}, control.RefusedInvalid)
	}
	if _, err := l.m.PlaceTenant(); err != tenants.ErrNoPartition {
		t.Errorf("place without a cluster: got %v, want ErrNoPartition", err)
	}
	if _, events := l.ok(setCluster()); len(events) != 1 || events[0].Kind != "cluster_set" {
		t.Errorf("got events %+v, want one cluster_set", events)
	}
	if r, events := l.ok(setCluster()); !r.Unchanged || len(events) != 0 {
		t.Errorf("again: got %+v, %v", r, events)
	}
	other := setCluster()
	other.Cluster.PartitionCount = 3
	l.refused(other, control.RefusedClusterSet)
	if got, ok := l.m.Cluster(); !ok || got != *setCluster().Cluster {
		t.Errorf("got %+v, %v", got, ok)
	}
}

func TestPutTenant_needsAPartitionThatIsThere(t *testing.T) {
	l := newLog(t)
	l.refused(tenantsEntry(putTenant("beta", 3)), control.RefusedNoPartition)
	if got, err := l.m.PlaceTenant(); err != nil || got != 2 {
		t.Errorf("place: got %d, %v, want 2", got, err)
	}
	if r, _ := l.ok(tenantsEntry(putTenant("beta", 2))); r.Unchanged {
		t.Errorf("got %+v", r)
	}
	if r, _ := l.ok(tenantsEntry(putTenant("beta", 2))); !r.Unchanged {
		t.Errorf("again: got %+v, want unchanged", r)
	}
}

func TestDeclare_needsALiveTenantAndOneOfItsOwnerGroups(t *testing.T) {
	l := newLog(t)
	dev := author("dev@dev.test")
	l.refused(reviewEntry(declare(t, "nobody", "ledger-close", "ledger-owners", 10*time.Second, dev, "")), control.RefusedUnknownTenant)
	l.refused(reviewEntry(declare(t, "acme", "ledger-close", "strangers", 10*time.Second, dev, "")), control.RefusedOwnerGroup)
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, dev, "")
	r, events := l.ok(reviewEntry(d))
	if r.Version != 1 || r.State != review.StateInReview || !slices.Equal(r.Missing, []review.Group{"ledger-owners"}) {
		t.Errorf("got %+v", r)
	}
	if len(events) != 1 || events[0].Kind != "posture_declared" || events[0].Version != 1 || events[0].By != "dev@dev.test" {
		t.Errorf("got events %+v", events)
	}
	l.refused(reviewEntry(sign(d, 1, "dev@dev.test")), string(review.RefusedAuthor))
	l.ok(tenantsEntry(tenants.DropTenant{Tenant: "acme", Note: "closed", By: byPerson("operator@dev.test"), AtMS: nowMS}))
	l.refused(reviewEntry(sign(d, 1, "owner@dev.test")), control.RefusedTenantDropped)
}

func TestSign_isRefusedForAGroupThatNoLongerOwns(t *testing.T) {
	l := newLog(t)
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")
	l.ok(reviewEntry(d))
	put := putTenant("acme", 1)
	put.OwnerGroups = []tenants.Group{"stock-owners"}
	l.ok(tenantsEntry(put))
	l.refused(reviewEntry(sign(d, 1, "owner@dev.test")), control.RefusedOwnerGroup)
}

func TestDeclare_holdsAnAPIKeyToWhatIsKnownOfIt(t *testing.T) {
	l := newLog(t)
	key := createAPIKey(t, "acme", 1, "classes:declare:ledger-*")
	l.ok(tenantsEntry(key))
	p, err := l.m.Authenticate(credential(t, 1).Reveal(), nowMS)
	if err != nil {
		t.Fatal(err)
	}
	by := control.AuthorOf(p)
	file := func(class string, by review.Actor) control.Entry {
		return reviewEntry(declare(t, "acme", class, "ledger-owners", 10*time.Second, by, ""))
	}
	l.refused(file("stock-count", by), control.RefusedForbidden)
	hidden := by
	hidden.Persons = []review.Person{person("nobody@dev.test")}
	l.refused(file("ledger-close", hidden), control.RefusedAuthor)
	unknown := by
	unknown.ID = "0000000000"
	l.refused(file("ledger-close", unknown), control.RefusedForbidden)
	l.ok(file("ledger-close", by))
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, by, "")
	l.refused(reviewEntry(sign(d, 1, "admin@dev.test")), string(review.RefusedAuthor)) // made the key
	l.ok(reviewEntry(sign(d, 1, "owner@dev.test")))
	l.ok(tenantsEntry(tenants.RevokeAPIKey{Tenant: "acme", Key: key.Key, By: byPerson("admin@dev.test"), AtMS: nowMS}))
	l.refused(file("ledger-open", by), control.RefusedForbidden)
}

func TestDesiredState_isWhatAPartitionOughtToCarry(t *testing.T) {
	l := newLog(t)
	l.ok(tenantsEntry(putTenant("beta", 2)))
	l.ok(tenantsEntry(putTenant("gone", 1)))
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")
	l.ok(reviewEntry(d))
	if got := l.m.DesiredState(1)[0].Classes; len(got) != 0 {
		t.Errorf("before the signature: got %+v", got)
	}
	if r, events := l.ok(reviewEntry(sign(d, 1, "owner@dev.test"))); r.State != review.StateSigned || events[0].Kind != "posture_signed" {
		t.Errorf("got %+v, %+v", r, events)
	}
	l.ok(tenantsEntry(tenants.SuspendTenant{Tenant: "acme", Note: "unpaid", By: byPerson("operator@dev.test"), AtMS: nowMS}))
	l.ok(tenantsEntry(tenants.DropTenant{Tenant: "gone", Note: "closed", By: byPerson("operator@dev.test"), AtMS: nowMS}))
	l.ok(tenantsEntry(tenants.RecordFinalToken{Tenant: "gone", Token: 77, AtMS: nowMS}))

	got := l.m.DesiredState(1)
	if len(got) != 2 || got[0].Tenant != "acme" || !got[0].Suspended || got[0].Quotas != tenants.QuotasDefault() {
		t.Fatalf("got %+v", got)
	}
	if c := got[0].Classes; len(c) != 1 || c[0].Version != 1 || c[0].Digest != d.Digest || c[0].Posture.LeaseMS != 10_000 {
		t.Errorf("got classes %+v", c)
	}
	if g := got[1]; g.Tenant != "gone" || !g.Dropped || !g.TokenFinal || g.TokenBase != 77 || g.Classes != nil {
		t.Errorf("got %+v", g)
	}
	if other := l.m.DesiredState(2); len(other) != 1 || other[0].Tenant != "beta" {
		t.Errorf("partition 2: got %+v", other)
	}
}

func TestView_readsBothHalves(t *testing.T) {
	l := newLog(t)
	l.ok(tenantsEntry(createAPIKey(t, "acme", 1, "locks:*")))
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")
	l.ok(reviewEntry(d))
	if got, ok := l.m.Tenant("acme"); !ok || got.ID != "acme" || len(l.m.Tenants()) != 1 {
		t.Errorf("tenant: got %+v, %v", got, ok)
	}
	if got := l.m.APIKeys("acme"); len(got) != 1 || got[0].Name != "ci" {
		t.Errorf("API keys: got %+v", got)
	}
	if _, ok := l.m.APIKey("acme", credential(t, 1).ID()); !ok {
		t.Error("API key: not found")
	}
	if got, ok := l.m.Class("acme", "ledger-close"); !ok || got.Name != "ledger-close" || len(l.m.Classes("acme")) != 1 {
		t.Errorf("class: got %+v, %v", got, ok)
	}
	versions := l.m.ClassVersions("acme", "ledger-close")
	if len(versions) != 1 || versions[0].Number != 1 || l.m.ClassVersions("acme", "other") != nil {
		t.Errorf("versions: got %+v", versions)
	}
	versions[0].State = review.StateSigned
	if got := l.m.ClassVersions("acme", "ledger-close"); got[0].State != review.StateInReview {
		t.Error("a change to what was read changed the state")
	}
	if got := l.m.Revision(); got != 4 {
		t.Errorf("revision: got %d, want 4", got)
	}
}

func TestRefusal_keepsMalformedTextOutOfTheAudit(t *testing.T) {
	l := newLog(t)
	for _, e := range []control.Entry{
		tenantsEntry(putTenant("Bad\x00Slug", 9)),
		tenantsEntry(putTenant("Bad\x00Slug", 1)),
		reviewEntry(review.Withdraw{Tenant: "Bad\x00Slug", Class: "Bad\x00Class", Version: 1, By: author("dev@dev.test"), AtMS: nowMS}),
	} {
		if r, events := l.apply(e); r.OK || events[0].Tenant != "" || events[0].Class != "" {
			t.Errorf("%+v: got %+v, %+v", e, r, events)
		}
	}
}

func TestApply_stopsAtWhatItDoesNotKnow(t *testing.T) {
	good, err := setCluster().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		index uint64
		entry []byte
		says  string
	}{
		"malformed":      {7, []byte("nonsense"), "entry 7"},
		"cut short":      {7, good[:len(good)-1], "entry 7"},
		"unknown part":   {7, []byte{0xa3, 1, 1, 2, 9, 3, 0xa0}, "part 9"},
		"unknown kind":   {7, []byte{0xa3, 1, 1, 2, 2, 3, 0x82, 0x18, 99, 0xa0}, "99"},
		"review's kind":  {7, []byte{0xa3, 1, 1, 2, 3, 3, 0x83, 1, 0x18, 99, 0xa0}, "99"},
		"later version":  {7, []byte{0xa3, 1, 2, 2, 1, 3, 0xa0}, "version 2"},
		"repeated index": {0, good, "entry 0"},
	} {
		func() {
			m := control.New()
			defer func() {
				text, _ := recover().(string)
				if !strings.Contains(text, c.says) {
					t.Errorf("%s: got panic %q, want one that says %q", name, text, c.says)
				}
				if m.Revision() != 0 {
					t.Errorf("%s: the machine went on to %d", name, m.Revision())
				}
			}()
			m.Apply(c.index, c.entry)
		}()
	}
}

func TestEncode_refusesWhatApplyWouldStopAt(t *testing.T) {
	bad := putTenant("acme", 1)
	bad.OwnerGroups[0] = "\xff"
	both := setCluster()
	both.Tenants = putTenant("acme", 1)
	for name, e := range map[string]control.Entry{"none": {}, "two": both, "no UTF-8": tenantsEntry(bad)} {
		if b, err := e.Encode(); err == nil {
			t.Errorf("%s: got %x, want ErrInvalidEntry", name, b)
		}
	}
}

func TestRolling_dependsOnIndexEntryAndOrder(t *testing.T) {
	apply := func(start uint64, entries ...control.Entry) [32]byte {
		m := control.New()
		for i, e := range entries {
			b, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			m.Apply(start+uint64(i), b)
		}
		return m.Rolling()
	}
	acme := tenantsEntry(putTenant("acme", 1))
	beta := tenantsEntry(putTenant("beta", 1))
	base := apply(1, setCluster(), acme, beta)
	if base != apply(1, setCluster(), acme, beta) {
		t.Error("equal logs have different hashes")
	}
	if base == apply(2, setCluster(), acme, beta) || base == apply(1, setCluster(), beta, acme) || base == apply(1, setCluster(), acme) {
		t.Error("different logs have equal hashes")
	}
}

func TestEntry_carriesItsSalt(t *testing.T) {
	e := control.Entry{Cluster: &control.SetCluster{ClusterID: "c0ffee00-0000-4000-8000-000000000001", PartitionCount: 2, CreatedMS: 1}, Salt: [16]byte{7, 1}}
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	m := control.New()
	m.Apply(3, b)
	if got := m.Salt(); got != e.Salt {
		t.Errorf("after the entry the machine's salt is %x; want %x", got, e.Salt)
	}
	bare, err := control.Entry{Cluster: e.Cluster}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(bare) >= len(b) {
		t.Errorf("an entry without a salt has %d bytes, with one %d; want fewer, as before there were salts", len(bare), len(b))
	}
	if _, err := control.DecodeEntry(append(bare[:len(bare):len(bare)], 0)); err == nil {
		t.Error("an entry with a byte behind it is accepted")
	}
}
