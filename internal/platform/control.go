package platform

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/tenants"
)

// ErrNotLeader says that this node does not lead the control group and nothing was proposed. It is a leader.ErrNotLeader.
var ErrNotLeader = fmt.Errorf("control group: %w", leader.ErrNotLeader)

// ErrUnknownOutcome says that a control entry may or may not be carried out. Look at the state before repeating it. It is a
// leader.ErrUnknownOutcome.
var ErrUnknownOutcome = fmt.Errorf("control group: %w", leader.ErrUnknownOutcome)

// controlLog is this node's copy of the control log's machine. Safe for concurrent use.
type controlLog struct {
	group   *raftnode.Group // set once, before Run
	changed func()          // called after each entry and restore; must not block
	settle  time.Duration   // how long the copy must be at rest to have caught up
	feed    auditFeed       // guarded by mu

	mu        sync.RWMutex
	machine   *control.Machine // guarded by mu
	known     bool             // guarded by mu: it has caught up with the log
	once      bool             // guarded by mu: it had, at some time of this life of the group
	rest      position         // guarded by mu: where it was when somebody last asked whether it has caught up
	restSince time.Time        // guarded by mu
}

func newControlLog(changed func(), settle time.Duration, a *auditor) *controlLog {
	return &controlLog{machine: control.New(), changed: changed, settle: settle, feed: auditFeed{auditor: a, log: controlAuditLog}}
}

// NewMachine makes the machine of a life of the group: empty, to be filled from snapshot and log.
func (c *controlLog) NewMachine() raftnode.Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machine, c.known, c.once, c.rest = control.New(), false, false, position{}
	c.feed.begin()
	return controlMachine{c}
}

// view lets f read the machine. f must be short and must not keep it.
func (c *controlLog) view(f func(*control.Machine)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f(c.machine)
}

func (c *controlLog) authenticate(presented string) (tenants.Principal, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.machine.Authenticate(presented, time.Now().UnixMilli())
}

// caughtUp reports whether the copy has come to rest under a leader since it began or was found cut off: before, it may
// not know API keys that were made long ago. Rest, because the group's numbers are no proof: a follower hears of a commit
// only as far as its own log reaches, and an entry counts as applied when it is handed to the machine.
func (c *controlLog) caughtUp() bool {
	c.mu.RLock()
	known := c.known
	c.mu.RUnlock()
	if known {
		return true
	}
	s := c.group.Status()
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := position{leader: s.Leader, last: s.LastIndex, commit: s.CommitIndex, revision: c.machine.Revision()}
	if at != c.rest {
		c.rest, c.restSince = at, now
	}
	_, begun := c.machine.Cluster()
	c.known = begun && s.Leader != "" && s.CommitIndex > 0 && s.AppliedIndex >= s.CommitIndex && now.Sub(c.restSince) >= c.settle
	c.once = c.once || c.known
	return c.known
}

// watch asks until the copy has caught up for the first time, so that this does not begin with the node's first client.
func (c *controlLog) watch(ctx context.Context) error {
	ticker := time.NewTicker(c.settle / 10)
	defer ticker.Stop()
	for !c.caughtUp() {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	return nil
}

// begun reports whether the copy has caught up at some time of this life of the group. Before, it takes nobody's word: it may
// know an API key that was revoked long ago.
func (c *controlLog) begun() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.once
}

// cutOff reports whether no leader is known. The copy then has to catch up anew, since it does not know what it misses.
func (c *controlLog) cutOff() bool {
	if c.group.Status().Leader != "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.rest = false, position{}
	return true
}

// position is how far a copy is, and under whom.
type position struct {
	leader                 raftnode.NodeID
	last, commit, revision uint64
}

// propose puts an entry into the log. Errors: ErrNotLeader, ErrUnknownOutcome.
func (c *controlLog) propose(ctx context.Context, entry []byte) (control.Result, error) {
	type reply struct {
		result any
		err    error
	}
	answered := make(chan reply, 1)
	c.group.Propose(entry, func(result any, _ uint64, err error) { answered <- reply{result, err} })
	select {
	case r := <-answered:
		switch {
		case raftnode.NotProposed(r.err):
			return control.Result{}, fmt.Errorf("%w: %w", ErrNotLeader, r.err)
		case r.err != nil:
			return control.Result{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, r.err)
		}
		return r.result.(control.Result), nil
	case <-ctx.Done():
		return control.Result{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, ctx.Err())
	}
}

// controlMachine is the control log as its group sees it.
type controlMachine struct{ c *controlLog }

// Apply carries an entry out.
func (m controlMachine) Apply(index, _ uint64, entry []byte) any {
	m.c.mu.Lock()
	result, events := m.c.machine.Apply(index, entry)
	m.c.feed.offer(index, m.c.machine.Salt(), controlRows(events))
	m.c.mu.Unlock()
	m.c.changed()
	return result
}

// Snapshot captures the machine.
func (m controlMachine) Snapshot() (raftnode.MachineSnapshot, error) {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	s, err := m.c.machine.Snapshot()
	if err != nil {
		return nil, err
	}
	return controlSnapshot{s}, nil
}

type controlSnapshot struct{ *control.Snapshot }

// Release has nothing to release.
func (controlSnapshot) Release() {}

// Restore replaces the machine's state; on an error the old one stays.
func (m controlMachine) Restore(r io.Reader) error {
	m.c.mu.Lock()
	err := m.c.machine.Restore(r)
	if err == nil {
		m.c.feed.restored(m.c.machine.Revision())
	}
	m.c.mu.Unlock()
	m.c.changed()
	return err
}
