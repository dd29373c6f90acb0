package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// runEvent is one line that stanchion run tells with --output json.
type runEvent struct {
	Event  string `json:"event"`
	Token  uint64 `json:"token"`
	Place  int    `json:"place"`
	PID    int    `json:"pid"` // and group
	LeftMS int64  `json:"left_ms"`
}

// runScene is a cluster on which commands run under locks, and a folder of what they leave there.
type runScene struct {
	t *testing.T
	c *cluster
	// direct are the nodes' own addresses.
	direct []string
	dir    string
	key    string
}

func newRunScene(t *testing.T, c *cluster, key string) *runScene {
	s := &runScene{t: t, c: c, dir: t.TempDir(), key: key}
	for _, n := range c.file.Nodes {
		s.direct = append(s.direct, n.URL)
	}
	return s
}

// command is stanchion run on the scene's key, in a class of 10 s, with a script.
func (s *runScene) command(nodes []string, script string, flags ...string) *exec.Cmd {
	args := slices.Concat([]string{"run", "--class", "ledger-close", "--key", s.key}, flags, []string{"--", "sh", "-c", script})
	cmd := exec.Command(binary, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "STANCHION_ENDPOINTS="+strings.Join(nodes, ","), "STANCHION_API_KEY="+s.c.file.APIKey)
	return cmd
}

// start starts stanchion run, which tells what happens as JSON. A process that a test has stopped goes on at its end.
func (s *runScene) start(nodes []string, script string, flags ...string) *process {
	s.t.Helper()
	p := start(s.t, s.command(nodes, script, append(flags, "--output", "json")...))
	s.t.Cleanup(func() {
		if !p.ended() {
			_ = syscall.Kill(p.cmd.Process.Pid, syscall.SIGCONT)
		}
		s.wantDocumented(p)
	})
	return p
}

// wantDocumented checks that docs/run.md has every event that was told, and every field of it.
func (s *runScene) wantDocumented(p *process) {
	s.t.Helper()
	wantNoRace(s.t, p)
	page, err := os.ReadFile("../docs/run.md")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(p.out.String()) {
		var fields map[string]any
		if !strings.HasPrefix(line, `{"time"`) || json.Unmarshal([]byte(line), &fields) != nil {
			continue
		}
		_, row, found := strings.Cut(string(page), fmt.Sprintf("\n| `%s` |", fields["event"]))
		row, _, _ = strings.Cut(row, "\n")
		if !found {
			s.t.Errorf("docs/run.md does not have the event %q", line)
		}
		for name := range fields {
			if !slices.Contains([]string{"time", "event", "class", "key"}, name) && !strings.Contains(row, "`"+name+"`") {
				s.t.Errorf("docs/run.md does not have the field %s of %q", name, line)
			}
		}
	}
}

// wantNoRace fails the test if the race detector, where the binary has it, has found one.
func wantNoRace(t *testing.T, p *process) {
	t.Helper()
	if _, race, found := strings.Cut(p.out.String(), "WARNING: DATA RACE"); found {
		t.Errorf("data race in %s:%.4000s", p.cmd, race)
	}
}

// runEvents are the events that a process has told.
func runEvents(p *process) []runEvent {
	var all []runEvent
	for line := range strings.Lines(p.out.String()) {
		var e runEvent
		if strings.HasPrefix(line, `{"time"`) && json.Unmarshal([]byte(line), &e) == nil {
			all = append(all, e)
		}
	}
	return all
}

// runEventOf finds the first event of a name.
func runEventOf(p *process, name string) (runEvent, bool) {
	all := runEvents(p)
	i := slices.IndexFunc(all, func(e runEvent) bool { return e.Event == name })
	if i < 0 {
		return runEvent{}, false
	}
	return all[i], true
}

// awaitTold waits for an event.
func (s *runScene) awaitTold(p *process, name string) runEvent {
	s.t.Helper()
	var e runEvent
	await(s.t, "stanchion run tells of "+name, func() error {
		found, ok := runEventOf(p, name)
		switch e = found; {
		case ok:
			return nil
		case p.ended():
			s.t.Fatalf("stanchion run ended: %v\n%s", p.cmd.ProcessState, p.out.String())
		}
		return errors.New("not yet:\n" + p.out.String())
	})
	return e
}

// path is a file in the scene's folder.
func (s *runScene) path(name string) string { return filepath.Join(s.dir, name) }

// awaitFile waits until a command has written a file, and gives what is in it.
func (s *runScene) awaitFile(name string) string {
	s.t.Helper()
	var text string
	await(s.t, "a command writes "+name, func() error {
		raw, err := os.ReadFile(s.path(name))
		text = strings.TrimSpace(string(raw))
		if err == nil && text == "" {
			err = errors.New("it is empty")
		}
		return err
	})
	return text
}

// touch makes a file for which a command waits.
func (s *runScene) touch(name string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// moments are the times in a file, in nanoseconds, the last line apart if it is cut off.
func (s *runScene) moments(name string) []int64 {
	s.t.Helper()
	raw, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	var all []int64
	for line := range strings.Lines(string(raw)) {
		if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil && strings.HasSuffix(line, "\n") {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		s.t.Fatalf("%s: no time in %q", name, raw)
	}
	return all
}

// lock is how the key stands; nil: free.
func (s *runScene) lock() *wire.Lock {
	s.t.Helper()
	var list wire.LockList
	a := newClient(s.t, s.c.file).must(s.t, "GET", "/v1/locks?class=ledger-close&key="+s.key, nil)
	if err := json.Unmarshal(a.body, &list); err != nil {
		s.t.Fatal(err)
	}
	if len(list.Locks) == 0 {
		return nil
	}
	return &list.Locks[0]
}

// wantFree checks that nobody holds the key or waits for it.
func (s *runScene) wantFree() {
	s.t.Helper()
	if l := s.lock(); l != nil {
		s.t.Errorf("the lock %s: got %+v, want free", s.key, l)
	}
}
