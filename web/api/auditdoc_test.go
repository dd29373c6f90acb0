package api

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
)

// auditDoc is the documentation of the audit.
func auditDoc(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestAuditDoc_hasTheTableOfKinds(t *testing.T) {
	_, rest, begun := strings.Cut(auditDoc(t), "<!-- audit-kinds -->\n")
	got, _, ended := strings.Cut(rest, "<!-- /audit-kinds -->")
	if !begun || !ended {
		t.Fatal("docs/audit.md lacks the marks of the table")
	}
	var want strings.Builder
	want.WriteString("\n| kind | what happened |\n| --- | --- |\n")
	for _, k := range audit.Kinds() {
		want.WriteString("| `" + k.Name + "` | " + k.Meaning + " |\n")
	}
	want.WriteString("\n")
	if got != want.String() {
		t.Errorf("the table in docs/audit.md\n%s\nis not that of the code:\n%s", got, want.String())
	}
}

func TestAuditDoc_namesEveryFieldAndParameter(t *testing.T) {
	doc := auditDoc(t)
	for _, name := range slices.Concat(csvColumns, auditParameters) {
		if !strings.Contains(doc, "`"+name+"`") && !strings.Contains(doc, "`"+name+"=") {
			t.Errorf("docs/audit.md does not name `%s`", name)
		}
	}
}

func TestAuditFormat_followsAcceptUnlessNamed(t *testing.T) {
	for _, test := range []struct {
		query, accept string
		want          auditFormat
		ok            bool
	}{
		{"", "", formatJSON, true}, {"", "text/csv", formatCSV, true}, {"format=ndjson", "text/csv", formatNDJSON, true},
		{"", "application/ndjson, application/json", formatNDJSON, true}, {"", "text/csv;q=x", formatJSON, true},
		{"", "text/csv;q=0.2, */*;q=0.1", formatCSV, true}, {"format=", "", formatJSON, false}, {"format=CSV", "", formatJSON, false},
	} {
		params, err := url.ParseQuery(test.query)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := auditFormatOf(params, test.accept); got != test.want || ok != test.ok {
			t.Errorf("?%s with Accept: %s is %d, %v; want %d, %v", test.query, test.accept, got, ok, test.want, test.ok)
		}
	}
}

func TestCSV_makesFormulasHarmlessAndNothingElse(t *testing.T) {
	for cell, want := range map[string]string{"": "", "a": "a", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@a": "'@a", "'a": "''a",
		"\ta": "'\ta", "\r": "\"'\r\"", "\na": "\"'\na\"", "a=1": "a=1", "a,b": `"a,b"`, `a"b`: `"a""b"`, "a\r\nb": "\"a\r\nb\"", " a": " a",
		"=a,b": `"'=a,b"`, "é": "é"} {
		if got := string(appendCSV(nil, cell)); got != want+"\r\n" {
			t.Errorf("%q is written as %q; want %q", cell, got, want)
		}
	}
}
