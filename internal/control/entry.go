package control

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

const entryVersion = 1

// EntryBytesMax bounds an encoded entry.
const EntryBytesMax = 512 << 10

// ErrInvalidEntry is returned for bytes that are no entry of a version and of kinds known here, or not in their one
// encoding; and for an Entry that has no such encoding, which must not be proposed.
var ErrInvalidEntry = errors.New("invalid control entry")

// Entry is one entry of the control log: one command, in exactly one of the fields.
type Entry struct {
	Cluster *SetCluster
	Tenants tenants.Command
	Review  review.Command
	// Salt, drawn by the proposer, hides the personal text of the entry's events in the audit. Zero: none.
	Salt [16]byte
}

// part says whose command an entry carries. Part of the log format.
type part uint8

const (
	partCluster part = iota + 1
	partTenants
	partReview
)

type wireEntry struct {
	Version uint16          `cbor:"1,keyasint"`
	Part    part            `cbor:"2,keyasint"`
	Command cbor.RawMessage `cbor:"3,keyasint"`
	Salt    []byte          `cbor:"4,keyasint,omitempty"` // none or 16 bytes that are not all zero
}

var (
	encMode = mustEncMode()
	decMode = mustDecMode()
)

func mustEncMode() cbor.EncMode {
	options := cbor.CoreDetEncOptions()
	options.NilContainers = cbor.NilContainerAsEmpty
	m, err := options.EncMode()
	if err != nil {
		panic(err)
	}
	return m
}

func mustDecMode() cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxArrayElements: 16 << 10, MaxMapPairs: 64, MaxNestedLevels: 20,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}

// Encode writes the entry in its one form: core deterministic CBOR with integer keys. An entry that DecodeEntry would
// not read back is ErrInvalidEntry.
func (e Entry) Encode() ([]byte, error) {
	b, err := e.encode()
	if err != nil {
		return nil, err
	}
	if _, err := DecodeEntry(b); err != nil {
		return nil, err
	}
	return b, nil
}

func (e Entry) encode() ([]byte, error) {
	p, command, err := e.encodeCommand()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidEntry, err)
	}
	w := wireEntry{Version: entryVersion, Part: p, Command: command}
	if e.Salt != [16]byte{} {
		w.Salt = e.Salt[:]
	}
	b, err := encMode.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidEntry, err)
	}
	return b, nil
}

var errNotOneCommand = errors.New("not exactly one command")

func (e Entry) encodeCommand() (part, []byte, error) {
	switch {
	case e.Cluster != nil && e.Tenants == nil && e.Review == nil:
		b, err := encMode.Marshal(e.Cluster)
		return partCluster, b, err
	case e.Tenants != nil && e.Cluster == nil && e.Review == nil:
		b, err := tenants.EncodeCommand(e.Tenants)
		return partTenants, b, err
	case e.Review != nil && e.Cluster == nil && e.Tenants == nil:
		b, err := review.EncodeCommand(e.Review)
		return partReview, b, err
	}
	return 0, nil, errNotOneCommand
}

// DecodeEntry reads what Encode wrote. Anything else, an unknown kind or field included, is ErrInvalidEntry.
func DecodeEntry(b []byte) (Entry, error) {
	e, err := decodeEntry(b)
	if err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrInvalidEntry, err)
	}
	if again, err := e.encode(); err != nil || !bytes.Equal(again, b) {
		return Entry{}, fmt.Errorf("%w: not in its one encoding", ErrInvalidEntry)
	}
	return e, nil
}

func decodeEntry(b []byte) (Entry, error) {
	if len(b) > EntryBytesMax {
		return Entry{}, fmt.Errorf("%d bytes", len(b))
	}
	var w wireEntry
	if err := decMode.Unmarshal(b, &w); err != nil {
		return Entry{}, err
	}
	if w.Version != entryVersion {
		return Entry{}, fmt.Errorf("version %d", w.Version)
	}
	e, err := decodeCommand(w)
	if err != nil || len(w.Salt) == 0 {
		return e, err
	}
	if len(w.Salt) != len(e.Salt) {
		return Entry{}, fmt.Errorf("salt of %d bytes", len(w.Salt))
	}
	e.Salt = [16]byte(w.Salt)
	return e, nil
}

func decodeCommand(w wireEntry) (Entry, error) {
	switch w.Part {
	case partCluster:
		c := new(SetCluster)
		err := decMode.Unmarshal(w.Command, c)
		return Entry{Cluster: c}, err
	case partTenants:
		c, err := tenants.DecodeCommand(w.Command)
		return Entry{Tenants: c}, err
	case partReview:
		c, err := review.DecodeCommand(w.Command)
		return Entry{Review: c}, err
	}
	return Entry{}, fmt.Errorf("unknown kind of command, part %d", w.Part)
}
