package raftnode

import (
	"errors"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// partitionLog applies entries to a partition that has no group.
type partitionLog struct {
	t       *testing.T
	machine Machine
	epoch   lockcore.Epoch
}

func (l *partitionLog) apply(index uint64, c lockcore.Command) {
	l.t.Helper()
	entry, err := lockcore.Entry{Epoch: l.epoch, Commands: []lockcore.Command{c}}.Encode()
	if err != nil {
		l.t.Fatal(err)
	}
	l.machine.Apply(index, 1, entry)
}

// A replica whose state is not the leader's says so, once in a life of its group, and goes on applying: that it stops is
// for its owner to see to, without the node's other groups.
func TestPartition_alarmsOnceWhenItsStateDiffers(t *testing.T) {
	var alarms []error
	p := NewPartition(PartitionConfig{Node: "n1", Logger: quiet(), OnChange: func() {},
		OnDiverge: func(err error) { alarms = append(alarms, err) }})
	passed := func() *partitionLog {
		l := &partitionLog{t: t, machine: p.NewMachine()}
		l.apply(1, lockcore.AdvanceEpoch{Node: "n2"})
		l.epoch = 1
		l.apply(lockcore.CheckpointEvery, lockcore.LeaseClock{})
		return l
	}
	l := passed()
	var own lockcore.Checkpoint
	p.View(func(m *lockcore.Machine) { own, _ = m.UnstatedCheckpoint() })
	l.apply(lockcore.CheckpointEvery+1, own)
	if len(alarms) != 0 {
		t.Fatalf("the leader stated this very state: got alarms %v", alarms)
	}

	l = passed()
	other := own
	other.Hash[0] ^= 1
	l.apply(lockcore.CheckpointEvery+1, other)
	l.apply(lockcore.CheckpointEvery+2, other)
	if len(alarms) != 1 || !errors.Is(alarms[0], ErrDiverged) {
		t.Fatalf("got alarms %v, want ErrDiverged once", alarms)
	}
	passed().apply(lockcore.CheckpointEvery+1, other)
	if len(alarms) != 2 {
		t.Errorf("got %d alarms after the group's next life, want 2", len(alarms))
	}
}
