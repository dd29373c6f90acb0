package raftnode

import (
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// appendsInFlight: with two in flight, one rejected append can park the leader's replication to that follower for ever.
	appendsInFlight = 1
	connPoolMax     = 3
	// snapshotBytesPerTimeout scales the deadline of a snapshot transfer, which covers the follower's restore as well.
	snapshotBytesPerTimeout = 64 << 10
)

// transport is Raft's network transport without its short cut for heartbeats. The short cut handles them on the
// connection's goroutine, where they change term and state behind the main loop's back: two leaders in one term. See also
// AppendEntries.
type transport struct {
	*raft.NetworkTransport
	contacts *contacts
	standing func() (term uint64, state State) // of this node in the group
}

var (
	_ raft.Transport   = transport{}
	_ raft.WithPreVote = transport{}
	_ raft.WithClose   = transport{}
)

func newTransport(layer raft.StreamLayer, profile Profile, standing func() (uint64, State), logger hclog.Logger) transport {
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:          layer,
		MaxPool:         connPoolMax,
		MaxRPCsInFlight: appendsInFlight,
		Timeout:         profile.RPCTimeout,
		Logger:          logger,
	})
	t.TimeoutScale = snapshotBytesPerTimeout
	return transport{t, newContacts(), standing}
}

// SetHeartbeatHandler ignores the handler: heartbeats queue with every other request for the main loop.
func (transport) SetHeartbeatHandler(func(raft.RPC)) {}
