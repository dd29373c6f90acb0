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
		"report-guard": {lockcore.ReportGuard{Tenant: "acme", Class: "jobs", Key: "Büro/7", Reporter: lockcore.ReporterID{0xfe, 15: 0x01},
			Sequence: lockcore.SequenceMax, Checks: 12, APIKey: "key2", Rejections: []lockcore.Rejection{
				{Token: 6, Highest: 9, Count: 3, AtMS: 1_700_000_000_120}, {Highest: 1, Count: lockcore.CountMax}}},
			lockcore.ReportGuard{Tenant: "acme", Class: "jobs", Key: "k", Reporter: lockcore.ReporterID{1}, Sequence: 1}},
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
	if got, want := len(commands), int(lockcore.KindReportGuard); got != want {
		t.Errorf("got golden entries of %d kinds, want %d", got, want)
	}
}

// TestDecodeEntry_opensTheGoldenSaltedEntry: an entry without a salt, as in the other files, has the bytes that it had
// before there were salts.
func TestDecodeEntry_opensTheGoldenSaltedEntry(t *testing.T) {
	want := lockcore.Entry{Epoch: 5, ClockMS: 65_000, WallMS: 1_700_000_000_123, Salt: [16]byte{1, 15: 0xff},
		Commands: []lockcore.Command{lockcore.LeaseClock{}}}
	b := goldenFile(t, "entry-salted.cbor", func() []byte { return encode(t, want) })
	if got, err := lockcore.DecodeEntry(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	if again := encode(t, want); !bytes.Equal(again, b) {
		t.Errorf("encodes to %x, want %x", again, b)
	}
	m := lockcore.New()
	for index, salt := range [][16]byte{{9}, {}, {7}} {
		m.Apply(uint64(index)+1, encode(t, lockcore.Entry{Salt: salt, Commands: want.Commands}))
		if got := m.Salt(); got != salt {
			t.Errorf("salt of the entry applied last: got %x, want %x", got, salt)
		}
	}
}

func TestDecodeEntry_refusesASaltOfAnotherLength(t *testing.T) {
	whole := encode(t, lockcore.Entry{Salt: [16]byte{15: 1}, Commands: []lockcore.Command{lockcore.LeaseClock{}}})
	head := bytes.TrimSuffix(whole, append([]byte{0x50}, append(make([]byte, 15), 1)...))
	if len(head) != len(whole)-17 {
		t.Fatalf("the salt is not the last field of %x", whole)
	}
	for _, size := range []int{1, 15, 17, 23} {
		b := append(append(bytes.Clone(head), 0x40+byte(size)), make([]byte, size)...)
		if e, err := lockcore.DecodeEntry(b); !errors.Is(err, lockcore.ErrInvalidEntry) {
			t.Errorf("a salt of %d bytes: got %+v (%v), want ErrInvalidEntry", size, e, err)
		}
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

// guardedState is richState with what guards reported, to be opened beside it: the first snapshots knew no guards.
const guardedState = richState + `
report-guard acme jobs k1 g1 sequence=3 checks=12 api-key=key9 1<2*3@1700000000100
report-guard acme refusing k6 g2 checks=1
report-guard acme jobs k2 g1 sequence=9
report-guard eagle jobs k1 g1 0<1*9007199254740991@0
`

// goldenStates are states of which there is a golden snapshot, by the name of its file.
var goldenStates = map[string]string{"snapshot": richState, "snapshot-guard": guardedState}

func goldenMachine(t *testing.T, lines string) *lockcore.Machine {
	t.Helper()
	p := lockcoretest.NewPlayer()
	play(t, p, lines)
	p.Machine.Apply(lockcore.CheckpointEvery+7, encode(t, lockcore.Entry{Epoch: 2, ClockMS: 140_000,
		Commands: []lockcore.Command{lockcore.LeaseClock{}}}))
	return p.Machine
}

// TestApply_leadsToTheGoldenSnapshots: what a release wrote into the log leads to the same state, and to the same rolling
// hash of results and events, in every later one.
func TestApply_leadsToTheGoldenSnapshots(t *testing.T) {
	for name, lines := range goldenStates {
		want := goldenFile(t, name+".bin", func() []byte { return written(t, goldenMachine(t, lines).Snapshot()) })
		if got := written(t, goldenMachine(t, lines).Snapshot()); !bytes.Equal(got, want) {
			t.Errorf("%s: the same entries lead to another state", name)
		}
	}
}

// TestRestore_opensGoldenSnapshot restores the snapshots of each form to the hashes that they had.
func TestRestore_opensGoldenSnapshot(t *testing.T) {
	for name, lines := range goldenStates {
		t.Run(name, func(t *testing.T) { restoreGolden(t, name, lines) })
	}
}

func restoreGolden(t *testing.T, name, lines string) {
	b := goldenFile(t, name+".bin", func() []byte { return written(t, goldenMachine(t, lines).Snapshot()) })
	want := strings.TrimSpace(string(goldenFile(t, name+".hash", func() []byte {
		hash := goldenMachine(t, lines).Hash()
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
