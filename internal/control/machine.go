package control

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// Machine is the state of the control log. Apply, Snapshot and Restore need it for themselves; the reading methods of
// view.go may run beside each other. See the package comment for what it must not know.
type Machine struct {
	index   uint64   // of the last entry applied
	rolling [32]byte // over all entries applied and what they led to
	cluster SetCluster
	tenants *tenants.State
	reviews *review.State

	salt [16]byte // of the entry applied last; not of the state
}

// New is an empty machine, as before the first entry.
func New() *Machine {
	return &Machine{tenants: tenants.New(), reviews: review.NewState()}
}

// Apply carries out one log entry and returns what it led to and the events that became true. Indices rise; one that
// does not is a broken log and panics, as does an entry that cannot be decoded or is of a kind not known here: a replica
// that stops is better than one that differs. A refused entry changes nothing but index and rolling hash.
func (m *Machine) Apply(index uint64, entry []byte) (Result, []Event) {
	if index <= m.index {
		panic(fmt.Sprintf("control: entry %d after entry %d", index, m.index))
	}
	e, err := DecodeEntry(entry)
	if err != nil {
		panic(fmt.Sprintf("control: entry %d: %v", index, err))
	}
	r, events := m.command(e)
	m.index, m.salt = index, e.Salt
	m.roll(entry, r)
	return r, events
}

func (m *Machine) command(e Entry) (Result, []Event) {
	switch {
	case e.Cluster != nil:
		return m.setCluster(*e.Cluster)
	case e.Tenants != nil:
		return m.tenantsCommand(e.Tenants)
	}
	return m.reviewCommand(e.Review)
}

// roll takes the entry and its result into the rolling hash.
func (m *Machine) roll(entry []byte, r Result) {
	result, err := encMode.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("control: entry %d: encode result: %v", m.index, err))
	}
	h := sha256.New()
	h.Write(m.rolling[:])
	h.Write(binary.BigEndian.AppendUint64(nil, m.index))
	for _, part := range [...][]byte{entry, result} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	m.rolling = [32]byte(h.Sum(nil))
}

// Salt is the salt of the entry applied last, for the audit.
func (m *Machine) Salt() [16]byte { return m.salt }

// Rolling is the hash over all entries applied, their indices and results: equal on replicas that applied the same log.
func (m *Machine) Rolling() [32]byte { return m.rolling }
