package e2e_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// onTerminal is a process on a terminal of its own.
type onTerminal struct {
	t    *testing.T
	file *os.File
	cmd  *exec.Cmd
	out  tail
}

// startOnTerminal starts a program as the leader of a session with a terminal of 120 columns.
func startOnTerminal(t *testing.T, cmd *exec.Cmd) *onTerminal {
	t.Helper()
	cmd.Env = append(cmd.Env, "TERM=xterm")
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	p := &onTerminal{t: t, file: file, cmd: cmd}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&p.out, file) // ends with the terminal's last process
	}()
	t.Cleanup(func() {
		late := time.AfterFunc(stopTime, func() { kill9(cmd.Process.Pid) })
		defer late.Stop()
		if t.Failed() {
			kill9(cmd.Process.Pid)
		}
		_ = cmd.Wait()
		_ = file.Close()
		<-read
	})
	return p
}

// await waits until the terminal has shown a text.
func (p *onTerminal) await(text string) {
	p.t.Helper()
	await(p.t, "the terminal to show "+text, func() error {
		if got := p.out.String(); !strings.Contains(got, text) {
			return errors.New("it shows " + got)
		}
		return nil
	})
}

// types types.
func (p *onTerminal) types(text string) {
	p.t.Helper()
	if _, err := p.file.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// runTerminal: a command reads from the terminal, and gets its signals, as if it had been started without stanchion.
func runTerminal(t *testing.T, s *runScene) {
	shell := exec.Command("sh", "-c", `stanchion run --class ledger-close --key `+s.key+` -- sh -c 'echo ready; read -r line; echo "got $line"'
echo "ended $?"
stanchion run --class ledger-close --key `+s.key+` -- sh -c 'trap "exit 9" INT; echo begun; while :; do sleep 0.05; done'
echo "ended $?"
read -r line; echo "the shell got $line"`)
	shell.Env, shell.Dir = s.shellEnvironment(), s.dir
	p := startOnTerminal(t, shell)
	p.await("ready")
	p.types("hello\n")
	p.await("got hello")
	p.await("ended 0")
	p.await("begun")
	p.types(ctrlC)
	p.await("ended 9")
	p.types("again\n")
	p.await("the shell got again")
}

// runStoppedFromTerminal: ctrl-Z stops the command and stanchion run with it, and both go on when the shell says so.
func runStoppedFromTerminal(t *testing.T, s *runScene) {
	shell := exec.Command("sh", "-c", `set -m
stanchion run --class ledger-close --key `+s.key+` -- sh -c 'echo ready; read -r line; echo "got $line"'
echo "stopped $?"
fg
echo "ended $?"`)
	shell.Env, shell.Dir = s.shellEnvironment(), s.dir
	p := startOnTerminal(t, shell)
	p.await("ready")
	p.types(ctrlZ)
	p.await("stopped 148")
	p.types("hello\n")
	p.await("got hello")
	p.await("ended 0")
}

// shellEnvironment is that of a shell that finds the product and the cluster.
func (s *runScene) shellEnvironment() []string {
	env := s.command(s.direct, "").Env
	return append(env, "PATH="+binary[:strings.LastIndexByte(binary, '/')]+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// runProgress: who waits at a terminal sees one line, which is written anew, and is gone when the command writes.
func runProgress(t *testing.T, s *runScene) {
	holder := s.start(s.direct, `while [ ! -e go ]; do sleep 0.05; done`)
	s.awaitTold(holder, "started")
	p := startOnTerminal(t, s.command(s.direct, `echo it is my turn`))
	const erase, line = "\r\x1b[K", "stanchion: run: waiting for ledger-close "
	await(t, "the line to be written again, with who holds the lock", func() error {
		if got := p.out.String(); strings.Count(got, erase+line) < 2 || !strings.Contains(got, "; held by ") {
			return errors.New("the terminal shows " + got)
		}
		return nil
	})
	s.touch("go")
	p.await("it is my turn")
	got := p.out.String()
	if !strings.Contains(got, "place 1 in line") {
		t.Errorf("the terminal shows %q, want the place in line", got)
	}
	if waited, _, _ := strings.Cut(got, "it is my turn"); !strings.HasSuffix(waited, erase) || strings.Contains(waited, "\n") {
		t.Errorf("before the command wrote: got %q, want one line, erased", waited)
	}
	holder.wait(t)
	holder.wantExit(t, 0)
}
