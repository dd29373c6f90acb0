package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"
)

// Member is one server of a group.
type Member struct {
	ID NodeID
	// Addr is where others reach the node, host:port.
	Addr string
	// Voter tells a voter from a server that only follows.
	Voter bool
}

// Status is a group as this node sees it now. Only term, state and indexes are sure, and only of this node.
type Status struct {
	Group        GroupID
	State        State
	Term         uint64
	Leader       NodeID // a hint; empty when none is known
	LastIndex    uint64 // of the log here
	CommitIndex  uint64 // as far as this log reaches: a follower that is behind does not know of more
	AppliedIndex uint64 // handed to the machine here, which may be a moment behind
	Members      []Member
}

// Voters returns the ids of the voters.
func (s Status) Voters() []NodeID { return voterIDs(s.Members) }

func voterIDs(members []Member) []NodeID {
	ids := make([]NodeID, 0, len(members))
	for _, m := range members {
		if m.Voter {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// Status returns the group as this node sees it now; State is Stopped while it restarts.
func (g *Group) Status() Status {
	s := Status{Group: g.cfg.Group}
	l := g.live.Load()
	if l == nil {
		return s
	}
	s.Term, s.State = g.standing()
	_, leader := l.raft.LeaderWithID()
	s.Leader = NodeID(leader)
	s.LastIndex, s.CommitIndex, s.AppliedIndex = l.raft.LastIndex(), l.raft.CommitIndex(), l.raft.AppliedIndex()
	s.Members, _ = g.members(l)
	return s
}

// members reads the latest configuration, committed or not, and tells the port about addresses it has not heard of.
func (g *Group) members(l *life) (members []Member, index uint64) {
	future := l.raft.GetConfiguration() // answers from memory
	if future.Error() != nil {
		return nil, 0
	}
	for _, s := range future.Configuration().Servers {
		node, addr, err := parseRaftAddress(s.Address)
		if err != nil || node != NodeID(s.ID) {
			continue // written by nobody of ours; such a server can be reached by configuration only
		}
		g.cfg.Mux.learn(node, addr)
		members = append(members, Member{ID: node, Addr: addr, Voter: s.Suffrage == raft.Voter})
	}
	return members, future.Index()
}

// Confirm asks a majority of the group's voters whether this node still leads in term; see Confirmer.Confirm.
// Errors: ErrNotConfirmed, ErrNoQuorum.
func (g *Group) Confirm(ctx context.Context, term uint64) error {
	l := g.live.Load()
	if l == nil {
		return fmt.Errorf("confirm leadership of %s: %w: the group is restarting", g.cfg.Group, ErrNotConfirmed)
	}
	members, _ := g.members(l)
	return g.cfg.Confirmer.Confirm(ctx, g.cfg.Group, term, voterIDs(members), func() bool {
		now, state := g.standing()
		return g.live.Load() == l && state == Leader && now == term
	})
}

// Bootstrap gives a new group its first configuration: all its voters, this node among them. It is called on one node,
// or on several with the same list. Errors: ErrAlreadyBootstrapped, ErrBadConfig, ErrGroupStopped.
func (g *Group) Bootstrap(voters []Member) error {
	if !slices.ContainsFunc(voters, func(m Member) bool { return m.ID == g.cfg.Mux.Node() }) {
		return fmt.Errorf("bootstrap group %s: %w: the voters do not include this node, %s", g.cfg.Group, ErrBadConfig, g.cfg.Mux.Node())
	}
	var c raft.Configuration
	for _, v := range voters {
		if err := v.ID.Validate(); err != nil {
			return fmt.Errorf("bootstrap group %s: %w", g.cfg.Group, err)
		}
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(v.ID), Address: raftAddress(v.ID, v.Addr), Suffrage: raft.Voter})
	}
	l := g.live.Load()
	if l == nil {
		return ErrGroupStopped
	}
	err := within(g.cfg.Profile.ProposalTimeout, l.raft.BootstrapCluster(c))
	if errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("bootstrap group %s: %w", g.cfg.Group, ErrAlreadyBootstrapped)
	}
	if err != nil {
		return fmt.Errorf("bootstrap group %s: %w", g.cfg.Group, err)
	}
	return nil
}

// AddNonvoter adds a server that follows without a vote; promote it when it has caught up. On the leader only.
// Errors: ErrNotLeader, ErrUnknownOutcome.
func (g *Group) AddNonvoter(node NodeID, addr string) error {
	return g.change("add", node, func(l *life, _ Member, previous uint64) raft.IndexFuture {
		return l.raft.AddNonvoter(raft.ServerID(node), raftAddress(node, addr), previous, g.cfg.Profile.EnqueueTimeout)
	})
}

// Promote makes a voter of a server that follows. On the leader only. Errors: ErrNotLeader, ErrUnknownOutcome,
// ErrBadConfig when the node is no member.
func (g *Group) Promote(node NodeID) error {
	return g.change("promote", node, func(l *life, m Member, previous uint64) raft.IndexFuture {
		if m.ID == "" {
			return nil
		}
		return l.raft.AddVoter(raft.ServerID(node), raftAddress(node, m.Addr), previous, g.cfg.Profile.EnqueueTimeout)
	})
}

// Remove takes a server out of the group. On the leader only. Errors: ErrNotLeader, ErrUnknownOutcome, ErrBadConfig
// when the node is no member.
func (g *Group) Remove(node NodeID) error {
	return g.change("remove", node, func(l *life, m Member, previous uint64) raft.IndexFuture {
		if m.ID == "" {
			return nil
		}
		return l.raft.RemoveServer(raft.ServerID(node), previous, g.cfg.Profile.EnqueueTimeout)
	})
}

// change makes one membership change, on condition that no other came between. ask returns nil if node must be a
// member for it and is not.
func (g *Group) change(verb string, node NodeID, ask func(l *life, m Member, previous uint64) raft.IndexFuture) error {
	if err := node.Validate(); err != nil {
		return err
	}
	l := g.live.Load()
	if l == nil {
		return fmt.Errorf("%s %s: %w: the group is restarting", verb, node, ErrNotLeader)
	}
	members, previous := g.members(l)
	var m Member
	if at := slices.IndexFunc(members, func(m Member) bool { return m.ID == node }); at >= 0 {
		m = members[at]
	}
	future := ask(l, m, previous)
	if future == nil {
		return fmt.Errorf("%s %s: %w: no member of group %s", verb, node, ErrBadConfig, g.cfg.Group)
	}
	if err := classify(within(g.cfg.Profile.ProposalTimeout, future)); err != nil {
		return fmt.Errorf("%s %s in group %s: %w", verb, node, g.cfg.Group, err)
	}
	return nil
}
