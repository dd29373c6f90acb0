package control_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

var update = flag.Bool("update", false, "write the golden files anew; those of a released format never change")

// story is a log that carries a command of each sort, in an order in which all are carried out.
func story(t testFailer) map[string]control.Entry {
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")
	rejected := declare(t, "acme", "ledger-open", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")
	key := createAPIKey(t, "acme", 1, "locks:ledger-*", "audit:read")
	return map[string]control.Entry{
		"01_set_cluster":    setCluster(),
		"02_put_tenant":     tenantsEntry(putTenant("acme", 1)),
		"03_create_api_key": tenantsEntry(key),
		"04_declare":        reviewEntry(d),
		"05_sign":           reviewEntry(sign(d, 1, "owner@dev.test")),
		"06_declare_again":  reviewEntry(rejected),
		"07_reject": reviewEntry(review.Reject{Tenant: "acme", Class: "ledger-open", Version: 1, Digest: rejected.Digest,
			By: person("owner@dev.test"), Groups: []review.Group{"ledger-owners"}, Reason: "not needed", AtMS: nowMS}),
		"08_retire":         reviewEntry(review.Retire{Tenant: "acme", Class: "ledger-close", By: author("admin@dev.test"), AtMS: nowMS}),
		"09_revoke_api_key": tenantsEntry(tenants.RevokeAPIKey{Tenant: "acme", Key: key.Key, By: byPerson("admin@dev.test"), AtMS: nowMS}),
	}
}

func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "v1", name)
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

func TestEntriesAndSnapshot_openForEver(t *testing.T) {
	m := control.New()
	entries := story(t)
	for _, name := range sortedNames(entries) {
		got, err := entries[name].Encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r, _ := m.Apply(m.Revision()+1, golden(t, name+".cbor", got)); !r.OK || r.Unchanged {
			t.Fatalf("%s: got %+v, want carried out", name, r)
		}
	}
	back := restored(t, golden(t, "snapshot", snapshotBytes(t, m)))
	if back.Hash() != m.Hash() || back.Rolling() != m.Rolling() || back.Revision() != m.Revision() {
		t.Error("the restored machine differs")
	}
}

func TestRestore_leavesTheMachineAsItWasOnAnyFault(t *testing.T) {
	l := newLog(t)
	good := snapshotBytes(t, l.m)
	l.ok(tenantsEntry(putTenant("beta", 2)))
	hash, rolling := l.m.Hash(), l.m.Rolling()
	check := func(name string, b []byte, want error) {
		t.Helper()
		if err := l.m.Restore(bytes.NewReader(b)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
		if l.m.Hash() != hash || l.m.Rolling() != rolling || l.m.Revision() != 3 {
			t.Fatalf("%s: the machine changed", name)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		want := control.ErrInvalidSnapshot
		if i == 7 {
			want = control.ErrSnapshotVersion
		}
		check("changed byte", bad, want)
		check("cut short", good[:i], control.ErrInvalidSnapshot)
	}
	check("trailing byte", append(bytes.Clone(good), 0), control.ErrInvalidSnapshot)
	check("strayed text", summed(bytes.ReplaceAll(good, []byte("acme"), []byte("AcMe"))), control.ErrInvalidSnapshot)
	check("long section", summed(append(bytes.Clone(good[:8]), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)), control.ErrInvalidSnapshot)
	if err := l.m.Restore(failing{}); !errors.Is(err, errDisk) || l.m.Hash() != hash {
		t.Errorf("failing reader: got %v", err)
	}
	if err := l.m.Restore(bytes.NewReader(good)); err != nil || l.m.Revision() != 2 {
		t.Errorf("good snapshot: got %v, revision %d", err, l.m.Revision())
	}
}

// A snapshot with a right checksum may still contradict itself: here, classes of a tenant that is not there.
func TestRestore_refusesHalvesThatDoNotFit(t *testing.T) {
	l := newLog(t)
	with := snapshotBytes(t, l.m)
	l.ok(reviewEntry(declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")))
	classes := sections(t, snapshotBytes(t, l.m))[2]
	empty := sections(t, snapshotBytes(t, control.New()))
	for name, b := range map[string][]byte{
		"no tenant": join(empty[0], empty[1], classes), "no cluster's head": join([]byte{0xa0}, empty[1], empty[2]),
		"fourth section": join(empty[0], empty[1], empty[2], nil), "second only": join(empty[0], empty[1]),
	} {
		if err := control.New().Restore(bytes.NewReader(b)); !errors.Is(err, control.ErrInvalidSnapshot) {
			t.Errorf("%s: got %v, want ErrInvalidSnapshot", name, err)
		}
	}
	if parts := sections(t, with); !bytes.Equal(join(parts...), with) {
		t.Error("the fixture does not write what WriteTo writes")
	}
}

func TestSnapshot_staysAsItWas(t *testing.T) {
	l := newLog(t)
	d := declare(t, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")
	l.ok(reviewEntry(d))
	want := snapshotBytes(t, l.m)
	s, err := l.m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	l.ok(reviewEntry(sign(d, 1, "owner@dev.test")))
	l.ok(tenantsEntry(createAPIKey(t, "acme", 1, "locks:*")))
	var got bytes.Buffer
	if n, err := s.WriteTo(&got); err != nil || n != int64(got.Len()) || s.Index() != 3 {
		t.Fatalf("got %d bytes, %v, index %d", n, err, s.Index())
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("the snapshot changed with the machine")
	}
}

// Run with the race detector: a snapshot is written beside a machine that goes on.
func TestSnapshot_isWrittenBesideApply(t *testing.T) {
	l := newLog(t)
	l.ok(tenantsEntry(createAPIKey(t, "acme", 0, "locks:*")))
	want := snapshotBytes(t, l.m)
	s, err := l.m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	written := make(chan error, 1)
	go func() {
		_, err := s.WriteTo(&got)
		written <- err
	}()
	for n := range 20 {
		l.ok(tenantsEntry(createAPIKey(t, "acme", n+1, "locks:*")))
		l.ok(tenantsEntry(putTenant(tenants.TenantID("t"+string(rune('a'+n))), 2)))
	}
	if err := <-written; err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the snapshot changed with the machine (%v)", err)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	for _, e := range story(f) {
		b, err := e.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := control.DecodeEntry(b)
		if err != nil {
			if !errors.Is(err, control.ErrInvalidEntry) {
				t.Errorf("got %v, want ErrInvalidEntry", err)
			}
			return
		}
		if again, err := e.Encode(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("got %x, %v, want %x", again, err, b)
		}
		l := newLog(t)
		l.m.Apply(9, b)
		if got := restored(t, snapshotBytes(t, l.m)); got.Hash() != l.m.Hash() {
			t.Error("the restored machine differs")
		}
	})
}

func FuzzRestore(f *testing.F) {
	l := newLog(f)
	l.ok(reviewEntry(declare(f, "acme", "ledger-close", "ledger-owners", 10*time.Second, author("dev@dev.test"), "")))
	whole := snapshotBytes(f, l.m)
	f.Add(whole[:len(whole)-4])
	f.Add([]byte("STNCTRL\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))) // or nothing passes it
		m := control.New()
		err := m.Restore(bytes.NewReader(b))
		switch {
		case err != nil && !errors.Is(err, control.ErrInvalidSnapshot) && !errors.Is(err, control.ErrSnapshotVersion):
			t.Errorf("got %v", err)
		case err == nil && !bytes.Equal(snapshotBytes(t, m), b):
			t.Error("two snapshots of one state")
		}
	})
}
