package platform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/tenants"
)

// ErrNotLeader says that this node does not lead the control group and nothing was proposed.
var ErrNotLeader = errors.New("this node does not lead the control group")

// ErrUnknownOutcome says that a control entry may or may not be carried out. Look at the state before repeating it.
var ErrUnknownOutcome = errors.New("outcome unknown")

// controlLog is this node's copy of the control log's machine. Safe for concurrent use.
type controlLog struct {
	group   *raftnode.Group // set once, before Run
	changed func()          // called after each entry and restore; must not block

	mu      sync.RWMutex
	machine *control.Machine // guarded by mu
	known   bool             // guarded by mu: it has once caught up with the log that it found
}

func newControlLog(changed func()) *controlLog {
	return &controlLog{machine: control.New(), changed: changed}
}

// NewMachine makes the machine of a life of the group: empty, to be filled from snapshot and log.
func (c *controlLog) NewMachine() raftnode.Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machine, c.known = control.New(), false
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

// caughtUp reports whether the copy has reached what a leader said was committed, once in this life: before, it may not
// know API keys that were made long ago.
func (c *controlLog) caughtUp() bool {
	c.mu.RLock()
	known := c.known
	c.mu.RUnlock()
	if known {
		return true
	}
	s := c.group.Status()
	if s.Leader == "" || s.CommitIndex == 0 || s.AppliedIndex < s.CommitIndex {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, set := c.machine.Cluster()
	c.known = set
	return set
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
	result, _ := m.c.machine.Apply(index, entry)
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
	m.c.mu.Unlock()
	m.c.changed()
	return err
}
