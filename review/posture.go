package review

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gowebpki/jcs"
)

// Posture is the effective statement of a class file: every default written out, every duration in milliseconds.
type Posture struct {
	Format      int         `cbor:"1,keyasint"` // 1
	Class       ClassName   `cbor:"2,keyasint"`
	Description string      `cbor:"3,keyasint,omitempty"`
	Resource    string      `cbor:"4,keyasint"`
	Owner       Group       `cbor:"5,keyasint"`
	Purpose     Purpose     `cbor:"6,keyasint"`
	Enforcement Enforcement `cbor:"7,keyasint"`
	QuorumLoss  QuorumLoss  `cbor:"8,keyasint"`
	Guard       string      `cbor:"9,keyasint,omitempty"`
	LeaseMS     int64       `cbor:"10,keyasint"`           // 1,000 .. 3,600,000
	HeartbeatMS int64       `cbor:"11,keyasint"`           // 1 .. half the lease
	LockDelayMS int64       `cbor:"12,keyasint,omitempty"` // 0 .. 60,000
	MaxHoldMS   int64       `cbor:"13,keyasint,omitempty"` // 1,000 .. 36,000,000,000; 0: unlimited
	ReviewBy    Date        `cbor:"14,keyasint,omitempty"`
	WaitMode    WaitMode    `cbor:"15,keyasint"`
	MaxWaitMS   int64       `cbor:"16,keyasint,omitempty"` // 1,000 .. 86,400,000; 0: unlimited, and for WaitRefuse
	MaxWaiters  int         `cbor:"17,keyasint,omitempty"` // 1 .. 100,000; 0 for WaitRefuse
}

const (
	ownerPrefix   = "group:"
	unlimitedWord = "unlimited"
	maxWaitersMax = 100_000
)

// statement is the JSON form of a posture. Fields that the file left out and that have no default are absent.
type statement struct {
	Format      int           `json:"format"`
	Class       ClassName     `json:"class"`
	Description string        `json:"description,omitempty"`
	Resource    string        `json:"resource"`
	Owner       string        `json:"owner"`
	Purpose     Purpose       `json:"purpose"`
	Enforcement Enforcement   `json:"enforcement"`
	QuorumLoss  QuorumLoss    `json:"quorum_loss"`
	Guard       string        `json:"guard,omitempty"`
	LeaseMS     int64         `json:"lease_ms"`
	HeartbeatMS int64         `json:"heartbeat_ms"`
	LockDelayMS int64         `json:"lock_delay_ms"`
	MaxHoldMS   any           `json:"max_hold_ms"`
	ReviewBy    Date          `json:"review_by,omitempty"`
	Wait        waitStatement `json:"wait"`
}

type waitStatement struct {
	Mode       WaitMode `json:"mode"`
	MaxWaitMS  any      `json:"max_wait_ms,omitempty"`
	MaxWaiters int      `json:"max_waiters,omitempty"`
}

// Canonical is the statement as RFC 8785 JSON: the bytes whose digest people sign. Durations are integers in
// milliseconds; a bound that is switched off reads "unlimited", never 0, so that the statement cannot be misread.
// The posture must be one that Parse gave or that is valid; anything else has no canonical form worth signing.
func (p Posture) Canonical() []byte {
	plain, err := json.Marshal(p.statement())
	if err != nil {
		panic(fmt.Sprintf("review: encode posture: %v", err)) // strings and integers alone cannot fail
	}
	canonical, err := jcs.Transform(plain)
	if err != nil {
		panic(fmt.Sprintf("review: canonical posture: %v", err))
	}
	return canonical
}

// Digest names the canonical statement.
func (p Posture) Digest() Digest { return DigestOf(p.Canonical()) }

func (p Posture) statement() statement {
	s := statement{
		Format: p.Format, Class: p.Class, Description: p.Description, Resource: p.Resource,
		Owner: ownerPrefix + string(p.Owner), Purpose: p.Purpose, Enforcement: p.Enforcement, QuorumLoss: p.QuorumLoss,
		Guard: p.Guard, LeaseMS: p.LeaseMS, HeartbeatMS: p.HeartbeatMS, LockDelayMS: p.LockDelayMS,
		MaxHoldMS: bound(p.MaxHoldMS), ReviewBy: p.ReviewBy, Wait: waitStatement{Mode: p.WaitMode},
	}
	if p.WaitMode == WaitQueue {
		s.Wait.MaxWaitMS, s.Wait.MaxWaiters = bound(p.MaxWaitMS), p.MaxWaiters
	}
	return s
}

func bound(ms int64) any {
	if ms == 0 {
		return unlimitedWord
	}
	return ms
}

// valid checks a posture by itself: the replicated state trusts no proposer with what a statement may say.
func (p Posture) valid() bool {
	return p.Format == 1 && p.Class.Valid() &&
		(p.Description == "" || descriptionText.accepts(p.Description)) && resourceText.accepts(p.Resource) &&
		groupText.accepts(string(p.Owner)) && (p.Guard == "" || guardText.accepts(p.Guard)) &&
		(p.Purpose == PurposeCorrectness || p.Purpose == PurposeEfficiency) &&
		(p.Enforcement == EnforcementFenced || p.Enforcement == EnforcementAdvisory) &&
		(p.QuorumLoss == QuorumLossClosed || p.QuorumLoss == QuorumLossOpen) &&
		leaseLimits.accepts(p.LeaseMS) && heartbeatLimits.accepts(p.HeartbeatMS) &&
		lockDelayLimits.accepts(p.LockDelayMS) && maxHoldLimits.accepts(p.MaxHoldMS) &&
		(p.ReviewBy == "" || p.ReviewBy.Valid()) && p.validWait() && len(contradictions(p)) == 0
}

func (p Posture) validWait() bool {
	switch p.WaitMode {
	case WaitQueue:
		return maxWaitLimits.accepts(p.MaxWaitMS) && p.MaxWaiters >= 1 && p.MaxWaiters <= maxWaitersMax
	case WaitRefuse:
		return p.MaxWaitMS == 0 && p.MaxWaiters == 0
	}
	return false
}

// breach is one thing that a posture's fields say against each other.
type breach struct {
	rule    RuleID
	fields  []string // on which it depends; it is shown at the first of them that the file has
	message string
	remedy  string
}

// contradictions are the combinations that are refused.
func contradictions(p Posture) []breach {
	var found []breach
	if p.Purpose == PurposeCorrectness && p.QuorumLoss == QuorumLossOpen {
		found = append(found, breach{RuleCorrectnessOpen, []string{"quorum_loss", "purpose"},
			"a correctness class cannot grant while the quorum is lost",
			"write quorum_loss: closed, or purpose: efficiency if working twice does no damage"})
	}
	if p.Enforcement == EnforcementFenced && p.Guard == "" {
		found = append(found, breach{RuleFencedWithoutGuard, []string{"guard", "enforcement"},
			"enforcement is fenced and no guard is named",
			"add guard: and say what checks the token at the resource, or write enforcement: advisory"})
	}
	if p.HeartbeatMS > p.LeaseMS/2 {
		found = append(found, breach{RuleHeartbeatTooLong, []string{"heartbeat", "lease"},
			fmt.Sprintf("heartbeat %s is over half the lease (%s)", formatMS(p.HeartbeatMS), formatMS(p.LeaseMS)),
			fmt.Sprintf("write a heartbeat of at most %s, or leave it out", formatMS(p.LeaseMS/2))})
	}
	return found
}

// PurposeAllowed reports whether a class may be declared with the purpose declared, when the purpose fixed for its name is
// fixed. Empty fixed means that no version of the name has been signed yet. Retirement does not free a name.
func PurposeAllowed(fixed, declared Purpose) bool { return fixed == "" || fixed == declared }

func purposeMessage(fixed, declared Purpose) (message, remedy string) {
	return fmt.Sprintf("the purpose of this name is %s for ever, and cannot become %s", fixed, declared),
		fmt.Sprintf("write purpose: %s, or choose another class name", fixed)
}

// formatMS writes a duration in the largest unit that says it exactly, as a class file would.
func formatMS(ms int64) string {
	for _, u := range slices.Backward(durationUnits) {
		if ms != 0 && ms%u.ms == 0 {
			return fmt.Sprintf("%d%s", ms/u.ms, u.name)
		}
	}
	return "0s"
}

// FormatDuration writes a whole number of milliseconds as a class file would ("10s", "500ms"); where zero says that a
// bound is off, unlimited is true and the word is written.
func FormatDuration(d time.Duration, unlimited bool) string {
	if unlimited && d == 0 {
		return unlimitedWord
	}
	return formatMS(d.Milliseconds())
}
