package wire_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

var update = flag.Bool("update-docs", false, "write the table of problem codes into docs/api.md")

const (
	apiDoc     = "../../docs/api.md"
	tableBegin = "<!-- problem-codes -->\n"
	tableEnd   = "<!-- /problem-codes -->"
)

func TestApiDoc_hasTheTableOfProblemCodes(t *testing.T) {
	raw, err := os.ReadFile(apiDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(raw), tableBegin)
	got, after, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		t.Fatalf("%s lacks the marks of the table", apiDoc)
	}
	want := "\n" + strings.TrimSpace(wire.ProblemTableMarkdown()) + "\n\n"
	if *update && got != want {
		if err := os.WriteFile(apiDoc, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("the table in %s is not that of the code; run go test ./client/wire -update-docs\ngot:\n%s\nwant:\n%s", apiDoc, got, want)
	}
}
