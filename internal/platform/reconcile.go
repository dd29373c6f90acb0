package platform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
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
	next, said := reconcileEvery, ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-part.changed:
		case <-timer.C:
		}
		err := errors.Join(p.reconcileOnce(ctx, part), p.recordFinalTokens(ctx, part))
		switch {
		case err == nil:
			next, said = reconcileEvery, ""
		case err.Error() != said:
			p.log.Warn("partition is not as the control log asks", "partition", part.number, "error", err)
			next, said = reconcileAgain, err.Error()
		default:
			next = min(2*next, reconcileEvery)
		}
		timer.Reset(next)
	}
}

// errBehind says that an earlier leader has put something into the partition from a newer copy of the control log.
var errBehind = errors.New("this node's copy of the control log is behind the partition")

// reconcileOnce proposes every command that is missing. One that is refused does not keep the others.
func (p *Platform) reconcileOnce(ctx context.Context, part *partition) error {
	if !part.locks.Ready() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	var refused []error
	for _, c := range p.missing(part) {
		r, err := part.locks.Command(ctx, c)
		switch {
		case errors.Is(err, leader.ErrNotLeader):
			return nil // the next leader does it
		case err != nil:
			return err
		case r.Outcome == lockcore.Refused && r.Reason == lockcore.RefusedStaleVersion:
			refused = append(refused, errBehind)
		case r.Outcome == lockcore.Refused:
			refused = append(refused, fmt.Errorf("%T of tenant %s refused: %s", c, lockcore.TenantOf(c), r.Reason))
		}
	}
	return errors.Join(refused...)
}

// missing lists the commands that bring the partition to what the control log asks for.
func (p *Platform) missing(part *partition) []lockcore.Command {
	desired, revision := p.desired(part)
	var commands []lockcore.Command
	part.locks.View(func(m *lockcore.Machine) {
		for _, d := range desired {
			commands = append(commands, missingOf(m, d, revision)...)
		}
	})
	return commands
}

// desired is what the control log, as this node has applied it, asks of the partition, and at which revision.
func (p *Platform) desired(part *partition) (desired []control.TenantDesired, revision uint64) {
	p.control.view(func(m *control.Machine) {
		desired, revision = m.DesiredState(tenants.PartitionID(part.number)), m.Revision()
	})
	return desired, revision
}

func missingOf(m *lockcore.Machine, d control.TenantDesired, revision uint64) []lockcore.Command {
	id := lockcore.TenantID(d.Tenant)
	have, known := m.Tenant(id)
	put := lockcore.PutTenant{Tenant: id, TokenBase: lockcore.Token(d.TokenBase), Suspended: d.Suspended,
		Quotas: quotasOf(d.Quotas), Revision: revision}
	if d.Dropped {
		return missingOfDropped(m, d, put)
	}
	if known && have.Revision > revision {
		// An earlier leader knew more of the control log. Commands about classes carry no revision that would fence them,
		// and what this copy still takes for signed may be of an earlier life of the tenant.
		return nil
	}
	var commands []lockcore.Command
	if !known || have.Dropped || have.Quotas != put.Quotas || have.Suspended != d.Suspended {
		commands = append(commands, put)
	}
	for _, c := range d.Classes {
		if _, heard := m.Class(id, lockcore.ClassName(c.Class)); d.Again && c.Retired && !heard {
			continue // of an earlier life: to retire it here it would have to be put in force first
		}
		commands = append(commands, missingClass(m, id, c)...)
	}
	return commands
}

const (
	// endsPerSession is how many of a session's ends a tenant is remembered on average, endsMin how many in all at least:
	// as many as one session alone can have.
	endsPerSession = 20
	endsMin        = 1024
	endsMax        = 100_000_000
)

// quotasOf is a tenant's quotas as the lock core keeps them.
func quotasOf(q tenants.Quotas) lockcore.Quotas {
	return lockcore.Quotas{Keys: q.Keys, Leases: q.Leases, Waiters: q.Waiters, Sessions: q.Sessions,
		PerSession: lockcore.PerSessionMax, Ends: min(max(endsPerSession*q.Sessions, endsMin), endsMax)}
}

// missingOfDropped drops the tenant. One that the partition has never heard of is put there first: its drop leaves the
// final token that the control log asks for, and from then on nothing that is late can begin to count below it. What an
// earlier life of the slug left, a final token below this life's base, is no answer: a leader whose copy of the control log
// lags could still put this life there.
func missingOfDropped(m *lockcore.Machine, d control.TenantDesired, put lockcore.PutTenant) []lockcore.Command {
	drop := lockcore.DropTenant{Tenant: put.Tenant, Revision: put.Revision}
	have, known := m.Tenant(put.Tenant)
	_, gone := finalTokenOf(m, d)
	switch {
	case known && !have.Dropped:
		return []lockcore.Command{drop}
	case known || gone || d.TokenFinal:
		return nil
	}
	return []lockcore.Command{put, drop}
}

// finalTokenOf is the last token of this life of a dropped tenant, if the partition is rid of it. A life's base is above
// the final token of the one before, so that a lower one is not of this life.
func finalTokenOf(m *lockcore.Machine, d control.TenantDesired) (lockcore.Token, bool) {
	token, gone := m.FinalToken(lockcore.TenantID(d.Tenant))
	return token, gone && uint64(token) >= d.TokenBase
}

func missingClass(m *lockcore.Machine, tenant lockcore.TenantID, d review.Desired) []lockcore.Command {
	name := lockcore.ClassName(d.Class)
	have, known := m.Class(tenant, name)
	current := known && have.Version == d.Version
	var commands []lockcore.Command
	switch {
	case known && have.Version > d.Version:
		return nil // an earlier leader knew more of the control log
	case known && !current && have.Retired && inUse(m, tenant, name):
		return nil // what is still held under it is being ended; then it can come back
	case !current:
		commands = append(commands, lockcore.PutClass{Tenant: tenant, Class: classOf(d)})
	}
	if d.Retired && !(current && have.Retired) {
		commands = append(commands, lockcore.RetireClass{Tenant: tenant, Class: name, Version: d.Version})
	}
	return commands
}

// inUse reports whether a key of the class is held or waited for, or in its lock delay.
func inUse(m *lockcore.Machine, tenant lockcore.TenantID, class lockcore.ClassName) (used bool) {
	m.EachLock(tenant, class, "", func(k lockcore.Lock) bool {
		used = k.Class == class
		return false
	})
	return used
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

// recordFinalTokens tells the control log the last token of each tenant that the partition is rid of. The leader of the
// control group does so, from its own copy of the partition: what a replica has applied is committed, and the final token
// of a dropped tenant never changes.
func (p *Platform) recordFinalTokens(ctx context.Context, part *partition) error {
	if !p.LeadsControl() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	for _, c := range p.finalTokens(part) {
		r, err := p.Control(ctx, control.Entry{Tenants: c})
		switch {
		case errors.Is(err, ErrNotLeader):
			return nil // the next leader does it
		case err != nil:
			return fmt.Errorf("record the final token of %s: %w", c.Tenant, err)
		case !r.OK:
			return fmt.Errorf("control log refused the final token of %s: %s", c.Tenant, r.Reason)
		}
	}
	return nil
}

func finalTokensOf(m *lockcore.Machine, d control.TenantDesired, nowMS int64) []tenants.RecordFinalToken {
	token, gone := finalTokenOf(m, d)
	if !gone || !d.Dropped || d.TokenFinal {
		return nil
	}
	return []tenants.RecordFinalToken{{Tenant: d.Tenant, Token: uint64(token), AtMS: nowMS}}
}

// finalTokens lists what the partition knows and the control log does not.
func (p *Platform) finalTokens(part *partition) []tenants.RecordFinalToken {
	now := time.Now().UnixMilli()
	var missing []tenants.RecordFinalToken
	desired, _ := p.desired(part)
	part.locks.View(func(m *lockcore.Machine) {
		for _, d := range desired {
			missing = append(missing, finalTokensOf(m, d, now)...)
		}
	})
	return missing
}

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
	if !p.LeadsControl() {
		return
	}
	e := control.Entry{Cluster: &control.SetCluster{ClusterID: control.ClusterID(p.config.Cluster),
		PartitionCount: tenants.PartitionID(p.config.Partitions), CreatedMS: time.Now().UnixMilli()}}
	if r, err := p.Control(ctx, e); err != nil || !r.OK {
		p.log.Warn("control log not begun yet", "error", err, "reason", r.Reason)
	}
}
