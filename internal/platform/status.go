package platform

import (
	"context"
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
	Audit   []AuditStatus `json:"audit"`
}

// AuditStatus is how far this node has one log's events. Nodes with as many rows have the same root.
type AuditStatus struct {
	Log           string `json:"log"`
	Durable       uint64 `json:"durable"`  // every entry up to here is stored, or a known gap
	Complete      uint64 `json:"complete"` // no gap is open up to here
	Rows          uint64 `json:"rows"`     // of the Merkle log
	Root          string `json:"root"`
	Gaps          int    `json:"gaps"`               // open: to be filled from another node
	Unrecoverable int    `json:"unrecoverable_gaps"` // no node has them
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
	FirstIndex  uint64   `json:"first_index"` // that the log still has
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
	s.Audit = p.audit.status()
	return s
}

// status is how the audit stands; nothing, should its file not be readable at the moment.
func (a *auditor) status() []AuditStatus {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	positions, err := a.store.Positions(ctx)
	if err != nil {
		a.log.Warn("audit positions cannot be read", "error", err)
	}
	var all []AuditStatus
	for _, p := range positions {
		all = append(all, AuditStatus{Log: a.name(p.Log), Durable: p.Durable, Complete: p.Complete, Rows: p.Rows,
			Root: hexHash(p.Root), Gaps: p.Gaps, Unrecoverable: p.UnrecoverableGaps})
	}
	return all
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
		Voters: voters, FirstIndex: g.FirstIndex(), LastIndex: s.LastIndex, CommitIndex: s.CommitIndex}
}
