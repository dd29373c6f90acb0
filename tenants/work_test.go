package tenants

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"testing"
)

// A refusal that is cheaper for one cause than for another tells the cause. What costs time is counted instead of timed:
// each call hashes as many bytes as any API key has, once, and compares two whole hashes, once.
func TestAuthenticate_doesTheSameWorkForEveryCause(t *testing.T) {
	const nowMS = int64(1_800_000_000_000)
	s, by := New(), ByPlatform()
	apply := func(c Command) {
		t.Helper()
		if r, _ := s.Apply(c); !r.OK() {
			t.Fatalf("%T: got %s %s, want carried out", c, r.Reason, r.Field)
		}
	}
	drawn := func() Credential {
		t.Helper()
		c, err := GenerateCredential(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	made := func(tenant TenantID, lifeMS int64) Credential {
		c := drawn()
		apply(CreateAPIKey{Tenant: tenant, Key: c.ID(), Hash: c.Hash(), Name: "job", Scopes: Scopes{{Verb: VerbReadAudit}},
			ExpiresMS: nowMS - 1000 + lifeMS, By: by, AtMS: nowMS - 1000})
		return c
	}
	for _, id := range []TenantID{"acme", "dropped"} {
		apply(PutTenant{Tenant: id, OwnerGroups: []Group{"owners"}, Quotas: QuotasDefault(), Partition: 1, By: by, AtMS: nowMS})
	}
	works, expired, revoked, rotated, dropped := made("acme", dayMS), made("acme", 1), made("acme", dayMS), made("acme", dayMS), made("dropped", dayMS)
	next := drawn()
	apply(RevokeAPIKey{Tenant: "acme", Key: revoked.ID(), By: by, AtMS: nowMS})
	apply(RotateAPIKey{Tenant: "acme", Key: rotated.ID(), Successor: next.ID(), Hash: next.Hash(), ExpiresMS: nowMS + dayMS,
		OverlapEndsMS: nowMS - 1000, By: by, AtMS: nowMS - 1000})
	apply(DropTenant{Tenant: "dropped", Note: "closed", By: by, AtMS: nowMS})

	for name, c := range map[string]struct {
		presented string
		accepted  bool
	}{
		"right": {works.Reveal(), true}, "successor": {next.Reveal(), true},
		"none": {"", false}, "malformed": {"stn_nothing", false}, "huge": {strings.Repeat("x", 1<<16), false},
		"wrong checksum": {works.Reveal()[:len(works.Reveal())-1] + "~", false}, "unknown": {drawn().Reveal(), false},
		"expired": {expired.Reveal(), false}, "revoked": {revoked.Reveal(), false}, "rotated out": {rotated.Reveal(), false},
		"of a dropped tenant": {dropped.Reveal(), false},
	} {
		checkWork(t, s, name, c.presented, nowMS, c.accepted)
	}
	// With leading characters in common, from none to all but the last of the secret.
	right := works.Reveal()
	for shared := secretStart; shared < checksumStart; shared++ {
		changed := byte('0')
		if right[shared] == changed {
			changed = '1'
		}
		body := right[:shared] + string(changed) + right[shared+1:checksumStart]
		checkWork(t, s, "wrong secret", body+checksum(body), nowMS, false)
	}
}

func checkWork(t *testing.T, s *State, name, presented string, nowMS int64, accepted bool) {
	t.Helper()
	var hashes, hashed, compares int
	counted := work{
		hash:  func(b []byte) [sha256.Size]byte { hashes++; hashed += len(b); return sha256.Sum256(b) },
		equal: func(a, b KeyHash) bool { compares++; return a.equal(b) },
	}
	_, err := s.authenticate(presented, nowMS, counted)
	if (err == nil) != accepted || err != nil && err != ErrUnauthorized {
		t.Errorf("%s: got %v, want accepted %v", name, err, accepted)
	}
	if hashes != 1 || hashed != credentialChars || compares != 1 {
		t.Errorf("%s: got %d hashes over %d bytes and %d comparisons, want 1 over %d and 1", name, hashes, hashed, compares, credentialChars)
	}
}
