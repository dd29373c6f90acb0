package tenants_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stanchion-locks/stanchion/tenants"
)

func TestCreateAPIKey_isItsOwnLineage(t *testing.T) {
	w := newWorld(t)
	c := w.create(1, "locks:ledger-*", "audit:read")
	events := w.ok(c)
	if len(events) != 1 || events[0].Kind != tenants.EventAPIKeyCreated || events[0].Key != c.Key || events[0].KeyName != "ledger job" {
		t.Errorf("got %+v", events)
	}
	got, ok := w.state.APIKey("acme", c.Key)
	if !ok || got.Lineage != c.Key || got.CreatedBy != admin || !slices.Equal(got.Makers, []tenants.Person{admin.Person}) {
		t.Errorf("got %+v", got)
	}
	w.unchanged(c)
	c.Name = "another"
	w.refused(c, tenants.RefusedKeyExists)
	if _, ok := w.state.APIKey("beta", c.Key); ok {
		t.Error("another tenant sees the key")
	}
}

func TestCreateAPIKey_refusesWhatIsOutOfRange(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		field  string
		change func(*tenants.CreateAPIKey)
	}{
		{"key", func(c *tenants.CreateAPIKey) { c.Key = "short" }},
		{"key", func(c *tenants.CreateAPIKey) { c.Key = "0123-56789" }},
		{"hash", func(c *tenants.CreateAPIKey) { c.Hash = tenants.KeyHash{} }},
		{"name", func(c *tenants.CreateAPIKey) { c.Name = "" }},
		{"name", func(c *tenants.CreateAPIKey) { c.Name = "a\x00" }},
		{"scopes", func(c *tenants.CreateAPIKey) { c.Scopes = nil }},
		{"scopes", func(c *tenants.CreateAPIKey) { c.Scopes = tenants.Scopes{{Verb: "fly"}} }},
		{"scopes", func(c *tenants.CreateAPIKey) { c.Scopes = scopes(t, "platform:operator") }},
		{"scopes", func(c *tenants.CreateAPIKey) { c.Tenant = tenants.Platform }},
		{"expires", func(c *tenants.CreateAPIKey) { c.ExpiresMS = 0 }},
		{"expires", func(c *tenants.CreateAPIKey) { c.ExpiresMS = c.AtMS }},
		{"expires", func(c *tenants.CreateAPIKey) { c.ExpiresMS = c.AtMS + 366*dayMS + 1 }},
	} {
		create := w.create(1, "locks:*")
		c.change(&create)
		if r := w.refused(create, tenants.RefusedInvalid); r.Field != c.field {
			t.Errorf("got field %q, want %q", r.Field, c.field)
		}
	}
	longest := w.create(1, "locks:*")
	longest.ExpiresMS = nowMS + 366*dayMS
	w.ok(longest)
	foreign := w.create(2, "locks:*")
	foreign.Tenant = "nobody"
	w.refused(foreign, tenants.RefusedUnknownTenant)
}

func TestCreateAPIKey_keyMakesNoWiderKey(t *testing.T) {
	w := newWorld(t)
	maker := w.key(1, "tenant:admin", "locks:ledger-*")
	plain := w.key(2, "locks:*")
	operator := w.operator(3)
	for seed, c := range []struct {
		by     tenants.APIKeyID
		tenant tenants.TenantID
		scopes []string
		want   tenants.Reason
	}{
		{maker, "acme", []string{"locks:ledger-close"}, tenants.None},
		{maker, "acme", []string{"tenant:admin", "locks:ledger-*"}, tenants.None},
		{maker, "acme", []string{"locks:*"}, tenants.RefusedWiderScope},
		{maker, "acme", []string{"locks:ledger-close", "audit:read"}, tenants.RefusedWiderScope},
		{maker, "beta", []string{"locks:ledger-close"}, tenants.RefusedForbidden},
		{plain, "acme", []string{"locks:a"}, tenants.RefusedForbidden},
		{operator, "beta", []string{"tenant:admin", "locks:*"}, tenants.None},
		{operator, tenants.Platform, []string{"platform:operator"}, tenants.None},
		{maker, tenants.Platform, []string{"platform:operator"}, tenants.RefusedForbidden},
		{"0000000000", "acme", []string{"locks:a"}, tenants.RefusedForbidden},
	} {
		create := w.create(uint64(100+seed), c.scopes...)
		create.Tenant, create.By = c.tenant, tenants.ByAPIKey(c.by)
		if c.want != tenants.None {
			w.refused(create, c.want)
			continue
		}
		w.ok(create)
	}
	w.ok(tenants.RevokeAPIKey{Tenant: "acme", Key: maker, By: admin, AtMS: nowMS})
	late := w.create(200, "locks:ledger-close")
	late.By = tenants.ByAPIKey(maker)
	w.refused(late, tenants.RefusedForbidden)
}

func TestCreateAPIKey_remembersEveryMaker(t *testing.T) {
	w := newWorld(t)
	maker := w.key(1, "tenant:admin", "locks:*")
	rotate := w.rotate(maker, 2)
	rotate.By = owner
	w.ok(rotate)
	child := w.create(3, "locks:*")
	child.By = tenants.ByAPIKey(rotate.Successor)
	w.ok(child)
	got, _ := w.state.APIKey("acme", child.Key)
	if want := []tenants.Person{admin.Person, owner.Person}; !slices.Equal(got.Makers, want) {
		t.Errorf("got %v, want %v", got.Makers, want)
	}
}

func TestRotateAPIKey_refusesOneMakerTooMany(t *testing.T) {
	w := newWorld(t)
	key := w.key(0, "locks:*")
	for i := range tenants.MakersMax - 1 {
		rotate := w.rotate(key, uint64(i+1))
		rotate.By = person(fmt.Sprintf("person%d@dev.test", i))
		w.ok(rotate)
		key = rotate.Successor
	}
	rotate := w.rotate(key, 1000)
	rotate.By = owner
	w.refused(rotate, tenants.RefusedTooManyMakers)
	rotate.By = admin
	w.ok(rotate)
}

func TestRotateAPIKey_bothWorkDuringTheOverlapAndNothingFailsBefore(t *testing.T) {
	w := newWorld(t)
	old := w.key(1, "locks:ledger-*")
	rotate := w.rotate(old, 2)
	events := w.ok(rotate)
	if len(events) != 1 || events[0].Kind != tenants.EventAPIKeyRotated || events[0].Key != old || events[0].Successor != rotate.Successor {
		t.Errorf("got %+v", events)
	}
	w.unchanged(rotate)
	for _, c := range []struct {
		seed uint64
		at   int64
		want bool
	}{
		{1, nowMS, true}, {2, nowMS, true}, {1, nowMS + hourMS - 1, true}, {1, nowMS + hourMS, false},
		{2, nowMS + hourMS, true}, {2, nowMS + 90*dayMS - 1, true}, {2, nowMS + 90*dayMS, false},
	} {
		p, err := w.state.Authenticate(credential(t, c.seed).Reveal(), c.at)
		if (err == nil) != c.want {
			t.Errorf("key %d at +%d ms: got %v, want accepted %v", c.seed, c.at-nowMS, err, c.want)
		}
		if err == nil && (p.Lineage != old || p.KeyName != "ledger job" || p.Scopes.Strings()[0] != "locks:ledger-*") {
			t.Errorf("key %d: got %+v", c.seed, p)
		}
	}
	other := w.rotate(old, 3)
	w.refused(other, tenants.RefusedAlreadyRotated)
	third := w.rotate(rotate.Successor, 4)
	w.ok(third)
	if got, _ := w.state.APIKey("acme", third.Successor); got.Lineage != old || got.Predecessor != rotate.Successor {
		t.Errorf("got %+v, want the lineage of %s", got, old)
	}
}

func TestRotateAPIKey_refusals(t *testing.T) {
	w := newWorld(t)
	key := w.key(1, "locks:*")
	for _, c := range []struct {
		field  string
		change func(*tenants.RotateAPIKey)
	}{
		{"successor", func(c *tenants.RotateAPIKey) { c.Successor = "" }},
		{"hash", func(c *tenants.RotateAPIKey) { c.Hash = tenants.KeyHash{} }},
		{"expires", func(c *tenants.RotateAPIKey) { c.ExpiresMS = c.AtMS }},
		{"overlap_ends", func(c *tenants.RotateAPIKey) { c.OverlapEndsMS = c.AtMS - 1 }},
		{"overlap_ends", func(c *tenants.RotateAPIKey) { c.OverlapEndsMS = c.AtMS + 30*dayMS + 1 }},
	} {
		rotate := w.rotate(key, 2)
		c.change(&rotate)
		if r := w.refused(rotate, tenants.RefusedInvalid); r.Field != c.field {
			t.Errorf("got field %q, want %q", r.Field, c.field)
		}
	}
	foreign := w.rotate(key, 2)
	foreign.Tenant = "beta"
	w.refused(foreign, tenants.RefusedUnknownKey)
	itself := w.rotate(key, 2)
	itself.Successor = key
	w.refused(itself, tenants.RefusedKeyExists)
	w.ok(tenants.RevokeAPIKey{Tenant: "acme", Key: key, By: admin, AtMS: nowMS})
	w.refused(w.rotate(key, 2), tenants.RefusedKeyEnded)
	expiring := w.key(5, "locks:*")
	late := w.rotate(expiring, 6)
	late.AtMS, late.OverlapEndsMS, late.ExpiresMS = nowMS+90*dayMS, nowMS+90*dayMS, nowMS+100*dayMS
	w.refused(late, tenants.RefusedKeyEnded)
}

func TestRotateAPIKey_keyRotatesItselfOrWhatItCovers(t *testing.T) {
	w := newWorld(t)
	self := w.key(1, "locks:*")
	narrowAdmin := w.key(2, "tenant:admin")
	wideAdmin := w.key(3, "tenant:admin", "locks:*")
	stranger := w.key(4, "locks:*")
	try := func(key, by tenants.APIKeyID, seed uint64) tenants.RotateAPIKey {
		rotate := w.rotate(key, seed)
		rotate.By = tenants.ByAPIKey(by)
		return rotate
	}
	w.refused(try(self, stranger, 10), tenants.RefusedForbidden)
	w.refused(try(self, narrowAdmin, 10), tenants.RefusedWiderScope)
	w.ok(try(self, self, 10))
	w.ok(try(stranger, wideAdmin, 11))
}

func TestRevokeAPIKey_bitesAtOnceWhateverTheClock(t *testing.T) {
	w := newWorld(t)
	key := w.key(1, "locks:*")
	stranger := w.key(2, "locks:*")
	revoke := tenants.RevokeAPIKey{Tenant: "acme", Key: key, Note: "leaked", By: tenants.ByAPIKey(stranger), AtMS: nowMS + hourMS}
	w.refused(revoke, tenants.RefusedForbidden)
	revoke.By = tenants.ByAPIKey(key)
	if e := w.ok(revoke); e[0].Kind != tenants.EventAPIKeyRevoked || e[0].Note != "leaked" {
		t.Errorf("got %+v", e)
	}
	if _, err := w.state.Authenticate(credential(t, 1).Reveal(), nowMS); err != tenants.ErrUnauthorized {
		t.Errorf("on a clock an hour behind: got %v, want ErrUnauthorized", err)
	}
	if got, _ := w.state.APIKey("acme", key); got.State(nowMS) != tenants.KeyRevoked {
		t.Errorf("got %v, want revoked", got.State(nowMS))
	}
	revoke.By = admin
	w.unchanged(revoke)
	revoke.Tenant = "beta"
	w.refused(revoke, tenants.RefusedUnknownKey)
}

func TestEndOverlap_endsTheOldKeyAlone(t *testing.T) {
	w := newWorld(t)
	old := w.key(1, "locks:*")
	end := tenants.EndOverlap{Tenant: "acme", Key: old, By: admin, AtMS: nowMS + hourMS/2}
	w.refused(end, tenants.RefusedNoOverlap)
	w.ok(w.rotate(old, 2))
	if got, _ := w.state.APIKey("acme", old); got.State(nowMS) != tenants.KeyOverlapping {
		t.Errorf("got %v, want overlapping", got.State(nowMS))
	}
	if e := w.ok(end); e[0].Kind != tenants.EventOverlapEnded {
		t.Errorf("got %+v", e)
	}
	w.unchanged(end)
	for _, at := range []int64{nowMS, end.AtMS, end.AtMS + 1} { // clocks behind and ahead, all within the overlap
		if _, err := w.state.Authenticate(credential(t, 1).Reveal(), at); err != tenants.ErrUnauthorized {
			t.Errorf("old key at %+d ms: got %v, want ErrUnauthorized", at-end.AtMS, err)
		}
	}
	if _, err := w.state.Authenticate(credential(t, 2).Reveal(), nowMS); err != nil {
		t.Errorf("successor: got %v", err)
	}
}

func TestCreateAPIKey_boundsTheKeysAndForgetsTheLongEnded(t *testing.T) {
	w := newWorld(t)
	first := w.key(0, "locks:*")
	for seed := uint64(1); seed < tenants.APIKeysPerTenantMax; seed++ {
		w.ok(w.create(seed, "locks:*"))
	}
	w.refused(w.create(9000, "locks:*"), tenants.RefusedTooManyKeys)
	w.ok(tenants.RevokeAPIKey{Tenant: "acme", Key: first, By: admin, AtMS: nowMS})
	soon := w.create(9000, "locks:*")
	soon.AtMS = nowMS + tenants.EndedKeptMS - 1
	w.refused(soon, tenants.RefusedTooManyKeys)
	later := soon
	later.AtMS = nowMS + tenants.EndedKeptMS
	w.ok(later)
	if _, ok := w.state.APIKey("acme", first); ok {
		t.Error("a key that ended 30 days ago is still remembered")
	}
}

func TestCreateAPIKey_neverTakesTheIDOfALivingLineage(t *testing.T) {
	w := newWorld(t)
	first := w.key(0, "locks:*")
	w.ok(w.rotate(first, 1))
	again := w.create(0, "locks:*")
	again.AtMS, again.ExpiresMS = nowMS+80*dayMS, nowMS+100*dayMS
	other := w.create(2, "locks:*")
	other.AtMS = nowMS + 80*dayMS
	w.ok(other)
	if _, ok := w.state.APIKey("acme", first); ok {
		t.Fatal("the first key is still remembered")
	}
	w.refused(again, tenants.RefusedKeyExists)
}

func TestAPIKeys_areInTheOrderOfTheirMaking(t *testing.T) {
	w := newWorld(t)
	var want []tenants.APIKeyID
	for seed := range uint64(10) {
		c := w.create(seed, "locks:*")
		c.AtMS += int64(seed)
		w.ok(c)
		want = append(want, c.Key)
	}
	w.operator(50)
	var got []tenants.APIKeyID
	for _, k := range w.state.APIKeys("acme") {
		got = append(got, k.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := len(w.state.APIKeys(tenants.Platform)); n != 1 {
		t.Errorf("got %d operator's keys, want 1", n)
	}
}

func TestAuthenticate_hasOneAnswerForEveryRefusal(t *testing.T) {
	w := newWorld(t)
	w.key(1, "locks:*")
	right := credential(t, 1).Reveal()
	p, err := w.state.Authenticate(right, nowMS)
	if err != nil || p.Tenant != "acme" || p.KeyID != credential(t, 1).ID() || p.Actor() != tenants.ByAPIKey(p.KeyID) {
		t.Fatalf("got %+v, %v", p, err)
	}
	forged := w.create(77, "locks:*") // right id, another's secret under it
	forged.Key = credential(t, 78).ID()
	w.ok(forged)
	for name, presented := range map[string]string{
		"empty": "", "malformed": "Bearer " + right, "wrong checksum": right[:63] + "!", "unknown": credential(t, 2).Reveal(),
		"wrong secret": credential(t, 78).Reveal(), "huge": string(make([]byte, 1<<20)),
	} {
		if got, err := w.state.Authenticate(presented, nowMS); err != tenants.ErrUnauthorized || got.KeyID != "" {
			t.Errorf("%s: got %+v, %v, want ErrUnauthorized alone", name, got, err)
		}
	}
}

func TestAuthenticate_acceptsKeysOfASuspendedTenant(t *testing.T) {
	w := newWorld(t)
	w.key(1, "locks:*")
	w.ok(tenants.SuspendTenant{Tenant: "acme", Note: "unpaid", By: admin, AtMS: nowMS})
	if _, err := w.state.Authenticate(credential(t, 1).Reveal(), nowMS); err != nil {
		t.Errorf("got %v, want accepted", err)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	w := newWorld(b)
	for seed := range uint64(1000) {
		w.ok(w.create(seed, "locks:*"))
	}
	presented := credential(b, 500).Reveal()
	for b.Loop() {
		if _, err := w.state.Authenticate(presented, nowMS); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRotateAPIKey_byItselfTakesNoRoomFromOthers: a key that rotates itself for ever neither fills the tenant's list nor lives
// longer than it was given to.
func TestRotateAPIKey_byItselfTakesNoRoomFromOthers(t *testing.T) {
	w := newWorld(t)
	key := w.key(0, "guard:report")
	first, _ := w.state.APIKey("acme", key)
	for seed := uint64(1); seed <= tenants.APIKeysPerTenantMax+20; seed++ {
		c := w.rotate(key, seed)
		c.By, c.OverlapEndsMS, c.ExpiresMS = tenants.ByAPIKey(key), c.AtMS, c.AtMS+first.ExpiresMS-first.CreatedMS
		longer := c
		longer.ExpiresMS++
		if r, _ := w.state.Apply(longer); r.Reason != tenants.RefusedInvalid || r.Field != "expires" {
			t.Fatalf("rotation %d to a longer life than the key was given: %+v; want expires refused", seed, r)
		}
		w.ok(c)
		key = c.Successor
	}
	if got := len(w.state.APIKeys("acme")); got > 2+tenants.EndedPerLineageMax {
		t.Errorf("%d keys are remembered; want the working one, and at most %d ended ones", got, tenants.EndedPerLineageMax)
	}
	w.ok(w.create(9000, "locks:*"))
	by := w.rotate(key, 9001) // somebody else may give it a longer life
	by.ExpiresMS = by.AtMS + first.ExpiresMS - first.CreatedMS + 1
	w.ok(by)
}
