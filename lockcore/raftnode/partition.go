package raftnode

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

// Partition is one lock partition on this node: its machine and, while the node leads it, the leader. Its methods may
// be called concurrently. One lock guards machine and leader; nothing waits for disk or network while it is held.
type Partition struct {
	config PartitionConfig
	clock  *ServerClock
	log    *slog.Logger
	group  partitionGroup // set once, by Attach
	rounds chan struct{}  // a confirm round is asked for
	wake   chan struct{}  // the next step is nearer than it was

	outcomes outcomes

	mu      sync.Mutex
	machine *lockcore.Machine // guarded by mu
	lead    *leadership       // guarded by mu; nil: this node does not lead
	leads   bool              // guarded by mu: Raft says that this node leads the group
	retryAt time.Duration     // guarded by mu: when to lead again after a leadership that ended though leads is true
	stepAt  time.Duration     // guarded by mu: when Run steps next
	round   confirmRound      // guarded by mu: the round asked for; a leader has one at a time
	alarmed bool              // guarded by mu: it was told that the state differs
}

// PartitionConfig says whose partition it is and who is told what becomes of it. None of the functions may block or call
// the partition. All fields are required unless they say otherwise.
type PartitionConfig struct {
	Node   NodeID
	Logger *slog.Logger
	// OnChange is called whenever the partition's tenants or classes change, or this node begins to lead it.
	OnChange func()
	// OnDiverge is called once in a life of the group, with ErrDiverged, when the state differs from what the leader stated
	// at a checkpoint: the partition's owner stops the group on this node.
	OnDiverge func(error)
	// OnEntry, optional, is called after each applied entry, in their order and under the partition's lock, also for an
	// entry without events, with the entry's salt. After a restart of the group entries come again, from the one after its
	// newest snapshot: the same index then has the same events. The slice is the receiver's, who must not change its values.
	OnEntry func(index uint64, salt [16]byte, events []lockcore.Event)
	// OnRestore, optional, is called under the partition's lock when a snapshot has replaced the state, loaded at a start or
	// sent by the leader, with the index that the state now stands at: the next entry is above it, and the events of those
	// up to it do not come any more.
	OnRestore func(index uint64)
}

// partitionGroup is what a partition needs of its Raft group.
type partitionGroup interface {
	Propose(entry []byte, done func(result any, index uint64, err error))
	Confirm(ctx context.Context, term uint64) error
	Leadership(ctx context.Context) iter.Seq[Leadership]
	Status() Status
}

const (
	// leadAgainAfter spaces attempts to lead after a leadership that ended while Raft's went on.
	leadAgainAfter = 100 * time.Millisecond
	// stepMax is how long Run may sleep when nothing is due.
	stepMax = time.Second
)

// ErrDiverged says that this node's state is not the leader's at the same index: one of them is broken. The group must not
// go on here.
var ErrDiverged = errors.New("state differs from the leader's")

// NewPartition makes a partition that carries nothing.
func NewPartition(c PartitionConfig) *Partition {
	return &Partition{config: c, clock: NewServerClock(), log: c.Logger, machine: lockcore.New(),
		rounds: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// Attach gives the partition its group. It is called once, before Run.
func (p *Partition) Attach(g *Group) { p.group = g }

// Run leads the partition whenever its group says that this node does, until ctx ends.
func (p *Partition) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.follow(ctx) })
	g.Go(func() error { return p.step(ctx) })
	g.Go(func() error { return p.confirm(ctx) })
	return g.Wait()
}

// follow begins and ends leaderships.
func (p *Partition) follow(ctx context.Context) error {
	for change := range p.group.Leadership(ctx) {
		p.changed(change.Leading)
	}
	p.changed(false)
	return nil
}

func (p *Partition) changed(leading bool) {
	p.mu.Lock()
	defer p.unlock()
	p.end()
	if p.leads = leading; leading {
		p.begin()
	}
}

// begin starts a leadership. The lock is held.
func (p *Partition) begin() {
	s := &leadership{p: p}
	s.leader = leader.New(leader.Config{Node: string(p.config.Node), Machine: p.machine, Log: s, Net: s, Clock: p.clock,
		WallMS: func() int64 { return time.Now().UnixMilli() }, Jitter: rand.Float64, Salt: newSalt})
	p.lead = s
	s.leader.Begin()
}

// newSalt draws a salt that nobody can guess, or stops the process: the system's source of randomness does not fail.
func newSalt() (salt [16]byte) {
	crand.Read(salt[:])
	return salt
}

// end ends the leadership, if there is one: callers are told to ask the next leader. The lock is held.
func (p *Partition) end() {
	if p.lead == nil {
		return
	}
	p.lead.leader.Stop()
	p.lead = nil
	p.log.Info("partition no longer leads")
}

// unlock releases the lock, lets go of a leadership that is over, and wakes Run if its next step has come nearer.
func (p *Partition) unlock() {
	next := p.stepAt
	if p.lead != nil {
		if p.lead.leader.IsStopped() {
			p.end()
			p.retryAt = p.clock.Now() + leadAgainAfter
			next = p.retryAt
		} else if at, ok := p.lead.leader.NextStep(); ok {
			next = at
		}
	}
	wake := next < p.stepAt
	p.stepAt = min(p.stepAt, next)
	p.mu.Unlock()
	if wake {
		signal(p.wake)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// step lets the leader do what falls due.
func (p *Partition) step(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-timer.C:
		}
		timer.Reset(p.stepOnce())
	}
}

// stepOnce does what is due and says how long there is until the next step.
func (p *Partition) stepOnce() time.Duration {
	p.mu.Lock()
	defer p.unlock()
	for _, o := range p.outcomes.take() {
		p.proposed(o)
	}
	now := p.clock.Now()
	p.stepAt = now + stepMax
	switch {
	case p.lead != nil:
		p.lead.leader.Step()
	case p.leads && now >= p.retryAt:
		p.begin()
	case p.leads:
		p.stepAt = p.retryAt
	}
	if p.lead != nil {
		if at, ok := p.lead.leader.NextStep(); ok {
			p.stepAt = min(p.stepAt, at)
		}
	}
	return max(0, p.stepAt-now)
}

// confirm carries out confirm rounds.
func (p *Partition) confirm(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.rounds:
			r := p.nextRound()
			err := p.group.Confirm(ctx, r.term)
			if err != nil {
				err = leaderError(err)
			}
			p.confirmed(r, err)
		}
	}
}

func (p *Partition) nextRound() confirmRound {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.round
}

func (p *Partition) confirmed(r confirmRound, err error) {
	p.mu.Lock()
	defer p.unlock()
	r.lead.leader.Confirmed(r.id, err)
}

// leaderError translates the errors of a group into the leader's.
func leaderError(err error) error {
	switch {
	case NotProposed(err), errors.Is(err, ErrNotConfirmed):
		return fmt.Errorf("%w: %w", leader.ErrNotLeader, err)
	case errors.Is(err, ErrNoQuorum):
		return fmt.Errorf("%w: %w", leader.ErrNoQuorum, err)
	}
	return fmt.Errorf("%w: %w", leader.ErrUnknownOutcome, err)
}

// NewMachine makes the machine of a life of the group: empty, to be filled from snapshot and log.
func (p *Partition) NewMachine() Machine {
	p.mu.Lock()
	defer p.unlock()
	p.end()
	p.machine, p.alarmed = lockcore.New(), false
	return partitionMachine{p}
}

// partitionMachine is a partition as its group sees it.
type partitionMachine struct{ p *Partition }

// applied is what an entry led to, for the node that proposed it.
type applied struct {
	results []lockcore.Result
	term    uint64
}

// Apply carries an entry out and tells the leader in the same breath, so that what it knows of leases is never older
// than the machine.
func (m partitionMachine) Apply(index, term uint64, entry []byte) any {
	p := m.p
	p.mu.Lock()
	defer p.unlock()
	results, events := p.machine.Apply(index, entry)
	if p.lead != nil {
		p.lead.leader.Applied(results, events)
	}
	if slices.ContainsFunc(events, changesPosture) {
		p.config.OnChange()
	}
	if p.config.OnEntry != nil {
		p.config.OnEntry(index, p.machine.Salt(), events)
	}
	if d, diverged := p.machine.Divergence(); diverged && !p.alarmed {
		p.alarmed = true
		p.config.OnDiverge(fmt.Errorf("%w: at entry %d it is %x here, %x there", ErrDiverged, d.Index, d.Here[:8], d.Stated[:8]))
	}
	return applied{results: results, term: term}
}

// changesPosture reports whether an event concerns what the control log asks of the partition.
func changesPosture(e lockcore.Event) bool {
	switch e.Kind {
	case lockcore.EventTenantPut, lockcore.EventTenantGone, lockcore.EventClassInForce, lockcore.EventClassRetired:
		return true
	}
	return false
}

// Snapshot captures the machine in time that does not grow with what it holds.
func (m partitionMachine) Snapshot() (MachineSnapshot, error) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	return partitionSnapshot{m.p.machine.Snapshot()}, nil
}

type partitionSnapshot struct{ *lockcore.Snapshot }

// Release has nothing to release: the captured state is garbage when nobody refers to it.
func (partitionSnapshot) Release() {}

// Restore replaces the machine, and ends a leadership that stood on the old one. On an error the old machine stays.
func (m partitionMachine) Restore(r io.Reader) error {
	restored, err := lockcore.Restore(r)
	if err != nil {
		return err
	}
	p := m.p
	p.mu.Lock()
	defer p.unlock()
	p.end()
	p.machine = restored
	if p.config.OnRestore != nil {
		p.config.OnRestore(restored.Index())
	}
	return nil
}
