package raftnode

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
)

const notifyBuffer = 1024

// life is a group between one opening and the next closing.
type life struct {
	raft     *raft.Raft
	store    *Store
	trans    transport
	machine  Machine
	notify   chan bool
	drained  chan struct{}   // closed when the notifications have been read
	inFlight chan struct{}   // one per proposal whose outcome is awaited
	over     <-chan struct{} // closed when the life ends
	end      func()          // closes over
}

// begin opens the group and makes it live. turn is held, or nobody else knows the group yet.
func (g *Group) begin(create bool) error {
	dir, known, err := g.cfg.Data.openGroup(g.cfg.Group, create)
	if err != nil {
		return err
	}
	store, snapshots, err := g.openStores(dir, !known)
	if err != nil {
		return err
	}
	// From here on the node may vote, so from here on a lost disk must be noticed.
	if err := g.cfg.Data.remember(g.cfg.Group); err != nil {
		return errors.Join(err, store.Close())
	}
	box, err := g.cfg.Mux.register(g.cfg.Group, g.standing)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	trans := newTransport(&stream{inbox: box, mux: g.cfg.Mux, group: g.cfg.Group}, g.cfg.Profile, g.standing,
		newRaftLogger(g.logs, "raft-transport"))
	l, err := g.startRaft(store, snapshots, trans)
	if err != nil {
		return errors.Join(err, trans.Close(), store.Close())
	}
	g.live.Store(l)
	return nil
}

func (g *Group) openStores(dir string, create bool) (*Store, raft.SnapshotStore, error) {
	id := g.cfg.Data.Identity()
	store, err := OpenStore(StoreConfig{
		Path:       filepath.Join(dir, storeFile),
		Owner:      StoreOwner{Cluster: id.Cluster, NodeUUID: id.NodeUUID, Group: g.cfg.Group},
		Create:     create,
		WriteLimit: g.cfg.Profile.WriteLimit,
		Fatal:      g.cfg.Fatal,
		Gate:       g.cfg.Gate,
	})
	if err != nil {
		return nil, nil, err
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, g.cfg.Profile.SnapshotsKept, newRaftLogger(g.logs, "raft-snapshots"))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open snapshots: %w", err), store.Close())
	}
	if err := store.sanitise(snapshots); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, snapshots, nil
}

func (g *Group) startRaft(store *Store, snapshots raft.SnapshotStore, trans transport) (*life, error) {
	cache, err := raft.NewLogCache(g.cfg.Profile.CachedEntries, store)
	if err != nil {
		return nil, fmt.Errorf("cache log: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	l := &life{
		store:    store,
		trans:    trans,
		machine:  g.cfg.NewMachine(),
		notify:   make(chan bool, notifyBuffer),
		drained:  make(chan struct{}),
		inFlight: make(chan struct{}, proposalsInFlightMax),
		over:     ctx.Done(),
		end:      end,
	}
	adapter := &fsm{machine: l.machine, limit: g.cfg.Profile.ApplyLimit, fatal: g.cfg.Fatal, stuck: func() {
		g.requestRestart("the same snapshot is installed again and again")
	}}
	if g.cfg.SnapshotGate != nil {
		adapter.gate = func(index uint64) error { return passGate(ctx, g.cfg.SnapshotGate, snapshotGateWait, index) }
	}
	config := g.cfg.Profile.raftConfig(g.cfg.Mux.Node(), l.notify, newRaftLogger(g.logs, "raft"))
	err = recovered(func() error {
		l.raft, err = raft.NewRaft(config, adapter, cache, store, namedSnapshots{snapshots}, trans)
		return err
	})
	if err != nil {
		end()
		return nil, fmt.Errorf("start raft: %w", err)
	}
	go l.drain(g.leadership)
	return l, nil
}

// drain does nothing but note each notification: Raft's main loop waits for whoever reads them.
func (l *life) drain(feed *leadershipFeed) {
	defer close(l.drained)
	for leading := range l.notify {
		feed.set(leading, l.raft.CurrentTerm())
	}
}

// finish ends the present life, if there is one. turn is held.
func (g *Group) finish() error {
	l := g.live.Swap(nil)
	if l == nil {
		return nil
	}
	l.end()
	down := l.raft.Shutdown()
	// Closing the connections first spares the shutdown the wait for requests to nodes that do not answer.
	err := errors.Join(l.trans.Close(), down.Error())
	close(l.notify)
	<-l.drained
	if now, _ := g.leadership.get(); now.Leading {
		g.leadership.set(false, now.Term)
	}
	if err := errors.Join(err, l.store.Close()); err != nil {
		return fmt.Errorf("close group: %w", err)
	}
	return nil
}

// standing returns term and state as they are now: two atomic reads, which wait for nothing.
func (g *Group) standing() (term uint64, state State) {
	l := g.live.Load()
	if l == nil {
		return 0, Stopped
	}
	return l.raft.CurrentTerm(), stateOf(l.raft.State())
}

// within waits for a future of Raft's, which may never come, no longer than limit.
func within(limit time.Duration, future raft.Future) error {
	came := make(chan error, 1)
	go func() { came <- future.Error() }()
	patience := time.NewTimer(limit)
	defer patience.Stop()
	select {
	case err := <-came:
		return err
	case <-patience.C:
		return fmt.Errorf("no answer for %v", limit)
	}
}
