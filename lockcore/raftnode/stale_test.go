package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// heldTransport is Raft's in-memory transport whose append responses can be held back at the sender, as a stopped
// process holds them in its socket buffers.
type heldTransport struct {
	*raft.InmemTransport
	holding atomic.Bool
	held    atomic.Int32
	release chan struct{}
}

func (h *heldTransport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (h *heldTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := h.InmemTransport.AppendEntries(id, target, args, resp)
	if err == nil && h.holding.Load() {
		h.held.Add(1)
		<-h.release
	}
	return err
}

type staleNode struct {
	id    NodeID
	raft  *raft.Raft
	trans *heldTransport
}

func (n *staleNode) standing() (uint64, State) { return n.raft.CurrentTerm(), stateOf(n.raft.State()) }

// newStaleNodes starts three Raft nodes that hold no election by themselves: leaders are made by telling them to run.
func newStaleNodes(t *testing.T) []*staleNode {
	var nodes []*staleNode
	var servers raft.Configuration
	for i := range 3 {
		id := fmt.Sprintf("n%d", i+1)
		_, trans := raft.NewInmemTransport(raft.ServerAddress(id))
		nodes = append(nodes, &staleNode{id: NodeID(id), trans: &heldTransport{InmemTransport: trans, release: make(chan struct{})}})
		servers.Servers = append(servers.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	profile := TestProfile()
	profile.HeartbeatTimeout, profile.ElectionTimeout, profile.LeaderLeaseTimeout = time.Hour, time.Hour, time.Hour
	for _, n := range nodes {
		for _, peer := range nodes {
			n.trans.Connect(raft.ServerAddress(peer.id), peer.trans.InmemTransport)
		}
		pump := newLogPump(quiet().Handler())
		store, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		config := profile.raftConfig(n.id, make(chan bool, notifyBuffer), newRaftLogger(pump, "raft"))
		err := raft.BootstrapCluster(config, store, store, snapshots, n.trans, servers)
		if err != nil {
			t.Fatal(err)
		}
		adapter := &fsm{machine: &ledger{}, limit: time.Hour, fatal: func(error) {}, stuck: func() {}}
		if n.raft, err = raft.NewRaft(config, adapter, store, store, snapshots, n.trans); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.raft.Shutdown().Error(); err != nil {
				t.Error(err)
			}
			pump.close(context.Background())
		})
	}
	return nodes
}

// runFor makes n stand for election, as asked by helper, and awaits its victory.
func runFor(t *testing.T, n, helper *staleNode) {
	t.Helper()
	var resp raft.TimeoutNowResponse
	err := helper.trans.TimeoutNow(raft.ServerID(n.id), raft.ServerAddress(n.id), &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}, &resp)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, string(n.id)+" to lead", func() bool { return n.raft.State() == raft.Leader })
	if err := n.raft.Apply([]byte("epoch"), time.Minute).Error(); err != nil {
		t.Fatal(err)
	}
}

// The stale-acknowledgement hole: a leader that was stopped reads acknowledgements from before its successor was
// elected. They prove nothing, and a confirm round must not be fooled by them.
func TestConfirm_refusesDeposedLeaderWithOldAcknowledgements(t *testing.T) {
	nodes := newStaleNodes(t)
	a, b, d := nodes[0], nodes[1], nodes[2]
	runFor(t, a, b)
	term := a.raft.CurrentTerm()
	voters := []NodeID{a.id, b.id, d.id}
	confirmer := confirmAmong(t, a.id, nodes)
	self := func() bool {
		now, state := a.standing()
		return now == term && state == Leader
	}
	if err := confirmer.Confirm(t.Context(), "p1", term, voters, self); err != nil {
		t.Fatalf("a healthy leader: %v", err)
	}

	releaseHeld := sync.OnceFunc(func() { a.trans.holding.Store(false); close(a.trans.release) })
	defer releaseHeld()
	a.trans.holding.Store(true)
	eventually(t, "acknowledgements of both followers on their way", func() bool { return a.trans.held.Load() >= 2 })
	a.trans.DisconnectAll()
	b.trans.Disconnect(raft.ServerAddress(a.id))
	d.trans.Disconnect(raft.ServerAddress(a.id))
	runFor(t, b, d) // and its entry is committed

	releaseHeld()
	for range 20 {
		if !self() {
			t.Fatal("the deposed leader knows that it was deposed: the test shows nothing")
		}
		if err := confirmer.Confirm(t.Context(), "p1", term, voters, self); !errors.Is(err, ErrNotConfirmed) {
			t.Fatalf("deposed leader: got %v, want %v", err, ErrNotConfirmed)
		}
	}
	now := b.raft.CurrentTerm()
	err := confirmAmong(t, b.id, nodes).Confirm(t.Context(), "p1", now, voters, func() bool {
		got, state := b.standing()
		return got == now && state == Leader
	})
	if err != nil {
		t.Errorf("its successor: got %v, want it confirmed", err)
	}
}

// confirmAmong returns a confirmer of self that reaches the others through the port's own server side.
func confirmAmong(t *testing.T, self NodeID, nodes []*staleNode) *Confirmer {
	var served sync.WaitGroup
	c := newConfirmer(self, patience, func(_ context.Context, node NodeID) (confirmConn, error) {
		for _, n := range nodes {
			if n.id != node {
				continue
			}
			m := &Mux{cfg: MuxConfig{Identity: Identity{Node: node}, Logger: quiet()}, groups: map[GroupID]*endpoint{"p1": {state: n.standing}}}
			here, there := net.Pipe()
			owned, err := m.conns.adopt(there, self)
			if err != nil {
				return nil, err
			}
			served.Go(func() { m.serveConfirm(owned) })
			return here, nil
		}
		return nil, ErrUnknownNode
	})
	ctx, cancel := context.WithCancel(context.Background())
	served.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); served.Wait() })
	return c
}
