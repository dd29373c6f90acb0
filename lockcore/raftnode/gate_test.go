package raftnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// gateCall is a snapshot that waits for its gate.
type gateCall struct {
	index  uint64
	answer chan error
	ended  chan error // how the wait was ended from outside
}

// gateKeeper is a gate whose answers a test gives.
type gateKeeper struct{ calls chan gateCall }

func newGateKeeper() gateKeeper { return gateKeeper{make(chan gateCall, 100)} }

func (k gateKeeper) pass(ctx context.Context, index uint64) error {
	call := gateCall{index, make(chan error), make(chan error, 1)}
	k.calls <- call
	select {
	case err := <-call.answer:
		return err
	case <-ctx.Done():
		call.ended <- ctx.Err()
		return ctx.Err()
	}
}

// openGated opens a group of one node with a gate before its snapshots.
func openGated(t *testing.T, keeper gateKeeper) (*testCluster, *Group) {
	t.Helper()
	c := newTestCluster(t, 1, "p1")
	cfg := c.config(c.nodes[0], "p1")
	cfg.SnapshotGate = keeper.pass
	g, err := OpenGroup(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.nodes[0].groups["p1"] = g
	if err := g.Bootstrap(c.members()); err != nil {
		t.Fatal(err)
	}
	c.leader("p1")
	return c, g
}

// indexes proposes count entries and returns their indexes.
func indexes(t *testing.T, g *Group, count int) map[uint64]bool {
	t.Helper()
	all := map[uint64]bool{}
	for i := range count {
		got := propose(t, g, fmt.Sprint("entry ", i))
		if got.err != nil {
			t.Fatal(got.err)
		}
		all[got.index] = true
	}
	return all
}

func lastSnapshot(t *testing.T, g *Group) uint64 {
	t.Helper()
	index, err := strconv.ParseUint(g.live.Load().raft.Stats()["last_snapshot_index"], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestSnapshotGate_failsTheSnapshotUntilItOpens(t *testing.T) {
	keeper := newGateKeeper()
	_, g := openGated(t, keeper)
	proposed := indexes(t, g, 60)
	first := receive(t, "a snapshot at its gate", keeper.calls)
	for index := range indexes(t, g, 10) { // entries are applied meanwhile
		proposed[index] = true
	}
	if !proposed[first.index] {
		t.Errorf("the gate was asked about %d, which the machine was not given", first.index)
	}
	first.answer <- errors.New("the audit is behind")
	second := receive(t, "another snapshot at the gate", keeper.calls)
	if second.index < first.index || !proposed[second.index] {
		t.Errorf("the gate was asked about %d after %d", second.index, first.index)
	}
	if got := lastSnapshot(t, g); got != 0 {
		t.Errorf("there is a snapshot at %d, which no gate let through", got)
	}
	second.answer <- nil
	eventually(t, "the snapshot", func() bool { return lastSnapshot(t, g) > 0 })
	if got := lastSnapshot(t, g); got != second.index {
		t.Errorf("snapshot at %d, want %d", got, second.index)
	}
}

func TestSnapshotGate_waitEndsWithTheLife(t *testing.T) {
	for name, end := range map[string]func(*Group) error{
		"stop":    func(g *Group) error { return g.Stop(t.Context()) },
		"restart": (*Group).Restart,
	} {
		t.Run(name, func(t *testing.T) {
			keeper := newGateKeeper()
			_, g := openGated(t, keeper)
			indexes(t, g, 60)
			call := receive(t, "a snapshot at its gate", keeper.calls)
			if err := end(g); err != nil {
				t.Fatal(err)
			}
			if err := receive(t, "the end of the wait", call.ended); !errors.Is(err, context.Canceled) {
				t.Errorf("the wait ended with %v, want %v", err, context.Canceled)
			}
		})
	}
}

func TestSnapshotGate_waitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		err := passGate(t.Context(), newGateKeeper().pass, snapshotGateWait, 7)
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took != snapshotGateWait {
			t.Errorf("got %v after %v, want %v after %v", err, took, context.DeadlineExceeded, snapshotGateWait)
		}
	})
}

// A machine that was restored and given nothing since stands at its snapshot.
func TestSnapshotGate_isAskedAboutWhatTheMachineStandsAt(t *testing.T) {
	var asked []uint64
	adapter := &fsm{machine: &ledger{}, limit: time.Minute, fatal: func(error) {}, stuck: func() {},
		gate: func(index uint64) error { asked = append(asked, index); return nil }}
	snapshots := namedSnapshots{raft.NewInmemSnapshotStore()}
	persist := func() {
		t.Helper()
		s, err := adapter.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		adapter.Apply(&raft.Log{Index: 1000}) // the snapshot is of before
		sink, err := snapshots.Create(1, 40, 3, raft.Configuration{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Persist(sink); err != nil {
			t.Fatal(err)
		}
	}
	persist()
	adapter.Apply(&raft.Log{Index: 30})
	persist()
	list, err := snapshots.List()
	if err != nil {
		t.Fatal(err)
	}
	_, stream, err := snapshots.Open(list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := adapter.Restore(wrapped{stream}); err != nil {
		t.Fatal(err)
	}
	persist()
	if got, want := fmt.Sprint(asked), "[0 30 40]"; got != want {
		t.Errorf("the gate was asked about %s, want %s", got, want)
	}
}

// A log whose front is kept serves on and gives it up after a later snapshot.
func TestGate_keepsTheFrontOfTheLogUntilItLetsGo(t *testing.T) {
	type question struct {
		first, last uint64
		bytes       int64
	}
	const kept = 5
	asked, open := make(chan question, 1000), make(chan struct{})
	c := newTestCluster(t, 3, "p1")
	for _, n := range c.nodes {
		cfg := c.config(n, "p1")
		cfg.Gate = func(first, last uint64, bytes int64) uint64 {
			asked <- question{first, last, bytes}
			select {
			case <-open:
				return last
			default:
				return kept
			}
		}
		g, err := OpenGroup(cfg)
		if err != nil {
			t.Fatal(err)
		}
		n.groups["p1"] = g
	}
	if err := c.nodes[0].groups["p1"].Bootstrap(c.members()); err != nil {
		t.Fatal(err)
	}
	firstOf := func(n *testNode) uint64 {
		first, err := n.groups["p1"].live.Load().store.FirstIndex()
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	c.write("p1", 70)
	q := receive(t, "the gate to be asked", asked)
	if q.first != 1 || q.last <= kept || q.bytes <= 0 {
		t.Errorf("the gate was asked about %+v, want entries from 1 to above %d", q, kept)
	}
	eventually(t, "what may go to be gone", func() bool { return firstOf(c.nodes[0]) == kept+1 })
	count := c.write("p1", 70)
	for q.first == 1 {
		q = receive(t, "the gate to be asked again", asked)
	}
	if q.first != kept+1 {
		t.Errorf("the gate was asked from %d, want from %d", q.first, kept+1)
	}
	if got := firstOf(c.nodes[0]); got != kept+1 {
		t.Errorf("the log begins at %d, want %d", got, kept+1)
	}
	if got := c.nodes[0].groups["p1"].LogBytes(); got <= 0 {
		t.Errorf("log of %d bytes", got)
	}
	close(open)
	count = max(count, c.write("p1", 70))
	eventually(t, "the front of the log to be gone", func() bool { return firstOf(c.nodes[0]) > 70 })
	c.agree("p1", count)
	g := c.nodes[0].groups["p1"]
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := g.LogBytes(); got != 0 {
		t.Errorf("log of a stopped group: got %d bytes, want 0", got)
	}
}
