package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// TestFullDisk_stopsItsNodeAlone fills the file system under the leader's Raft folder. The leader stops and says why and
// what to do; another node leads and grants; and for as long as there is no space the sick node does not even begin to
// take part, so that it cannot win an election that it would lose the cluster's time with. With space it catches up.
func TestFullDisk_stopsItsNodeAlone(t *testing.T) {
	c := newCluster(t)
	disks := mountDisks(c)
	c.start("--processes", "--restart-after", "0")
	load := &load{client: newClient(t, c.file), session: newSession()}
	load.grant(t)
	sick := c.leader()
	folder := filepath.Join(c.dir, sick, partition)

	disks[sick].fill(t)
	await(t, sick+" stops", func() error {
		load.grant(t) // the log grows
		return c.wantEnded(sick, 74)
	})
	wantWords(t, "the log of "+sick, c.said()[sick+"/node.log"], folder, "no space left on device", "make room")
	healthy := c.leader()
	if healthy == sick {
		t.Fatalf("%s leads although it has stopped", sick)
	}
	token := load.grant(t)

	leaders := c.awaitLeaders(healthy, sick)
	for range 3 { // a supervisor tries again
		c.startAgain(sick)
		c.own[sick].wait(t)
		c.own[sick].wantExit(t, 1, folder, "no space left on device", "make room")
		load.grant(t)
	}
	if got := c.leaders(healthy); got != leaders {
		t.Errorf("while %s tried to start, the leaders and terms went from %s to %s; want no election", sick, leaders, got)
	}

	disks[sick].clear(t)
	c.startAgain(sick)
	c.awaitReady(sick, c.index(healthy))
	if next := load.grant(t); next <= token {
		t.Errorf("token after the node came back: got %d, want more than %d", next, token)
	}
	c.wantSameState()
	wantWords(t, "what "+sick+" said when it came back", c.own[sick].out.String(), "no space left on device", "is whole")
	c.stop(syscall.SIGTERM)
}

// TestReadOnlyDisk_isRefusedAtTheStart: a node whose Raft folder cannot be written says so before it takes part.
func TestReadOnlyDisk_isRefusedAtTheStart(t *testing.T) {
	c := newCluster(t)
	disks := mountDisks(c)
	c.start("--processes", "--restart-after", "0")
	load := &load{client: newClient(t, c.file), session: newSession()}
	load.grant(t)
	sick := c.leader()
	folder := filepath.Join(c.dir, sick, partition)
	kill9(c.pid(sick))
	await(t, sick+" ends", func() error { return c.wantEnded(sick, -1) })

	disks[sick].setReadOnly(t, true)
	for range 2 {
		c.startAgain(sick)
		c.own[sick].wait(t)
		c.own[sick].wantExit(t, 1, folder, "read-only file system", "mount it writable")
		load.grant(t)
	}
	disks[sick].setReadOnly(t, false)
	c.startAgain(sick)
	c.awaitReady(sick, c.index(c.others(sick)[0]))
	c.wantSameState()
	c.stop(syscall.SIGTERM)
}

// load makes the tenant's log grow.
type load struct {
	client  *client
	session string
	n       uint64
}

// grant takes a lease on a long key of its own, gives it back, and returns its token.
func (l *load) grant(t *testing.T) uint64 {
	t.Helper()
	l.n++
	key := fmt.Sprintf("%d %s", l.n, strings.Repeat("x", 480))
	granted, _ := l.client.acquire(t, l.session, l.n, wire.AcquireRequest{Class: "ledger-close", Key: key})
	l.client.must(t, "DELETE", leasePath(l.session, l.n), nil)
	return granted.Token
}

// wantEnded checks that a node's process, as `stanchion dev` started it, has ended with a code; -1: by a signal.
func (c *cluster) wantEnded(node string, code int) error {
	_, how, ended := strings.Cut(c.dev.out.String(), node+" ended: ")
	want := fmt.Sprintf("exit status %d;", code)
	if code < 0 {
		want = "signal: "
	}
	switch {
	case !ended:
		return errors.New("it runs")
	case !strings.HasPrefix(how, want):
		c.t.Fatalf("%s ended: %.100s; want %s", node, how, want)
	}
	return nil
}

// awaitLeaders is leaders once a node that has stopped leads no group any more.
func (c *cluster) awaitLeaders(node, stopped string) (leaders string) {
	c.t.Helper()
	await(c.t, "every group has a leader other than "+stopped, func() error {
		leaders = c.leaders(node)
		if strings.Contains(leaders, ": "+stopped+" ") || strings.Contains(leaders, ":  ") {
			return errors.New(leaders)
		}
		return nil
	})
	return leaders
}

// leaders says who leads each group and in which term, as a node sees it.
func (c *cluster) leaders(node string) string {
	c.t.Helper()
	out := ""
	p := stanchion(c.t, "cluster", "status", "--output", "json", "--socket", filepath.Join(c.dir, node, "admin.sock"))
	p.wantExit(c.t, 0)
	var s struct {
		Groups []struct {
			Group  string `json:"group"`
			Leader string `json:"leader"`
			Term   uint64 `json:"term"`
		} `json:"groups"`
	}
	if err := json.Unmarshal([]byte(p.out.String()), &s); err != nil {
		c.t.Fatalf("status of %s: %v\n%s", node, err, p.out.String())
	}
	for _, g := range s.Groups {
		out += fmt.Sprintf("%s: %s in term %d; ", g.Group, g.Leader, g.Term)
	}
	return out
}

func wantWords(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s has no words %q:\n%s", what, w, lastBytes([]byte(text), 4<<10))
		}
	}
}

// disk is a small file system in memory.
type disk struct{ dir string }

const diskOptions = "size=8m,mode=700"

// mountDisks gives each node, before its first start, a file system of its own for the partition's folder.
func mountDisks(c *cluster) map[string]disk {
	c.t.Helper()
	disks := map[string]disk{}
	for _, node := range []string{"n1", "n2", "n3"} {
		d := disk{filepath.Join(c.dir, node, partition)}
		if err := os.MkdirAll(d.dir, 0o700); err != nil {
			c.t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, diskOptions); err != nil {
			c.t.Fatalf("mount a tmpfs on %s: %v: this test needs to be root with CAP_SYS_ADMIN; in a container, a privileged one",
				d.dir, err)
		}
		c.t.Cleanup(func() {
			if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
				c.t.Errorf("unmount %s: %v", d.dir, err)
			}
		})
		disks[node] = d
	}
	return disks
}

func (d disk) filler() string { return filepath.Join(d.dir, "filler") }

// fill takes all the space that is left.
func (d disk) fill(t *testing.T) {
	t.Helper()
	f, err := os.Create(d.filler())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4<<10)
	for err == nil {
		_, err = f.Write(page)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill %s: %v, want %v", d.dir, err, syscall.ENOSPC)
	}
}

func (d disk) clear(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		t.Fatal(err)
	}
}

func (d disk) setReadOnly(t *testing.T, only bool) {
	t.Helper()
	flags := uintptr(syscall.MS_REMOUNT)
	if only {
		flags |= syscall.MS_RDONLY
	}
	if err := syscall.Mount("tmpfs", d.dir, "tmpfs", flags, diskOptions); err != nil {
		t.Fatalf("mount %s anew, read-only %v: %v", d.dir, only, err)
	}
}
