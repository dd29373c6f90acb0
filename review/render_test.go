package review

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRenderers_areGolden(t *testing.T) {
	_, fs := Parse("classes/broken.yaml", read(t, filepath.Join("testdata", "classes", "broken.yaml")), Options{})
	_, more := Parse("classes/a:b,c.yaml", []byte(edit(t, fenced, "fenced", "advisory")+"lease: 2s\n\"100%\\n\": 1\n"), Options{})
	all := slices.Concat(fs, more)
	all.Sort()
	golden(t, "findings.txt", []byte(all.Text()))
	golden(t, "findings.json", all.JSON())
	golden(t, "findings.annotations", []byte(all.Annotations()))
}

func TestJSON_ofNothingIsAnEmptyList(t *testing.T) {
	if got := string(Findings(nil).JSON()); !strings.Contains(got, `"findings": []`) {
		t.Errorf("got %s", got)
	}
}

func TestText_keepsEachFindingToOneLine(t *testing.T) {
	f := Finding{File: "a\nb", Line: 1, Column: 1, Rule: RuleSyntax, Severity: SeverityError, Message: "x\x1b[31m", Remedy: "y\u202e"}
	got := Findings{f}.Text()
	if strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("got %q", got)
	}
}

func TestErr_tellsErrorsAndNotWarnings(t *testing.T) {
	_, warned := Parse("f", []byte(openFile+"lease: 1s\n"), Options{})
	if len(warned.Warnings()) != 1 || warned.Err() != nil {
		t.Errorf("got %v for %s", warned.Err(), warned.Text())
	}
	_, broken := Parse("f", []byte("a: 1\n"), Options{})
	if err := broken.Err(); !errors.Is(err, ErrInvalidClassFile) || !strings.Contains(err.Error(), "and 7 more") {
		t.Errorf("got %v", err)
	}
}
