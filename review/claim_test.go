package review

import (
	"fmt"
	"strings"
	"testing"
)

func TestGuaranteeTableMarkdown_isGolden(t *testing.T) {
	golden(t, "guarantees.md", []byte(GuaranteeTableMarkdown()))
}

// A change of a claim's words needs a new version, since people signed under the old ones.
func TestClaims_changeOnlyWithTheTableVersion(t *testing.T) {
	const version, want = 1, "sha256:309ab2de293ca8ca00718429e2d4669278c8199413587ac9317b5b5e39ef7adf"
	got := DigestOf(fmt.Append(nil, Claims()))
	if ClaimsTableVersion != version || string(got) != want {
		t.Errorf("version %d with words %s; want version %d with words %s", ClaimsTableVersion, got, version, want)
	}
}

func TestClaimFor_claimsExclusionForTheFencedLaneAlone(t *testing.T) {
	cases := []struct {
		purpose     Purpose
		enforcement Enforcement
		want        ClaimID
	}{
		{PurposeCorrectness, EnforcementFenced, ClaimExclusionAtResource},
		{PurposeCorrectness, EnforcementAdvisory, ClaimOrderedAdvisory},
		{PurposeEfficiency, EnforcementFenced, ClaimOrderedEfficiency},
		{PurposeEfficiency, EnforcementAdvisory, ClaimOrderedEfficiency},
		{PurposeCorrectness, "", ""}, {"", EnforcementFenced, ""}, {PurposeEfficiency, "", ""}, {"x", "y", ""},
	}
	for _, c := range cases {
		got := ClaimFor(c.purpose, c.enforcement)
		if got.ID != c.want {
			t.Errorf("%s %s: got %q, want %q", c.purpose, c.enforcement, got.ID, c.want)
		}
		exclusion := got.Sentence == "once a newer token has entered the resource, no older one is accepted."
		if exclusion != (c.want == ClaimExclusionAtResource) {
			t.Errorf("%s %s: says %q", c.purpose, c.enforcement, got.Sentence)
		}
		if c.want != "" && !exclusion && strings.Contains(strings.ToLower(got.Sentence), "exclu") {
			t.Errorf("%s %s: says %q", c.purpose, c.enforcement, got.Sentence)
		}
	}
}
