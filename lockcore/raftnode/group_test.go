package raftnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestGroup_electsReplicatesAndConfirmsOverOnePort(t *testing.T) {
	c := newTestCluster(t, 3, "control", "p1", "p2")
	c.start()
	for _, group := range c.groups {
		count := c.write(group, 20)
		c.agree(group, count)
		leader := c.leader(group)
		status := leader.groups[group].Status()
		if got, want := status.Voters(), []NodeID{"n1", "n2", "n3"}; !slices.Equal(got, want) {
			t.Errorf("voters of %s: got %v, want %v", group, got, want)
		}
		follower := c.follower(leader)
		got := propose(t, follower.groups[group], "to the wrong node")
		if !errors.Is(got.err, ErrNotLeader) || !NotProposed(got.err) {
			t.Errorf("proposal to a follower of %s: got %v, want %v", group, got.err, ErrNotLeader)
		}
		err := follower.groups[group].Confirm(t.Context(), status.Term)
		if err == nil {
			t.Errorf("a follower of %s was confirmed as its leader", group)
		}
	}
}

func TestGroup_followerReturnsWithItsData(t *testing.T) {
	c := newTestCluster(t, 3, "p1")
	c.start()
	c.agree("p1", c.write("p1", 5))
	away := c.follower(c.leader("p1"))
	c.halt(away)
	c.write("p1", 3)
	c.revive(away)
	c.agree("p1", c.write("p1", 1))
}

func TestGroup_followerFarBehindGetsSnapshot(t *testing.T) {
	c := newTestCluster(t, 3, "p1")
	c.start()
	c.agree("p1", c.write("p1", 2))
	away := c.follower(c.leader("p1"))
	c.halt(away)
	count := c.write("p1", 150)
	leader := c.leader("p1")
	eventually(t, "the leader's log to begin after what the follower has", func() bool {
		l := leader.groups["p1"].live.Load()
		first, err := l.store.FirstIndex()
		return err == nil && first > 50
	})
	c.revive(away)
	c.agree("p1", count)
	if _, _, restores := away.groups["p1"].Machine().(*ledger).read(); restores == 0 {
		t.Error("the follower caught up without a snapshot: the test shows nothing")
	}
	c.halt(away)
	c.revive(away) // log and snapshot now have a hole between them, which is legitimate
	c.agree("p1", c.write("p1", 1))
}

func TestGroup_restartGivesLeadershipUp(t *testing.T) {
	c := newTestCluster(t, 3, "p1")
	c.start()
	count := c.write("p1", 5)
	old := c.leader("p1")
	term := old.groups["p1"].Status().Term
	if err := old.groups["p1"].Restart(); err != nil {
		t.Fatal(err)
	}
	if err := old.groups["p1"].Confirm(t.Context(), term); err == nil {
		t.Error("a restarted leader was confirmed in its former term")
	}
	now := c.leader("p1")
	if got := now.groups["p1"].Status().Term; got <= term {
		t.Errorf("term after the restart: got %d, want above %d", got, term)
	}
	c.agree("p1", count)
}

func TestGroup_survivesLossOfLeader(t *testing.T) {
	c := newTestCluster(t, 3, "p1")
	c.start()
	c.agree("p1", c.write("p1", 5))
	lost := c.leader("p1")
	c.halt(lost)
	count := c.write("p1", 5)
	c.agree("p1", count)
	c.revive(lost)
	c.agree("p1", count)
}

func TestGroup_nonvoterIsAddedPromotedAndRemoved(t *testing.T) {
	c := newTestCluster(t, 4, "p1")
	last := c.nodes[3]
	for _, n := range c.nodes {
		c.open(n, "p1")
	}
	if err := c.nodes[0].groups["p1"].Bootstrap(c.members()[:3]); err != nil {
		t.Fatal(err)
	}
	count := c.write("p1", 5)
	leader := c.leader("p1").groups["p1"]
	if err := leader.AddNonvoter(last.id, last.mux.Advertise()); err != nil {
		t.Fatal(err)
	}
	if got := leader.Status().Voters(); slices.Contains(got, last.id) {
		t.Errorf("voters: got %v, want no %s", got, last.id)
	}
	c.agree("p1", count)
	if err := leader.Promote(last.id); err != nil {
		t.Fatal(err)
	}
	if got := leader.Status().Voters(); len(got) != 4 {
		t.Errorf("voters after promotion: got %v, want four", got)
	}
	if err := leader.Remove(last.id); err != nil {
		t.Fatal(err)
	}
	if got := leader.Status().Voters(); len(got) != 3 {
		t.Errorf("voters after removal: got %v, want three", got)
	}
	if err := leader.Promote("n9"); !errors.Is(err, ErrBadConfig) {
		t.Errorf("promote a stranger: got %v, want %v", err, ErrBadConfig)
	}
}

// A server without a vote on the leader's side of a partition must not make a majority of it.
func TestGroup_nonvoterDoesNotConfirm(t *testing.T) {
	c := newTestCluster(t, 4, "p1")
	for _, n := range c.nodes {
		c.open(n, "p1")
	}
	if err := c.nodes[0].groups["p1"].Bootstrap(c.members()[:3]); err != nil {
		t.Fatal(err)
	}
	count := c.write("p1", 1)
	leader, last := c.leader("p1"), c.nodes[3]
	if err := leader.groups["p1"].AddNonvoter(last.id, last.mux.Advertise()); err != nil {
		t.Fatal(err)
	}
	c.agree("p1", count)
	term := leader.groups["p1"].Status().Term
	if err := leader.groups["p1"].Confirm(t.Context(), term); err != nil {
		t.Fatalf("with all voters: %v", err)
	}
	for _, n := range c.nodes[:3] {
		if n != leader {
			c.halt(n)
		}
	}
	if err := leader.groups["p1"].Confirm(t.Context(), term); err == nil {
		t.Error("confirmed by a non-voter alone")
	}
}

func TestGroup_damagedNodeRefusesWhileTheOthersServe(t *testing.T) {
	c := newTestCluster(t, 3, "p1")
	c.start()
	c.agree("p1", c.write("p1", 30))
	away := c.follower(c.leader("p1"))
	c.halt(away)
	path := filepath.Join(away.dir, "p1", storeFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// In the data of an entry, where Bolt itself would see nothing; in every copy, because some pages are free.
	raw = bytes.ReplaceAll(raw, []byte("p1 entry 7"), []byte("p1 entry 8"))
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	c.listen(away)
	for range 2 { // the second start must not find an empty group instead
		_, err = OpenGroup(c.config(away, "p1"))
		refused(t, "a damaged file", err, ErrDamaged, "join again under a new node id")
	}
	c.agree("p1", c.write("p1", 3))
}

func TestGroup_stopLeavesNoGoroutineBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	c := newTestCluster(t, 3, "p1")
	c.start()
	c.agree("p1", c.write("p1", 5))
	for _, n := range c.nodes {
		c.halt(n)
	}
	goleak.VerifyNone(t, before)
}

func TestGroup_bootstrapsOnce(t *testing.T) {
	c := newTestCluster(t, 1, "p1")
	c.start()
	c.leader("p1")
	g := c.nodes[0].groups["p1"]
	if err := g.Bootstrap(c.members()); !errors.Is(err, ErrAlreadyBootstrapped) {
		t.Errorf("second bootstrap: got %v, want %v", err, ErrAlreadyBootstrapped)
	}
	if err := g.Bootstrap(nil); !errors.Is(err, ErrBadConfig) {
		t.Errorf("bootstrap without this node: got %v, want %v", err, ErrBadConfig)
	}
}

func TestGroup_stoppedRefusesProposals(t *testing.T) {
	c := newTestCluster(t, 1, "p1")
	c.start()
	c.leader("p1")
	g := c.nodes[0].groups["p1"]
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := propose(t, g, "too late"); !errors.Is(got.err, ErrNotLeader) {
		t.Errorf("proposal after Stop: got %v, want %v", got.err, ErrNotLeader)
	}
	if err := g.Restart(); !errors.Is(err, ErrGroupStopped) {
		t.Errorf("restart after Stop: got %v, want %v", err, ErrGroupStopped)
	}
	if got := g.Status().State; got != Stopped {
		t.Errorf("state: got %v, want %v", got, Stopped)
	}
}

// A leadership that is lost and won again must be seen as two by whoever acted on the first.
func TestLeadership_lostAndRegainedIsTwo(t *testing.T) {
	f := newLeadershipFeed()
	f.set(true, 5)
	var got []Leadership
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for l := range f.watch(ctx) {
		got = append(got, l)
		switch len(got) {
		case 1: // both happen while the watcher is busy with the first
			f.set(false, 6)
			f.set(true, 7)
		case 3:
			f.set(true, 8) // a gain without a loss in between is a new one too
		}
		if len(got) == 5 {
			break
		}
	}
	want := []Leadership{
		{Leading: true, Serial: 1, Term: 5},
		{Leading: false, Serial: 1, Term: 5},
		{Leading: true, Serial: 2, Term: 7},
		{Leading: false, Serial: 2, Term: 7},
		{Leading: true, Serial: 3, Term: 8},
	}
	if !slices.Equal(got, want) {
		t.Errorf("leaderships: got %v, want %v", got, want)
	}
}

func TestLeadership_restartedLeaderSeesBothOfItsLeaderships(t *testing.T) {
	c := newTestCluster(t, 1, "p1")
	c.start()
	c.leader("p1")
	g := c.nodes[0].groups["p1"]
	seen := make(chan Leadership, 16)
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for l := range g.Leadership(ctx) {
			seen <- l
		}
	}()
	defer func() { cancel(); <-watched }()
	first := receive(t, "the present leadership", seen)
	for !first.Leading { // the notification may trail the state
		first = receive(t, "the leadership", seen)
	}
	if err := g.Restart(); err != nil {
		t.Fatal(err)
	}
	lost := receive(t, "its end", seen)
	second := receive(t, "the next leadership", seen)
	got := fmt.Sprint(first.Leading, lost.Leading, second.Leading, second.Serial-first.Serial)
	if want := "true false true 1"; got != want {
		t.Errorf("leading before, between, after, serials apart: got %s, want %s", got, want)
	}
}
