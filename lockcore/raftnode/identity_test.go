package raftnode

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func newDataDir(t *testing.T) *DataDir {
	t.Helper()
	d, err := CreateDataDir(filepath.Join(t.TempDir(), "n1"), NewClusterID(), "n1", 1)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// refused checks that err is want, and that its text names the remedy.
func refused(t *testing.T, what string, err, want error, remedy string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
		return
	}
	if !strings.Contains(err.Error(), remedy) {
		t.Errorf("%s: got %q, want the remedy %q in it", what, err, remedy)
	}
}

func TestDataDir_survivesReopening(t *testing.T) {
	made := newDataDir(t)
	if err := made.remember("p2"); err != nil {
		t.Fatal(err)
	}
	if err := made.remember("p1"); err != nil {
		t.Fatal(err)
	}
	id := made.Identity()
	read, err := OpenDataDir(made.Path(), id.Cluster, id.Node)
	if err != nil {
		t.Fatal(err)
	}
	got := read.Identity()
	if got.NodeUUID != id.NodeUUID || got.Incarnation != 1 || len(got.Groups) != 2 || got.Groups[0] != "p1" {
		t.Errorf("identity: got %+v, want %+v", got, id)
	}
}

func TestDataDir_refusesForeignAndEmptyDirectories(t *testing.T) {
	d := newDataDir(t)
	id := d.Identity()
	_, err := OpenDataDir(d.Path(), NewClusterID(), id.Node)
	refused(t, "another cluster's", err, ErrForeignData, "point the node at its own directory")
	_, err = OpenDataDir(d.Path(), id.Cluster, "n2")
	refused(t, "another node's", err, ErrForeignData, "point the node at its own directory")
	_, err = OpenDataDir(t.TempDir(), id.Cluster, id.Node)
	refused(t, "an empty one", err, ErrNoIdentity, "join under a new node id")
	_, err = CreateDataDir(d.Path(), id.Cluster, id.Node, 1)
	refused(t, "creation over an identity", err, ErrIdentityExists, "without creating it")
}

func TestDataDir_refusesToInventIdentityOverGroupData(t *testing.T) {
	d := newDataDir(t)
	if _, _, err := d.openGroup("p1", true); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(d.Path(), identityFile)); err != nil {
		t.Fatal(err)
	}
	_, err := CreateDataDir(d.Path(), d.Identity().Cluster, "n1", 1)
	refused(t, "group data without identity", err, ErrDataLost, "join under a new node id")
}

// A voter whose disk was wiped has forgotten its votes and must not come back as itself.
func TestDataDir_refusesWipedGroupOfKnownMember(t *testing.T) {
	wipes := map[string]func(dir string) error{
		"no directory": os.RemoveAll,
		"no store":     func(dir string) error { return os.Remove(filepath.Join(dir, storeFile)) },
		"empty store":  func(dir string) error { return os.Truncate(filepath.Join(dir, storeFile), 0) },
	}
	for name, wipe := range wipes {
		t.Run(name, func(t *testing.T) {
			d := newDataDir(t)
			dir, known, err := d.openGroup("p1", true)
			if err != nil || known {
				t.Fatalf("first opening: known %v, error %v", known, err)
			}
			if err := os.WriteFile(filepath.Join(dir, storeFile), []byte("votes"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := d.remember("p1"); err != nil {
				t.Fatal(err)
			}
			if _, known, err := d.openGroup("p1", false); err != nil || !known {
				t.Fatalf("second opening: known %v, error %v", known, err)
			}
			if err := wipe(dir); err != nil {
				t.Fatal(err)
			}
			for _, create := range []bool{false, true} {
				_, _, err := d.openGroup("p1", create)
				refused(t, "wiped group", err, ErrDataLost, "join under a new node id")
			}
		})
	}
}

func TestDataDir_refusesUnknownAndExchangedGroups(t *testing.T) {
	d := newDataDir(t)
	_, _, err := d.openGroup("p1", false)
	refused(t, "unknown group", err, ErrUnknownGroup, "let this node join it")
	for _, group := range []GroupID{"p1", "p2"} {
		dir, _, err := d.openGroup(group, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, storeFile), []byte("votes"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.remember(group); err != nil {
			t.Fatal(err)
		}
	}
	swap := func(from, to string) {
		if err := os.Rename(filepath.Join(d.Path(), from), filepath.Join(d.Path(), to)); err != nil {
			t.Fatal(err)
		}
	}
	swap("p1", "aside")
	swap("p2", "p1")
	_, _, err = d.openGroup("p1", false)
	refused(t, "another group's directory", err, ErrForeignData, "point the node at its own directory")
}

func TestGroup_refusesToStartOnWipedDisk(t *testing.T) {
	c := newTestCluster(t, 1, "p1")
	c.start()
	c.write("p1", 3)
	n := c.nodes[0]
	c.halt(n)
	if err := os.RemoveAll(filepath.Join(n.dir, "p1")); err != nil {
		t.Fatal(err)
	}
	c.listen(n)
	_, err := OpenGroup(c.config(n, "p1"))
	refused(t, "open after the wipe", err, ErrDataLost, "join under a new node id")
}

func TestID_syntax(t *testing.T) {
	for _, good := range []NodeID{"n1", "a", "0-x"} {
		if err := good.Validate(); err != nil {
			t.Errorf("%q: got %v, want no error", good, err)
		}
	}
	for _, bad := range []NodeID{"", "-a", "N1", "a/b", "a@b", NodeID(strings.Repeat("a", 64))} {
		if err := bad.Validate(); !errors.Is(err, ErrBadID) {
			t.Errorf("%q: got %v, want %v", bad, err, ErrBadID)
		}
	}
	if err := NewClusterID().Validate(); err != nil {
		t.Errorf("a fresh cluster id: got %v, want no error", err)
	}
}
