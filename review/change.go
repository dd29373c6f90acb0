package review

import (
	"fmt"
	"strconv"
)

// Change is one field in which a posture differs from the one that it would replace, and what that means.
type Change struct {
	Field   string   `json:"field"` // as in the class file
	Old     string   `json:"old"`   // as a class file writes it; empty: the field is not there
	New     string   `json:"new"`   // likewise
	Meaning []string `json:"meaning"`
}

// Changes lists in which fields now differs from old, in the order of a class file. None: the two say the same.
func Changes(old, now Posture) []Change {
	var changes []Change
	for _, f := range changeFields {
		was, is := f.text(old), f.text(now)
		if was == is {
			continue
		}
		c := Change{Field: f.name, Old: was, New: is, Meaning: []string{}}
		if f.meaning != nil {
			c.Meaning = append(c.Meaning, f.meaning(old, now)...)
		}
		changes = append(changes, c)
	}
	return changes
}

// changeField is one field of a class file: how it is written, and what another value of it means.
type changeField struct {
	name    string
	text    func(Posture) string
	meaning func(old, now Posture) []string // nil: the words speak for themselves
}

var changeFields = []changeField{
	{"description", func(p Posture) string { return p.Description }, nil},
	{"resource", func(p Posture) string { return p.Resource }, says("from now on the class speaks of another resource")},
	{"owner", func(p Posture) string { return ownerPrefix + string(p.Owner) }, ownerMeaning},
	{"purpose", func(p Posture) string { return string(p.Purpose) }, purposeMeaning},
	{"enforcement", func(p Posture) string { return string(p.Enforcement) }, enforcementMeaning},
	{"quorum_loss", func(p Posture) string { return string(p.QuorumLoss) }, quorumLossMeaning},
	{"guard", func(p Posture) string { return p.Guard }, says("something else, or nothing, is named that refuses a late write")},
	{"lease", func(p Posture) string { return formatMS(p.LeaseMS) }, leaseMeaning},
	{"heartbeat", func(p Posture) string { return formatMS(p.HeartbeatMS) }, nil},
	{"lock_delay", func(p Posture) string { return formatMS(p.LockDelayMS) }, lockDelayMeaning},
	{"max_hold", func(p Posture) string { return boundText(p.MaxHoldMS) }, maxHoldMeaning},
	{"review_by", func(p Posture) string { return string(p.ReviewBy) }, nil},
	{"wait.mode", func(p Posture) string { return string(p.WaitMode) }, waitModeMeaning},
	{"wait.max_wait", maxWaitText, nil},
	{"wait.max_waiters", maxWaitersText, nil},
}

func boundText(ms int64) string {
	if ms == 0 {
		return unlimitedWord
	}
	return formatMS(ms)
}

func maxWaitText(p Posture) string {
	if p.WaitMode == WaitRefuse {
		return ""
	}
	return boundText(p.MaxWaitMS)
}

func maxWaitersText(p Posture) string {
	if p.WaitMode == WaitRefuse {
		return ""
	}
	return strconv.Itoa(p.MaxWaiters)
}

func says(sentence string) func(old, now Posture) []string {
	return func(_, _ Posture) []string { return []string{sentence} }
}

func ownerMeaning(old, now Posture) []string {
	return []string{fmt.Sprintf("both %s and %s must sign", old.Owner, now.Owner)}
}

func purposeMeaning(old, now Posture) []string {
	message, remedy := purposeMessage(old.Purpose, now.Purpose)
	return append([]string{message + "; " + remedy}, laneMeaning(old, now)...)
}

func enforcementMeaning(old, now Posture) []string {
	if old.Purpose != now.Purpose {
		return nil // said of the purpose already
	}
	return laneMeaning(old, now)
}

// laneMeaning says, circumstance by circumstance, what the table of guarantees has for the new lane.
func laneMeaning(old, now Posture) []string {
	was, is := ClaimFor(old.Purpose, old.Enforcement), ClaimFor(now.Purpose, now.Enforcement)
	if was.ID == is.ID {
		return nil
	}
	var said []string
	for _, row := range [...]struct{ when, was, is string }{
		{"the claim", was.Sentence, is.Sentence},
		{"normal", was.Normal, is.Normal},
		{"holder pauses", was.HolderPauses, is.HolderPauses},
		{"renewal fails", was.RenewalFails, is.RenewalFails},
		{"quorum lost", was.QuorumLost, is.QuorumLost},
		{"after recovery", was.AfterRecovery, is.AfterRecovery},
	} {
		if row.was != row.is {
			said = append(said, fmt.Sprintf("%s: %s (was: %s)", row.when, row.is, row.was))
		}
	}
	return said
}

func quorumLossMeaning(_, now Posture) []string {
	if now.QuorumLoss == QuorumLossClosed {
		return []string{"quorum lost: no grants"}
	}
	c := ClaimFor(now.Purpose, now.Enforcement)
	return []string{"quorum lost: " + c.QuorumLost, "after recovery: " + c.AfterRecovery}
}

func leaseMeaning(_, now Posture) []string {
	said := []string{fmt.Sprintf("a key whose holder died stays taken for %s", formatMS(now.LeaseMS)),
		"leases granted before keep the length that they were granted with"}
	if now.LeaseMS < leaseShortMS {
		said = append(said, fmt.Sprintf("a change of leader can outlast a lease of %s", formatMS(now.LeaseMS)))
	}
	return said
}

func lockDelayMeaning(_, now Posture) []string {
	if now.LockDelayMS == 0 {
		return []string{"after an expiry or a force-release the key is granted at once: a late writer gets no time to stop"}
	}
	return []string{fmt.Sprintf("after an expiry or a force-release the key is granted to nobody for %s", formatMS(now.LockDelayMS))}
}

func maxHoldMeaning(_, now Posture) []string {
	if now.MaxHoldMS == 0 {
		return []string{"a hold may last for ever"}
	}
	return []string{fmt.Sprintf("a hold older than %s is ended", formatMS(now.MaxHoldMS))}
}

func waitModeMeaning(_, now Posture) []string {
	if now.WaitMode == WaitRefuse {
		return []string{"a request for a key that is held is refused; nobody queues"}
	}
	return []string{"requests for a key that is held queue in order"}
}
