package control_test

import (
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// byKey is the author of what an API key declares, and the key.
func (l *log) byKey(n int) review.Actor {
	l.t.Helper()
	p, err := l.m.Authenticate(credential(l.t, n).Reveal(), nowMS)
	if err != nil {
		l.t.Fatalf("API key %d: %v", n, err)
	}
	return control.AuthorOf(p)
}

func rotate(t testFailer, from, to int, by string) tenants.RotateAPIKey {
	next := credential(t, to)
	return tenants.RotateAPIKey{Tenant: "acme", Key: credential(t, from).ID(), Successor: next.ID(), Hash: next.Hash(),
		ExpiresMS: nowMS + 90*dayMS, OverlapEndsMS: nowMS + dayMS, By: byPerson(by), AtMS: nowMS}
}

// An author does not sign, whoever carries the signature here: the rule is the log's, and every door leads to the log.
func TestSign_isRefusedForEveryAuthorThroughEveryDoor(t *testing.T) {
	l := newLog(t)
	l.ok(tenantsEntry(createAPIKey(t, "acme", 1, "classes:declare:*", "tenant:admin"))) // by admin@dev.test
	l.ok(tenantsEntry(rotate(t, 1, 2, "rotator@dev.test")))
	byItsMaker := createAPIKey(t, "acme", 3, "classes:declare:*")
	byItsMaker.By = tenants.ByAPIKey(credential(t, 2).ID()) // a key that a key has made
	l.ok(tenantsEntry(byItsMaker))
	alias := person("admin@dev.test")
	alias.Issuer, alias.Subject, alias.Email = "https://other.dev.test", "0815", "Admin@Dev.test"
	for _, c := range []struct {
		name   string
		by     review.Actor
		signer review.Person
	}{
		{"a person", author("dev@dev.test"), person("dev@dev.test")},
		{"a person's other identity", author("admin@dev.test"), alias},
		{"who created the key", l.byKey(1), person("admin@dev.test")},
		{"who created the key, under another identity", l.byKey(1), alias},
		{"who rotated the key before", l.byKey(2), person("rotator@dev.test")},
		{"who created the rotated key", l.byKey(2), person("admin@dev.test")},
		{"who rotated the key since", l.byKey(1), person("rotator@dev.test")},
		{"who made the key by a key", l.byKey(3), person("rotator@dev.test")},
	} {
		d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, c.by, "")
		l.ok(reviewEntry(d))
		versions := l.m.ClassVersions("acme", "ledger-close")
		s := sign(d, uint64(len(versions)), "nobody")
		s.Signer = c.signer
		l.refused(reviewEntry(s), string(review.RefusedAuthor))
		l.ok(reviewEntry(review.Withdraw{Tenant: "acme", Class: "ledger-close", Version: s.Version, By: c.by, AtMS: nowMS}))
	}
}

func TestSign_isTakenFromWhoMadeAnotherKey(t *testing.T) {
	l := newLog(t)
	l.ok(tenantsEntry(createAPIKey(t, "acme", 1, "classes:declare:*")))
	other := createAPIKey(t, "acme", 2, "classes:declare:*")
	other.By = byPerson("owner@dev.test")
	l.ok(tenantsEntry(other))
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, l.byKey(1), "")
	l.ok(reviewEntry(d))
	l.ok(reviewEntry(sign(d, 1, "owner@dev.test")))
}

func TestRetire_holdsAnAPIKeyToWhatIsKnownOfIt(t *testing.T) {
	l := newLog(t)
	l.ok(tenantsEntry(createAPIKey(t, "acme", 1, "classes:declare:ledger-*")))
	l.ok(tenantsEntry(createAPIKey(t, "acme", 2, "classes:declare:stock-*")))
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, l.byKey(1), "")
	l.ok(reviewEntry(d))
	l.ok(reviewEntry(sign(d, 1, "owner@dev.test")))
	retire := review.Retire{Tenant: "acme", Class: "ledger-close", By: l.byKey(2), AtMS: nowMS, Reason: "moved"}
	l.refused(reviewEntry(retire), control.RefusedForbidden)
	retire.By = l.byKey(1)
	retire.By.Persons = []review.Person{person("somebody@dev.test")}
	l.refused(reviewEntry(retire), control.RefusedAuthor)
	retire.By = l.byKey(1)
	if _, events := l.ok(reviewEntry(retire)); len(events) != 1 || events[0].Kind != "posture_retired" || events[0].Note != "moved" {
		t.Errorf("events %+v; want one that tells the reason", events)
	}
	again := declare(t, "acme", "ledger-close", "ledger-owners", 20*time.Second, l.byKey(1), d.Digest)
	again.Posture.Purpose = review.PurposeEfficiency
	again.Digest = again.Posture.Digest()
	l.refused(reviewEntry(again), string(review.RefusedPurpose)) // the name is retired, its purpose is not
}

func TestTransferOwner_isForAGroupThatIsGone(t *testing.T) {
	l := newLog(t)
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")
	l.ok(reviewEntry(d))
	l.ok(reviewEntry(sign(d, 1, "owner@dev.test")))
	c := review.TransferOwner{Tenant: "acme", Class: "ledger-close", From: "ledger-owners", To: "stock-owners",
		By: author("operator@dev.test"), Reason: "dissolved", AtMS: nowMS}
	l.refused(reviewEntry(c), control.RefusedOwnerStays)
	put := putTenant("acme", 1)
	put.OwnerGroups = []tenants.Group{"stock-owners"}
	l.ok(tenantsEntry(put))
	unknown := c
	unknown.To = "strangers"
	l.refused(reviewEntry(unknown), control.RefusedOwnerGroup)
	l.ok(tenantsEntry(createAPIKey(t, "acme", 1, "tenant:admin", "classes:declare:*")))
	l.ok(tenantsEntry(createAPIKey(t, tenants.Platform, 2, "platform:operator")))
	byTenant := c
	byTenant.By = l.byKey(1)
	l.refused(reviewEntry(byTenant), control.RefusedForbidden)
	l.ok(tenantsEntry(tenants.RevokeAPIKey{Tenant: tenants.Platform, Key: credential(t, 2).ID(), By: tenants.ByPlatform(), AtMS: nowMS + 1}))
	byRevoked := c
	byRevoked.By = review.Actor{ID: string(credential(t, 2).ID()), Lineage: string(credential(t, 2).ID()), Persons: []review.Person{person("operator@dev.test")}}
	l.refused(reviewEntry(byRevoked), control.RefusedForbidden)
	_, events := l.ok(reviewEntry(c))
	if len(events) != 1 || events[0].Kind != "posture_owner_transferred" || events[0].By != "operator@dev.test" || events[0].Note != "dissolved" {
		t.Errorf("events %+v; want one that tells who and why", events)
	}
	next := declare(t, "acme", "ledger-close", "stock-owners", 10*time.Second, author("dev@dev.test"), d.Digest)
	if r, _ := l.ok(reviewEntry(next)); len(r.Missing) != 1 || r.Missing[0] != "stock-owners" {
		t.Errorf("missing %v; want the new group alone", r.Missing)
	}
	if r, _ := l.ok(reviewEntry(sign(next, 2, "owner@dev.test"))); r.State != review.StateSigned {
		t.Errorf("got %+v; want it signed", r)
	}
	restored(t, snapshotBytes(t, l.m))
}

func TestTrialDeclare_answersAsApplyWouldAndChangesNothing(t *testing.T) {
	l := newLog(t)
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")
	strange := declare(t, "acme", "ledger-close", "strangers", 10*time.Second, author("dev@dev.test"), "")
	before := l.m.Hash()
	if r := l.m.TrialDeclare(strange); r.OK || r.Reason != control.RefusedOwnerGroup {
		t.Errorf("got %+v; want it refused for its owner", r)
	}
	if r := l.m.TrialDeclare(d); !r.OK || r.Version != 1 || r.State != review.StateInReview {
		t.Errorf("got %+v; want version 1 in review", r)
	}
	if l.m.Hash() != before {
		t.Error("a trial changed the state")
	}
}
