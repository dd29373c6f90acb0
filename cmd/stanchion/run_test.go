package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// runPage is docs/run.md.
func runPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/run.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tableUnder gives the rows of the table under a heading of a document, without its head.
func tableUnder(t *testing.T, text, heading string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("there is no heading %q", heading)
	}
	part, _, _ := strings.Cut(rest, "\n## ")
	var rows [][]string
	for line := range strings.Lines(part) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| ") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	if len(rows) < 3 {
		t.Fatalf("there is no table under %q", heading)
	}
	return rows[2:]
}

// TestRunExits_areTheDocumented: the page has the codes that the code has, in order, and no other.
func TestRunExits_areTheDocumented(t *testing.T) {
	var got, want []string
	for _, row := range tableUnder(t, runPage(t), "Exit codes") {
		got = append(got, fmt.Sprint(row))
	}
	for _, e := range runExits {
		want = append(want, fmt.Sprint([]string{e.code, e.meaning}))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/run.md:\n%s\nthe code:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRunFlags_areTheDocumented: the page has the flags of stanchion run that are not those of all commands, with their defaults.
func TestRunFlags_areTheDocumented(t *testing.T) {
	run := newRun()
	common := []string{"api-key-file", "ca-file", "endpoints", "profile"}
	page := runPage(t)
	for _, row := range tableUnder(t, page, "Flags") {
		name := strings.Trim(row[0], "`-")
		f := run.Flags().Lookup(name)
		if f == nil {
			t.Errorf("docs/run.md has --%s, which there is not", name)
			continue
		}
		if strings.HasPrefix(row[1], "`") && strings.Trim(row[1], "`") != f.DefValue {
			t.Errorf("default of --%s: docs/run.md has %s, want %s", name, row[1], f.DefValue)
		}
		common = append(common, name)
	}
	for _, missing := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(run.Flags().FlagUsages(), -1) {
		if !slices.Contains(common, missing[1]) {
			t.Errorf("docs/run.md does not have --%s", missing[1])
		}
	}
}

// TestRunEnvironment_isTheDocumented: the page has the variables that the command gets.
func TestRunEnvironment_isTheDocumented(t *testing.T) {
	var got []string
	for _, row := range tableUnder(t, runPage(t), "Environment") {
		got = append(got, strings.Trim(row[0], "`"))
	}
	if !slices.Equal(got, grantVariables) {
		t.Errorf("docs/run.md: got %v, want %v", got, grantVariables)
	}
}

// TestAcquireOptions_refusesWhatMakesNoSense: a margin in which nothing can end, waits that contradict, unknown words.
func TestAcquireOptions_refusesWhatMakesNoSense(t *testing.T) {
	for name, c := range map[string]struct {
		ifHeld, wait string
		margin       time.Duration
		options      int
		wrong        string // in the message; empty: it is right
	}{
		"defaults":                 {"wait", "", marginDefault, 0, ""},
		"a wait":                   {"wait", "30s", marginDefault, 1, ""},
		"an unlimited wait":        {"wait", "unlimited", marginDefault, 1, ""},
		"skip":                     {"skip", "", marginDefault, 1, ""},
		"fail":                     {"fail", "", marginDefault, 1, ""},
		"the shortest margin":      {"wait", "", marginMin, 0, ""},
		"a margin above any lease": {"wait", "", 1000 * time.Hour, 0, ""},
		"too short a margin":       {"wait", "", marginMin - 1, 0, "--margin"},
		"a negative margin":        {"wait", "", -time.Second, 0, "--margin"},
		"no word":                  {"perhaps", "", marginDefault, 0, "--if-held"},
		"skip that waits":          {"skip", "3s", marginDefault, 0, "--wait"},
		"no duration":              {"wait", "soon", marginDefault, 0, "--wait"},
	} {
		t.Run(name, func(t *testing.T) {
			o := runOptions{ifHeld: c.ifHeld, wait: c.wait, margin: c.margin}
			got, err := o.acquireOptions()
			switch {
			case c.wrong == "" && (err != nil || len(got) != c.options):
				t.Errorf("got %d options, %v, want %d", len(got), err, c.options)
			case c.wrong != "" && (!errors.Is(err, errUsage) || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("got %v, want a usage error about %s", err, c.wrong)
			}
		})
	}
}

// TestNotGrantedCode_tellsLateFromRefused: what may be asked again later is not what is refused.
func TestNotGrantedCode_tellsLateFromRefused(t *testing.T) {
	for _, c := range []struct {
		reason error
		want   int
	}{
		{client.ErrHeld, exitNotGranted}, {client.ErrWaitTimeout, exitNotGranted}, {client.ErrQueueFull, exitNotGranted},
		{client.ErrDeadline, exitNotGranted}, {client.ErrUnavailable, exitUnavailable}, {client.ErrNotInForce, exitRefused},
		{wire.NewProblem(wire.CodeForbidden, ""), exitRefused},
	} {
		if got := notGrantedCode(&client.AskError{Reason: c.reason}); got != c.want {
			t.Errorf("%v: got %d, want %d", c.reason, got, c.want)
		}
	}
}

// TestWithoutSecret_takesTheAPIKeyAwayUnderAnyName: by its variable's name, and by its value.
func TestWithoutSecret_takesTheAPIKeyAwayUnderAnyName(t *testing.T) {
	inherited := []string{"A=1", "STANCHION_API_KEY=other", "MINE=Bearer secret", "STANCHION_TOKEN=7", "EMPTY=", "ODD"}
	if got, want := withoutSecret(inherited, "secret", grantVariables...), []string{"A=1", "EMPTY=", "ODD"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := len(withoutSecret(inherited, "")), len(inherited)-1; got != want {
		t.Errorf("without a known API key: got %d variables, want %d", got, want)
	}
}

// TestMargin_isAtMostAQuarterOfAFreshLease, so that a heartbeat that is late ends nothing.
func TestMargin_isAtMostAQuarterOfAFreshLease(t *testing.T) {
	for _, c := range []struct{ asked, fresh, want time.Duration }{
		{2 * time.Second, 10 * time.Second, 2 * time.Second},
		{time.Hour, 10 * time.Second, 2500 * time.Millisecond},
		{2 * time.Second, time.Second, 250 * time.Millisecond},
	} {
		s := &supervision{running: &running{options: &runOptions{margin: c.asked}}, fresh: c.fresh}
		if got := s.margin(); got != c.want {
			t.Errorf("%v of a lease of %v: got %v, want %v", c.asked, c.fresh, got, c.want)
		}
	}
}

// TestPending_isASignalThatEndsARunWithoutACommand: what a command alone could make something of is left out.
func TestPending_isASignalThatEndsARunWithoutACommand(t *testing.T) {
	for _, c := range []struct {
		sent []os.Signal
		want syscall.Signal
	}{
		{nil, 0},
		{[]os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}, 0},
		{[]os.Signal{syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGINT}, syscall.SIGTERM},
	} {
		r := &running{signals: make(chan os.Signal, len(c.sent))}
		for _, s := range c.sent {
			r.signals <- s
		}
		if got := r.pending(); got != c.want {
			t.Errorf("after %v: got %v, want %v", c.sent, got, c.want)
		}
	}
}
