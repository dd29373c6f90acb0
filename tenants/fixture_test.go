package tenants_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	nowMS  = int64(1_800_000_000_000)
	hourMS = int64(3_600_000)
	dayMS  = 24 * hourMS
)

var (
	owner = person("owner@dev.test")
	admin = person("admin@dev.test")
)

func person(subject string) tenants.Actor {
	return tenants.ByPerson(tenants.Person{Issuer: "https://idp.dev.test", Subject: subject, Email: subject})
}

// stream is an endless, repeatable source of bytes.
type stream struct {
	seed, n uint64
	rest    bytes.Buffer
}

func (s *stream) Read(p []byte) (int, error) {
	for s.rest.Len() < len(p) {
		var block [16]byte
		binary.BigEndian.PutUint64(block[:], s.seed)
		binary.BigEndian.PutUint64(block[8:], s.n)
		s.n++
		sum := sha256.Sum256(block[:])
		s.rest.Write(sum[:])
	}
	return s.rest.Read(p)
}

func credential(t testing.TB, seed uint64) tenants.Credential {
	t.Helper()
	c, err := tenants.GenerateCredential(&stream{seed: seed})
	if err != nil {
		t.Fatalf("generate credential %d: %v", seed, err)
	}
	return c
}

func scopes(t testing.TB, texts ...string) tenants.Scopes {
	t.Helper()
	s, err := tenants.ParseScopes(texts...)
	if err != nil {
		t.Fatalf("parse scopes %v: %v", texts, err)
	}
	return s
}

// world is a state with the tenants acme and beta.
type world struct {
	t     testing.TB
	state *tenants.State
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, state: tenants.New()}
	w.ok(putTenant("acme"))
	w.ok(putTenant("beta"))
	return w
}

func putTenant(id tenants.TenantID) tenants.PutTenant {
	return tenants.PutTenant{Tenant: id, OwnerGroups: []tenants.Group{"ledger-owners"}, Quotas: tenants.QuotasDefault(),
		Partition: 1, TokenBase: 100, By: admin, AtMS: nowMS}
}

func (w *world) create(seed uint64, texts ...string) tenants.CreateAPIKey {
	c := credential(w.t, seed)
	return tenants.CreateAPIKey{Tenant: "acme", Key: c.ID(), Hash: c.Hash(), Name: "ledger job", Scopes: scopes(w.t, texts...),
		ExpiresMS: nowMS + 90*dayMS, By: admin, AtMS: nowMS}
}

func (w *world) rotate(key tenants.APIKeyID, seed uint64) tenants.RotateAPIKey {
	c := credential(w.t, seed)
	return tenants.RotateAPIKey{Tenant: "acme", Key: key, Successor: c.ID(), Hash: c.Hash(), ExpiresMS: nowMS + 90*dayMS,
		OverlapEndsMS: nowMS + hourMS, By: admin, AtMS: nowMS}
}

// key makes a key of acme and returns its id.
func (w *world) key(seed uint64, texts ...string) tenants.APIKeyID {
	c := w.create(seed, texts...)
	w.ok(c)
	return c.Key
}

// operator makes an operator's key and returns its id.
func (w *world) operator(seed uint64) tenants.APIKeyID {
	c := w.create(seed, "platform:operator")
	c.Tenant, c.By = tenants.Platform, tenants.ByPlatform()
	w.ok(c)
	return c.Key
}

func (w *world) ok(c tenants.Command) []tenants.Event {
	w.t.Helper()
	r, events := w.state.Apply(c)
	if !r.OK() {
		w.t.Fatalf("%T: got %v %q, want carried out", c, r.Reason, r.Field)
	}
	return events
}

// refused demands the reason, one event of it, and a state that did not change.
func (w *world) refused(c tenants.Command, want tenants.Reason) tenants.Result {
	w.t.Helper()
	before := w.bytes()
	r, events := w.state.Apply(c)
	if r.Reason != want {
		w.t.Fatalf("%T: got reason %q %q, want %q", c, r.Reason, r.Field, want)
	}
	if len(events) != 1 || events[0].Kind != tenants.EventRefused || events[0].Reason != want || events[0].Refused != c.Kind() {
		w.t.Fatalf("%T: got events %+v, want one refusal for %q", c, events, want)
	}
	if !bytes.Equal(before, w.bytes()) {
		w.t.Fatalf("%T: refused, and the state changed", c)
	}
	return r
}

// unchanged demands that the command is carried out without an event or a change.
func (w *world) unchanged(c tenants.Command) {
	w.t.Helper()
	before := w.bytes()
	if events := w.ok(c); len(events) != 0 {
		w.t.Fatalf("%T: got events %+v, want none", c, events)
	}
	if !bytes.Equal(before, w.bytes()) {
		w.t.Fatalf("%T: repeated, and the state changed", c)
	}
}

func (w *world) bytes() []byte {
	w.t.Helper()
	b, err := w.state.Snapshot().Encode()
	if err != nil {
		w.t.Fatalf("encode state: %v", err)
	}
	return b
}
