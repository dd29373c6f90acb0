package tenants_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stanchion-locks/stanchion/tenants"
)

var update = flag.Bool("update", false, "write the golden files anew; those of a released format never change")

// everyCommand has one command of each kind.
func everyCommand(t testing.TB) map[string]tenants.Command {
	w := &world{t: t}
	create := w.create(1, "locks:ledger-*", "audit:read", "classes:declare:*")
	rotate := w.rotate(create.Key, 2)
	return map[string]tenants.Command{
		"put_tenant":         putTenant("acme"),
		"suspend_tenant":     tenants.SuspendTenant{Tenant: "acme", Note: "unpaid", By: owner, AtMS: nowMS},
		"resume_tenant":      tenants.ResumeTenant{Tenant: "acme", By: tenants.ByPlatform(), AtMS: nowMS},
		"drop_tenant":        tenants.DropTenant{Tenant: "acme", Note: "closed", By: tenants.ByAPIKey(create.Key), AtMS: nowMS},
		"record_final_token": tenants.RecordFinalToken{Tenant: "acme", Token: 1 << 52, AtMS: nowMS},
		"create_api_key":     create,
		"rotate_api_key":     rotate,
		"revoke_api_key":     tenants.RevokeAPIKey{Tenant: "acme", Key: create.Key, Note: "leaked", By: owner, AtMS: nowMS},
		"change_tenant":      tenants.ChangeTenant{Tenant: "acme", Quotas: tenants.Quotas{Leases: 7}, By: owner, AtMS: nowMS},
		"record_key_uses":    tenants.RecordKeyUses{Uses: []tenants.KeyUse{{Key: create.Key, AtMS: nowMS}}, AtMS: nowMS},
		"end_overlap":        tenants.EndOverlap{Tenant: "acme", Key: create.Key, By: owner, AtMS: nowMS},
	}
}

// storyState has a tenant of each state and a key of each.
func storyState(t testing.TB) *tenants.State {
	w := newWorld(t)
	w.operator(90)
	rotated := w.key(1, "locks:*", "tenant:admin")
	w.ok(w.rotate(rotated, 2))
	w.ok(tenants.EndOverlap{Tenant: "acme", Key: rotated, By: admin, AtMS: nowMS + 1})
	w.ok(tenants.RevokeAPIKey{Tenant: "acme", Key: w.key(3, "guard:report"), By: owner, AtMS: nowMS})
	w.ok(w.rotate(w.key(4, "classes:declare:ledger-*"), 5))
	w.ok(putTenant("gone"))
	w.ok(tenants.DropTenant{Tenant: "gone", Note: "closed", By: admin, AtMS: nowMS})
	w.ok(tenants.RecordFinalToken{Tenant: "gone", Token: 1234, AtMS: nowMS})
	w.ok(tenants.SuspendTenant{Tenant: "beta", Note: "unpaid", By: admin, AtMS: nowMS})
	return w.state
}

// laterState has what came later: a tenant that was made again, and an API key that has been used.
func laterState(t testing.TB) *tenants.State {
	w := &world{t: t, state: storyState(t)}
	w.ok(again("gone", 2))
	w.ok(tenants.RecordKeyUses{Uses: []tenants.KeyUse{{Key: credential(t, 4).ID(), AtMS: nowMS}}, AtMS: nowMS})
	return w.state
}

func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "v1", name+".cbor")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got %x, want %x", name, got, want)
	}
	return want
}

func TestCommands_openForEver(t *testing.T) {
	for name, c := range everyCommand(t) {
		got, err := tenants.EncodeCommand(c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		back, err := tenants.DecodeCommand(golden(t, name, got))
		if err != nil || back.Kind() != c.Kind() {
			t.Errorf("%s: got %v, %v", name, back, err)
		}
	}
}

func TestState_opensForEver(t *testing.T) {
	w := &world{t: t, state: storyState(t)}
	state, err := tenants.DecodeState(golden(t, "state", w.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Authenticate(credential(t, 2).Reveal(), nowMS); err != nil {
		t.Errorf("authenticate after restore: %v", err)
	}
	if got, want := len(state.APIKeys("acme")), len(w.state.APIKeys("acme")); got != want {
		t.Errorf("got %d keys, want %d", got, want)
	}
	w.state = laterState(t)
	if _, err := tenants.DecodeState(golden(t, "later_state", w.bytes())); err != nil {
		t.Error(err)
	}
}

func TestDecodeCommand_refusesWhatIsNotInForm(t *testing.T) {
	good, err := tenants.EncodeCommand(putTenant("acme"))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"empty": nil, "cut": good[:len(good)-1], "trailing": append(bytes.Clone(good), 0),
		"huge": make([]byte, tenants.CommandBytesMax+1), "other": []byte("\xa0")} {
		if _, err := tenants.DecodeCommand(b); !errors.Is(err, tenants.ErrMalformedCommand) {
			t.Errorf("%s: got %v, want ErrMalformedCommand", name, err)
		}
	}
	if _, err := tenants.DecodeCommand([]byte{0x82, 0x18, 0x63, 0xa0}); !errors.Is(err, tenants.ErrUnknownKind) {
		t.Errorf("kind 99: got %v, want ErrUnknownKind", err)
	}
	bad := putTenant("acme")
	bad.OwnerGroups = []tenants.Group{"\xff"}
	if _, err := tenants.EncodeCommand(bad); !errors.Is(err, tenants.ErrMalformedCommand) {
		t.Errorf("no UTF-8: got %v, want ErrMalformedCommand", err)
	}
}

func TestDecodeState_refusesWhatContradictsItself(t *testing.T) {
	good := (&world{t: t, state: storyState(t)}).bytes()
	for _, change := range [][2]string{{"acme", "zeta"}, {"acme", "ACME"}, {"ledger-owners", "ledger owner\n"},
		{"locks", "lacks"}, {"admin@dev.test", "admin\x00dev.test"}} {
		bad := bytes.ReplaceAll(good, []byte(change[0]), []byte(change[1]))
		if _, err := tenants.DecodeState(bad); !errors.Is(err, tenants.ErrInvalidState) {
			t.Errorf("%q for %q: got %v, want ErrInvalidState", change[1], change[0], err)
		}
	}
	for name, b := range map[string][]byte{"empty": nil, "cut": good[:len(good)-1], "trailing": append(bytes.Clone(good), 0)} {
		if _, err := tenants.DecodeState(b); !errors.Is(err, tenants.ErrInvalidState) {
			t.Errorf("%s: got %v, want ErrInvalidState", name, err)
		}
	}
}

func TestSnapshot_staysAsItWas(t *testing.T) {
	w := &world{t: t, state: storyState(t)}
	before := w.bytes()
	s := w.state.Snapshot()
	w.key(50, "locks:*")
	w.ok(tenants.DropTenant{Tenant: "acme", Note: "closed", By: admin, AtMS: nowMS})
	got, err := s.Encode()
	if err != nil || !bytes.Equal(got, before) {
		t.Errorf("the snapshot changed with the state (%v)", err)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range everyCommand(f) {
		b, err := tenants.EncodeCommand(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := tenants.DecodeCommand(b)
		if err != nil {
			if !errors.Is(err, tenants.ErrMalformedCommand) && !errors.Is(err, tenants.ErrUnknownKind) {
				t.Errorf("got %v", err)
			}
			return
		}
		w := &world{t: t, state: storyState(t)}
		w.state.Apply(c)
		if _, err := tenants.DecodeState(w.bytes()); err != nil {
			t.Errorf("%T leads to a state that does not restore: %v", c, err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	f.Add((&world{t: f, state: storyState(f)}).bytes())
	f.Add((&world{t: f, state: tenants.New()}).bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := tenants.DecodeState(b)
		switch {
		case err != nil && !errors.Is(err, tenants.ErrInvalidState):
			t.Errorf("got %v, want ErrInvalidState", err)
		case err == nil && !bytes.Equal((&world{t: t, state: s}).bytes(), b):
			t.Error("two encodings of one state")
		}
	})
}
