package main

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update-docs", false, "write the table of commands into docs/cli.md")

const (
	repository   = "../.."
	cliDoc       = repository + "/docs/cli.md"
	commandBegin = "<!-- commands -->\n"
	commandEnd   = "<!-- /commands -->"
)

// commandTable lists every command with its arguments and what it does.
func commandTable() string {
	var b strings.Builder
	b.WriteString("\n| command | what it does |\n| --- | --- |\n")
	for _, c := range commandsUnder(newRoot()) {
		_, arguments, _ := strings.Cut(c.Use, " ")
		line := strings.TrimSpace(c.CommandPath() + " " + arguments)
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(line, "|", `\|`), c.Short)
	}
	return b.String() + "\n"
}

func TestCLIDoc_listsEveryCommand(t *testing.T) {
	raw, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(raw), commandBegin)
	got, after, ended := strings.Cut(rest, commandEnd)
	if !begun || !ended {
		t.Fatalf("%s lacks the marks of the table", cliDoc)
	}
	want := commandTable()
	if *updateDocs && got != want {
		if err := os.WriteFile(cliDoc, []byte(before+commandBegin+want+commandEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("the table in %s is not that of the commands; run go test ./cmd/stanchion -run CLIDoc -update-docs\ngot:\n%s\nwant:\n%s", cliDoc, got, want)
	}
}

// TestCLIDoc_namesEveryVariable that the code reads or sets, and no other.
func TestCLIDoc_namesEveryVariable(t *testing.T) {
	raw, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(STANCHION_[A-Z_]+)` \\|").FindAllStringSubmatch(string(raw), -1) {
		described[row[1]] = true
	}
	got, want := slices.Sorted(maps.Keys(described)), slices.Sorted(maps.Keys(variablesInCode(t)))
	if !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("%s describes\n%q, the code has\n%q", cliDoc, got, want)
	}
}

// variablesInCode are the names in the string literals of the Go code that is not tests.
func variablesInCode(t *testing.T) map[string]bool {
	t.Helper()
	literal := regexp.MustCompile(`"(STANCHION_[A-Z_]+)=?"`)
	found := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != repository:
			return filepath.SkipDir
		case d.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		raw, err := os.ReadFile(path)
		for _, m := range literal.FindAllSubmatch(raw, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCLIDoc_namesEveryExitCode of the commands that mean more by theirs.
func TestCLIDoc_namesEveryExitCode(t *testing.T) {
	raw, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{0, exitFailed, exitUsage, exitAwaiting, exitDiffers} {
		if !strings.Contains(string(raw), fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("%s lacks the exit code %d", cliDoc, code)
		}
	}
}

// TestCLIDoc_namesEveryCodeOfAFailure that is not a problem of the cluster's own.
func TestCLIDoc_namesEveryCodeOfAFailure(t *testing.T) {
	raw, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range append(slices.Clone(failureKinds), failureKind{code: "failed"}) {
		if !strings.Contains(string(raw), "`"+k.code+"`") {
			t.Errorf("%s lacks the code %s: %s", cliDoc, k.code, k.title)
		}
	}
}
