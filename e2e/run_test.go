package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// TestRun_commandRunsUnderTheLockAlone: what the command is told, the exit codes, and that a lock which ends takes the whole group along.
func TestRun_commandRunsUnderTheLockAlone(t *testing.T) {
	c := newCluster(t)
	c.start()
	run := func(exit int, says []string, args ...string) string {
		t.Helper()
		return c.command(c.file.APIKey, exit, says, append([]string{"run", "--class", "ledger-close"}, args...)...)
	}
	said := run(7, nil, "--key", "env", "--", "sh", "-c", `echo "$STANCHION_CLASS $STANCHION_KEY $STANCHION_TOKEN $STANCHION_EPOCH [$STANCHION_API_KEY]"; exit 7`)
	if want := "ledger-close env 1 1 []"; said != want {
		t.Errorf("the command's environment: got %q, want %q", said, want)
	}
	run(128+int(syscall.SIGUSR1), nil, "--key", "signal", "--", "sh", "-c", "kill -USR1 $$")
	run(127, []string{"no-such-command"}, "--key", "none", "--", "no-such-command")
	run(2, []string{"--if-held"}, "--key", "none", "--if-held", "perhaps", "--", "true")
	c.command(c.file.APIKey, 122, []string{"not started"}, "run", "--class", "no-such-class", "--key", "k", "--", "true")

	other := newClient(t, c.file)
	session := newSession()
	other.acquire(t, session, 1, wire.AcquireRequest{Class: "ledger-close", Key: "held"})
	trace := filepath.Join(t.TempDir(), "ran")
	run(0, []string{"skipped"}, "--key", "held", "--if-held", "skip", "--", "touch", trace)
	run(120, []string{"not started"}, "--key", "held", "--if-held", "fail", "--", "touch", trace)
	run(120, []string{"place 1 in line", "not started"}, "--key", "held", "--wait", "1s", "--", "touch", trace)
	if _, err := os.Stat(trace); err == nil {
		t.Error("a command was started without a grant")
	}
	wantGroupEnded(t, c)
	c.stop(syscall.SIGTERM)
}

// wantGroupEnded has a hold force-released under a command that ignores TERM and has a child: both are gone before the lock is granted again.
func wantGroupEnded(t *testing.T, c *cluster) {
	t.Helper()
	pids := filepath.Join(t.TempDir(), "pids")
	script := fmt.Sprintf(`trap '' TERM; sleep 300 & echo "$$ $!" >'%s.part'; mv '%s.part' '%s'; while :; do sleep 1; done`, pids, pids, pids)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.command(c.file.APIKey, 121, []string{"was ended"}, "run", "--class", "ledger-close", "--key", "forced", "--", "sh", "-c", script)
	}()
	var group [2]int
	await(t, "the command to have begun", func() error {
		text, err := os.ReadFile(pids)
		if err == nil {
			_, err = fmt.Sscan(string(text), &group[0], &group[1])
		}
		return err
	})
	var list wire.LockList
	a := newClient(t, c.file).must(t, http.MethodGet, "/v1/locks?class=ledger-close&key=forced", nil)
	if err := json.Unmarshal(a.body, &list); err != nil || len(list.Locks) != 1 || list.Locks[0].Holder == nil {
		t.Fatalf("the lock: got %+v, %v, want a holder", list, err)
	}
	token := fmt.Sprint(list.Locks[0].Holder.Token)
	c.command(c.file.AdminKey, 0, nil, "locks", "force-release", "ledger-close", "forced", "--token", token, "--reason", "test", "--yes")
	session := newSession()
	await(t, "the lock to be granted again", func() error {
		a := newClient(t, c.file).must(t, http.MethodPut, leasePath(session, 1), wire.AcquireRequest{Class: "ledger-close", Key: "forced"})
		l, err := a.lease()
		if err == nil && l.State != wire.StateGranted {
			err = fmt.Errorf("state %s", l.State)
		}
		return err
	})
	for _, pid := range group {
		if !gone(pid) {
			t.Errorf("process %d of the command's group is there still when the lock is granted again", pid)
		}
	}
	select {
	case <-done:
	case <-time.After(awaitTime):
		t.Error("stanchion run did not end")
	}
}

// gone reports whether a process has ended; one that nobody has waited for yet has.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}
