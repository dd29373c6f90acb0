package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pythonWorker is a process that holds leases with the Python client: testdata/python/worker.py.
type pythonWorker struct {
	t       *testing.T
	process *process
	input   io.WriteCloser
	uses    string // the file that stands for the resource
}

// pythonSaid is one thing that a worker says.
type pythonSaid struct {
	Event    string `json:"event"`
	Token    uint64 `json:"token"`
	Position int    `json:"position"`
	Claim    string `json:"claim"`
	Cause    string `json:"cause"`
	Held     bool   `json:"held"`
}

// pythonWorker starts a worker on a key of the class work.
func (c *cluster) pythonWorker(key string) *pythonWorker {
	c.t.Helper()
	w := &pythonWorker{t: c.t, uses: filepath.Join(c.t.TempDir(), "uses")}
	var endpoints []string
	for _, n := range c.file.Nodes {
		endpoints = append(endpoints, n.URL)
	}
	cmd := exec.Command("python3", "-B", filepath.Join("testdata", "python", "worker.py"), strings.Join(endpoints, ","), "work", key, w.uses)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "client", "python"), "STANCHION_API_KEY="+c.file.APIKey)
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	w.input, w.process = in, start(c.t, cmd)
	return w
}

// tell sends the worker a line: release or close.
func (w *pythonWorker) tell(line string) {
	w.t.Helper()
	if _, err := fmt.Fprintln(w.input, line); err != nil {
		w.t.Fatal(err)
	}
}

// said is the first thing of a kind that the worker has said.
func (w *pythonWorker) said(event string) (pythonSaid, bool) {
	for line := range strings.Lines(w.process.out.String()) {
		var s pythonSaid
		if json.Unmarshal([]byte(line), &s) == nil && s.Event == event {
			return s, true
		}
	}
	return pythonSaid{}, false
}

// await waits until the worker has said something.
func (w *pythonWorker) await(event string) pythonSaid {
	w.t.Helper()
	var got pythonSaid
	await(w.t, "the Python worker says "+event, func() error {
		s, ok := w.said(event)
		switch {
		case ok:
			got = s
			return nil
		case w.process.ended():
			w.t.Fatalf("the Python worker ended (%v) without saying %s:\n%s", w.process.cmd.ProcessState, event, w.process.out.String())
		}
		return fmt.Errorf("it said:\n%s", w.process.out.String())
	})
	return got
}

// wantEnd waits for the worker's own end, after it was told to.
func (w *pythonWorker) wantEnd() {
	w.t.Helper()
	w.process.wait(w.t)
	w.process.wantExit(w.t, 0)
}

// pythonUse is one use of the resource.
type pythonUse struct {
	looked time.Time // just before the lease was checked
	token  uint64
}

func (w *pythonWorker) read() []pythonUse {
	w.t.Helper()
	raw, err := os.ReadFile(w.uses)
	if err != nil {
		w.t.Fatal(err)
	}
	var all []pythonUse
	for line := range strings.Lines(string(raw)) {
		looked, token, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		nanos, err1 := strconv.ParseInt(looked, 10, 64)
		number, err2 := strconv.ParseUint(token, 10, 64)
		if err := errors.Join(err1, err2); err != nil && strings.HasSuffix(line, "\n") {
			w.t.Fatalf("use %q: %v", line, err)
		}
		all = append(all, pythonUse{time.Unix(0, nanos), number})
	}
	return all
}

// awaitUse waits for a use whose check began after a moment, and returns its token.
func (w *pythonWorker) awaitUse(after time.Time) uint64 {
	w.t.Helper()
	var token uint64
	await(w.t, "the Python worker uses its lease", func() error {
		for _, u := range w.read() {
			if u.looked.After(after) {
				token = u.token
				return nil
			}
		}
		return fmt.Errorf("it said:\n%s", w.process.out.String())
	})
	return token
}

// pythonCluster is a cluster of three processes with a class for workers.
func pythonCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	c.start("--processes", "--profile", "production", "--restart-after", "0",
		"--classes", writeClasses(t, classFile("work", "lease: 10s", "heartbeat: 2s", "wait:", "  max_wait: 30m")))
	return c
}

// TestPython_handsOverAndKeepsItsLeaseWhenTheLeaderDies: a waiter is granted in the moment of a release, with a higher token, and
// keeps its lease, with that token, although the leader is killed.
func TestPython_handsOverAndKeepsItsLeaseWhenTheLeaderDies(t *testing.T) {
	c := pythonCluster(t)
	first := c.pythonWorker("nightly")
	held := first.await("granted")
	if held.Token == 0 || held.Claim != "exclusion-at-resource" {
		t.Errorf("the first grant: got token %d, claim %q", held.Token, held.Claim)
	}
	second := c.pythonWorker("nightly")
	if got := second.await("queued"); got.Position != 1 {
		t.Errorf("the waiter's place: got %d, want 1", got.Position)
	}
	first.tell("release")
	first.await("released")
	first.wantEnd()
	handed := second.await("granted")
	if handed.Token <= held.Token {
		t.Errorf("token after the hand-over: got %d, want more than %d", handed.Token, held.Token)
	}

	leader := c.leader()
	kill9(c.pid(leader))
	killed := time.Now()
	c.awaitHeartbeat("nightly", killed)
	if got := second.awaitUse(time.Now()); got != handed.Token {
		t.Errorf("token after the leader was killed: got %d, want %d", got, handed.Token)
	}
	second.tell("close")
	if got := second.await("closed"); got.Held {
		t.Error("the lease is held after close")
	}
	second.wantEnd()
	third := c.pythonWorker("nightly")
	if got := third.await("granted"); got.Token <= handed.Token {
		t.Errorf("token after close: got %d, want more than %d", got.Token, handed.Token)
	}
	third.tell("release")
	third.wantEnd()
	c.stop(syscall.SIGTERM)
}

// awaitHeartbeat waits until the platform says that a key's holder was heard of after a moment.
func (c *cluster) awaitHeartbeat(key string, after time.Time) {
	c.t.Helper()
	client := newClient(c.t, c.file)
	await(c.t, "a heartbeat after the leader was killed", func() error {
		for _, n := range c.file.Nodes {
			a, err := client.once(c.t.Context(), attemptTime, n.URL, "GET", "/v1/locks?class=work&key="+key, nil)
			if err != nil {
				continue
			}
			var list struct {
				Locks []struct {
					Holder *struct {
						LastHeartbeat time.Time `json:"last_heartbeat"`
					} `json:"holder"`
				} `json:"locks"`
			}
			if err := json.Unmarshal(a.body, &list); err != nil {
				return err
			}
			if len(list.Locks) == 1 && list.Locks[0].Holder != nil && list.Locks[0].Holder.LastHeartbeat.After(after) {
				return nil
			}
		}
		return errors.New("no node says so")
	})
}

// TestPython_stoppedHolderReportsItsLossBeforeAnyUse stops a holder for longer than its lease. Somebody else is granted meanwhile.
// When it goes on, it knows: it uses nothing any more, and its release says that the lease was lost.
func TestPython_stoppedHolderReportsItsLossBeforeAnyUse(t *testing.T) {
	c := pythonCluster(t)
	first := c.pythonWorker("nightly")
	held := first.await("granted")
	first.awaitUse(time.Time{})
	second := c.pythonWorker("nightly")
	second.await("queued")
	signal(t, first.process.cmd.Process.Pid, syscall.SIGSTOP)
	handed := second.await("granted")
	second.awaitUse(time.Time{})
	woken := time.Now()
	signal(t, first.process.cmd.Process.Pid, syscall.SIGCONT)

	if got := first.await("lost"); got.Cause != "DeadlinePassed" {
		t.Errorf("the stopped holder's loss: got %s, want DeadlinePassed", got.Cause)
	}
	if got := first.await("not_released"); got.Cause != "DeadlinePassed" {
		t.Errorf("the stopped holder's release: got %s, want DeadlinePassed", got.Cause)
	}
	first.wantEnd()
	if i := slices.IndexFunc(first.read(), func(u pythonUse) bool { return u.looked.After(woken) }); i >= 0 {
		t.Errorf("the stopped holder used its lease after it went on: %v", first.read()[i])
	}
	if handed.Token <= held.Token {
		t.Errorf("token of the next holder: got %d, want more than %d", handed.Token, held.Token)
	}
	if got := second.awaitUse(time.Now()); got != handed.Token {
		t.Errorf("the next holder's token: got %d, want %d", got, handed.Token)
	}
	second.tell("release")
	second.await("released")
	second.wantEnd()
	c.stop(syscall.SIGTERM)
}
