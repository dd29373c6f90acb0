package platform

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web/api"
)

var _ api.Platform = (*Platform)(nil)

// Authenticate checks an API key as it was presented. Errors: tenants.ErrUnauthorized; api.ErrNotReady for every key until
// this node has caught up with the control log after its start, and later for a key that it does not know while it is cut
// off from the log.
func (p *Platform) Authenticate(presented string) (tenants.Principal, error) {
	caughtUp := p.control.caughtUp() // asked first: what comes in between may bring the key
	principal, err := p.control.authenticate(presented)
	if !p.control.begun() {
		return tenants.Principal{}, api.ErrNotReady
	}
	if err != nil && (!caughtUp || p.control.cutOff()) {
		return tenants.Principal{}, api.ErrNotReady
	}
	if err == nil {
		p.uses.note(principal.KeyID, time.Now().UnixMilli())
	}
	return principal, err
}

// InUse is what the tenant's partition carries of it, as this node has applied it.
func (p *Platform) InUse(tenant lockcore.TenantID) (state lockcore.TenantState, known bool) {
	part := p.partitionOf(tenant)
	if part == nil {
		return lockcore.TenantState{}, false
	}
	part.locks.View(func(m *lockcore.Machine) { state, known = m.Tenant(tenant) })
	return state, known
}

// partitionOf is the partition that carries the tenant; nil if the tenant is unknown.
func (p *Platform) partitionOf(tenant lockcore.TenantID) *partition {
	var number int
	p.control.view(func(m *control.Machine) {
		if t, known := m.Tenant(tenants.TenantID(tenant)); known {
			number = int(t.Partition)
		}
	})
	if number < 1 || number > len(p.partitions) {
		return nil
	}
	return p.partitions[number-1]
}

// Locks is the tenant's partition on this node.
func (p *Platform) Locks(tenant lockcore.TenantID) (api.Locks, bool) {
	part := p.partitionOf(tenant)
	if part == nil {
		return nil, false
	}
	return part.locks, true
}

// Leader is who leads the tenant's partition, as far as this node knows.
func (p *Platform) Leader(tenant lockcore.TenantID) (api.LeaderRef, bool) {
	part := p.partitionOf(tenant)
	if part == nil {
		return api.LeaderRef{}, false
	}
	node := p.config.Node
	if !part.locks.Ready() {
		node = part.group.Status().Leader
	}
	if node == "" {
		return api.LeaderRef{}, false
	}
	return api.LeaderRef{NodeID: string(node), URL: p.config.url(node), Self: node == p.config.Node}, true
}

// Forward carries requests to other nodes' peer listeners.
func (p *Platform) Forward(string) http.RoundTripper { return p.forward }

// KeyName is the name of a tenant's API key, for people.
func (p *Platform) KeyName(tenant lockcore.TenantID, apiKeyID string) string {
	var name string
	p.control.view(func(m *control.Machine) {
		if k, known := m.APIKey(tenants.TenantID(tenant), tenants.APIKeyID(apiKeyID)); known {
			name = k.Name
		}
	})
	return name
}

// Ready lists the node's groups and what each still waits for.
func (p *Platform) Ready() []wire.Part {
	parts := []wire.Part{part(controlGroup, p.control.group, p.control.caughtUp())}
	for _, each := range p.partitions {
		parts = append(parts, part(each.id, each.group, true))
	}
	return append(parts, p.audit.part())
}

func part(id raftnode.GroupID, g *raftnode.Group, caughtUp bool) wire.Part {
	s := g.Status()
	switch {
	case s.State == raftnode.Stopped:
		return wire.Part{Part: string(id), Why: "the group is starting"}
	case s.Leader == "":
		return wire.Part{Part: string(id), Why: "no leader is known: fewer than a majority of the voters may be up or reachable"}
	case s.AppliedIndex < s.CommitIndex && s.CommitIndex-s.AppliedIndex > lagMax, !caughtUp:
		return wire.Part{Part: string(id), Why: "entry " + strconv.FormatUint(s.AppliedIndex, 10) + " of " +
			strconv.FormatUint(s.CommitIndex, 10) + " is applied"}
	}
	return wire.Part{Part: string(id), Ready: true}
}

// lagMax is how many committed entries a node may be behind and still be ready.
const lagMax = 1000

// Control puts a command into the control log. On a node that does not lead the control group it is ErrNotLeader; see
// also ErrUnknownOutcome. A command that breaks a rule is no error: the result says so.
func (p *Platform) Control(ctx context.Context, e control.Entry) (control.Result, error) {
	rand.Read(e.Salt[:])
	b, err := e.Encode()
	if err != nil {
		return control.Result{}, fmt.Errorf("encode control entry: %w", err)
	}
	return p.control.propose(ctx, b)
}

// LeadsControl reports whether this node leads the control group, as far as it knows.
func (p *Platform) LeadsControl() bool { return p.control.group.Status().State == raftnode.Leader }

// ControlLeader is who leads the control group, as far as this node knows.
func (p *Platform) ControlLeader() (api.LeaderRef, bool) {
	node := p.control.group.Status().Leader
	if node == "" {
		return api.LeaderRef{}, false
	}
	return api.LeaderRef{NodeID: string(node), URL: p.config.url(node), Self: node == p.config.Node}, true
}

// ReadControl lets f read the control log's machine with everything in it that was committed before the call: an entry of
// the log's own, a barrier, is committed first. Errors: ErrNotLeader, leader.ErrNoQuorum, and the context's own.
func (p *Platform) ReadControl(ctx context.Context, f func(*control.Machine)) error {
	err := p.control.group.Barrier(ctx)
	switch {
	case raftnode.NotProposed(err):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", leader.ErrNoQuorum, err)
	}
	p.control.view(f)
	return nil
}

// ViewControl lets f read the control log's machine as this node has applied it. f must be short and must not keep it.
func (p *Platform) ViewControl(f func(*control.Machine)) { p.control.view(f) }

// InForce is the version of a class that the tenant's partition grants under, as this node has applied it; 0: none.
func (p *Platform) InForce(tenant lockcore.TenantID, class lockcore.ClassName) uint64 {
	part := p.partitionOf(tenant)
	if part == nil {
		return 0
	}
	var version uint64
	part.locks.View(func(m *lockcore.Machine) {
		if c, known := m.Class(tenant, class); known && !c.Retired {
			version = c.Version
		}
	})
	return version
}
