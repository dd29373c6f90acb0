package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group is a process group. Where the kernel can (Linux 6.9 and later), it is named by a handle, which never means a later group of
// the same number. Elsewhere the number is safe as long as the leader has not been waited for, or any other member is there.
type group struct {
	id     int
	handle int // a pidfd of the leader; -1: none
}

// openGroup names the group of a process that leads one, and has not been waited for.
func openGroup(leader int) group {
	handle, err := unix.PidfdOpen(leader, 0)
	if err != nil {
		handle = -1
	}
	return group{id: leader, handle: handle}
}

func (g *group) close() {
	if g.handle >= 0 {
		_ = unix.Close(g.handle)
		g.handle = -1
	}
}

// signal signals every process of the group. syscall.ESRCH: there is none.
func (g *group) signal(s syscall.Signal) error {
	if g.handle >= 0 {
		err := unix.PidfdSendSignal(g.handle, s, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
		if err == nil || errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return syscall.Kill(-g.id, s)
}

// end asks the group to end. What is stopped goes on, or it would not hear.
func (g *group) end() {
	_ = g.signal(syscall.SIGTERM) // it may be gone
	_ = g.signal(syscall.SIGCONT)
}

func (g *group) kill() { _ = g.signal(syscall.SIGKILL) } // it may be gone

const goneTick = 5 * time.Millisecond

// awaitGone kills what there is of the group, until nothing runs any more, and reports whether nothing does.
func (g *group) awaitGone(limit time.Duration) bool {
	tick := time.NewTicker(goneTick)
	defer tick.Stop()
	for until := time.Now().Add(limit); !g.gone(); <-tick.C {
		g.kill()
		if !time.Now().Before(until) {
			return false
		}
	}
	return true
}

// gone reports whether no process of the group runs any more. Those that have ended and that nobody has waited for are there still, and
// their group with them, in a container whose first process waits for none.
func (g *group) gone() bool {
	if errors.Is(g.signal(0), syscall.ESRCH) {
		return true
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, p := range processes {
		if p.Name()[0] >= '0' && p.Name()[0] <= '9' && g.runs(p.Name()) {
			return false
		}
	}
	return true
}

// runs reports whether a process is of the group and has not ended.
func (g *group) runs(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // its name may hold anything
	const state, processGroup = 0, 2
	return len(fields) > processGroup && fields[processGroup] == strconv.Itoa(g.id) && !strings.Contains("ZXx", fields[state])
}

// Codes of a child's change.
const childStopped = 5 // CLD_STOPPED

// follow tells on stops each time that the child was stopped, and closes it when the child has ended, which leaves it to be waited
// for: until then its group's number belongs to no other.
func follow(pid int, stops chan<- struct{}) error {
	defer close(stops)
	for {
		var info unix.Siginfo
		err := waitid(pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT)
		switch {
		case err != nil:
			return fmt.Errorf("wait for process %d: %w", pid, err)
		case info.Code != childStopped:
			return nil
		}
		if err := waitid(pid, &info, unix.WSTOPPED|unix.WNOHANG); err != nil { // takes note of this stop
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
		select {
		case stops <- struct{}{}:
		default: // one that is not looked at yet says it
		}
	}
}

func waitid(pid int, info *unix.Siginfo, options int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, info, options, nil)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
