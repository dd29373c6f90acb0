package lockcore_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// loaded is a machine in epoch 1 with a tenant, a class and so many held leases, 1,000 to a session.
func loaded(tb testing.TB, held int) *lockcore.Machine {
	tb.Helper()
	m := lockcore.New()
	quotas := lockcore.Quotas{Keys: 10_000_000, Leases: 10_000_000, Waiters: 10_000_000, Sessions: 10_000_000,
		PerSession: lockcore.PerSessionMax, Ends: 10_000_000}
	class := lockcore.Class{Name: "jobs", Version: 1, Purpose: lockcore.PurposeEfficiency,
		Enforcement: lockcore.EnforcementAdvisory, QuorumLoss: lockcore.QuorumLossClosed, LeaseMS: 10_000,
		HeartbeatMS: 5_000, MaxWaiters: 1_000}
	apply(tb, m, 0, lockcore.AdvanceEpoch{Node: "n1"})
	apply(tb, m, 1, lockcore.PutTenant{Tenant: "acme", Quotas: quotas}, lockcore.PutClass{Tenant: "acme", Class: class})
	var batch []lockcore.Command
	for i := range held {
		batch = append(batch, benchAcquire(uint32(i/1000+1), uint64(i%1000+1), fmt.Sprintf("held-%07d", i)))
		if len(batch) == lockcore.EntryCommandsMax || i == held-1 {
			apply(tb, m, 1, batch...)
			batch = batch[:0]
		}
	}
	return m
}

func apply(tb testing.TB, m *lockcore.Machine, epoch lockcore.Epoch, commands ...lockcore.Command) {
	tb.Helper()
	m.Apply(m.Index()+1, encode(tb, lockcore.Entry{Epoch: epoch, Commands: commands}))
}

func encode(tb testing.TB, e lockcore.Entry) []byte {
	tb.Helper()
	b, err := e.Encode()
	if err != nil {
		tb.Fatalf("encode: %v", err)
	}
	return b
}

func benchAcquire(session uint32, sequence uint64, key string) lockcore.Acquire {
	id := lockcore.LeaseID{Session: lockcore.SessionID{byte(session >> 16), byte(session >> 8), byte(session), 1}, Sequence: sequence}
	return lockcore.Acquire{Tenant: "acme", Owner: "key-1", Lease: id, Class: "jobs", Key: lockcore.Key(key), WaitMS: 5_000,
		Holder: "host-1:4711", APIKey: "key-1"}
}

// pairEntries are entries whose commands acquire and release so many keys, in all of one session with rising sequences.
func pairEntries(tb testing.TB, batch, entries int) [][]byte {
	var all [][]byte
	sequence := uint64(0)
	for range entries {
		var commands []lockcore.Command
		for i := 0; i < max(batch/2, 1); i++ {
			sequence++
			a := benchAcquire(1<<20, sequence, fmt.Sprintf("free-%04d", i))
			commands = append(commands, a, lockcore.Release{Tenant: "acme", Owner: a.Owner, Lease: a.Lease})
		}
		if batch == 1 {
			all = append(all, encode(tb, lockcore.Entry{Epoch: 1, Salt: [16]byte{1}, Commands: commands[:1]}))
			commands = commands[1:]
		}
		all = append(all, encode(tb, lockcore.Entry{Epoch: 1, Salt: [16]byte{1}, Commands: commands}))
	}
	return all
}

// BenchmarkApply reports the time of one acquire with its release.
func BenchmarkApply(b *testing.B) {
	for _, held := range []int{1_000, 1_000_000} {
		m := loaded(b, held)
		for _, batch := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("held=%d/batch=%d", held, batch), func(b *testing.B) {
				pairs := max(batch/2, 1)
				apply(b, m, 1, lockcore.ForgetSession{Tenant: "acme", Session: benchAcquire(1<<20, 1, "k").Lease.Session})
				entries := pairEntries(b, batch, b.N/pairs+1)
				b.ReportAllocs()
				b.ResetTimer()
				for _, e := range entries {
					m.Apply(m.Index()+1, e)
				}
			})
		}
	}
}

// BenchmarkSnapshot measures the pause that a snapshot costs the applying goroutine, and apart from it the writing.
func BenchmarkSnapshot(b *testing.B) {
	m := loaded(b, 1_000_000)
	b.Run("capture", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Snapshot()
		}
	})
	b.Run("write", func(b *testing.B) {
		s := m.Snapshot()
		for b.Loop() {
			n, err := s.WriteTo(io.Discard)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(n)
		}
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			r, w := io.Pipe()
			go func() {
				_, err := m.Snapshot().WriteTo(w)
				w.CloseWithError(err)
			}()
			if _, err := lockcore.Restore(r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReportGuard measures a report with two rejections in an entry of its own: of reporters that are remembered, and of
// ever new ones, each of which takes the place of the idlest.
func BenchmarkReportGuard(b *testing.B) {
	for name, reporters := range map[string]uint64{"known": lockcore.ReportersMax, "new": 1 << 60} {
		b.Run(name, func(b *testing.B) {
			m := loaded(b, 0)
			report := lockcore.ReportGuard{Tenant: "acme", Class: "jobs", Key: "k", Checks: 9, APIKey: "key-1",
				Rejections: []lockcore.Rejection{{Token: 3, Highest: 5, Count: 1, AtMS: 1_700_000_000_000}, {Token: 4, Highest: 5, Count: 1}}}
			one := func(n uint64) {
				binary.BigEndian.PutUint64(report.Reporter[:], n%reporters+1)
				report.Sequence = n/reporters + 1
				apply(b, m, 1, report)
			}
			n := uint64(0)
			for ; n < lockcore.ReportersMax; n++ {
				one(n)
			}
			b.ReportAllocs()
			for ; b.Loop(); n++ {
				one(n)
			}
		})
	}
}

// BenchmarkEntry measures the codec on an entry of 64 commands.
func BenchmarkEntry(b *testing.B) {
	encoded := pairEntries(b, 64, 1)[0]
	e, err := lockcore.DecodeEntry(encoded)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			encode(b, e)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := lockcore.DecodeEntry(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
}
