package review

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func postureOf(t testing.TB, file string) Posture {
	t.Helper()
	f, fs := Parse("f", []byte(file), Options{})
	if fs.Err() != nil {
		t.Fatalf("class file: %v", fs.Err())
	}
	return f.Posture()
}

func TestChanges_sayWhatEachFieldMeans(t *testing.T) {
	old := postureOf(t, fenced)
	var told strings.Builder
	for _, file := range []string{
		fenced,
		fenced + "description: Close the ledger.\nlease: 5s\nheartbeat: 1s\nlock_delay: 7s\nmax_hold: 1h\nreview_by: 2030-01-31\n",
		strings.Replace(fenced, "enforcement: fenced", "enforcement: advisory", 1),
		strings.Replace(fenced, "ledger-owners", "new-owners", 1),
		strings.Replace(strings.Replace(fenced, "postgres:ledger", "postgres:books", 1), "mode: queue", "mode: refuse", 1),
		strings.Replace(openFile, "report-refresh", "ledger-close", 1) + "wait:\n  max_wait: unlimited\n  max_waiters: 7\n",
	} {
		for _, c := range Changes(old, postureOf(t, file)) {
			fmt.Fprintf(&told, "%s: %q -> %q\n", c.Field, c.Old, c.New)
			for _, m := range c.Meaning {
				told.WriteString("  " + m + "\n")
			}
		}
		told.WriteString("---\n")
	}
	golden(t, "changes.txt", []byte(told.String()))
}

func TestChanges_missNoFieldOfTheStatement(t *testing.T) {
	a, b := postureOf(t, fenced), postureOf(t, openFile+"description: d\nguard: g\nlease: 20s\nheartbeat: 3s\nlock_delay: 1s\n"+
		"max_hold: 1h\nreview_by: 2030-01-31\nwait:\n  mode: refuse\n")
	b.Class = a.Class // the name is what the two have in common
	if got, want := len(Changes(a, b)), len(fileFields)-len([]string{"format", "class", "wait"})+len(waitFields); got != want {
		t.Errorf("%d fields differ; want %d: %+v", got, want, Changes(a, b))
	}
}

func TestParseStatement_readsWhatIsSignedAndNothingElse(t *testing.T) {
	for _, file := range []string{fenced, openFile, fenced + "max_hold: 2h\nreview_by: 2030-01-31\ndescription: \"<d> & é\"\n",
		strings.Replace(fenced, "mode: queue", "mode: refuse", 1), openFile + "wait:\n  max_wait: unlimited\n"} {
		p := postureOf(t, file)
		if got, err := ParseStatement(p.Canonical()); err != nil || got != p {
			t.Errorf("got %+v, %v; want %+v", got, err, p)
		}
	}
	good := string(read(t, filepath.Join("testdata", "classes", "ledger-close.canonical")))
	if _, err := ParseStatement([]byte(strings.TrimSpace(good))); err != nil {
		t.Errorf("the golden statement: %v", err)
	}
	whole := string(postureOf(t, fenced).Canonical())
	for name, bad := range map[string]string{
		"nothing": "", "another field": strings.Replace(whole, "{", `{"a":1,`, 1), "spaces": strings.Replace(whole, ":", ": ", 1),
		"another purpose": strings.Replace(whole, "correctness", "speed", 1), "a lease too long": strings.Replace(whole, "10000", "10000000000", 1),
		"an owner without its kind": strings.Replace(whole, "group:", "", 1), "something behind": whole + "{}",
		"a fraction": strings.Replace(whole, "10000", "10000.5", 1),
	} {
		if got, err := ParseStatement([]byte(bad)); !errors.Is(err, ErrInvalidStatement) {
			t.Errorf("%s: got %+v, %v; want ErrInvalidStatement", name, got, err)
		}
	}
}
