package review

import (
	"os"
	"strings"
	"testing"
)

const readme = "../README.md"

func TestReadme_guaranteeTableIsThatOfTheCode(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	want := "\n\n" + GuaranteeTableMarkdown() + "\n" // a table of its own, whole
	if got := strings.Count(string(text), want); got != 1 {
		t.Errorf("%s: the guarantee table is there %d times, want once:\n%s", readme, got, want)
	}
	if got := strings.Count(string(text), "| lane |"); got != 1 {
		t.Errorf("%s has %d tables of lanes, want one", readme, got)
	}
}

func TestReadme_claimsExclusionInTheWordsOfTheCode(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	if want := "*" + ClaimFor(PurposeCorrectness, EnforcementFenced).Sentence + "*"; !strings.Contains(words, want) {
		t.Errorf("%s does not say: %s", readme, want)
	}
}
