package raftnode

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Profile is every setting of a Raft group. Take ProductionProfile or TestProfile and change what you must. All nodes
// of a cluster should run with the same.
type Profile struct {
	// HeartbeatTimeout is how long a follower waits for its leader; it must exceed twice the worst stall of the disk,
	// because heartbeats queue behind writes. Raft draws each wait from 1–2 times this.
	HeartbeatTimeout time.Duration
	// ElectionTimeout is how long a candidate waits for votes; at least HeartbeatTimeout.
	ElectionTimeout time.Duration
	// LeaderLeaseTimeout is when a leader that hears no majority steps down; at most HeartbeatTimeout. It is not a
	// lease: nothing may be promised on it.
	LeaderLeaseTimeout time.Duration
	// CommitTimeout is how soon followers hear of a commit when nothing else is sent.
	CommitTimeout time.Duration
	// AppendEntriesMax bounds the entries in one request.
	AppendEntriesMax int
	// SnapshotEntries is how many entries must have come since the last snapshot for another to be made.
	SnapshotEntries uint64
	// SnapshotInterval is how often that is looked at; Raft draws from 1–2 times this.
	SnapshotInterval time.Duration
	// TrailingEntries stay in the log behind a snapshot, for followers that are a little behind; at least 1.
	TrailingEntries uint64
	// SnapshotsKept on disk.
	SnapshotsKept int
	// CachedEntries of the log's end are kept in memory.
	CachedEntries int
	// RPCTimeout bounds one request between nodes; a snapshot's transfer and restore gets it once for every 64 KiB.
	RPCTimeout time.Duration
	// EnqueueTimeout is how long a proposal waits for Raft's main loop before it counts as not proposed.
	EnqueueTimeout time.Duration
	// ProposalTimeout is when a proposal's outcome counts as unknown.
	ProposalTimeout time.Duration
	// WriteLimit is the longest that one write to the store may take before the node stops.
	WriteLimit time.Duration
	// ApplyLimit is the longest that the machine may take over one entry before the node stops.
	ApplyLimit time.Duration
	// LagLimit is how late this process's own clock tick may be before a leader gives its leadership up.
	LagLimit time.Duration
}

// ProductionProfile suits three voters on ordinary disks: a change of leader takes about 2–5 s.
func ProductionProfile() Profile {
	return Profile{
		HeartbeatTimeout:   1500 * time.Millisecond,
		ElectionTimeout:    1500 * time.Millisecond,
		LeaderLeaseTimeout: time.Second,
		CommitTimeout:      50 * time.Millisecond,
		AppendEntriesMax:   256,
		SnapshotEntries:    50_000,
		SnapshotInterval:   2 * time.Minute,
		TrailingEntries:    100_000,
		SnapshotsKept:      3,
		CachedEntries:      4096,
		RPCTimeout:         5 * time.Second,
		EnqueueTimeout:     2 * time.Second,
		ProposalTimeout:    10 * time.Second,
		WriteLimit:         4500 * time.Millisecond, // three election timeouts
		ApplyLimit:         2 * time.Second,
		LagLimit:           time.Second,
	}
}

// TestProfile is for tests on small, busy machines: quick elections, and snapshots after a few entries so that they
// are installed often. Durability is that of production; a stall of the whole machine is forgiven for longer.
func TestProfile() Profile {
	p := ProductionProfile()
	p.HeartbeatTimeout = 300 * time.Millisecond
	p.ElectionTimeout = 300 * time.Millisecond
	p.LeaderLeaseTimeout = 200 * time.Millisecond
	p.CommitTimeout = 5 * time.Millisecond
	p.AppendEntriesMax = 16
	p.SnapshotEntries = 50
	p.SnapshotInterval = 200 * time.Millisecond
	p.TrailingEntries = 10
	p.SnapshotsKept = 2
	p.CachedEntries = 512
	p.RPCTimeout = time.Second
	p.LagLimit = 5 * time.Second
	return p
}

func (p Profile) validate() error {
	for name, d := range map[string]time.Duration{
		"RPCTimeout": p.RPCTimeout, "EnqueueTimeout": p.EnqueueTimeout, "ProposalTimeout": p.ProposalTimeout,
		"WriteLimit": p.WriteLimit, "ApplyLimit": p.ApplyLimit, "LagLimit": p.LagLimit,
	} {
		if d <= 0 {
			return fmt.Errorf("raft profile: %s must be positive", name)
		}
	}
	switch {
	case p.TrailingEntries < 1 || p.SnapshotsKept < 1 || p.CachedEntries < 1:
		return errors.New("raft profile: TrailingEntries, SnapshotsKept and CachedEntries must be at least 1")
	case p.ProposalTimeout <= p.EnqueueTimeout:
		return errors.New("raft profile: ProposalTimeout must exceed EnqueueTimeout")
	}
	return nil
}

// raftConfig is the library's configuration for this profile; the library validates the rest of it.
func (p Profile) raftConfig(self NodeID, notify chan<- bool, logger hclog.Logger) *raft.Config {
	return &raft.Config{
		ProtocolVersion:    raft.ProtocolVersionMax,
		HeartbeatTimeout:   p.HeartbeatTimeout,
		ElectionTimeout:    p.ElectionTimeout,
		CommitTimeout:      p.CommitTimeout,
		MaxAppendEntries:   p.AppendEntriesMax,
		BatchApplyCh:       false, // true would let a proposal start after its enqueue timeout
		ShutdownOnRemove:   true,
		TrailingLogs:       p.TrailingEntries,
		SnapshotInterval:   p.SnapshotInterval,
		SnapshotThreshold:  p.SnapshotEntries,
		LeaderLeaseTimeout: p.LeaderLeaseTimeout,
		LocalID:            raft.ServerID(self),
		NotifyCh:           notify,
		Logger:             logger,
		NoLegacyTelemetry:  true,
	}
}
