package platform_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/internal/platform"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/web"
	"github.com/stanchion-locks/stanchion/web/api"
)

const (
	// patience is how long a test awaits what must happen; it is a bound on failure, not an expectation of speed.
	patience   = 60 * time.Second
	nodeCount  = 3
	partitions = 2
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventually polls ok until it holds, or fails the test with what it waited for.
func eventually(t testing.TB, what string, ok func() bool) {
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

// cluster is some whole nodes, mostly three, on loopback in this process, with real certificates, ports and files.
type cluster struct {
	id    raftnode.ClusterID
	ca    *raftnode.DevCA
	nodes []*testNode
}

// quickProfile makes snapshots as often as the tests of the groups do, but is no quicker to elect than a machine that runs
// two such clusters under the race detector can follow.
func quickProfile() raftnode.Profile {
	p := raftnode.TestProfile()
	p.HeartbeatTimeout, p.ElectionTimeout, p.LeaderLeaseTimeout = time.Second, time.Second, 700*time.Millisecond
	return p
}

// testNode is one node: what stays of it over its lives, and the present one.
type testNode struct {
	id              raftnode.NodeID
	dir             string
	door            *link                     // public, for clients
	links           map[raftnode.NodeID]*link // its own ways to the others
	inward          []*link                   // the others' ways to it
	logTo           *slog.Logger
	profile         raftnode.Profile
	cluster         *cluster
	auditEntriesMax int         // that may wait for the audit; 0: as many as otherwise
	refused         chan string // nodes whose connections it refused, lately

	platform *platform.Platform // nil: stopped
	end      func() error
	failed   chan error // what its storage or its own progress made it stop for
}

// newCluster makes nodes that have no data yet and starts none.
func newCluster(t testing.TB, size int) *cluster {
	t.Helper()
	ca, err := raftnode.NewDevCA(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{id: raftnode.NewClusterID(), ca: ca}
	for i := range size {
		id := raftnode.NodeID(fmt.Sprintf("n%d", i+1))
		n := &testNode{id: id, dir: filepath.Join(t.TempDir(), string(id)), door: newLink(t), cluster: c,
			links: map[raftnode.NodeID]*link{}, profile: quickProfile(), refused: make(chan string, 1024), failed: make(chan error, 16)}
		n.logTo = slog.New(refusalLog{slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}), n.refused})
		n.logTo = n.logTo.With("node", string(id))
		c.nodes = append(c.nodes, n)
	}
	for _, from := range c.nodes {
		for _, to := range c.nodes {
			if from != to {
				from.links[to.id] = newLink(t)
				to.inward = append(to.inward, from.links[to.id])
			}
		}
	}
	t.Cleanup(func() { c.stop(t) })
	return c
}

// refusalLog is a log that passes on which checks the connections failed that a node refused.
type refusalLog struct {
	slog.Handler
	refused chan string
}

func (l refusalLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return refusalLog{l.Handler.WithAttrs(attrs), l.refused}
}

func (l refusalLog) WithGroup(name string) slog.Handler {
	return refusalLog{l.Handler.WithGroup(name), l.refused}
}

func (l refusalLog) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "check" {
			select {
			case l.refused <- a.Value.String():
			default: // nobody looks
			}
		}
		return true
	})
	return l.Handler.Handle(ctx, r)
}

// awaitRefusal awaits that the node refuses a connection for a check that it fails.
func (n *testNode) awaitRefusal(t testing.TB, check string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case failed := <-n.refused:
			if failed == check {
				return
			}
		case <-deadline:
			t.Fatalf("waited %v in vain: %s refuses a connection for its %s", patience, n.id, check)
		}
	}
}

// startCluster makes a cluster and awaits that it has begun.
func startCluster(t testing.TB) *cluster {
	t.Helper()
	return startClusterOf(t, nodeCount)
}

func startClusterOf(t testing.TB, size int) *cluster {
	t.Helper()
	c := newCluster(t, size)
	for _, n := range c.nodes {
		n.start(t, true)
	}
	c.awaitReady(t)
	return c
}

// awaitReady awaits that every node which runs is ready.
func (c *cluster) awaitReady(t testing.TB) {
	t.Helper()
	eventually(t, "every node is ready", func() bool {
		for _, n := range c.nodes {
			if n.platform != nil && !n.isReady() {
				return false
			}
		}
		return true
	})
}

func (n *testNode) isReady() bool {
	for _, part := range n.platform.Ready() {
		if !part.Ready {
			return false
		}
	}
	return true
}

func (c *cluster) stop(t testing.TB) {
	var all errgroup.Group
	for _, n := range c.nodes {
		if n.platform != nil {
			all.Go(n.shutDown)
		}
	}
	if err := all.Wait(); err != nil {
		t.Errorf("stop the cluster: %v", err)
	}
	for _, n := range c.nodes {
		select {
		case err := <-n.failed:
			t.Errorf("node %s could not go on: %v", n.id, err)
		default:
		}
	}
}

// start opens the node on its data and serves both its doors.
func (n *testNode) start(t testing.TB, bootstrap bool) {
	t.Helper()
	if err := n.open(t, bootstrap); err != nil {
		t.Fatalf("start %s: %v", n.id, err)
	}
}

func (n *testNode) open(t testing.TB, bootstrap bool) error {
	t.Helper()
	for {
		config, err := n.config(bootstrap)
		if err != nil {
			return err
		}
		p, err := platform.Open(config)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue // somebody was quicker to take the free port
		}
		if err != nil {
			return err
		}
		for _, l := range n.inward {
			l.lead(config.Listen)
		}
		return n.serve(p)
	}
}

func (n *testNode) config(bootstrap bool) (platform.Config, error) {
	credentials, err := n.cluster.ca.Issue(n.cluster.id, n.id)
	if err != nil {
		return platform.Config{}, err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return platform.Config{}, err
	}
	config := platform.Config{Node: n.id, Cluster: n.cluster.id, Data: n.dir, Listen: free.Addr().String(),
		Partitions: partitions, Credentials: credentials, Profile: n.profile, Bootstrap: bootstrap, Logger: n.logTo,
		AuditEntriesMax: n.auditEntriesMax, Fatal: func(err error) { n.failed <- err }}
	for _, peer := range n.cluster.nodes {
		p := platform.Peer{ID: peer.id, URL: peer.door.url(), Addr: string(peer.id) + ".test:7000"}
		if way, ok := n.links[peer.id]; ok {
			p.Addr = way.addr()
		}
		config.Peers = append(config.Peers, p)
	}
	return config, free.Close()
}

// serve runs the node with its public door and the door for its peers, as the binary does.
func (n *testNode) serve(p *platform.Platform) error {
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	outer, err := n.server(p, false)
	if err != nil {
		return err
	}
	inner, err := n.server(p, true)
	if err != nil {
		return err
	}
	doorsCtx, closeDoors := context.WithCancel(context.Background())
	below, stop := context.WithCancel(context.Background())
	var doors, all errgroup.Group
	doors.Go(func() error { return outer.Run(doorsCtx, public) })
	doors.Go(func() error { return inner.Run(doorsCtx, p.PeerListener()) })
	all.Go(func() error { return p.Run(below) })
	all.Go(func() error { defer stop(); return doors.Wait() })
	n.platform = p
	n.end = func() error { closeDoors(); return all.Wait() }
	n.door.lead(public.Addr().String())
	return nil
}

func (n *testNode) server(p *platform.Platform, peer bool) (*web.Server, error) {
	a, err := api.New(api.Config{Platform: p, NodeID: string(n.id), Peer: peer})
	if err != nil {
		return nil, err
	}
	c := web.Config{API: a, Log: n.logTo}
	if peer {
		c.Internal = p.Internal()
	}
	return web.New(c)
}

// shutDown stops the node as an operator does: doors first.
func (n *testNode) shutDown() error {
	err := n.end()
	n.platform = nil
	for _, l := range n.inward {
		l.lead("")
	}
	n.door.lead("")
	return err
}

func (n *testNode) stop(t testing.TB) {
	t.Helper()
	if err := n.shutDown(); err != nil {
		t.Fatalf("stop %s: %v", n.id, err)
	}
}

// isolate cuts every connection between the node and the others; clients still reach it.
func (n *testNode) isolate() {
	n.muffle()
	n.deafen()
}

// muffle cuts the connections that the node makes to others.
func (n *testNode) muffle() {
	for _, l := range n.links {
		l.sever()
	}
}

// deafen cuts the connections that others make to the node.
func (n *testNode) deafen() {
	for _, l := range n.inward {
		l.sever()
	}
}

func (n *testNode) rejoin() {
	for _, l := range n.links {
		l.mend()
	}
	for _, l := range n.inward {
		l.mend()
	}
}

// group is how the node sees a Raft group.
func (n *testNode) group(name string) platform.GroupStatus {
	for _, g := range n.platform.Status(false).Groups {
		if g.Group == name {
			return g
		}
	}
	return platform.GroupStatus{}
}

// leader awaits a node that leads a partition and answers, other than those excluded.
func (c *cluster) leader(t testing.TB, group string, but ...*testNode) *testNode {
	t.Helper()
	var found *testNode
	eventually(t, "a leader of "+group, func() bool {
		for _, n := range c.others(but...) {
			if n.platform != nil && n.group(group).Ready {
				found = n
				return true
			}
		}
		return false
	})
	return found
}

// follower is a node that does not lead a partition which some other node leads.
func (c *cluster) follower(t testing.TB, group string) *testNode {
	t.Helper()
	return c.others(c.leader(t, group))[0]
}

// others lists the nodes but some.
func (c *cluster) others(but ...*testNode) []*testNode {
	var rest []*testNode
	for _, n := range c.nodes {
		excluded := false
		for _, b := range but {
			excluded = excluded || b == n
		}
		if !excluded {
			rest = append(rest, n)
		}
	}
	return rest
}
