package raftnode

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// Heartbeats that overtake the main loop change term and state behind its back. Over the real transport they must
// arrive where every other request does, whatever handler Raft has set.
func TestTransport_heartbeatsTakeNoShortCut(t *testing.T) {
	p := newMuxPair(t)
	server := openTransport(t, p.server)
	client := openTransport(t, p.listen(p.identity("n2"), p.ca))
	server.SetHeartbeatHandler(func(raft.RPC) { t.Error("a heartbeat took the short cut") })

	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n2"), Addr: []byte(client.LocalAddr())}
	heartbeat := &raft.AppendEntriesRequest{RPCHeader: header, Term: 3}
	sent := make(chan error, 1)
	go func() {
		var resp raft.AppendEntriesResponse
		sent <- client.AppendEntries("n1", server.LocalAddr(), heartbeat, &resp)
	}()
	rpc := receive(t, "the heartbeat in the main loop's queue", server.Consumer())
	if got, ok := rpc.Command.(*raft.AppendEntriesRequest); !ok || got.Term != 3 {
		t.Errorf("request: got %#v, want the heartbeat of term 3", rpc.Command)
	}
	rpc.Respond(&raft.AppendEntriesResponse{Term: 3, Success: true}, nil)
	if err := receive(t, "the answer", sent); err != nil {
		t.Error(err)
	}
}

// With appends in a pipeline one that is rejected can park replication to that follower for ever.
func TestTransport_offersNoPipeline(t *testing.T) {
	p := newMuxPair(t)
	trans := openTransport(t, p.server)
	_, err := trans.AppendEntriesPipeline("n1", trans.LocalAddr())
	if !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("got %v, want %v", err, raft.ErrPipelineReplicationNotSupported)
	}
}

func openTransport(t *testing.T, m *Mux) transport {
	t.Helper()
	standing := func() (uint64, State) { return 0, Stopped }
	box, err := m.register("p1", standing)
	if err != nil {
		t.Fatal(err)
	}
	pump := newLogPump(quiet().Handler())
	trans := newTransport(&stream{inbox: box, mux: m, group: "p1"}, TestProfile(), standing, newRaftLogger(pump, "raft-transport"))
	t.Cleanup(func() { trans.Close(); pump.close(t.Context()) })
	return trans
}

// One append is rejected when a new leader meets a follower that is behind; replication must go on after it.
func TestGroup_oneRejectedAppendDoesNotStopReplication(t *testing.T) {
	c := newTestCluster(t, 3, "p1")
	c.start()
	c.agree("p1", c.write("p1", 3))
	away := c.follower(c.leader("p1"))
	c.halt(away)
	c.write("p1", 5)
	if err := c.leader("p1").groups["p1"].Restart(); err != nil { // the next leader assumes that every log is as long as its own
		t.Fatal(err)
	}
	c.write("p1", 1)
	c.revive(away)
	c.agree("p1", c.write("p1", 30))
}
