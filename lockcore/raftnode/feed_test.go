package raftnode

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// told is what a partition told of an entry, or of a restore.
type told struct {
	index    uint64
	salt     [16]byte
	events   string
	restored bool
}

// listener keeps what a partition tells.
type listener struct {
	t  *testing.T
	mu sync.Mutex
	p  *Partition
	on []told // guarded by mu
}

func (l *listener) note(one told) {
	if l.p != nil && l.p.mu.TryLock() {
		l.p.mu.Unlock()
		l.t.Error("told of something without the partition's lock")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = append(l.on, one)
}

func (l *listener) all() []told {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.on)
}

func listen(t *testing.T) *listener {
	l := &listener{t: t}
	l.p = NewPartition(PartitionConfig{Node: "n1", Logger: quiet(), OnChange: func() {}, OnDiverge: func(error) {},
		OnEntry: func(index uint64, salt [16]byte, events []lockcore.Event) {
			l.note(told{index: index, salt: salt, events: fmt.Sprint(events)})
		},
		OnRestore: func(index uint64) { l.note(told{index: index, restored: true}) }})
	return l
}

func TestPartition_tellsOfEveryEntryAndRestore(t *testing.T) {
	l := listen(t)
	m := l.p.NewMachine()
	apply := func(index uint64, e lockcore.Entry) {
		t.Helper()
		b, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m.Apply(index, 1, b)
	}
	apply(3, lockcore.Entry{Salt: [16]byte{1}, Commands: []lockcore.Command{lockcore.AdvanceEpoch{Node: "n1"}}})
	apply(4, lockcore.Entry{Epoch: 1, Salt: [16]byte{2}, Commands: []lockcore.Command{lockcore.LeaseClock{}}})
	s, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	apply(9, lockcore.Entry{Epoch: 7, Commands: []lockcore.Command{lockcore.LeaseClock{}}})
	var b bytes.Buffer
	if _, err := s.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := m.Restore(bytes.NewReader(b.Bytes()[1:])); err == nil {
		t.Error("a damaged snapshot was restored")
	}
	if err := m.Restore(&b); err != nil {
		t.Fatal(err)
	}
	epoch := fmt.Sprint([]lockcore.Event{{Kind: lockcore.EventEpochAdvanced, Epoch: 1, By: "n1"}})
	want := []told{{index: 3, salt: [16]byte{1}, events: epoch}, {index: 4, salt: [16]byte{2}, events: "[]"},
		{index: 9, events: "[]"}, {index: 4, restored: true}}
	if got := l.all(); !slices.Equal(got, want) {
		t.Errorf("told  %+v\nwant %+v", got, want)
	}
}

// A group that begins again loads its snapshot and gives the entries after it once more: whoever keeps events by their
// place gets the same ones.
func TestPartition_tellsTheSameOfAnEntryAfterARestart(t *testing.T) {
	c := newTestCluster(t, 1, "p1")
	n, l := c.nodes[0], listen(t)
	cfg := c.config(n, "p1")
	cfg.NewMachine = l.p.NewMachine
	g, err := OpenGroup(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.groups["p1"] = g
	l.p.Attach(g)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { l.p.Run(ctx) })
	defer work.Wait()
	defer cancel()
	if err := g.Bootstrap(c.members()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the partition to be led", l.p.Ready)
	quotas := lockcore.Quotas{Keys: 1, Leases: 1, Waiters: 1, Sessions: 1, PerSession: 1, Ends: 1}
	for revision := range uint64(80) {
		put := lockcore.PutTenant{Tenant: "acme", Quotas: quotas, Revision: revision}
		if _, err := l.p.Command(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a snapshot", func() bool { return lastSnapshot(t, g) > 0 })
	before := l.all()
	if err := g.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the partition to be led again", l.p.Ready)
	after := l.all()[len(before):]
	if len(before) < 81 || len(after) < 2 || !after[0].restored {
		t.Fatalf("told of %d entries, then of %+v; want 81 and, first, a restore", len(before), after)
	}
	salts := map[[16]byte]bool{{}: true}
	known := map[uint64]told{}
	for _, one := range before {
		if known[one.index] = one; salts[one.salt] {
			t.Errorf("entry %d has salt %x, which is none or another's", one.index, one.salt)
		}
		salts[one.salt] = true
	}
	last := after[0].index
	for _, one := range after[1:] {
		if was, again := known[one.index]; again && was != one {
			t.Errorf("told %+v, and before the restart %+v", one, was)
		}
		if one.restored || one.index <= last {
			t.Errorf("told of %+v after %d", one, last)
		}
		last = one.index
	}
}
