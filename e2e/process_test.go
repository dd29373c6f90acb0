package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	awaitTime = time.Minute           // for anything that must come about, on the busiest machine
	awaitTick = 20 * time.Millisecond // how often it is looked at
	stopTime  = 40 * time.Second      // for a process that was asked to stop
)

// await fails the test unless ready returns nil in time.
func await(t *testing.T, what string, ready func() error) {
	t.Helper()
	tick := time.NewTicker(awaitTick)
	defer tick.Stop()
	late := time.NewTimer(awaitTime)
	defer late.Stop()
	for {
		err := ready()
		if err == nil {
			return
		}
		select {
		case <-late.C:
			t.Fatalf("%s: not after %v: %v", what, awaitTime, err)
		case <-tick.C:
		}
	}
}

// process is a child process and its output.
type process struct {
	cmd  *exec.Cmd
	out  tail
	done chan struct{} // closed when it has ended
}

// start runs a command in a process group of its own. The kernel ends it should the tests die. It is stopped when the
// test ends, unless it has ended by then.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	cmd.WaitDelay = time.Second // a grandchild may hold the output open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel ties the death signal to the thread that started the child
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // ProcessState says how it ended
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", cmd, err)
	}
	t.Cleanup(func() { p.stop(t, syscall.SIGTERM) })
	return p
}

// stanchion runs the product until it ends.
func stanchion(t *testing.T, args ...string) *process {
	t.Helper()
	p := start(t, exec.Command(binary, args...))
	p.wait(t)
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits for the end of a process that ends by itself.
func (p *process) wait(t *testing.T) {
	t.Helper()
	late := time.NewTimer(awaitTime)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		t.Errorf("%s did not end in %v:\n%s", p.cmd, awaitTime, p.out.String())
		p.stop(t, syscall.SIGTERM)
	}
}

// stop sends a signal and waits for the end; a process that does not mind it is killed, and the test fails.
func (p *process) stop(t *testing.T, s syscall.Signal) {
	t.Helper()
	if p.ended() {
		return
	}
	_ = p.cmd.Process.Signal(s) // it may have ended just now
	late := time.NewTimer(stopTime)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		t.Errorf("%s did not stop in %v after %v:\n%s", p.cmd, stopTime, s, p.out.String())
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
}

// exitCode is the code of a process that has ended; -1: by a signal.
func (p *process) exitCode() int { return p.cmd.ProcessState.ExitCode() }

// wantExit checks how a process ended and what it said.
func (p *process) wantExit(t *testing.T, code int, says ...string) {
	t.Helper()
	if got := p.exitCode(); got != code {
		t.Errorf("%s: exit code %d, want %d; it said:\n%s", p.cmd, got, code, p.out.String())
	}
	for _, words := range says {
		if got := p.out.String(); !strings.Contains(got, words) {
			t.Errorf("%s said:\n%s\nwant words: %s", p.cmd, got, words)
		}
	}
}

// tail keeps the end of what is written to it. Safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	end []byte // guarded by mu
}

const tailBytesMax = 64 << 10

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = lastBytes(append(w.end, b...), tailBytesMax)
	return len(b), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.end)
}

func lastBytes(b []byte, most int) []byte { return b[max(0, len(b)-most):] }

// running lists the processes of a program.
func running(program string) ([]int, error) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil {
			continue // ended meanwhile, or somebody else's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", link, err)
		}
		if exe == program {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func kill9(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
