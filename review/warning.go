package review

import (
	"fmt"
	"slices"
)

// leaseShortMS is the length below which a change of leader can outlast a lease.
const leaseShortMS = 10_000

// reservations are the combinations that stand, and that a signer must have read.
func reservations(p Posture, opts Options) []breach {
	var found []breach
	open := p.Purpose == PurposeEfficiency && p.QuorumLoss == QuorumLossOpen
	if open && p.Enforcement == EnforcementFenced {
		found = append(found, breach{RuleOpenFenced, []string{"quorum_loss", "enforcement", "purpose"},
			"an unprotected grant carries token zero, and the guard will refuse it",
			"write quorum_loss: closed, or enforcement: advisory, or accept that open grants do no guarded work"})
	}
	if open && opts.FailOpenDisabled {
		found = append(found, breach{RuleOpenDisabled, []string{"quorum_loss", "purpose"},
			"this platform grants nothing while the quorum is lost, so open acts as closed",
			"write quorum_loss: closed, or have the platform's operator enable fail-open"})
	}
	if p.Purpose == PurposeCorrectness && p.Enforcement == EnforcementAdvisory && p.LockDelayMS == 0 {
		found = append(found, breach{RuleAdvisoryNoDelay, []string{"lock_delay", "enforcement", "purpose"},
			"nothing refuses a late write, and no pause gives the late writer time to stop",
			"add a lock_delay, or fence the resource"})
	}
	if p.ReviewBy != "" && opts.Today != "" && p.ReviewBy < opts.Today {
		found = append(found, breach{RuleReviewOverdue, []string{"review_by"},
			"review_by " + string(p.ReviewBy) + " has passed", "review the class and write the next date"})
	}
	return append(found, leaseReservations(p)...)
}

// WarningRules are the rules that warn about p, sorted: what a signer of p must tick.
func WarningRules(p Posture, opts Options) []RuleID {
	var rules []RuleID
	for _, b := range reservations(p, opts) {
		rules = append(rules, b.rule)
	}
	slices.Sort(rules)
	return rules
}

func leaseReservations(p Posture) []breach {
	var found []breach
	if p.LeaseMS < leaseShortMS {
		found = append(found, breach{RuleLeaseShort, []string{"lease"},
			fmt.Sprintf("a change of leader can outlast a lease of %s", formatMS(p.LeaseMS)),
			"write a lease of at least 10s, or accept that leases end when a leader does"})
	}
	if p.WaitMode == WaitQueue && p.MaxWaitMS > 0 && p.LeaseMS+p.LockDelayMS >= p.MaxWaitMS {
		found = append(found, breach{RuleLeaseLong, []string{"lease", "wait.max_wait", "lock_delay", "wait.mode", "wait"},
			fmt.Sprintf("a waiter gives up after %s, before a dead holder's lease and delay (%s) are over",
				formatMS(p.MaxWaitMS), formatMS(p.LeaseMS+p.LockDelayMS)),
			"shorten the lease, or lengthen wait.max_wait"})
	}
	return found
}
