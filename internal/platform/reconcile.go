package platform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	// reconcileEvery is how often a partition is compared with the control log although nothing seems to have changed.
	reconcileEvery = 5 * time.Second
	// reconcileAgain is how soon after a command that failed.
	reconcileAgain = 200 * time.Millisecond
	commandTime    = 10 * time.Second
)

// reconcile puts what the control log asks for into a partition, whenever this node leads it. Only the partition's
// leader does so, from its own copy of the control log; a copy that is behind asks for less, never for something else,
// because the partition takes no version that is not above the one it has.
func (p *Platform) reconcile(ctx context.Context, part *partition) error {
	timer := time.NewTimer(reconcileEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-part.changed:
		case <-timer.C:
		}
		next := reconcileEvery
		if err := p.reconcileOnce(ctx, part); err != nil {
			p.log.Debug("partition not reconciled yet", "partition", part.number, "error", err)
			next = reconcileAgain
		}
		timer.Reset(next)
	}
}

// errPending says that the partition has to do something first, such as ending what a dropped tenant still holds.
var errPending = errors.New("not possible yet")

// reconcileOnce proposes every command that is missing.
func (p *Platform) reconcileOnce(ctx context.Context, part *partition) error {
	if !part.locks.Ready() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	for _, c := range p.missing(part) {
		r, err := part.locks.Command(ctx, c)
		switch {
		case errors.Is(err, leader.ErrNotLeader):
			return nil // the next leader does it
		case err != nil:
			return err
		case r.Outcome == lockcore.Refused && r.Reason == lockcore.RefusedBusy:
			return errPending
		case r.Outcome == lockcore.Refused:
			return fmt.Errorf("partition refused %T: %s", c, r.Reason)
		}
	}
	return nil
}

// missing lists the commands that bring the partition to what the control log asks for.
func (p *Platform) missing(part *partition) []lockcore.Command {
	var desired []control.TenantDesired
	p.control.view(func(m *control.Machine) { desired = m.DesiredState(tenants.PartitionID(part.number)) })
	var commands []lockcore.Command
	part.locks.View(func(m *lockcore.Machine) {
		for _, d := range desired {
			commands = append(commands, missingOf(m, d)...)
		}
	})
	return commands
}

func missingOf(m *lockcore.Machine, d control.TenantDesired) []lockcore.Command {
	id := lockcore.TenantID(d.Tenant)
	have, known := m.Tenant(id)
	if d.Dropped {
		if known && !have.Dropped {
			return []lockcore.Command{lockcore.DropTenant{Tenant: id}}
		}
		return nil
	}
	var commands []lockcore.Command
	quotas := lockcore.Quotas{Keys: d.Quotas.Keys, Leases: d.Quotas.Leases, Waiters: d.Quotas.Waiters, Sessions: d.Quotas.Sessions}
	if !known || have.Dropped || have.Quotas != quotas || have.Suspended != d.Suspended {
		commands = append(commands, lockcore.PutTenant{Tenant: id, TokenBase: lockcore.Token(d.TokenBase), Quotas: quotas,
			Suspended: d.Suspended})
	}
	for _, c := range d.Classes {
		commands = append(commands, missingClass(m, id, c)...)
	}
	return commands
}

func missingClass(m *lockcore.Machine, tenant lockcore.TenantID, d review.Desired) []lockcore.Command {
	name := lockcore.ClassName(d.Class)
	have, known := m.Class(tenant, name)
	var commands []lockcore.Command
	if !known || have.Version < d.Version {
		commands = append(commands, lockcore.PutClass{Tenant: tenant, Class: classOf(d)})
	}
	if d.Retired && (!known || !have.Retired || have.Version < d.Version) {
		commands = append(commands, lockcore.RetireClass{Tenant: tenant, Class: name})
	}
	return commands
}

// classOf is a signed posture as the lock core keeps it.
func classOf(d review.Desired) lockcore.Class {
	p := d.Posture
	return lockcore.Class{
		Name: lockcore.ClassName(d.Class), Version: d.Version, Digest: string(d.Digest),
		Purpose: purposes[p.Purpose], Enforcement: enforcements[p.Enforcement], QuorumLoss: quorumLosses[p.QuorumLoss],
		LeaseMS: p.LeaseMS, HeartbeatMS: p.HeartbeatMS, LockDelayMS: p.LockDelayMS, MaxHoldMS: p.MaxHoldMS,
		MaxWaitMS: p.MaxWaitMS, MaxWaiters: p.MaxWaiters, Refuses: p.WaitMode == review.WaitRefuse,
	}
}

// A word that is in none of these tables becomes the zero value, which the lock core refuses.
var (
	purposes = map[review.Purpose]lockcore.Purpose{
		review.PurposeCorrectness: lockcore.PurposeCorrectness, review.PurposeEfficiency: lockcore.PurposeEfficiency,
	}
	enforcements = map[review.Enforcement]lockcore.Enforcement{
		review.EnforcementFenced: lockcore.EnforcementFenced, review.EnforcementAdvisory: lockcore.EnforcementAdvisory,
	}
	quorumLosses = map[review.QuorumLoss]lockcore.QuorumLoss{
		review.QuorumLossClosed: lockcore.QuorumLossClosed, review.QuorumLossOpen: lockcore.QuorumLossOpen,
	}
)

// setCluster writes the control log's first entry, once some node leads the control group. Every node of a new cluster
// tries; the same entry again changes nothing.
func (p *Platform) setCluster(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		var set bool
		p.control.view(func(m *control.Machine) { _, set = m.Cluster() })
		if set {
			return nil
		}
		p.trySetCluster(ctx)
		timer.Reset(reconcileAgain)
	}
}

func (p *Platform) trySetCluster(ctx context.Context) {
	if p.control.group.Status().State != raftnode.Leader {
		return
	}
	e := control.Entry{Cluster: &control.SetCluster{ClusterID: control.ClusterID(p.config.Cluster),
		PartitionCount: tenants.PartitionID(p.config.Partitions), CreatedMS: time.Now().UnixMilli()}}
	if r, err := p.Control(ctx, e); err != nil || !r.OK {
		p.log.Warn("control log not begun yet", "error", err, "reason", r.Reason)
	}
}
