package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRun_gateStartsNothingUnlessItIsOpened: the process that is to become the command ends with the pipe by which it would be told
// so, as when stanchion run is killed between the grant and the start.
func TestRun_gateStartsNothingUnlessItIsOpened(t *testing.T) {
	for name, open := range map[string]bool{"opened": true, "its parent has ended": false} {
		t.Run(name, func(t *testing.T) {
			ran := filepath.Join(t.TempDir(), "ran")
			openRead, openWrite, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			statusRead, statusWrite, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer statusRead.Close()
			cmd := exec.Command(binary, "run-helper", "gate", "3", "4", "/bin/sh", "sh", "-c", `echo > "$0"; ls /proc/$$/fd`, ran)
			cmd.ExtraFiles = []*os.File{openRead, statusWrite}
			p := start(t, cmd)
			openRead.Close()
			statusWrite.Close()
			if _, err := io.ReadFull(statusRead, make([]byte, 1)); err != nil {
				t.Fatalf("the gate is not there: %v", err)
			}
			if open {
				_, err = openWrite.WriteString("o")
			}
			if err := errors.Join(err, openWrite.Close()); err != nil {
				t.Fatal(err)
			}
			p.wait(t)
			if _, err := os.Stat(ran); (err == nil) != open {
				t.Errorf("the command ran: %v, want %v; it said %s", err == nil, open, p.out.String())
			}
			if said := strings.Fields(p.out.String()); open && (slices.Contains(said, "3") && slices.Contains(said, "4") || len(said) < 3) {
				t.Errorf("files of the command: got %v, want no pipe of the gate", said)
			}
		})
	}
}

// runWatchdogHasNoSecret: the watchdog has no API key, and is in a session of its own. The
// command goes on without it.
func runWatchdogHasNoSecret(t *testing.T, s *runScene) {
	p := s.start(s.direct, `while [ ! -e go ]; do sleep 0.05; done`)
	s.awaitTold(p, "started")
	dog := watchdogOf(t, p.cmd.Process.Pid)
	for _, file := range []string{"environ", "cmdline"} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", dog, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), s.c.file.APIKey) {
			t.Errorf("the watchdog's %s: got %q, want no API key in it", file, raw)
		}
	}
	if got := statField(t, dog, sessionField); got != fmt.Sprint(dog) {
		t.Errorf("the watchdog's session: got %s, want its own, %d", got, dog)
	}
	kill9(dog)
	s.awaitTold(p, "unwatched")
	s.touch("go")
	p.wait(t)
	p.wantExit(t, 0, `"event":"released"`)
}

// Fields of /proc/PID/stat, after the name.
const (
	parentField  = 1
	sessionField = 3
)

func statField(t *testing.T, pid, field int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	return strings.Fields(fields)[field]
}

// watchdogOf finds the watchdog of a stanchion run.
func watchdogOf(t *testing.T, parent int) int {
	t.Helper()
	pids, err := running(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), "watchdog") && statField(t, pid, parentField) == fmt.Sprint(parent) {
			return pid
		}
	}
	t.Fatalf("process %d has no watchdog", parent)
	return 0
}
