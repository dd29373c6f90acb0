package review

import "strings"

// ClaimID names one sentence of guarantee. Ids are stable; they travel with every grant.
type ClaimID string

// The claims.
const (
	// ClaimExclusionAtResource is mutual exclusion, and holds at the resource alone.
	ClaimExclusionAtResource ClaimID = "exclusion-at-resource"
	// ClaimOrderedAdvisory is ordered grants of a correctness class whose resource checks nothing.
	ClaimOrderedAdvisory ClaimID = "ordered-grants-advisory"
	// ClaimOrderedEfficiency is ordered grants of an efficiency class.
	ClaimOrderedEfficiency ClaimID = "ordered-grants-efficiency"
)

// ClaimsTableVersion grows with every change of a claim's words. Signatures name it, so that nobody is taken to have
// signed words that were written later.
const ClaimsTableVersion = 1

// Claim is what one lane of classes guarantees. The words are published as they stand here, everywhere.
type Claim struct {
	ID       ClaimID
	Lane     string
	Sentence string // the one sentence of guarantee
	// What happens, by circumstance.
	Normal        string
	HolderPauses  string
	RenewalFails  string
	QuorumLost    string
	AfterRecovery string
}

const orderedGrants = "grants are ordered; nothing more is claimed."

// claims is the table of guarantees, in the order in which it is shown.
var claims = [...]Claim{
	{
		ID: ClaimExclusionAtResource, Lane: "correctness · fenced",
		Sentence: "once a newer token has entered the resource, no older one is accepted.",
		Normal:   "grant + token", HolderPauses: "stale write rejected", RenewalFails: "fence at local deadline",
		QuorumLost: "no grants; holders self-fence", AfterRecovery: "epoch advances first",
	},
	{
		ID: ClaimOrderedAdvisory, Lane: "correctness · advisory", Sentence: orderedGrants,
		Normal: "grant + token", HolderPauses: "double write possible", RenewalFails: "fence at local deadline",
		QuorumLost: "no grants; holders self-fence", AfterRecovery: "epoch advances first",
	},
	{
		ID: ClaimOrderedEfficiency, Lane: "efficiency", Sentence: orderedGrants,
		Normal: "grant + token", HolderPauses: "duplicate work only", RenewalFails: "fence at local deadline",
		QuorumLost: "open if declared, else no grants", AfterRecovery: "reconcile the unprotected grants",
	},
}

// Claims is the table of guarantees, in the order in which it is shown.
func Claims() []Claim { return append([]Claim(nil), claims[:]...) }

// ClaimFor is the claim of a class. For anything but the purposes and enforcements of this package it is the zero Claim,
// which guarantees nothing. An efficiency class claims ordered grants whether its resource is fenced or not.
func ClaimFor(p Purpose, e Enforcement) Claim {
	known := e == EnforcementFenced || e == EnforcementAdvisory
	switch {
	case p == PurposeCorrectness && e == EnforcementFenced:
		return claims[0]
	case p == PurposeCorrectness && e == EnforcementAdvisory:
		return claims[1]
	case p == PurposeEfficiency && known:
		return claims[2]
	}
	return Claim{}
}

// GuaranteeTableMarkdown is the table as Markdown, with a line break at its end.
func GuaranteeTableMarkdown() string {
	rows := [][]string{
		{"lane", "normal", "holder pauses", "renewal fails", "quorum lost", "after recovery"},
		{"---", "---", "---", "---", "---", "---"},
	}
	for _, c := range claims {
		rows = append(rows, []string{c.Lane, c.Normal, c.HolderPauses, c.RenewalFails, c.QuorumLost, c.AfterRecovery})
	}
	var b strings.Builder
	for _, r := range rows {
		b.WriteString("| " + strings.Join(r, " | ") + " |\n")
	}
	return b.String()
}
