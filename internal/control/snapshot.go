package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	snapshotMagic   = "STNCTRL"
	snapshotVersion = 1
	snapshotMost    = 1 << 30 // bytes
	lengthBytes     = 4
	checksumBytes   = 4
)

var (
	// ErrInvalidSnapshot is returned by Restore for a stream that is damaged, cut short, or contradicts itself.
	ErrInvalidSnapshot = errors.New("invalid control snapshot")
	// ErrSnapshotVersion is returned by Restore for a snapshot of another version: it takes another release to read it.
	ErrSnapshotVersion = errors.New("unknown version of control snapshot")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type snapshotHead struct {
	Index   uint64     `cbor:"1,keyasint"`
	Rolling [32]byte   `cbor:"2,keyasint"`
	Cluster SetCluster `cbor:"3,keyasint"`
}

// Snapshot is a machine's state at one index. It stays as it is while the machine goes on, and may be written by
// another goroutine.
type Snapshot struct {
	head    snapshotHead
	tenants *tenants.Snapshot
	reviews []byte
}

// Snapshot captures the state. Tenants and API keys are captured in constant time; classes, which are few, are encoded
// on the spot.
func (m *Machine) Snapshot() (*Snapshot, error) {
	reviews, err := m.reviews.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("capture control state at %d: %w", m.index, err)
	}
	return &Snapshot{head: snapshotHead{Index: m.index, Rolling: m.rolling, Cluster: m.cluster},
		tenants: m.tenants.Snapshot(), reviews: reviews}, nil
}

// Index is the log index that the snapshot stands at.
func (s *Snapshot) Index() uint64 { return s.head.Index }

// WriteTo writes the state in its one form: equal states give equal bytes. The form is a name, a version, three sections
// each after its length (head, tenants, reviews) and a CRC-32C of all of it.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	b := append([]byte(snapshotMagic), snapshotVersion)
	head, err := encMode.Marshal(s.head)
	if err != nil {
		return 0, fmt.Errorf("write control snapshot: %w", err)
	}
	b, err = s.appendState(appendSection(b, head))
	if err != nil {
		return 0, fmt.Errorf("write control snapshot: %w", err)
	}
	if len(b)+checksumBytes > snapshotMost {
		return 0, fmt.Errorf("write control snapshot: %w: %d bytes", ErrInvalidSnapshot, len(b))
	}
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	n, err := w.Write(b)
	return int64(n), err
}

// appendState writes the sections that a refused entry does not change, but for the cluster.
func (s *Snapshot) appendState(b []byte) ([]byte, error) {
	t, err := s.tenants.Encode()
	if err != nil {
		return nil, err
	}
	return appendSection(appendSection(b, t), s.reviews), nil
}

func appendSection(b, section []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(section))), section...)
}

// Hash is a digest of the whole state without index and rolling hash: equal for machines that are in the same state,
// however they came to it.
func (m *Machine) Hash() [32]byte {
	s, err := m.Snapshot()
	if err != nil {
		panic(fmt.Sprintf("control: hash of a state that cannot be captured: %v", err))
	}
	cluster, err := encMode.Marshal(s.head.Cluster)
	if err != nil {
		panic(fmt.Sprintf("control: hash of a cluster that cannot be written: %v", err))
	}
	b, err := s.appendState(appendSection(nil, cluster))
	if err != nil {
		panic(fmt.Sprintf("control: hash of a state that cannot be written: %v", err))
	}
	return sha256.Sum256(b)
}

// Restore replaces the machine's state by what WriteTo wrote. On an error the machine stays as it was. Errors:
// ErrInvalidSnapshot, ErrSnapshotVersion, and the reader's own.
func (m *Machine) Restore(r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, snapshotMost+1))
	if err != nil {
		return fmt.Errorf("read control snapshot: %w", err)
	}
	restored, err := restore(b)
	if err != nil {
		return err
	}
	*m = *restored
	return nil
}

func restore(b []byte) (*Machine, error) {
	sections, err := checked(b)
	if err != nil {
		return nil, err
	}
	m, err := machineOf(sections)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidSnapshot, err)
	}
	return m, nil
}

// checked takes name, version and checksum off.
func checked(b []byte) ([]byte, error) {
	rest, named := bytes.CutPrefix(b, []byte(snapshotMagic))
	switch {
	case !named || len(rest) < 1+checksumBytes || len(b) > snapshotMost:
		return nil, fmt.Errorf("%w: no control snapshot, or cut short", ErrInvalidSnapshot)
	case rest[0] != snapshotVersion:
		return nil, fmt.Errorf("%w: %d", ErrSnapshotVersion, rest[0])
	}
	end := len(b) - checksumBytes
	if crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrInvalidSnapshot)
	}
	return rest[1 : len(rest)-checksumBytes], nil
}

var (
	errSections = errors.New("sections are cut short or too many")
	errHead     = errors.New("head is not in its one encoding or no cluster's")
	errStray    = errors.New("classes of a tenant that is not there")
)

func machineOf(b []byte) (*Machine, error) {
	var sections [3][]byte
	for i := range sections {
		if len(b) < lengthBytes {
			return nil, errSections
		}
		size := int(binary.BigEndian.Uint32(b))
		b = b[lengthBytes:]
		if size > len(b) {
			return nil, errSections
		}
		sections[i], b = b[:size], b[size:]
	}
	if len(b) > 0 {
		return nil, errSections
	}
	return decodeSections(sections[0], sections[1], sections[2])
}

func decodeSections(headBytes, tenantsBytes, reviewBytes []byte) (*Machine, error) {
	head, err := decodeHead(headBytes)
	if err != nil {
		return nil, err
	}
	t, err := tenants.DecodeState(tenantsBytes)
	if err != nil {
		return nil, err
	}
	r, err := review.Restore(reviewBytes)
	if err != nil {
		return nil, err
	}
	for _, id := range r.Tenants() {
		if _, known := t.Tenant(tenants.TenantID(id)); !known {
			return nil, fmt.Errorf("%w: %.80q", errStray, id)
		}
	}
	return &Machine{index: head.Index, rolling: head.Rolling, cluster: head.Cluster, tenants: t, reviews: r}, nil
}

func decodeHead(b []byte) (snapshotHead, error) {
	var head snapshotHead
	if err := decMode.Unmarshal(b, &head); err != nil {
		return snapshotHead{}, err
	}
	again, err := encMode.Marshal(head)
	if err != nil || !bytes.Equal(again, b) || head.Cluster != (SetCluster{}) && head.Cluster.wrongField() != "" {
		return snapshotHead{}, errHead
	}
	return head, nil
}
