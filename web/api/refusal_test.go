package api

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/review"
)

func TestReasons_areAllPublished(t *testing.T) {
	for _, r := range lockcore.Reasons() {
		code, ok := codeByReason[r]
		if _, known := wire.KindOf(code); !ok || !known {
			t.Errorf("reason %s is published as %q, which is no problem code", r, code)
		}
	}
	if got, want := len(codeByReason), len(lockcore.Reasons()); got != want {
		t.Errorf("%d reasons are published; there are %d", got, want)
	}
}

func TestProblemOf_mapsErrors(t *testing.T) {
	for _, test := range []struct {
		err    error
		code   wire.Code
		listed bool
	}{
		{leader.ErrNotLeader, wire.CodeNotLeader, true},
		{fmt.Errorf("acquire: %w", leader.ErrNoQuorum), wire.CodeNoQuorum, true},
		{leader.ErrUnknownOutcome, wire.CodeOutcomeUnknown, true},
		{leader.ErrOverloaded, wire.CodeOverloaded, true},
		{leader.ErrNotFound, wire.CodeNotFound, true},
		{context.DeadlineExceeded, wire.CodeOutcomeUnknown, true},
		{context.Canceled, wire.CodeOutcomeUnknown, true},
		{errStopping, wire.CodeStopping, true},
		{&badRequest{"key", keyRule}, wire.CodeInvalidRequest, true},
		{errors.New("disk on fire"), wire.CodeInternal, false},
	} {
		p, listed := ProblemOf(test.err)
		if p.Code != test.code || listed != test.listed {
			t.Errorf("%v is %s, listed %v; want %s, %v", test.err, p.Code, listed, test.code, test.listed)
		}
		if !test.listed && p.Detail != "" {
			t.Errorf("%v is told to the caller: %q", test.err, p.Detail)
		}
	}
}

func TestClaims_comeFromTheTableOfGuarantees(t *testing.T) {
	a := &API{claims: newClaims()}
	for _, test := range []struct {
		purpose     lockcore.Purpose
		enforcement lockcore.Enforcement
		want        review.ClaimID
	}{
		{lockcore.PurposeCorrectness, lockcore.EnforcementFenced, review.ClaimExclusionAtResource},
		{lockcore.PurposeCorrectness, lockcore.EnforcementAdvisory, review.ClaimOrderedAdvisory},
		{lockcore.PurposeEfficiency, lockcore.EnforcementFenced, review.ClaimOrderedEfficiency},
		{lockcore.PurposeEfficiency, lockcore.EnforcementAdvisory, review.ClaimOrderedEfficiency},
		{lockcore.PurposeUnknown, lockcore.EnforcementFenced, ""},
		{200, 200, ""},
	} {
		got := a.claim(test.purpose, test.enforcement)
		if got.ID != string(test.want) || (got.Text == "") != (test.want == "") {
			t.Errorf("%d %d claims %+v; want %q", test.purpose, test.enforcement, got, test.want)
		}
	}
}
