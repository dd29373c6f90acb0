package raftnode

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// State is a node's part in a group at a moment.
type State uint8

// The states of a node in a group. The numbers travel between nodes.
const (
	Stopped   State = 0 // not running, or starting
	Follower  State = 1
	Candidate State = 2
	Leader    State = 3
)

// String returns the state in lower case, as logs and status pages show it.
func (s State) String() string {
	switch s {
	case Stopped:
		return "stopped"
	case Follower:
		return "follower"
	case Candidate:
		return "candidate"
	case Leader:
		return "leader"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

func stateOf(s raft.RaftState) State {
	switch s {
	case raft.Follower:
		return Follower
	case raft.Candidate:
		return Candidate
	case raft.Leader:
		return Leader
	}
	return Stopped
}
