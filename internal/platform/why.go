package platform

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/web/api"
)

// Facts is what this node knows of a lock and of the partition that carries it: of a leader that a majority confirms, what
// is so; of any other node what it has applied, and stale.
func (p *Platform) Facts(ctx context.Context, q api.FactsQuery) api.Facts {
	f := api.Facts{Node: string(p.config.Node), Stale: true, SinceContact: -1, Lock: lockcore.Lock{Class: q.Class, Key: q.Key}}
	part := p.partitionOf(q.Tenant)
	if part == nil {
		f.At = time.Now()
		return f
	}
	var voters []wire.VoterSeen
	var asking sync.WaitGroup
	asking.Go(func() { voters = p.voters(ctx, part) })
	err := part.locks.Confirm(ctx)
	part.locks.View(func(m *lockcore.Machine) { readFacts(m, q, &f) }) // at least as new as what was confirmed
	asking.Wait()
	f.Voters, f.Stale, f.Ready = voters, err != nil, part.locks.Ready()
	if ref, known := p.Leader(q.Tenant); known {
		f.Leader = ref.NodeID
	}
	if f.Lock.Holder != nil {
		if since, led := part.locks.SinceContact(q.Tenant, f.Lock.Holder.ID); led {
			f.SinceContact = since
		}
	}
	f.At = time.Now()
	return f
}

// readFacts reads what a partition's machine says about a lock.
func readFacts(m *lockcore.Machine, q api.FactsQuery, f *api.Facts) {
	f.Index, f.Epoch = m.Index(), m.Epoch()
	f.Tenant, _ = m.Tenant(q.Tenant)
	f.Class, _ = m.Class(q.Tenant, q.Class)
	f.Guard, _ = m.Guard(q.Tenant, q.Class)
	if lock, found := m.Lock(q.Tenant, q.Class, q.Key); found {
		f.Lock = lock
	}
	f.Waiting = m.Waiters(q.Tenant, q.Class, q.Key, q.WaitersMax)
}

// voters asks each voter of the partition by itself whether it stands where this node does. An answer of any kind shows that
// it is there.
func (p *Platform) voters(ctx context.Context, part *partition) []wire.VoterSeen {
	status := part.group.Status()
	ids := status.Voters()
	if len(ids) == 0 {
		for _, peer := range p.config.Peers {
			ids = append(ids, peer.ID)
		}
	}
	slices.Sort(ids)
	seen := make([]wire.VoterSeen, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { seen[i] = wire.VoterSeen{Node: string(id), Answered: p.answers(ctx, part, status.Term, id)} })
	}
	all.Wait()
	return seen
}

func (p *Platform) answers(ctx context.Context, part *partition, term uint64, voter raftnode.NodeID) bool {
	self := p.config.Node
	if voter == self {
		return true
	}
	err := p.confirmer.Confirm(ctx, part.id, term, []raftnode.NodeID{self, voter}, func() bool { return true })
	return !errors.Is(err, raftnode.ErrNoQuorum)
}
