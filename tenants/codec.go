package tenants

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

var (
	// ErrUnknownKind is returned by DecodeCommand for a kind of command that this build does not know.
	ErrUnknownKind = errors.New("unknown command kind")
	// ErrMalformedCommand is returned for bytes, or for a command, that is not in the log format.
	ErrMalformedCommand = errors.New("malformed command")
	// ErrInvalidState is returned by DecodeState for bytes that are no state, or one that contradicts itself.
	ErrInvalidState = errors.New("invalid tenants state")
)

const (
	stateVersion    = 1
	commandItemsMax = 256     // elements of an array in a command
	stateItemsMax   = 1 << 27 // above all keys of all tenants
)

// CommandBytesMax bounds an encoded command.
const CommandBytesMax = 64 << 10

var (
	encMode     = mustEncMode()
	commandMode = mustDecMode(commandItemsMax)
	stateMode   = mustDecMode(stateItemsMax)
)

func mustEncMode() cbor.EncMode {
	options := cbor.CoreDetEncOptions()
	options.NilContainers = cbor.NilContainerAsEmpty // a list has one form of being empty
	m, err := options.EncMode()
	if err != nil {
		panic(err)
	}
	return m
}

func mustDecMode(itemsMax int) cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxArrayElements: itemsMax, MaxMapPairs: 64, MaxNestedLevels: 8,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}

type wireCommand struct {
	_    struct{} `cbor:",toarray"`
	Kind Kind
	Body cbor.RawMessage
}

// EncodeCommand writes the command in its one form: core deterministic CBOR with integer keys. A command that
// DecodeCommand would not read back, such as one with text that is no UTF-8, is ErrMalformedCommand.
func EncodeCommand(c Command) ([]byte, error) {
	b, err := encodeCommand(c)
	if err != nil {
		return nil, err
	}
	if _, err := DecodeCommand(b); err != nil {
		return nil, err
	}
	return b, nil
}

func encodeCommand(c Command) ([]byte, error) {
	body, err := encMode.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformedCommand, err)
	}
	b, err := encMode.Marshal(wireCommand{Kind: c.Kind(), Body: body})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformedCommand, err)
	}
	if len(b) > CommandBytesMax {
		return nil, fmt.Errorf("%w: %d bytes", ErrMalformedCommand, len(b))
	}
	return b, nil
}

// DecodeCommand reads what EncodeCommand wrote, and nothing that is encoded otherwise. It judges the form and not the
// contents, which Apply does. Errors: ErrUnknownKind, ErrMalformedCommand.
func DecodeCommand(b []byte) (Command, error) {
	if len(b) > CommandBytesMax {
		return nil, fmt.Errorf("%w: %d bytes", ErrMalformedCommand, len(b))
	}
	var w wireCommand
	if err := commandMode.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformedCommand, err)
	}
	c, err := decodeBody(w.Kind, w.Body)
	if err != nil {
		return nil, err
	}
	if again, err := encodeCommand(c); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: kind %d is not in its one encoding", ErrMalformedCommand, w.Kind)
	}
	return c, nil
}

func decodeBody(kind Kind, body []byte) (Command, error) {
	switch kind {
	case KindPutTenant:
		return decodeAs[PutTenant](body)
	case KindSuspendTenant:
		return decodeAs[SuspendTenant](body)
	case KindResumeTenant:
		return decodeAs[ResumeTenant](body)
	case KindDropTenant:
		return decodeAs[DropTenant](body)
	case KindRecordFinalToken:
		return decodeAs[RecordFinalToken](body)
	case KindCreateAPIKey:
		return decodeAs[CreateAPIKey](body)
	case KindRotateAPIKey:
		return decodeAs[RotateAPIKey](body)
	case KindRevokeAPIKey:
		return decodeAs[RevokeAPIKey](body)
	case KindEndOverlap:
		return decodeAs[EndOverlap](body)
	case KindChangeTenant:
		return decodeAs[ChangeTenant](body)
	case KindRecordKeyUses:
		return decodeAs[RecordKeyUses](body)
	}
	return nil, fmt.Errorf("%w: %d", ErrUnknownKind, kind)
}

func decodeAs[C Command](body []byte) (Command, error) {
	var c C
	if err := commandMode.Unmarshal(body, &c); err != nil {
		return nil, fmt.Errorf("%w: kind %d: %w", ErrMalformedCommand, c.Kind(), err)
	}
	return c, nil
}

// Snapshot is a State at one moment. It stays as it is while the state goes on, and may be encoded by another goroutine.
type Snapshot struct {
	state State
}

type wireState struct {
	Version uint16    `cbor:"1,keyasint"`
	Tenants []*Tenant `cbor:"2,keyasint"`
	Keys    []*keyRow `cbor:"3,keyasint"`
}

// Snapshot captures the state in constant time.
func (s *State) Snapshot() *Snapshot {
	return &Snapshot{state: State{tenants: s.tenants.Copy(), keys: s.keys.Copy()}}
}

// Encode writes the state in its one form: equal states give equal bytes.
func (s *Snapshot) Encode() ([]byte, error) {
	b, err := encMode.Marshal(wireState{Version: stateVersion, Tenants: s.state.tenants.Values(), Keys: s.state.keys.Values()})
	if err != nil {
		return nil, fmt.Errorf("encode tenants state: %w", err)
	}
	return b, nil
}

// DecodeState reads what Encode wrote. Anything else, and a state that no commands lead to, is ErrInvalidState.
func DecodeState(b []byte) (*State, error) {
	var w wireState
	if err := stateMode.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidState, err)
	}
	if w.Version != stateVersion {
		return nil, fmt.Errorf("%w: version %d", ErrInvalidState, w.Version)
	}
	s := New()
	if err := s.restore(w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidState, err)
	}
	if again, err := s.Snapshot().Encode(); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: not in its one encoding", ErrInvalidState)
	}
	return s, nil
}
