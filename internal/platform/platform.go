package platform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

// Platform is one node. Safe for concurrent use.
type Platform struct {
	config     Config
	log        *slog.Logger
	data       *raftnode.DataDir
	mux        *raftnode.Mux
	confirmer  *raftnode.Confirmer
	forward    *http.Transport
	audit      *auditor
	control    *controlLog
	uses       *keyUses
	partitions []*partition // number 1 first
}

// partition is a partition and what reconciles it with the control log.
type partition struct {
	number   int
	id       raftnode.GroupID
	locks    locks
	feed     auditFeed // used under the partition's lock, and before a life of the group
	group    *raftnode.Group
	changed  chan struct{} // the control log or the partition has changed
	diverged chan error    // the partition's state is not the leader's
}

// stopTime is how long the groups get to close their stores.
const stopTime = 10 * time.Second

// Open opens the node's data and its groups, which begin to take part in elections at once. The caller calls Run, which
// closes everything. Errors: ErrConfig, and those of package raftnode, which name the remedy.
func Open(c Config) (*Platform, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	data, err := openData(c)
	if err != nil {
		return nil, err
	}
	p := &Platform{config: c, log: c.Logger, data: data, uses: newKeyUses()}
	if p.audit, err = openAuditor(c, uint64(data.Identity().Incarnation)); err != nil {
		return nil, err
	}
	p.control = newControlLog(p.notify, c.Profile.HeartbeatTimeout+c.Profile.ElectionTimeout, p.audit)
	if err := p.open(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// openData opens the node's folder, or makes it at the first start. A bootstrap that was cut short may be repeated.
func openData(c Config) (*raftnode.DataDir, error) {
	data, err := raftnode.OpenDataDir(c.Data, c.Cluster, c.Node)
	switch {
	case errors.Is(err, raftnode.ErrNoIdentity) && c.Bootstrap:
		return raftnode.CreateDataDir(c.Data, c.Cluster, c.Node, 1)
	case errors.Is(err, raftnode.ErrNoIdentity):
		return nil, fmt.Errorf("%w; at the very first start of a new cluster, say so with --bootstrap", err)
	case err != nil:
		return nil, err
	case c.Bootstrap && len(data.Identity().Groups) == c.Partitions+1:
		return nil, fmt.Errorf("%w: %s belongs to a cluster already; start without --bootstrap", ErrConfig, c.Data)
	case len(data.Identity().Groups) > c.Partitions+1:
		return nil, fmt.Errorf("%w: %d partitions, but %s carries %d; their number is fixed when the cluster is made", ErrConfig,
			c.Partitions, c.Data, len(data.Identity().Groups)-1)
	}
	return data, nil
}

func (p *Platform) open() error {
	c := p.config
	peers := map[raftnode.NodeID]string{}
	for _, peer := range c.Peers {
		if peer.ID != c.Node {
			peers[peer.ID] = peer.Addr
		}
	}
	var err error
	p.mux, err = raftnode.Listen(raftnode.MuxConfig{Identity: p.data.Identity(), Credentials: c.Credentials,
		Listen: c.Listen, Advertise: c.address(c.Node), Peers: peers,
		Remember: p.data.RememberPeer, Logger: p.log})
	if err != nil {
		return err
	}
	p.confirmer = raftnode.NewConfirmer(p.mux, 0)
	p.forward = newForward(p.mux)
	for n := 1; n <= c.Partitions; n++ { // all of them before any group runs, for its entries are told to them
		p.partitions = append(p.partitions, p.newPartition(n))
	}
	if p.control.group, err = p.openGroup(controlGroup, controlAuditLog, p.control.NewMachine); err != nil {
		return err
	}
	for _, part := range p.partitions {
		if part.group, err = p.openGroup(part.id, audit.Log(part.number), part.newMachine); err != nil {
			return err
		}
		part.locks.Attach(part.group)
	}
	return p.markChecked()
}

// address is where other nodes reach a node.
func (c Config) address(node raftnode.NodeID) string {
	for _, p := range c.Peers {
		if p.ID == node {
			return p.Addr
		}
	}
	return ""
}

func (p *Platform) newPartition(number int) *partition {
	part := &partition{number: number, id: partitionGroup(number), changed: make(chan struct{}, 1),
		diverged: make(chan error, 1)}
	part.feed = auditFeed{auditor: p.audit, log: audit.Log(number)}
	part.locks = locks{audit: p.audit, Partition: raftnode.NewPartition(raftnode.PartitionConfig{Node: p.config.Node,
		Logger: p.log.With("partition", number), OnChange: part.notify, OnDiverge: part.diverge, OnRestore: part.feed.restored,
		OnEntry: func(index uint64, salt [16]byte, events []lockcore.Event) {
			part.feed.offer(index, salt, lockAudit(events))
		}})}
	return part
}

// newMachine makes the machine of a life of the group.
func (part *partition) newMachine() raftnode.Machine {
	m := part.locks.NewMachine()
	part.feed.begin()
	return m
}

// diverge takes the alarm that the partition's state differs here.
func (part *partition) diverge(err error) {
	select {
	case part.diverged <- err:
	default:
	}
}

// guard stops a partition's group on this node when its state differs from the leader's: a replica that stops is better
// than one that differs. The node's other groups go on.
func (p *Platform) guard(ctx context.Context, part *partition) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-part.diverged:
		p.log.Error("stopping a partition on this node: do not start it again before its data has been looked at",
			"partition", part.number, "error", err)
		stopping, cancel := context.WithTimeout(ctx, stopTime)
		defer cancel()
		if err := part.group.Stop(stopping); err != nil {
			p.config.Fatal(fmt.Errorf("stop a partition that differs: %w", err))
		}
		return nil
	}
}

func (p *Platform) openGroup(id raftnode.GroupID, log audit.Log, machine func() raftnode.Machine) (*raftnode.Group, error) {
	var opened atomic.Pointer[raftnode.Group] // the group works before OpenGroup returns it
	g, err := raftnode.OpenGroup(raftnode.GroupConfig{Group: id, Data: p.data, Create: p.config.Bootstrap, Mux: p.mux,
		Confirmer: p.confirmer, Profile: p.config.Profile, NewMachine: machine, Logger: p.log, Fatal: p.config.Fatal,
		Gate: p.audit.truncationGate(log, len(p.config.Peers)), SnapshotGate: p.audit.snapshotGate(log, opened.Load)})
	opened.Store(g)
	if err != nil || !p.config.Bootstrap {
		return g, err
	}
	if err := g.Bootstrap(p.config.voters()); err != nil && !errors.Is(err, raftnode.ErrAlreadyBootstrapped) {
		stopping, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		return nil, errors.Join(err, g.Stop(stopping))
	}
	return g, nil
}

// markChecked takes the mark that a node left which stopped because it could not trust its storage: opening the stores
// has checked every page of them.
func (p *Platform) markChecked() error {
	cause, err := p.data.TakeNeedsCheck()
	if cause != "" {
		p.log.Warn("the node had stopped for its storage; everything has been checked and is whole", "cause", cause)
	}
	return err
}

// Run takes part in the cluster until ctx ends, then closes everything. It returns nil after such an end.
func (p *Platform) Run(ctx context.Context) error {
	network, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var below errgroup.Group
	below.Go(func() error { defer giveUp(); return p.mux.Run(network) }) // without its port a node is of no use
	below.Go(func() error { return p.confirmer.Run(network) })
	below.Go(func() error { return p.audit.run(network) })

	g, running := errgroup.WithContext(ctx)
	for _, part := range p.partitions {
		g.Go(func() error { return part.locks.Run(running) })
		g.Go(func() error { return p.reconcile(running, part) })
		g.Go(func() error { return p.guard(running, part) })
	}
	g.Go(func() error { return p.control.watch(running) })
	g.Go(func() error { return p.runAudit(running) })
	g.Go(func() error { return p.keyUse(running) })
	if p.config.Bootstrap {
		g.Go(func() error { return p.setCluster(running) })
	}
	g.Go(func() error { <-running.Done(); return nil })
	err := g.Wait()
	err = errors.Join(err, p.stopGroups())
	hangUp()
	p.forward.CloseIdleConnections()
	return errors.Join(err, below.Wait(), p.mux.Close(), p.audit.store.Close())
}

// stopGroups closes the groups' stores, all at once.
func (p *Platform) stopGroups() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	var g errgroup.Group
	for _, group := range p.groups() {
		g.Go(func() error { return group.Stop(ctx) })
	}
	return g.Wait()
}

// close undoes an Open that failed half-way.
func (p *Platform) close() error {
	err := p.stopGroups()
	if p.mux != nil {
		err = errors.Join(err, p.mux.Close())
	}
	return errors.Join(err, p.audit.store.Close())
}

// groups are those that are open.
func (p *Platform) groups() []*raftnode.Group {
	all := []*raftnode.Group{p.control.group}
	for _, part := range p.partitions {
		all = append(all, part.group)
	}
	return slices.DeleteFunc(all, func(g *raftnode.Group) bool { return g == nil })
}

// PeerListener is where other nodes' forwarded requests arrive.
func (p *Platform) PeerListener() net.Listener { return p.mux.APIListener() }

// notify tells every partition that the control log has changed.
func (p *Platform) notify() {
	for _, part := range p.partitions {
		part.notify()
	}
}

func (part *partition) notify() {
	select {
	case part.changed <- struct{}{}:
	default:
	}
}
