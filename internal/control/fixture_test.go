package control_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	nowMS  = int64(1_800_000_000_000)
	hourMS = int64(3_600_000)
	dayMS  = 24 * hourMS
)

func person(subject string) review.Person {
	return review.Person{Issuer: "https://idp.dev.test", Subject: subject, Email: subject}
}

func byPerson(subject string) tenants.Actor {
	p := person(subject)
	return tenants.ByPerson(tenants.Person{Issuer: p.Issuer, Subject: p.Subject, Email: p.Email})
}

func author(subject string) review.Actor {
	return review.Actor{ID: subject, Persons: []review.Person{person(subject)}}
}

// testFailer is what a *testing.T and a *rapid.T have in common.
type testFailer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// credential is the n-th of a fixed row of API keys.
func credential(t testFailer, n int) tenants.Credential {
	t.Helper()
	row := credentials()
	if n >= len(row) {
		t.Fatalf("credential %d: there are %d", n, len(row))
	}
	return row[n]
}

var credentials = sync.OnceValue(func() []tenants.Credential {
	row := make([]tenants.Credential, 32)
	for n := range row {
		var randomness []byte
		for i := range 8 {
			sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d", n, i))
			randomness = append(randomness, sum[:]...)
		}
		row[n], _ = tenants.GenerateCredential(bytes.NewReader(randomness)) // 256 bytes are enough for 53 characters
	}
	return row
})

func setCluster() control.Entry {
	return control.Entry{Cluster: &control.SetCluster{ClusterID: "0b9aa3f2-1111-4222-8333-444455556666", PartitionCount: 2,
		CreatedMS: nowMS}}
}

func putTenant(id tenants.TenantID, partition tenants.PartitionID) tenants.PutTenant {
	return tenants.PutTenant{Tenant: id, OwnerGroups: []tenants.Group{"ledger-owners", "stock-owners"},
		Quotas: tenants.QuotasDefault(), Partition: partition, By: byPerson("operator@dev.test"), AtMS: nowMS}
}

func createAPIKey(t testFailer, tenant tenants.TenantID, n int, scopes ...string) tenants.CreateAPIKey {
	t.Helper()
	parsed, err := tenants.ParseScopes(scopes...)
	if err != nil {
		t.Fatalf("scopes %v: %v", scopes, err)
	}
	c := credential(t, n)
	return tenants.CreateAPIKey{Tenant: tenant, Key: c.ID(), Hash: c.Hash(), Name: "ci", Scopes: parsed,
		ExpiresMS: nowMS + 90*dayMS, By: byPerson("admin@dev.test"), AtMS: nowMS}
}

func declare(t testFailer, tenant review.TenantID, class, owner string, lease time.Duration, by review.Actor,
	base review.Digest) review.Declare {
	t.Helper()
	file := fmt.Sprintf("format: 1\nclass: %s\nresource: \"postgres:ledger/%s\"\nowner: group:%s\npurpose: correctness\n"+
		"enforcement: fenced\nquorum_loss: closed\nguard: \"column fence\"\nlease: %s\n", class, class, owner, lease)
	d, findings := review.NewDeclare(review.Declaration{Tenant: tenant, Name: "class.yaml", File: []byte(file), Base: base,
		Author: by, At: time.UnixMilli(nowMS)}, review.Options{})
	if err := findings.Err(); err != nil {
		t.Fatalf("class file: %v", err)
	}
	return d
}

func sign(d review.Declare, version uint64, signer string) review.Sign {
	return review.Sign{Tenant: d.Tenant, Class: d.Class, Version: version, Digest: d.Digest, Signer: person(signer),
		SignerGroups: []review.Group{d.Posture.Owner}, Ticked: d.Warnings, ClaimsVersion: 1, AuthTimeMS: nowMS, AtMS: nowMS}
}

// log drives a machine and counts its indices.
type log struct {
	t testFailer
	m *control.Machine
}

func newLog(t testFailer) *log {
	l := &log{t: t, m: control.New()}
	l.ok(setCluster())
	l.ok(tenantsEntry(putTenant("acme", 1)))
	return l
}

func tenantsEntry(c tenants.Command) control.Entry { return control.Entry{Tenants: c} }
func reviewEntry(c review.Command) control.Entry   { return control.Entry{Review: c} }

func (l *log) apply(e control.Entry) (control.Result, []control.Event) {
	l.t.Helper()
	b, err := e.Encode()
	if err != nil {
		l.t.Fatalf("encode %+v: %v", e, err)
	}
	return l.m.Apply(l.m.Revision()+1, b)
}

func (l *log) ok(e control.Entry) (control.Result, []control.Event) {
	l.t.Helper()
	r, events := l.apply(e)
	if !r.OK || r.Reason != "" {
		l.t.Fatalf("%+v: got %+v, want carried out", e, r)
	}
	return r, events
}

// refused demands the reason, one event that says so, and a state that did not change.
func (l *log) refused(e control.Entry, want string) {
	l.t.Helper()
	before := l.m.Hash()
	r, events := l.apply(e)
	if r.OK || r.Reason != want {
		l.t.Fatalf("%+v: got %+v, want %q", e, r, want)
	}
	if len(events) != 1 || events[0].Kind != control.EventRefused || events[0].Reason != want || events[0].Command == "" {
		l.t.Fatalf("%+v: got events %+v, want one refusal for %q", e, events, want)
	}
	if l.m.Hash() != before {
		l.t.Fatalf("%+v: refused, and the state changed", e)
	}
}

func snapshotBytes(t testFailer, m *control.Machine) []byte {
	t.Helper()
	s, err := m.Snapshot()
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	var b bytes.Buffer
	if _, err := s.WriteTo(&b); err != nil {
		t.Fatalf("write snapshot: %v", err)
	}
	return b.Bytes()
}

func restored(t testFailer, b []byte) *control.Machine {
	t.Helper()
	m := control.New()
	if err := m.Restore(bytes.NewReader(b)); err != nil {
		t.Fatalf("restore: %v", err)
	}
	return m
}

var _ testFailer = (*testing.T)(nil)
