package raftnode

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patience is how long a test awaits what must happen; it is a bound on failure, not an expectation of speed.
const patience = 30 * time.Second

// eventually polls ok until it holds, or fails the test with what it waited for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// receive returns the next value of ch, or fails the test.
func receive[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v in vain: %s", patience, what)
		panic("unreachable")
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// ledger is a toy machine: how many entries, and a hash over all of them in order.
type ledger struct {
	mu       sync.Mutex
	count    uint64
	hash     uint64
	restores int
}

func (l *ledger) Apply(_, _ uint64, entry []byte) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(nil, l.hash))
	h.Write(entry)
	l.count, l.hash = l.count+1, h.Sum64()
	return l.count
}

func (l *ledger) Snapshot() (MachineSnapshot, error) {
	count, hash, _ := l.read()
	return ledgerPage{count, hash}, nil
}

func (l *ledger) Restore(r io.Reader) error {
	var page ledgerPage
	if err := binary.Read(r, binary.BigEndian, &page); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count, l.hash = page.Count, page.Hash
	l.restores++
	return nil
}

func (l *ledger) read() (count, hash uint64, restores int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count, l.hash, l.restores
}

type ledgerPage struct{ Count, Hash uint64 }

func (p ledgerPage) WriteTo(w io.Writer) (int64, error) {
	return int64(binary.Size(p)), binary.Write(w, binary.BigEndian, p)
}

func (ledgerPage) Release() {}

// testNode is one node of a testCluster.
type testNode struct {
	id        NodeID
	dir       string
	mux       *Mux
	confirmer *Confirmer
	data      *DataDir
	groups    map[GroupID]*Group
	end       func()
}

// testCluster is some nodes on loopback with real certificates, ports and files.
type testCluster struct {
	t       *testing.T
	cluster ClusterID
	ca      *DevCA
	groups  []GroupID
	nodes   []*testNode
	fatal   chan error
}

func newTestCluster(t *testing.T, size int, groups ...GroupID) *testCluster {
	t.Helper()
	ca, err := NewDevCA(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c := &testCluster{t: t, cluster: NewClusterID(), ca: ca, groups: groups, fatal: make(chan error, 16)}
	for i := range size {
		id := NodeID(fmt.Sprintf("n%d", i+1))
		n := &testNode{id: id, dir: filepath.Join(t.TempDir(), string(id))}
		if n.data, err = CreateDataDir(n.dir, c.cluster, id, 1); err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, n)
		c.listen(n)
	}
	t.Cleanup(c.stop)
	return c
}

// listen opens the node's port and runs it.
func (c *testCluster) listen(n *testNode) {
	c.t.Helper()
	creds, err := c.ca.Issue(c.cluster, n.id)
	if err != nil {
		c.t.Fatal(err)
	}
	n.mux, err = Listen(MuxConfig{Identity: n.data.Identity(), Credentials: creds, Listen: "127.0.0.1:0", Logger: quiet()})
	if err != nil {
		c.t.Fatal(err)
	}
	n.confirmer = NewConfirmer(n.mux, 0)
	n.groups = make(map[GroupID]*Group)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { n.mux.Run(ctx) })
	work.Go(func() { n.confirmer.Run(ctx) })
	n.end = func() { cancel(); work.Wait(); n.mux.Close() }
	for _, peer := range c.nodes {
		peer.mux.SetPeer(n.id, n.mux.Advertise())
		n.mux.SetPeer(peer.id, peer.mux.Advertise())
	}
}

func (c *testCluster) config(n *testNode, group GroupID) GroupConfig {
	return GroupConfig{
		Group: group, Data: n.data, Create: true, Mux: n.mux, Confirmer: n.confirmer, Profile: TestProfile(),
		NewMachine: func() Machine { return &ledger{} },
		Logger:     quiet(),
		Fatal:      func(err error) { c.fatal <- err },
	}
}

func (c *testCluster) open(n *testNode, group GroupID) *Group {
	c.t.Helper()
	g, err := OpenGroup(c.config(n, group))
	if err != nil {
		c.t.Fatal(err)
	}
	n.groups[group] = g
	return g
}

// members lists the nodes as voters.
func (c *testCluster) members() []Member {
	var all []Member
	for _, n := range c.nodes {
		all = append(all, Member{ID: n.id, Addr: n.mux.Advertise(), Voter: true})
	}
	return all
}

// start opens every group on every node and bootstraps them on the first.
func (c *testCluster) start() {
	c.t.Helper()
	for _, group := range c.groups {
		for _, n := range c.nodes {
			c.open(n, group)
		}
		if err := c.nodes[0].groups[group].Bootstrap(c.members()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// halt stops a node with all that is on it.
func (c *testCluster) halt(n *testNode) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for id, g := range n.groups {
		if err := g.Stop(ctx); err != nil {
			c.t.Errorf("stop %s on %s: %v", id, n.id, err)
		}
	}
	n.groups = nil
	if n.end != nil {
		n.end()
		n.end = nil
	}
}

// revive opens a halted node again from its files, on another port.
func (c *testCluster) revive(n *testNode) {
	c.t.Helper()
	var err error
	if n.data, err = OpenDataDir(n.dir, c.cluster, n.id); err != nil {
		c.t.Fatal(err)
	}
	c.listen(n)
	for _, group := range c.groups {
		c.open(n, group)
	}
}

func (c *testCluster) stop() {
	for _, n := range c.nodes {
		c.halt(n)
	}
	select {
	case err := <-c.fatal:
		c.t.Errorf("fatal was called: %v", err)
	default:
	}
}

// leader awaits a node that leads the group and is confirmed by a majority.
func (c *testCluster) leader(group GroupID) *testNode {
	c.t.Helper()
	var leader *testNode
	eventually(c.t, "a confirmed leader of "+string(group), func() bool {
		for _, n := range c.nodes {
			g := n.groups[group]
			if g == nil {
				continue
			}
			if s := g.Status(); s.State == Leader && g.Confirm(c.t.Context(), s.Term) == nil {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

// follower returns a running node that is not the leader.
func (c *testCluster) follower(leader *testNode) *testNode {
	for _, n := range c.nodes {
		if n != leader && n.groups != nil {
			return n
		}
	}
	c.t.Fatal("no follower left")
	return nil
}

type outcome struct {
	result any
	index  uint64
	err    error
}

func propose(t *testing.T, g *Group, entry string) outcome {
	t.Helper()
	done := make(chan outcome, 1)
	g.Propose([]byte(entry), func(result any, index uint64, err error) { done <- outcome{result, index, err} })
	return receive(t, "outcome of a proposal", done)
}

// write proposes count entries to the group's leader, whichever it is, and returns the machine's count after them.
// Each must succeed; a change of leader meanwhile means to ask again.
func (c *testCluster) write(group GroupID, count int) uint64 {
	c.t.Helper()
	var last uint64
	for i := range count {
		eventually(c.t, "an accepted proposal", func() bool {
			got := propose(c.t, c.leader(group).groups[group], fmt.Sprintf("%s entry %d", group, i))
			if got.err == nil {
				last = got.result.(uint64)
			}
			return got.err == nil
		})
	}
	return last
}

// agree awaits that the machines of all running nodes have count entries, and the same.
func (c *testCluster) agree(group GroupID, count uint64) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%d equal entries of %s on every node", count, group), func() bool {
		hashes := make(map[uint64]bool)
		for _, n := range c.nodes {
			if n.groups[group] == nil {
				continue
			}
			m, ok := n.groups[group].Machine().(*ledger)
			if !ok {
				return false
			}
			got, hash, _ := m.read()
			if got != count {
				return false
			}
			hashes[hash] = true
		}
		return len(hashes) == 1
	})
}
