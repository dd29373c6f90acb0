package api

import (
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
)

// claims holds the claim of each kind of class, as it is published.
type claims [lockcore.PurposeEfficiency + 1][lockcore.EnforcementAdvisory + 1]wire.Claim

func newClaims() claims {
	var table claims
	for p := range lockcore.PurposeEfficiency + 1 {
		for e := range lockcore.EnforcementAdvisory + 1 {
			c := review.ClaimFor(review.Purpose(p.String()), review.Enforcement(e.String()))
			table[p][e] = wire.Claim{ID: string(c.ID), Text: c.Sentence}
		}
	}
	return table
}

// claim is what a grant under such a posture guarantees; empty for a posture that is none.
func (a *API) claim(p lockcore.Purpose, e lockcore.Enforcement) wire.Claim {
	if int(p) >= len(a.claims) || int(e) >= len(a.claims[0]) {
		return wire.Claim{}
	}
	return a.claims[p][e]
}
