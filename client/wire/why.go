package wire

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Why answers GET /v1/locks/why: what is known of one lock, for people who ask why they do not get it. The findings say it
// in words; the rest is what they were drawn from.
type Why struct {
	Class string `json:"class"`
	Key   string `json:"key"`
	// Stale: no majority stands behind this answer. It is what one node knows, up to Index.
	Stale     bool         `json:"stale"`
	Index     uint64       `json:"index"` // log index that the answer reflects
	AsOf      time.Time    `json:"as_of"` // on the answering node's clock; all ages count from here
	Findings  []Finding    `json:"findings"`
	Posture   WhyClass     `json:"posture"`
	Holder    *WhyHolder   `json:"holder"`  // null: nobody holds it
	Waiters   []WhyWaiter  `json:"waiters"` // in line, the first 100
	Waiting   int          `json:"waiters_total"`
	Delay     *WhyDelay    `json:"delay,omitempty"`
	Quotas    []QuotaUse   `json:"quotas"`
	Partition WhyPartition `json:"partition"`
}

// Finding is one cause, the most decisive first.
type Finding struct {
	Code FindingCode `json:"code"`
	Text string      `json:"text"` // what is the case
	Next string      `json:"next"` // what to do about it
}

// FindingCode is the stable name of a cause.
type FindingCode string

// The codes, in the order in which findings are listed.
const (
	FindingNoQuorum          FindingCode = "no_quorum"
	FindingTenantSuspended   FindingCode = "tenant_suspended"
	FindingTenantDropped     FindingCode = "tenant_dropped"
	FindingClassUnknown      FindingCode = "class_unknown"
	FindingAwaitingSignature FindingCode = "awaiting_signature"
	FindingNeverSigned       FindingCode = "never_signed"
	FindingNotInForceYet     FindingCode = "not_in_force_yet"
	FindingClassRetired      FindingCode = "class_retired"
	FindingEnding            FindingCode = "ending"
	FindingHolderSilent      FindingCode = "holder_silent"
	FindingHeld              FindingCode = "held"
	FindingLockDelay         FindingCode = "lock_delay"
	FindingQueue             FindingCode = "queue"
	FindingQueueFull         FindingCode = "queue_full"
	FindingDoesNotQueue      FindingCode = "does_not_queue"
	FindingQuota             FindingCode = "quota"
	FindingFree              FindingCode = "free"
)

// ClassState is where a class stands.
type ClassState string

// The states of a class.
const (
	ClassUnknown     ClassState = "unknown"      // no such class was ever declared
	ClassNeverSigned ClassState = "never_signed" // declared, and no version was ever signed
	ClassSigned      ClassState = "signed"       // signed, and not in force yet
	ClassInForce     ClassState = "in_force"
	ClassRetired     ClassState = "retired"
)

// WhyClass is a class as it grants now. What belongs to the posture is of the version in force, and absent without one.
type WhyClass struct {
	State       ClassState  `json:"state"`
	Version     uint64      `json:"version,omitempty"`      // in force, or retired
	Signed      uint64      `json:"signed,omitempty"`       // signed last
	InReview    []InReview  `json:"in_review,omitempty"`    // versions that await signatures
	Purpose     string      `json:"purpose,omitempty"`      // correctness or efficiency
	Enforcement string      `json:"enforcement,omitempty"`  // fenced or advisory
	QuorumLoss  string      `json:"quorum_loss,omitempty"`  // closed or open
	Lease       Duration    `json:"lease,omitzero"`         //
	Heartbeat   Duration    `json:"heartbeat,omitzero"`     //
	LockDelay   Duration    `json:"lock_delay,omitzero"`    // absent: none
	MaxHold     Duration    `json:"max_hold,omitzero"`      // absent: unlimited
	WaitMode    string      `json:"wait_mode,omitempty"`    // queue or refuse
	MaxWait     Duration    `json:"max_wait,omitzero"`      // of queue; absent: unlimited
	MaxWaiters  int         `json:"max_waiters,omitempty"`  // of queue
	Guard       *GuardState `json:"guard_report,omitempty"` // what its guards have told; absent: nothing
}

// InReview is a version that awaits signatures.
type InReview struct {
	Version uint64   `json:"version"`
	Missing []string `json:"missing"` // owner groups that have not signed
	Stale   bool     `json:"stale"`   // its base has been replaced, so that it is to be declared again
}

// GuardState is what the guards of a class have reported so far.
type GuardState struct {
	Last       time.Time `json:"last"`       // when one reported last
	Checks     uint64    `json:"checks"`     // tokens checked, in all
	Rejections uint64    `json:"rejections"` // stale tokens refused, in all
}

// WhyHolder is who holds the lock.
type WhyHolder struct {
	Label          string    `json:"holder"`  // as the client gave it, may be empty
	APIKey         string    `json:"api_key"` // the API key's name
	Since          time.Time `json:"since"`
	Token          uint64    `json:"token"`
	Epoch          uint64    `json:"epoch"` // of the grant
	PostureVersion uint64    `json:"posture_version"`
	Lease          Duration  `json:"lease"`
	Heartbeat      Duration  `json:"heartbeat"`                // how often it is to say that it lives
	HeartbeatAge   *Duration `json:"heartbeat_age,omitempty"`  // since its last request; absent: the answering node cannot tell
	ExpiresWithin  *Duration `json:"expires_within,omitempty"` // at the latest, unless it is heard of again; absent likewise
	Ending         string    `json:"ending,omitempty"`         // why it is being ended from outside
}

// WhyWaiter is one queued request.
type WhyWaiter struct {
	Position int       `json:"position"` // from 1
	Label    string    `json:"holder"`
	APIKey   string    `json:"api_key"`
	Since    time.Time `json:"since"`
	Waited   Duration  `json:"waited"`
	MaxWait  *Duration `json:"max_wait,omitempty"` // how long it asked to; absent: unlimited
}

// WhyDelay is the pause after an expiry or a force-release, in which the key is granted to nobody.
type WhyDelay struct {
	Token      uint64   `json:"token"` // of the grant that it follows
	Length     Duration `json:"length"`
	EndsWithin Duration `json:"ends_within"` // at the latest, while a leader answers
}

// QuotaUse is how much of one quota the tenant has in use.
type QuotaUse struct {
	Quota string `json:"quota"` // keys, leases, waiters or sessions
	InUse int    `json:"in_use"`
	Limit int    `json:"limit"`
}

// WhyPartition is the partition that carries the tenant, as the answering node sees it.
type WhyPartition struct {
	Node   string      `json:"node"`   // who answers
	Leader string      `json:"leader"` // empty: none is known
	Ready  bool        `json:"ready"`  // the answering node leads and answers
	Quorum bool        `json:"quorum"` // a majority has confirmed the answering node as leader for this answer
	Epoch  uint64      `json:"epoch"`
	Voters []VoterSeen `json:"voters"`
}

// VoterSeen is whether a voter answered the answering node's question.
type VoterSeen struct {
	Node     string `json:"node"`
	Answered bool   `json:"answered"`
}

// Shown is a text of somebody else's, such as a key or a holder label, as it may stand in a line for people: as it is when it
// is plain; else in quotes, with everything escaped that moves a cursor, turns the direction of a line, or cannot be seen.
// Different texts are shown differently. Letters that are written from right to left are escaped as well: beside a number
// they would change its place.
func Shown(text string) string {
	var b strings.Builder
	plain := text != ""
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		piece := text[i : i+size]
		switch {
		case r == '"' || r == '\\':
			piece, plain = `\`+piece, false
		case r == ' ' || r == '\'' || r == '`':
			plain = false
		case !shows(r) || r == utf8.RuneError && size == 1 || i == 0 && unicode.Is(unicode.M, r):
			quoted := strconv.QuoteToASCII(piece)
			piece, plain = quoted[1:len(quoted)-1], false
		}
		b.WriteString(piece)
		i += size
	}
	if plain {
		return text
	}
	return `"` + b.String() + `"`
}

// shows reports whether a character can be seen, and leaves the direction of its line alone.
func shows(r rune) bool {
	return strconv.IsPrint(r) && !unicode.Is(unicode.Variation_Selector, r) && !unicode.Is(rightToLeft, r)
}

// rightToLeft is where the letters are that are written from right to left.
var rightToLeft = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x0590, Hi: 0x08ff, Stride: 1}, {Lo: 0xfb1d, Hi: 0xfdff, Stride: 1}, {Lo: 0xfe70, Hi: 0xfeff, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x10800, Hi: 0x10fff, Stride: 1}, {Lo: 0x1e800, Hi: 0x1efff, Stride: 1}},
}
