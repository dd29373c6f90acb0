package leader

import (
	"strconv"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
)

func BenchmarkBatcher_putAndTake(b *testing.B) {
	q := batcher{lanes: map[lockcore.TenantID]*lane{}}
	tenants := [...]lockcore.TenantID{"a", "b", "c", "d"}
	c := lockcore.Acquire{Key: "some/key", Holder: "worker"}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		q.put(tenants[n%len(tenants)], n%2 == 0, pending{command: c})
		if n%batchCommandsMax == 0 {
			q.take()
		}
	}
}

func BenchmarkHeartbeat_of10LeasesThroughARound(b *testing.B) {
	l := newLoop(b)
	session := benchSession(1)
	var sequences []uint64
	for n := uint64(1); n <= 10; n++ {
		sequences = append(sequences, n)
		l.acquire(b, lockcore.LeaseID{Session: session, Sequence: n}, lockcore.Key(strconv.FormatUint(n, 10)))
	}
	l.run()
	b.ReportAllocs()
	for b.Loop() {
		l.leader.Heartbeat(Heartbeat{Caller: benchCaller, Session: session, Sequences: sequences},
			func(a HeartbeatAnswer, err error) {
				if err != nil || len(a.Held) != 10 {
					b.Fatalf("%+v, %v", a, err)
				}
			})
		l.run()
	}
}

func BenchmarkRound_sharedBy100Heartbeats(b *testing.B) {
	l := newLoop(b)
	for n := uint64(1); n <= 100; n++ {
		l.acquire(b, lockcore.LeaseID{Session: benchSession(n), Sequence: 1}, lockcore.Key(strconv.FormatUint(n, 10)))
	}
	l.run()
	b.ReportAllocs()
	for b.Loop() {
		for n := uint64(1); n <= 100; n++ {
			l.leader.Heartbeat(Heartbeat{Caller: benchCaller, Session: benchSession(n), Sequences: []uint64{1}},
				func(HeartbeatAnswer, error) {})
		}
		l.run()
	}
}

// One entry each for the acquire and the release.
func BenchmarkAcquireAndRelease_alone(b *testing.B) {
	l := newLoop(b)
	session := benchSession(1)
	b.ReportAllocs()
	for n := uint64(1); b.Loop(); n++ {
		id := lockcore.LeaseID{Session: session, Sequence: n}
		l.acquire(b, id, "k")
		l.run()
		l.release(b, id)
		l.run()
	}
}

// 100 clients at once: their commands share entries. One operation is one client's acquire and release.
func BenchmarkAcquireAndRelease_100AtOnce(b *testing.B) {
	l := newLoop(b)
	keys := make([]lockcore.Key, 100)
	for i := range keys {
		keys[i] = lockcore.Key(strconv.Itoa(i))
	}
	b.ReportAllocs()
	for n := uint64(0); b.Loop(); n++ {
		i := n % 100
		l.acquire(b, lockcore.LeaseID{Session: benchSession(i + 1), Sequence: n/100 + 1}, keys[i])
		if i != 99 {
			continue
		}
		l.run()
		for j := range uint64(100) {
			l.release(b, lockcore.LeaseID{Session: benchSession(j + 1), Sequence: n/100 + 1})
		}
		l.run()
	}
}
