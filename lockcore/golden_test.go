package lockcore_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/lockcoretest"
)

// update re-records transcripts. Of testdata/v1, whose files every later build must open, it only makes what is missing.
var update = flag.Bool("update", false, "re-record transcripts; make missing golden files")

const goldenDir = "testdata/v1"

// goldenCommands are commands of every kind, with every field set, by the name of their file.
func goldenCommands() map[string][]lockcore.Command {
	one, two := lockcoretest.LeaseNumber(1, 1), lockcore.LeaseID{Session: lockcore.SessionID{0xfe, 15: 0x01}, Sequence: lockcore.SequenceMax}
	class := lockcore.Class{Name: "ledger-close", Version: 3, Digest: "sha256:0f", Purpose: lockcore.PurposeEfficiency,
		Enforcement: lockcore.EnforcementFenced, QuorumLoss: lockcore.QuorumLossOpen, LeaseMS: 60_000, HeartbeatMS: 30_000,
		LockDelayMS: 1_000, MaxHoldMS: 3_600_000, MaxWaitMS: 30_000, MaxWaiters: 1_000, Refuses: true, Retired: true}
	quotas := lockcore.Quotas{Keys: 1, Leases: 2, Waiters: 3, Sessions: 4, PerSession: 5, Ends: 6}
	return map[string][]lockcore.Command{
		"advance-epoch":  {lockcore.AdvanceEpoch{Node: "n1"}},
		"put-tenant":     {lockcore.PutTenant{Tenant: "acme", TokenBase: 7, Quotas: quotas, Suspended: true, Revision: 8}, lockcore.PutTenant{Tenant: "b", Quotas: quotas}},
		"drop-tenant":    {lockcore.DropTenant{Tenant: "acme", By: "dana", Revision: 9}, lockcore.DropTenant{Tenant: "b"}},
		"put-class":      {lockcore.PutClass{Tenant: "acme", Class: class}, lockcore.PutClass{Tenant: "acme", Class: lockcore.Class{Name: "jobs"}}},
		"retire-class":   {lockcore.RetireClass{Tenant: "acme", Class: "jobs", By: "dana", Version: 2}},
		"acquire":        {lockcore.Acquire{Tenant: "acme", Owner: "key1", Lease: two, Class: "jobs", Key: "Büro/7", WaitMS: lockcore.WaitUnlimited, Holder: "host:1", APIKey: "key2"}, lockcore.Acquire{Tenant: "acme", Owner: "key1", Lease: one, Class: "jobs", Key: "k"}},
		"release":        {lockcore.Release{Tenant: "acme", Owner: "key1", Lease: two, Token: 9}, lockcore.Release{Tenant: "acme", Owner: "key1", Lease: one}},
		"expire":         {lockcore.Expire{Tenant: "acme", Lease: one, Token: 9, Missed: true}, lockcore.Expire{Tenant: "acme", Lease: two, Token: 1}},
		"end-delay":      {lockcore.EndDelay{Tenant: "acme", Class: "jobs", Key: "k", Token: 9}},
		"leave":          {lockcore.Leave{Tenant: "acme", Lease: one, Cause: lockcore.WaitTimeout}},
		"waiter-gone":    {lockcore.WaiterGone{Tenant: "acme", Leases: []lockcore.LeaseID{one, two}}},
		"mark-ending":    {lockcore.MarkEnding{Tenant: "acme", Lease: one, Token: 9, Cause: lockcore.Forced, By: "dana", Note: "stuck", Now: true}, lockcore.MarkEnding{Tenant: "acme", Lease: one, Token: 9, Cause: lockcore.MaxHold}},
		"end-session":    {lockcore.EndSession{Tenant: "acme", Owner: "key1", Session: one.Session}},
		"forget-session": {lockcore.ForgetSession{Tenant: "acme", Session: one.Session}},
		"lease-clock":    {lockcore.LeaseClock{}},
		"extend":         {lockcore.Extend{Tenant: "acme", Lease: one, Token: 9}},
		"checkpoint":     {lockcore.Checkpoint{Index: 10_000, Hash: [32]byte{1, 31: 2}}},
		"raise-level":    {lockcore.RaiseLevel{Level: 2}},
	}
}

// goldenFile reads a file of testdata/v1. With -update it makes it first, if it is missing.
func goldenFile(t *testing.T, name string, make func() []byte) []byte {
	t.Helper()
	path := filepath.Join(goldenDir, name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && *update {
		if err := os.MkdirAll(goldenDir, 0o755); err != nil {
			t.Fatal(err)
		}
		b, err = make(), nil
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecodeEntry_opensGoldenEntries(t *testing.T) {
	commands := goldenCommands()
	for name, c := range commands {
		want := lockcore.Entry{Epoch: 5, ClockMS: 65_000, WallMS: 1_700_000_000_123, Commands: c}
		b := goldenFile(t, "entry-"+name+".cbor", func() []byte { return encode(t, want) })
		got, err := lockcore.DecodeEntry(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v (%v), want %+v", name, got, err, want)
			continue
		}
		if again := encode(t, got); !bytes.Equal(again, b) {
			t.Errorf("%s: encodes again to %x, want %x", name, again, b)
		}
	}
	if got, want := len(commands), int(lockcore.KindRaiseLevel); got != want {
		t.Errorf("got golden entries of %d kinds, want %d", got, want)
	}
}

// richState holds something of every sort: holds short, long, handed over and ending, queues, lock delays, ends of each
// kind, a retired class, ended and burned sessions, a suspended tenant, one being dropped, one gone, one that has as many
// ends as it may, a checkpoint.
const richState = stage + `
acquire acme s1.1 jobs k1 holder=host:1 api-key=key1
acquire acme s2.1 jobs k1 wait=5s
acquire acme s3.1 jobs k1 wait=-1ms
acquire acme s4.1 jobs k1
acquire acme s1.2 long k2 @ at=100s
acquire acme s2.2 long k3
acquire acme s3.2 long k3 wait=5s
release acme s2.2 @ at=130s
acquire acme s5.1 delayed k4
acquire acme s6.1 delayed k4 wait=5s
expire acme s5.1 token=5
acquire acme s5.2 capped k5
mark-ending acme s5.2 forced token=6 by=dana note=stuck
acquire acme s5.3 refusing k6
mark-ending acme s5.3 max_hold token=7 now
retire-class acme refusing by=dana
release acme s7.1
end-session acme s8 owner=bob
put-tenant birch base=1000 suspended
put-tenant cedar keys=3 leases=2 waiters=1 sessions=9
put-class cedar jobs version=4
acquire cedar s1.1 jobs k owner=carol
drop-tenant cedar
put-tenant delta base=41 revision=3
drop-tenant delta revision=4
put-tenant eagle per-session=2 ends=1 revision=5
put-class eagle jobs
acquire eagle s1.1 jobs k1
acquire eagle s1.2 jobs k2
release eagle s1.2
acquire eagle s1.3 jobs k3
release eagle s1.3
acquire eagle s2.7 jobs k1
advance-epoch n2
`

// TestRestore_opensGoldenSnapshot restores the first version's snapshot to the hash that it had.
func TestRestore_opensGoldenSnapshot(t *testing.T) {
	build := func() *lockcore.Machine {
		p := lockcoretest.NewPlayer()
		play(t, p, richState)
		p.Machine.Apply(lockcore.CheckpointEvery+7, encode(t, lockcore.Entry{Epoch: 2, ClockMS: 140_000,
			Commands: []lockcore.Command{lockcore.LeaseClock{}}}))
		return p.Machine
	}
	b := goldenFile(t, "snapshot.bin", func() []byte { return written(t, build().Snapshot()) })
	want := strings.TrimSpace(string(goldenFile(t, "snapshot.hash", func() []byte {
		hash := build().Hash()
		return []byte(hex.EncodeToString(hash[:]) + "\n")
	})))
	m, err := lockcore.Restore(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if hash := m.Hash(); hex.EncodeToString(hash[:]) != want {
		t.Errorf("restored to hash %x, want %s", hash, want)
	}
	if again := written(t, m.Snapshot()); !bytes.Equal(again, b) {
		t.Error("writes other bytes than it was restored from")
	}
	if m.Index() != lockcore.CheckpointEvery+7 || m.Epoch() != 2 || m.LeaseClockMS() != 140_000 || len(m.Tenants()) != 4 {
		t.Errorf("got index %d, epoch %d, clock %d, %d tenants", m.Index(), m.Epoch(), m.LeaseClockMS(), len(m.Tenants()))
	}
	if final, _ := m.FinalToken("delta"); final != 41 {
		t.Errorf("got final token %d of the tenant that is gone, want 41", final)
	}
}
