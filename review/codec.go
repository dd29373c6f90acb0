package review

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"
)

const (
	commandFormat  = 1
	snapshotFormat = 1
	// CommandBytesMax bounds an encoded command.
	CommandBytesMax = 256 << 10
)

var (
	// ErrInvalidCommand is returned for bytes that are no command of a format and a kind known here, or not in their one
	// encoding.
	ErrInvalidCommand = errors.New("invalid review command")
	// ErrInvalidSnapshot is returned by Restore for bytes that are damaged, of another format, or that contradict
	// themselves.
	ErrInvalidSnapshot = errors.New("invalid review snapshot")
)

type wireCommand struct {
	_      struct{} `cbor:",toarray"`
	Format uint16
	Kind   commandKind
	Body   cbor.RawMessage
}

type snapshotHead struct {
	Format  uint16 `cbor:"1,keyasint"`
	Classes uint64 `cbor:"2,keyasint"`
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
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxArrayElements: 16 << 10, MaxMapPairs: 64, MaxNestedLevels: 16,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}

// EncodeCommand writes a command in its one encoding.
func EncodeCommand(c Command) ([]byte, error) {
	body, err := encMode.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode review command: %w", err)
	}
	b, err := encMode.Marshal(wireCommand{Format: commandFormat, Kind: c.kind(), Body: body})
	if err != nil {
		return nil, fmt.Errorf("encode review command: %w", err)
	}
	if len(b) > CommandBytesMax {
		return nil, fmt.Errorf("encode review command: %w: over %d bytes", ErrInvalidCommand, CommandBytesMax)
	}
	return b, nil
}

// DecodeCommand reads what EncodeCommand wrote. Everything else, repeated and unknown fields included, is
// ErrInvalidCommand.
func DecodeCommand(b []byte) (Command, error) {
	if len(b) > CommandBytesMax {
		return nil, fmt.Errorf("%w: over %d bytes", ErrInvalidCommand, CommandBytesMax)
	}
	var w wireCommand
	if err := decMode.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidCommand, err)
	}
	if w.Format != commandFormat {
		return nil, fmt.Errorf("%w: format %d", ErrInvalidCommand, w.Format)
	}
	c, err := decodeBody(w.Kind, w.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidCommand, err)
	}
	if again, err := EncodeCommand(c); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: not in its one encoding", ErrInvalidCommand)
	}
	return c, nil
}

func decodeBody(k commandKind, body []byte) (Command, error) {
	switch k {
	case kindDeclare:
		return decodeAs[Declare](body)
	case kindSign:
		return decodeAs[Sign](body)
	case kindReject:
		return decodeAs[Reject](body)
	case kindWithdraw:
		return decodeAs[Withdraw](body)
	case kindRetire:
		return decodeAs[Retire](body)
	case kindTransferOwner:
		return decodeAs[TransferOwner](body)
	}
	return nil, fmt.Errorf("kind %d", k)
}

func decodeAs[C Command](body []byte) (Command, error) {
	var c C
	err := decMode.Unmarshal(body, &c)
	return c, err
}

// Snapshot writes the whole state. Equal states give equal bytes.
func (s *State) Snapshot() ([]byte, error) {
	var b bytes.Buffer
	if err := s.write(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Hash is the SHA-256 of the snapshot. Replicas that applied the same commands have the same hash.
func (s *State) Hash() ([sha256.Size]byte, error) {
	h := sha256.New()
	if err := s.write(h); err != nil {
		return [sha256.Size]byte{}, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

func (s *State) write(w io.Writer) error {
	e := encMode.NewEncoder(w)
	head := snapshotHead{Format: snapshotFormat}
	for _, classes := range s.tenants {
		head.Classes += uint64(len(classes))
	}
	if err := e.Encode(head); err != nil {
		return fmt.Errorf("write review snapshot: %w", err)
	}
	for _, t := range s.Tenants() {
		for c := range s.Classes(t) {
			if err := e.Encode(c); err != nil {
				return fmt.Errorf("write review snapshot: %w", err)
			}
		}
	}
	return nil
}

// Restore reads what Snapshot wrote. Everything else is ErrInvalidSnapshot.
func Restore(b []byte) (*State, error) {
	s, err := restore(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidSnapshot, err)
	}
	if again, err := s.Snapshot(); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: not in its one encoding", ErrInvalidSnapshot)
	}
	return s, nil
}

func restore(b []byte) (*State, error) {
	var head snapshotHead
	rest, err := decMode.UnmarshalFirst(b, &head)
	if err != nil {
		return nil, err
	}
	if head.Format != snapshotFormat {
		return nil, fmt.Errorf("format %d", head.Format)
	}
	s, last := NewState(), &Class{}
	for range head.Classes {
		c := &Class{}
		if rest, err = decMode.UnmarshalFirst(rest, c); err != nil {
			return nil, err
		}
		if cmp.Or(cmp.Compare(last.Tenant, c.Tenant), cmp.Compare(last.Name, c.Name)) >= 0 {
			return nil, fmt.Errorf("class %q is out of order", c.Name)
		}
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("class %q: %w", c.Name, err)
		}
		s.keep(c)
		last = c
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes too many", len(rest))
	}
	return s, nil
}
