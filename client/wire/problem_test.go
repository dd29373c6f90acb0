package wire

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the difference")

func TestProblems_areAsPublished(t *testing.T) {
	const golden = "testdata/problems.md"
	got := ProblemTableMarkdown()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the table of problems has changed; a published code keeps its meaning\n got:\n%s\nwant:\n%s", got, want)
	}
}

func TestProblems_eachSaysWhatToDo(t *testing.T) {
	seen := map[Code]bool{}
	for _, k := range Problems() {
		if seen[k.Code] {
			t.Errorf("%s is there twice", k.Code)
		}
		seen[k.Code] = true
		if k.Title == "" || k.Remedy == "" || k.Status < 400 || k.Status > 599 {
			t.Errorf("%s lacks a title, a remedy or an error status: %+v", k.Code, k)
		}
		if strings.Contains(k.Title+k.Remedy, "|") {
			t.Errorf("%s breaks the table with a bar", k.Code)
		}
		if k.Status == 429 && (k.Retry != RetryLater || k.RetryAfterSecsMax == 0) {
			t.Errorf("%s is a limit, and is to come with retry later and Retry-After", k.Code)
		}
	}
}

func TestNewProblem_takesMeaningFromTheTable(t *testing.T) {
	p := NewProblem(CodeHeld, "by somebody")
	if p.Status != 409 || p.Retry != RetryNewID || p.Type != "urn:stanchion:problem:held" || p.Detail != "by somebody" {
		t.Errorf("NewProblem(held) = %+v", p)
	}
	if got, want := p.Error(), "held: by somebody"; got != want {
		t.Errorf("Error() = %q; want %q", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("a problem with an unknown code was made; want a panic")
		}
	}()
	NewProblem("no_such_code", "")
}
