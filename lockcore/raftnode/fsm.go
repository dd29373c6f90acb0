package raftnode

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Machine is a replicated state machine. The group calls its methods one at a time, and the contents of a
// MachineSnapshot beside them.
type Machine interface {
	// Apply executes a committed entry and returns what its proposer gets. It must be deterministic and must not wait.
	Apply(index, term uint64, entry []byte) any
	// Snapshot captures the state at once, without copying it out; it delays the next Apply.
	Snapshot() (MachineSnapshot, error)
	// Restore replaces the state with what WriteTo wrote. On error the old state must still stand.
	Restore(r io.Reader) error
}

// MachineSnapshot is a captured state.
type MachineSnapshot interface {
	// WriteTo writes the state; it runs beside later calls of Apply.
	WriteTo(w io.Writer) (int64, error)
	// Release is called once, after WriteTo or instead of it.
	Release()
}

// ErrApplyHung: the machine has been at one entry for longer than the limit, and with it the whole group.
var ErrApplyHung = errors.New("state machine hangs")

// installsMax restores in a row, without an entry applied between them, are a loop that only a restart breaks.
const installsMax = 3

// fsm is the machine as Raft wants it.
type fsm struct {
	machine  Machine
	limit    time.Duration
	fatal    func(error)
	stuck    func() // called when snapshots are installed in a loop
	restores atomic.Int32
}

var _ raft.FSM = (*fsm)(nil)

// Apply hands the entry to the machine under the watchdog.
func (f *fsm) Apply(entry *raft.Log) any {
	watchdog := time.AfterFunc(f.limit, func() {
		f.fatal(fmt.Errorf("apply entry %d: %w: no end after %v", entry.Index, ErrApplyHung, f.limit))
	})
	defer watchdog.Stop()
	f.restores.Store(0)
	return f.machine.Apply(entry.Index, entry.Term, entry.Data)
}

// Snapshot captures the machine's state.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	s, err := f.machine.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("snapshot state machine: %w", err)
	}
	return fsmSnapshot{s}, nil
}

// Restore replaces the machine's state.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	if f.restores.Add(1) == installsMax {
		f.stuck()
	}
	if err := f.machine.Restore(r); err != nil {
		return fmt.Errorf("restore state machine: %w", err)
	}
	return nil
}

type fsmSnapshot struct {
	MachineSnapshot
}

// Persist writes the snapshot into Raft's sink, which keeps it only if all of it was written.
func (s fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := s.WriteTo(sink); err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("keep snapshot: %w", err)
	}
	return nil
}
