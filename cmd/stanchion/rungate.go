package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// The command is started through a gate: a process that leads the command's group already, and becomes the command when it is told
// to. By then the watchdog knows the group. If this process ends before, the gate ends as well, and the command is never
// started.

const (
	gateTime    = 10 * time.Second // for the gate to be there
	gateErrMax  = 4 << 10
	gateReady   = 'r'
	gateOpen    = 'o'
	selfProgram = "/proc/self/exe" // also when the file has been replaced meanwhile
)

// gate is the parent's side.
type gate struct {
	cmd    *exec.Cmd
	group  group
	open   *os.File // one byte opens it, the end of it ends the gate
	status *os.File // what it says; it ends when it has become the command
}

// newGate starts a gate for a command and waits until it is there. It has the files that were handed down to this process, as the command
// is to have them.
func newGate(path string, args, env []string) (*gate, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("stanchion run cannot keep its promise on %s, only on Linux: use the SDK", runtime.GOOS)
	}
	openRead, openWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer openRead.Close()
	statusRead, statusWrite, err := os.Pipe()
	if err != nil {
		openWrite.Close()
		return nil, err
	}
	defer statusWrite.Close()
	g := &gate{open: openWrite, status: statusRead}
	if err := g.start(openRead, statusWrite, path, args, env); err != nil {
		g.closeFiles()
		return nil, err
	}
	statusWrite.Close() // so that its end is seen
	_ = g.status.SetReadDeadline(time.Now().Add(gateTime))
	var ready [1]byte
	if _, err := io.ReadFull(g.status, ready[:]); err != nil || ready[0] != gateReady {
		g.abandon()
		return nil, fmt.Errorf("the process that is to become the command did not start: %w", err)
	}
	return g, nil
}

// start hands both files down under their own numbers: no number that something else was handed down under is taken.
func (g *gate) start(openRead, statusWrite *os.File, path string, args, env []string) error {
	var numbers []string
	for _, f := range []*os.File{openRead, statusWrite} {
		fd := f.Fd()
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
			return err
		}
		defer func() { _, _ = unix.FcntlInt(fd, unix.F_SETFD, unix.FD_CLOEXEC) }()
		numbers = append(numbers, strconv.Itoa(int(fd)))
	}
	g.cmd = exec.Command(selfProgram, append([]string{helperName, "gate", numbers[0], numbers[1], path}, args...)...)
	g.cmd.Stdin, g.cmd.Stdout, g.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	g.cmd.Env = env
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := g.cmd.Start(); err != nil {
		return err
	}
	g.group = openGroup(g.cmd.Process.Pid)
	return nil
}

// pass opens the gate and waits until it has become the command, for a time.
func (g *gate) pass(limit time.Duration) error {
	_ = g.status.SetReadDeadline(time.Now().Add(limit))
	if _, err := g.open.Write([]byte{gateOpen}); err != nil {
		return fmt.Errorf("the process that is to become the command has ended: %w", err)
	}
	said, err := io.ReadAll(io.LimitReader(g.status, gateErrMax))
	switch {
	case err != nil:
		return fmt.Errorf("the command did not start in time: %w", err)
	case len(said) > 0:
		return errors.New(string(said))
	}
	return nil
}

// abandon ends what has not become a command, and waits for it.
func (g *gate) abandon() {
	g.group.kill()
	_ = g.cmd.Wait()
	g.closeFiles()
}

func (g *gate) closeFiles() {
	g.open.Close()
	g.status.Close()
	g.group.close()
}

// newGateCommand is the child's side: stanchion run-helper gate FD FD PATH NAME ARGUMENT…
func newGateCommand() *cobra.Command {
	return &cobra.Command{Use: "gate", Args: cobra.MinimumNArgs(4), DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			open, errOpen := inherited(args[0])
			status, errStatus := inherited(args[1])
			if err := errors.Join(errOpen, errStatus); err != nil {
				return fmt.Errorf("%w: this is started by stanchion run only: %w", errUsage, err)
			}
			return becomeCommand(open, status, args[2], args[3:])
		}}
}

// inherited is a file that was handed down under a number, which the command is not to have.
func inherited(number string) (*os.File, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd <= 2 {
		return nil, fmt.Errorf("%q is no number of a pipe", number)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pipe"), nil
}

// becomeCommand waits until it may, and runs the command in this process.
func becomeCommand(open, status *os.File, path string, args []string) error {
	signal.Reset() // signals are the command's from here on
	if _, err := status.Write([]byte{gateReady}); err != nil {
		return exitError(exitCannotRun)
	}
	var may [1]byte
	if _, err := io.ReadFull(open, may[:]); err != nil || may[0] != gateOpen {
		return exitError(exitCannotRun) // nobody is there any more
	}
	err := syscall.Exec(path, args, os.Environ())
	_, _ = io.Copy(status, strings.NewReader((&os.PathError{Op: "start", Path: path, Err: err}).Error()))
	return exitError(exitCannotRun)
}
