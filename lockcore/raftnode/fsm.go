package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
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

const (
	// installsMax restores of the same snapshot in a row, without an entry applied between them, are a loop that only a
	// restart breaks.
	installsMax = 3
	// snapshotGateWait bounds how long a snapshot waits for its gate. A captured state keeps the rows of its moment alive.
	snapshotGateWait = time.Minute
)

// fsm is the machine as Raft wants it. Raft calls its methods one at a time.
type fsm struct {
	machine Machine
	limit   time.Duration
	fatal   func(error)
	stuck   func()                   // called when a snapshot is installed in a loop
	gate    func(index uint64) error // may wait; nil: none

	at       uint64     // index of the entry or snapshot that the machine was given last
	restored snapshotID // the snapshot restored last
	restores int        // how often in a row
}

var _ raft.FSM = (*fsm)(nil)

// Apply hands the entry to the machine under the watchdog.
func (f *fsm) Apply(entry *raft.Log) any {
	watchdog := time.AfterFunc(f.limit, func() {
		f.fatal(fmt.Errorf("apply entry %d: %w: no end after %v", entry.Index, ErrApplyHung, f.limit))
	})
	defer watchdog.Stop()
	f.at, f.restores = entry.Index, 0
	return f.machine.Apply(entry.Index, entry.Term, entry.Data)
}

// Snapshot captures the machine's state.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	s, err := f.machine.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("snapshot state machine: %w", err)
	}
	return fsmSnapshot{MachineSnapshot: s, index: f.at, gate: f.gate}, nil
}

// Restore replaces the machine's state.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	id := snapshotIDOf(r)
	if id != f.restored {
		f.restored, f.restores = id, 0
	}
	if f.restores++; f.restores == installsMax {
		f.stuck()
	}
	if err := f.machine.Restore(r); err != nil {
		return fmt.Errorf("restore state machine: %w", err)
	}
	f.at = id.index
	return nil
}

type fsmSnapshot struct {
	MachineSnapshot
	index uint64                   // of the entry that the machine had been given last
	gate  func(index uint64) error // nil: none
}

// Persist writes the snapshot, once its gate is open, into Raft's sink, which keeps it only if all of it was written.
func (s fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if s.gate != nil {
		if err := s.gate(s.index); err != nil {
			return errors.Join(fmt.Errorf("snapshot at %d must wait: %w", s.index, err), sink.Cancel())
		}
	}
	if _, err := s.WriteTo(sink); err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("keep snapshot: %w", err)
	}
	return nil
}

// passGate asks a gate, no longer than wait.
func passGate(ctx context.Context, gate func(context.Context, uint64) error, wait time.Duration, index uint64) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return gate(ctx, index)
}

// snapshotID tells snapshots of a group apart. The zero value is none.
type snapshotID struct{ index, term uint64 }

// namedSnapshots is a snapshot store whose streams say which snapshot they are of: Raft hands the machine the stream alone.
type namedSnapshots struct{ raft.SnapshotStore }

// Open opens a snapshot.
func (n namedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, content, err := n.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	return meta, namedStream{content, snapshotID{index: meta.Index, term: meta.Term}}, nil
}

type namedStream struct {
	io.ReadCloser
	id snapshotID
}

// snapshotIDOf says of which snapshot a stream is that Raft opened, and wrapped.
func snapshotIDOf(r io.ReadCloser) snapshotID {
	for {
		switch s := r.(type) {
		case namedStream:
			return s.id
		case raft.ReadCloserWrapper:
			r = s.WrappedReadCloser()
		default:
			return snapshotID{}
		}
	}
}
