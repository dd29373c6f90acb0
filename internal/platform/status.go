package platform

import (
	"encoding/hex"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

// Status is what a node says of itself to an operator.
type Status struct {
	Node    string        `json:"node"`
	Cluster string        `json:"cluster"`
	Groups  []GroupStatus `json:"groups"`
}

// GroupStatus is one Raft group as this node sees it. Index and the hashes belong together: two nodes at the same index
// have the same hashes, or one of them is broken.
type GroupStatus struct {
	Group       string   `json:"group"`
	State       string   `json:"state"`
	Term        uint64   `json:"term"`
	Leader      string   `json:"leader"`
	Ready       bool     `json:"ready"` // leads, and answers
	Voters      []string `json:"voters"`
	LastIndex   uint64   `json:"last_index"`
	CommitIndex uint64   `json:"commit_index"`
	Index       uint64   `json:"index"`        // of the machine
	Epoch       uint64   `json:"epoch"`        // of a partition
	RollingHash string   `json:"rolling_hash"` // over every entry, its results and events
	StateHash   string   `json:"state_hash"`   // of the whole state; only when asked for
}

// Status reports the node's groups. hashes asks for the digest of each whole state, which takes time proportional to it.
func (p *Platform) Status(hashes bool) Status {
	s := Status{Node: string(p.config.Node), Cluster: string(p.config.Cluster)}
	c := groupStatus(p.control.group)
	p.control.view(func(m *control.Machine) {
		rolling := m.Rolling()
		c.Index, c.RollingHash = m.Revision(), hex.EncodeToString(rolling[:])
		if hashes {
			c.StateHash = hexHash(m.Hash())
		}
	})
	s.Groups = append(s.Groups, c)
	for _, part := range p.partitions {
		s.Groups = append(s.Groups, part.status(hashes))
	}
	return s
}

func (part *partition) status(hashes bool) GroupStatus {
	g := groupStatus(part.group)
	g.Ready = part.locks.Ready()
	var snapshot *lockcore.Snapshot // only when asked for: a captured tree costs later writes their copies
	part.locks.View(func(m *lockcore.Machine) {
		g.Index, g.Epoch, g.RollingHash = m.Index(), uint64(m.Epoch()), hexHash(m.Rolling())
		if hashes {
			snapshot = m.Snapshot()
		}
	})
	if hashes {
		g.StateHash = hexHash(snapshot.Hash())
	}
	return g
}

func hexHash(h [32]byte) string { return hex.EncodeToString(h[:]) }

func groupStatus(g *raftnode.Group) GroupStatus {
	s := g.Status()
	voters := make([]string, 0, len(s.Members))
	for _, v := range s.Voters() {
		voters = append(voters, string(v))
	}
	return GroupStatus{Group: string(s.Group), State: s.State.String(), Term: s.Term, Leader: string(s.Leader),
		Voters: voters, LastIndex: s.LastIndex, CommitIndex: s.CommitIndex}
}
