package platform

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/tenants"
)

// Peer is a voter of the cluster.
type Peer struct {
	ID   raftnode.NodeID
	Addr string // host:port between nodes
	URL  string // where clients reach it
}

// Config describes a node. All fields are required unless they say otherwise.
type Config struct {
	Node        raftnode.NodeID
	Cluster     raftnode.ClusterID
	Data        string // folder, this node's own
	Listen      string // host:port between nodes; port 0 takes a free one
	Peers       []Peer // every voter, this node included
	Partitions  int    // 1 .. tenants.PartitionMax; fixed when the cluster is made
	Credentials raftnode.Credentials
	Profile     raftnode.Profile
	// Bootstrap makes the node's data folder and the cluster's first configuration: Peers, all of them. It is for the
	// first start of a new cluster and refused afterwards.
	Bootstrap bool
	// AuditFile is the node's audit; empty: audit.db in Data. AuditBytesMax bounds it; zero: as much as the disk has.
	AuditFile     string
	AuditBytesMax int64
	// AuditEntriesMax is how many entries may wait for the audit to take them; zero: 100,000.
	AuditEntriesMax int
	Logger          *slog.Logger
	// Fatal is called at the first error after which the node must not go on; in production it does not return.
	Fatal func(error)
}

// ErrConfig is returned for a configuration that makes no sense; the message says where.
var ErrConfig = errors.New("node configuration")

func (c Config) validate() error {
	switch {
	case c.Data == "" || c.Listen == "" || c.Logger == nil || c.Fatal == nil:
		return fmt.Errorf("%w: data, listen, logger or fatal is missing", ErrConfig)
	case c.Partitions < 1 || c.Partitions > int(tenants.PartitionMax):
		return fmt.Errorf("%w: %d partitions is not 1 to %d", ErrConfig, c.Partitions, tenants.PartitionMax)
	case !slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.ID == c.Node }):
		return fmt.Errorf("%w: node %s is not among the peers", ErrConfig, c.Node)
	}
	return nil
}

func (c Config) voters() []raftnode.Member {
	voters := make([]raftnode.Member, 0, len(c.Peers))
	for _, p := range c.Peers {
		voters = append(voters, raftnode.Member{ID: p.ID, Addr: p.Addr, Voter: true})
	}
	return voters
}

func (c Config) url(node raftnode.NodeID) string {
	for _, p := range c.Peers {
		if p.ID == node {
			return p.URL
		}
	}
	return ""
}

const controlGroup raftnode.GroupID = "control"

func partitionGroup(number int) raftnode.GroupID {
	return raftnode.GroupID(fmt.Sprintf("partition-%d", number))
}
