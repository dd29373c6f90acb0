package lockcore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

const (
	entryVersion = 1
	// EntryCommandsMax bounds the commands of an entry.
	EntryCommandsMax = 256
	// EntryBytesMax bounds an encoded entry.
	EntryBytesMax = 256 << 10
)

// Entry is one log entry: a batch of commands that share an epoch and a moment.
type Entry struct {
	Epoch    Epoch // under which the commands were proposed
	ClockMS  int64 // the leader's lease clock at the proposal, milliseconds
	WallMS   int64 // the leader's wall clock, milliseconds since the Unix epoch, for people
	Commands []Command
	Salt     [16]byte // random, drawn by the proposer: hides personal text in digests of the entry's events; zeros: none
}

// ErrInvalidEntry is returned for bytes that are no entry of a version and of kinds known here.
var ErrInvalidEntry = errors.New("invalid log entry")

type wireEntry struct {
	Version  uint16        `cbor:"1,keyasint"`
	Epoch    Epoch         `cbor:"2,keyasint"`
	ClockMS  int64         `cbor:"3,keyasint"`
	WallMS   int64         `cbor:"4,keyasint"`
	Commands []wireCommand `cbor:"5,keyasint"`
	Salt     []byte        `cbor:"6,keyasint,omitempty"` // none, or 16 bytes
}

type wireCommand struct {
	_    struct{} `cbor:",toarray"`
	Kind Kind
	Body cbor.RawMessage
}

var (
	encMode = mustEncMode()
	decMode = mustDecMode()
)

func mustEncMode() cbor.EncMode {
	m, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return m
}

func mustDecMode() cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxArrayElements: 1024, MaxMapPairs: 64, MaxNestedLevels: 8,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}

// Encode writes the entry in its one form: core deterministic CBOR with integer keys. Errors mean a command with text
// that is no UTF-8, or too many or too large commands; such an entry must not be proposed. What Encode writes,
// DecodeEntry reads: a replica stops at an entry that it cannot read.
func (e Entry) Encode() ([]byte, error) {
	if len(e.Commands) == 0 || len(e.Commands) > EntryCommandsMax {
		return nil, fmt.Errorf("%w: %d commands", ErrInvalidEntry, len(e.Commands))
	}
	w := wireEntry{Version: entryVersion, Epoch: e.Epoch, ClockMS: e.ClockMS, WallMS: e.WallMS}
	if e.Salt != [16]byte{} {
		w.Salt = e.Salt[:]
	}
	for _, c := range e.Commands {
		body, err := encMode.Marshal(c)
		if err != nil {
			return nil, fmt.Errorf("encode command kind %d: %w", c.kind(), err)
		}
		framed := wireCommand{Kind: c.kind(), Body: body}
		if _, err := decodeCommand(framed); err != nil {
			return nil, fmt.Errorf("%w: kind %d: %w", ErrInvalidEntry, c.kind(), err)
		}
		w.Commands = append(w.Commands, framed)
	}
	b, err := encMode.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	if len(b) > EntryBytesMax {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalidEntry, len(b))
	}
	return b, nil
}

// CommandBytes is the encoded size of a command within an entry, give or take its frame.
func CommandBytes(c Command) (int, error) {
	b, err := encMode.Marshal(c)
	return len(b) + 8, err
}

// DecodeEntry reads what Encode wrote, in this release or an older one. An unknown kind, field or version, a field given
// twice, text that is no UTF-8 and anything cut short is ErrInvalidEntry. It does not insist on Encode's own bytes, which a
// later release may write otherwise (a new field at its zero value, for instance).
func DecodeEntry(b []byte) (Entry, error) {
	if len(b) > EntryBytesMax {
		return Entry{}, fmt.Errorf("%w: %d bytes", ErrInvalidEntry, len(b))
	}
	var w wireEntry
	if err := decMode.Unmarshal(b, &w); err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrInvalidEntry, err)
	}
	if w.Version != entryVersion {
		return Entry{}, fmt.Errorf("%w: version %d", ErrInvalidEntry, w.Version)
	}
	if len(w.Commands) == 0 || len(w.Commands) > EntryCommandsMax {
		return Entry{}, fmt.Errorf("%w: %d commands", ErrInvalidEntry, len(w.Commands))
	}
	e := Entry{Epoch: w.Epoch, ClockMS: w.ClockMS, WallMS: w.WallMS, Commands: make([]Command, 0, len(w.Commands))}
	if copy(e.Salt[:], w.Salt) != len(w.Salt) || len(w.Salt) != 0 && len(w.Salt) != len(e.Salt) {
		return Entry{}, fmt.Errorf("%w: a salt of %d bytes", ErrInvalidEntry, len(w.Salt))
	}
	for _, c := range w.Commands {
		command, err := decodeCommand(c)
		if err != nil {
			return Entry{}, fmt.Errorf("%w: kind %d: %w", ErrInvalidEntry, c.Kind, err)
		}
		e.Commands = append(e.Commands, command)
	}
	return e, nil
}

var errUnknownKind = errors.New("unknown command kind")

func decodeCommand(w wireCommand) (Command, error) {
	switch w.Kind {
	case KindAdvanceEpoch:
		return decodeAs[AdvanceEpoch](w)
	case KindPutTenant:
		return decodeAs[PutTenant](w)
	case KindDropTenant:
		return decodeAs[DropTenant](w)
	case KindPutClass:
		return decodeAs[PutClass](w)
	case KindRetireClass:
		return decodeAs[RetireClass](w)
	case KindAcquire:
		return decodeAs[Acquire](w)
	case KindRelease:
		return decodeAs[Release](w)
	case KindExpire:
		return decodeAs[Expire](w)
	case KindEndDelay:
		return decodeAs[EndDelay](w)
	case KindLeave:
		return decodeAs[Leave](w)
	case KindWaiterGone:
		return decodeAs[WaiterGone](w)
	case KindMarkEnding:
		return decodeAs[MarkEnding](w)
	case KindEndSession:
		return decodeAs[EndSession](w)
	case KindForgetSession:
		return decodeAs[ForgetSession](w)
	case KindLeaseClock:
		return decodeAs[LeaseClock](w)
	case KindExtend:
		return decodeAs[Extend](w)
	case KindCheckpoint:
		return decodeAs[Checkpoint](w)
	case KindRaiseLevel:
		return decodeAs[RaiseLevel](w)
	case KindReportGuard:
		return decodeAs[ReportGuard](w)
	}
	return nil, errUnknownKind
}

func decodeAs[C Command](w wireCommand) (Command, error) {
	var c C
	err := decMode.Unmarshal(w.Body, &c)
	return c, err
}

func appendUint(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}
