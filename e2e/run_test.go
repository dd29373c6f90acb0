package e2e_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// TestRun: what a command under a lock is told, how its lock and all of its group end, and that nothing of it runs when the next one
// begins, whatever happens to the network, to the leader and to stanchion run itself. The subtests share a cluster.
func TestRun(t *testing.T) {
	c := newCluster(t)
	c.start("--processes")
	t.Run("led", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *runScene){
			"tellsTheCommandItsGrantAndNotTheAPIKey": runTells,
			"startsNothingWithoutAGrant":             runNotGranted,
			"aSignalEndsTheWaitAndLeavesTheLine":     runSignalled,
			"endsWhatTheCommandLeavesBehind":         runLeavesNothing,
			"releasesAtOnceWhatCannotStart":          runCannotStart,
			"handsTheTerminalOver":                   runTerminal,
			"goesOnAfterAStopFromTheTerminal":        runStoppedFromTerminal,
			"showsItsPlaceInLineAndErasesIt":         runProgress,
			"hidesTheAPIKeyFromTheWatchdog":          runWatchdogHasNoSecret,
			"cutOff":                                 runCutOff,
			"killed":                                 runKilled,
			"paused":                                 runPaused,
			"forced":                                 runForced,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newRunScene(t, c, name))
			})
		}
	})
	t.Run("overAChangeOfLeader", func(t *testing.T) { runOverLeader(t, newRunScene(t, c, "leader")) })
	c.stop(syscall.SIGTERM)
}

// ran runs a command to its end.
func (s *runScene) ran(cmd *exec.Cmd, code int, says ...string) {
	s.t.Helper()
	p := start(s.t, cmd)
	p.wait(s.t)
	p.wantExit(s.t, code, says...)
	wantNoRace(s.t, p)
}

// runTells: the command's environment has its grant, and the API key under no name. What it is exits with, and the signal that ends
// it, are handed on.
func runTells(t *testing.T, s *runScene) {
	cmd := s.command(s.direct, `env > env; exit 7`)
	cmd.Env = append(cmd.Env, "STANCHION_TOKEN=other", "MY_KEY=Bearer "+s.c.file.APIKey)
	s.ran(cmd, 7)
	env, err := os.ReadFile(s.path("env"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"STANCHION_CLASS=ledger-close\n", "STANCHION_KEY=" + s.key + "\n", "STANCHION_TOKEN=",
		"STANCHION_EPOCH="} {
		if bytes.Count(env, []byte(want)) != 1 {
			t.Errorf("the command's environment: got\n%s\nwant %q in it, once", env, want)
		}
	}
	for _, secret := range []string{s.c.file.APIKey, "STANCHION_API_KEY", "STANCHION_TOKEN=other"} {
		if bytes.Contains(env, []byte(secret)) {
			t.Errorf("the command's environment: got\n%s\nwant %q not in it", env, secret)
		}
	}
	s.ran(s.command(s.direct, `kill -USR1 $$`), 128+int(syscall.SIGUSR1))
	s.ran(s.command(s.direct, `true`), 0)
	nohup := exec.Command("sh", "-c", `trap '' HUP; exec stanchion run --class ledger-close --key `+s.key+
		` -- sh -c 'kill -HUP $PPID $$; exit 4'`)
	nohup.Env = s.shellEnvironment()
	s.ran(nohup, 4)
	p := s.start(s.direct, `trap 'exit 5' USR2; echo > ready; while :; do sleep 0.05; done`)
	s.awaitFileMade("ready")
	_ = p.cmd.Process.Signal(syscall.SIGUSR2)
	p.wait(t)
	p.wantExit(t, 5)
	s.wantFree()
}

// runNotGranted: nothing is started without a grant, and the exit code says why.
func runNotGranted(t *testing.T, s *runScene) {
	other := newClient(t, s.c.file)
	other.acquire(t, newSession(), 1, wire.AcquireRequest{Class: "ledger-close", Key: s.key})
	const script = "echo > ran"
	s.ran(s.command(s.direct, script, "--if-held", "skip"), 0, "skipped")
	s.ran(s.command(s.direct, script, "--if-held", "fail"), 120, "not started")
	s.ran(s.command(s.direct, script, "--wait", "1s"), 120, "place 1 in line", "not started")
	s.ran(s.command(s.direct, script, "--if-held", "perhaps"), 2, "--if-held")
	s.ran(s.command(s.direct, script, "--margin", "-1s"), 2, "--margin")
	s.ran(s.command(s.direct, script, "--api-key-file", s.path("no-such-key")), 2, "no-such-key")
	s.ran(s.command(s.direct, script, "--class", "no-such-class"), 122, "not started")
	if _, err := os.Stat(s.path("ran")); err == nil {
		t.Error("a command was started without a grant")
	}
}

// runSignalled: a signal ends the wait, and the one who waited is not in line any more.
func runSignalled(t *testing.T, s *runScene) {
	holder := s.start(s.direct, `while [ ! -e go ]; do sleep 0.05; done`)
	s.awaitTold(holder, "started")
	for _, by := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		p := s.start(s.direct, "echo > ran")
		s.awaitTold(p, "waiting")
		_ = p.cmd.Process.Signal(by)
		p.wait(t)
		p.wantExit(t, 128+int(by), `"event":"gave_up"`)
		if l := s.lock(); l == nil || l.WaitersTotal != 0 {
			t.Errorf("the lock after %v: got %+v, want no waiters", by, l)
		}
	}
	if _, err := os.Stat(s.path("ran")); err == nil {
		t.Error("a command was started without a grant")
	}
	s.touch("go")
	holder.wait(t)
	holder.wantExit(t, 0)
}

// runLeavesNothing: processes of the group that outlive the command are gone when the lock is free, and the exit code is the command's.
// A margin longer than the lease leaves the command most of it.
func runLeavesNothing(t *testing.T, s *runScene) {
	p := s.start(s.direct, `(trap '' TERM; while :; do sleep 0.05; done) & echo $! > left; exit 3`, "--margin", "1h")
	p.wait(t)
	p.wantExit(t, 3, `"event":"released"`)
	s.wantFree()
	s.wantGone("left")
}

// wantGone checks that the process whose number is in a file has ended.
func (s *runScene) wantGone(name string) {
	s.t.Helper()
	if pid := int(s.moments(name)[0]); !gone(pid) {
		s.t.Errorf("process %d (%s) is there still", pid, name)
		kill9(pid)
	}
}

// runCannotStart: what is not there is not asked a lock for; what cannot be started gives it back at once.
func runCannotStart(t *testing.T, s *runScene) {
	cmd := s.command(s.direct, "")
	cmd.Args = append(cmd.Args[:len(cmd.Args)-3], "no-such-command")
	s.ran(cmd, 127, "no-such-command")
	garbage := s.path("garbage")
	if err := os.WriteFile(garbage, []byte{0, 1, 2}, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd = s.command(s.direct, "", "--output", "json")
	cmd.Args = append(cmd.Args[:len(cmd.Args)-3], garbage)
	p := start(t, cmd)
	p.wait(t)
	p.wantExit(t, 126, `"event":"granted"`, `"event":"cannot_start"`, `"event":"released"`)
	s.wantFree()
}

// awaitFileMade waits for a file.
func (s *runScene) awaitFileMade(name string) {
	s.t.Helper()
	await(s.t, "a command makes "+name, func() error {
		_, err := os.Stat(s.path(name))
		return err
	})
}

// gone reports whether a process has ended; one that nobody has waited for yet has.
func gone(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}
