package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TimeMS is a moment in milliseconds since the Unix epoch. As text it is RFC 3339 in UTC with exactly three decimals, so
// that it is read back as it was written and text order is time order.
type TimeMS int64

const timeMSForm = "2006-01-02T15:04:05.000Z"

// ErrInvalidTime is returned for text that is not in the one form of a TimeMS.
var ErrInvalidTime = errors.New("invalid time")

// Std is the moment, in UTC.
func (t TimeMS) Std() time.Time { return time.UnixMilli(int64(t)).UTC() }

// String is the moment as it travels.
func (t TimeMS) String() string { return t.Std().Format(timeMSForm) }

// MarshalText is String.
func (t TimeMS) MarshalText() ([]byte, error) { return t.Std().AppendFormat(nil, timeMSForm), nil }

// UnmarshalText reads what String writes. Another form of the same moment is ErrInvalidTime: one moment, one spelling.
func (t *TimeMS) UnmarshalText(text []byte) error {
	at, err := time.Parse(timeMSForm, string(text))
	if err != nil || at.Format(timeMSForm) != string(text) {
		return fmt.Errorf("%w: %.40q is not like %s", ErrInvalidTime, text, timeMSForm)
	}
	*t = TimeMS(at.UnixMilli())
	return nil
}

// auditControlLog is the name of the control log; partitions have their number in theirs.
const (
	auditControlLog      = "control"
	auditPartitionPrefix = "partition-"
)

// AuditLogName is the name of a log: "control" of log 0, "partition-3" of log 3.
func AuditLogName(log uint32) string {
	if log == 0 {
		return auditControlLog
	}
	return auditPartitionPrefix + strconv.FormatUint(uint64(log), 10)
}

// ParseAuditLog reads what AuditLogName writes.
func ParseAuditLog(name string) (log uint32, ok bool) {
	number, numbered := strings.CutPrefix(name, auditPartitionPrefix)
	if !numbered {
		return 0, name == auditControlLog
	}
	n, err := strconv.ParseUint(number, 10, 32)
	return uint32(n), err == nil && AuditLogName(uint32(n)) == name
}

// AuditPosition is an event's place: its log, the index of the log's entry, and its number among the entry's events.
type AuditPosition struct {
	Log     uint32
	Index   uint64
	Ordinal uint32
}

// String is the position as it travels, as in "partition-1/123/0".
func (p AuditPosition) String() string {
	return AuditLogName(p.Log) + "/" + strconv.FormatUint(p.Index, 10) + "/" + strconv.FormatUint(uint64(p.Ordinal), 10)
}

// ParseAuditPosition reads what String writes, and nothing else.
func ParseAuditPosition(text string) (p AuditPosition, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return AuditPosition{}, false
	}
	log, ok := ParseAuditLog(parts[0])
	index, err := strconv.ParseUint(parts[1], 10, 64)
	ordinal, err2 := strconv.ParseUint(parts[2], 10, 32)
	p = AuditPosition{Log: log, Index: index, Ordinal: uint32(ordinal)}
	return p, ok && err == nil && err2 == nil && p.String() == text
}

// AuditEvent is one event of the audit. What an event does not speak of is left out.
type AuditEvent struct {
	Position string  `json:"position"`      // log, index and ordinal, as in "partition-1/123/0"; names the event for ever
	Row      *uint64 `json:"row,omitempty"` // number among the log's rows, from 0; absent: an earlier entry is still missing here
	At       TimeMS  `json:"at"`            // the leader's wall clock, for people: positions say what came first
	Kind     string  `json:"kind"`
	Tenant   string  `json:"tenant,omitempty"` // absent: the platform's own
	Class    string  `json:"class,omitempty"`
	Key      string  `json:"key,omitempty"`
	// Request names the lease request without telling its session: a hash of the session, a dot, the request's number.
	Request     string `json:"request,omitempty"`
	Token       uint64 `json:"token,omitempty"`
	Epoch       uint64 `json:"epoch,omitempty"`
	Version     uint64 `json:"version,omitempty"` // of the posture
	Reason      string `json:"reason,omitempty"`  // of a refusal or an end
	APIKey      string `json:"api_key,omitempty"` // id of the API key that asked, or that the event concerns
	Count       uint64 `json:"count,omitempty"`   // of what a guard reports: how often
	Unprotected bool   `json:"unprotected,omitempty"`
	Detail      string `json:"detail,omitempty"` // further facts, name=value
	Holder      string `json:"holder,omitempty"` // the holder's own label
	By          string `json:"by,omitempty"`     // the person
	Note        string `json:"note,omitempty"`   // the reason that the person gave
	Erased      bool   `json:"erased,omitempty"` // its content is past its retention; position, row and hash stay

	Proof *AuditEventProof `json:"proof,omitempty"` // in exports with proofs
}

// AuditEventProof is what proves that an event is a row of its log. Hashes are lower-case hexadecimal.
type AuditEventProof struct {
	Incarnation uint64 `json:"incarnation"`    // which life of the cluster's data
	Leaf        string `json:"leaf"`           // hash of the row
	Text        string `json:"text,omitempty"` // salted hash of the personal text: holder, by, note
	Salt        string `json:"salt,omitempty"` // absent: it was erased with the personal text
	// Inclusion leads from the leaf to the root of the export's checkpoint of the log. Of an event that has no row number
	// yet it is empty, and of the only row of a log too.
	Inclusion []string `json:"inclusion,omitempty"`
}

// AuditGap is a stretch of a log's entries that the answering node misses.
type AuditGap struct {
	Log         string `json:"log"`
	From        uint64 `json:"from"` // first entry missing
	To          uint64 `json:"to"`   // last entry missing
	Why         string `json:"why"`
	Recoverable bool   `json:"recoverable"` // another node may have them; false: they are lost
}

// AuditPage answers GET /v1/audit with a page in JSON.
type AuditPage struct {
	Events     []AuditEvent      `json:"events"`
	NextCursor string            `json:"next_cursor,omitempty"` // absent: this was the last page
	CompleteTo map[string]uint64 `json:"complete_to"`           // by log: every entry up to this one is considered
	Gaps       []AuditGap        `json:"gaps"`
	// DroppedBefore is the time before which retention has dropped the tenant's events. Absent: none were dropped.
	DroppedBefore *TimeMS `json:"dropped_before,omitempty"`
}

// AuditCheckpoint says what a log's rows were at some moment: how many, and the root of their hash tree.
type AuditCheckpoint struct {
	Log  string `json:"log"`
	Rows uint64 `json:"rows"`
	Root string `json:"root"`
}

// AuditTrailer ends an export. An export without one was cut off.
type AuditTrailer struct {
	CompleteTo  map[string]uint64 `json:"complete_to"`
	Gaps        []AuditGap        `json:"gaps"`
	Checkpoints []AuditCheckpoint `json:"checkpoints"` // as they were when the export began
	NextCursor  string            `json:"next_cursor,omitempty"`
	Rows        uint64            `json:"rows"` // events before this line
	// DroppedBefore is the time before which retention has dropped the tenant's events. Absent: none were dropped.
	DroppedBefore *TimeMS `json:"dropped_before,omitempty"`
}

// AuditTrailerLine is the last line of an export in NDJSON.
type AuditTrailerLine struct {
	Trailer *AuditTrailer `json:"trailer"`
	// SHA256 is the hash of every byte of the export up to the comma before this member. It finds damage, not malice.
	SHA256 string `json:"sha256"`
}

// AuditProblemLine is the last line of an export that could not go on. There is no trailer then.
type AuditProblemLine struct {
	Problem *Problem `json:"problem"`
}

// AuditCheckpoints answers GET /v1/audit/checkpoint.
type AuditCheckpoints struct {
	Checkpoints []AuditCheckpoint `json:"checkpoints"`
	CompleteTo  map[string]uint64 `json:"complete_to"`
}

// AuditRowProof answers GET /v1/audit/proof: hashes that lead from a row's leaf to the root of the first rows.
type AuditRowProof struct {
	Log   string   `json:"log"`
	Row   uint64   `json:"row"`
	Rows  uint64   `json:"rows"`
	Proof []string `json:"proof"`
}

// AuditConsistency answers GET /v1/audit/consistency: hashes that prove the first From rows a prefix of the first To.
type AuditConsistency struct {
	Log   string   `json:"log"`
	From  uint64   `json:"from"`
	To    uint64   `json:"to"`
	Proof []string `json:"proof"`
}

// AuditKind is one kind of event.
type AuditKind struct {
	Kind    string `json:"kind"`
	Meaning string `json:"meaning"` // a sentence
}

// AuditKinds answers GET /v1/audit/kinds.
type AuditKinds struct {
	Kinds []AuditKind `json:"kinds"`
}
