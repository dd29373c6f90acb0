package audit

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Log names a log: 0 is the control log, n the log of partition n.
type Log uint32

// Event is one thing that became true. Fields that a kind does not speak of are zero.
type Event struct {
	Kind        string // one of Kinds
	Tenant      string // slug; empty: the platform's own
	Class       string
	Key         string
	Request     string // names a lease request without giving its session away: see RequestName
	Token       uint64 // fencing token
	Epoch       uint64
	Version     uint64 // of the posture
	Reason      string // of refusals and ends, as the core spells it
	APIKey      string // id of the API key that asked, or that is concerned
	Count       uint64 // of guard reports: checks or rejections
	Unprotected bool   // granted by an arbiter while the quorum was lost
	Detail      string // what else there is to say, never personal: a digest, a successor, a command, "highest=33"

	// Personal text. The Merkle log commits to a salted hash of it, so that it may be erased.
	Holder string // the holder's own label
	By     string // who, as shown to people
	Note   string // the reason that a person gave

	AtMS int64 // leader's wall time, milliseconds since the Unix epoch
}

// Entry is what one log entry led to.
type Entry struct {
	Log   Log
	Index uint64 // position in the log, from 1
	// First, unless zero, says that the entries from First to before Index are known to carry no events, such as Raft's own,
	// which no machine gets to see: then they are no gap.
	First  uint64
	Salt   [16]byte // random, the same on every node: it comes with the entry
	Events []Event  // in order, as many as the machine emits; none: the entry only advances the position
}

// first is the lowest index that the entry covers.
func (e Entry) first() uint64 {
	if e.First == 0 {
		return e.Index
	}
	return e.First
}

const (
	// TextBytesMax bounds each text of an event.
	TextBytesMax = 8192
	// numberMax bounds positions and numbers of events: SQLite's integers have a sign.
	numberMax = math.MaxInt64
)

// ErrInvalidEntry says that an entry cannot be stored, now or later: a kind that is not in Kinds, an index of 0, a text or a
// number beyond its bound. It is a fault of the program.
var ErrInvalidEntry = errors.New("invalid audit entry")

// EntryError is why an entry of a log was refused: errors.Is finds ErrInvalidEntry or ErrContentDiffers in it.
type EntryError struct {
	Log   Log
	Index uint64
	Err   error
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("log %d, entry %d: %v", e.Log, e.Index, e.Err)
}

func (e *EntryError) Unwrap() error { return e.Err }

func (e Entry) validate() error {
	fault := ""
	switch {
	case e.Index == 0 || e.Index > numberMax:
		fault = "index out of range"
	case e.First > e.Index:
		fault = "first is above the index"
	}
	for i := 0; i < len(e.Events) && fault == ""; i++ {
		fault = e.Events[i].fault()
	}
	if fault != "" {
		return &EntryError{e.Log, e.Index, fmt.Errorf("%w: %s", ErrInvalidEntry, fault)}
	}
	return nil
}

func (e *Event) fault() string {
	if !ValidKind(e.Kind) {
		return fmt.Sprintf("unknown kind %q", e.Kind)
	}
	for _, n := range []uint64{e.Token, e.Epoch, e.Version, e.Count} {
		if n > numberMax {
			return "a number out of range"
		}
	}
	for _, text := range e.texts() {
		if len(*text) > TextBytesMax {
			return "a text out of range"
		}
	}
	return ""
}

func (e *Event) texts() []*string {
	return []*string{&e.Kind, &e.Tenant, &e.Class, &e.Key, &e.Request, &e.Reason, &e.APIKey, &e.Detail, &e.Holder, &e.By, &e.Note}
}

// clean makes every text UTF-8, on every node alike: other bytes would not survive JSON, and a row that another node sends
// would not have its hash any more. The core lets no such text in; this is for what may come otherwise.
func (e Event) clean() Event {
	for _, text := range e.texts() {
		if !utf8.ValidString(*text) {
			*text = strings.ToValidUTF8(*text, "\uFFFD")
		}
	}
	return e
}

// bytes estimates what the entry occupies in memory.
func (e Entry) bytes() int64 {
	n := int64(96)
	for i := range e.Events {
		n += 256
		for _, text := range e.Events[i].texts() {
			n += int64(len(*text))
		}
	}
	return n
}
