package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/client/wire"
)

const (
	owners        = 10
	locksPerOwner = 5 // in turn of a long and of a short lease
)

// TestAllKilled_everyLockBecomesFreeByItself kills all nodes and all owners of 50 locks at one moment, and starts the nodes
// again on their data. Without anybody's help every lock goes to the next who asks: not before the end of what its owner
// was promised, within what docs/guarantees.md bounds, with an epoch and a token above all that were; and an owner that
// came back with its old lease would be told that it has ended.
func TestAllKilled_everyLockBecomesFreeByItself(t *testing.T) {
	c := newCluster(t)
	flags := []string{"--processes", "--restart-after", "0", "--classes", writeClasses(t,
		classFile("long", "lease: 30s", "wait:", "  max_wait: 30m"), classFile("short", "lease: 10s", "wait:", "  max_wait: 30m"))}
	c.start(flags...)
	held, waiting := killAll(c, startOwners(c))

	c.start(flags...)
	back := time.Now()
	client := newClient(t, c.file)
	next := takeAll(t, client, held)
	t.Logf("all %d locks were granted again %v after the cluster was back", len(next), time.Since(back).Round(time.Millisecond))
	wantSucceeded(t, held, next)
	for _, l := range slices.Concat(held, waiting) {
		a := client.must(t, http.MethodGet, "/v1/leases/"+l.Lease, nil)
		if got, err := a.lease(); err != nil || got.State != wire.StateEnded || got.Reason == "" || got.Token < l.Token {
			t.Errorf("%s of %+v, token %d, after its owner's death: got %s, %v, want it ended, with a reason", l.Lease, l.Lock, l.Token, a.body, err)
		}
	}
	for _, n := range next {
		client.must(t, http.MethodDelete, "/v1/leases/"+n.lease.LeaseID, nil)
	}
	await(t, "nothing of the dead is left", func() error { return client.wantNoLocks(t) })
	c.wantSameState()
	c.stop(syscall.SIGTERM)
}

// startOwners starts the owners and waits until each holds its locks, has renewed them, and waits for another's.
func startOwners(c *cluster) []*process {
	c.t.Helper()
	var all []*process
	lockOf := func(o, i int) lock {
		class := "long"
		if (o+i)%2 == 1 {
			class = "short"
		}
		return lock{class, keyName(o%owners*locksPerOwner + i)}
	}
	client := newClient(c.t, c.file)
	for i := range owners {
		o := owner{Nodes: client.nodes, APIKey: client.key, Session: newSession()}
		for k := range locksPerOwner {
			o.Holds = append(o.Holds, lockOf(i, k))
		}
		if i > 0 {
			o.Waits = lockOf(i-1, 0) // held by then
		}
		p := startOwner(c.t, o)
		all = append(all, p)
		await(c.t, fmt.Sprintf("owner %d holds its locks", i), func() error {
			if p.ended() {
				c.t.Fatalf("owner %d ended: %s", i, p.out.String())
			}
			if got, want := len(p.leases(c.t)), locksPerOwner+min(i, 1); got < want {
				return fmt.Errorf("it has been told of %d leases, want %d", got, want)
			}
			return nil
		})
	}
	return all
}

// killAll kills every node and every owner with SIGKILL, and returns what the owners had been told.
func killAll(c *cluster, all []*process) (held, waiting []told) {
	c.t.Helper()
	for _, n := range c.file.Nodes {
		kill9(c.pid(n.ID))
	}
	kill9(c.dev.cmd.Process.Pid)
	for _, p := range all {
		kill9(p.cmd.Process.Pid)
	}
	<-c.dev.done
	for _, p := range all {
		<-p.done
		for _, l := range p.leases(c.t) {
			if l.State == wire.StateGranted {
				held = append(held, l)
			} else {
				waiting = append(waiting, l)
			}
		}
	}
	wantNobody(c.t)
	if len(held) != owners*locksPerOwner || len(waiting) != owners-1 {
		c.t.Fatalf("when all were killed: got %d locks held and %d waited for, want %d and %d", len(held), len(waiting),
			owners*locksPerOwner, owners-1)
	}
	return held, waiting
}

// succession is a grant to the next who asks for a lock.
type succession struct {
	lease    wire.Lease
	received time.Time
}

// takeAll asks for all locks at once, each with a session of its own, and waits until every one is granted: in one bound
// for all, which is longer than the documented one for the longest lease.
func takeAll(t *testing.T, client *client, held []told) []succession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTime)
	defer cancel()
	next := make([]succession, len(held))
	var all errgroup.Group
	for i, l := range held {
		all.Go(func() (err error) {
			next[i], err = takeNext(ctx, client, l.Lock)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatalf("%v after the cluster was back: %v", awaitTime, err)
	}
	return next
}

func takeNext(ctx context.Context, client *client, l lock) (succession, error) {
	c, session := &caller{client: client}, newSession()
	for {
		a, err := c.call(ctx, pollTime, http.MethodPut, leasePath(session, 1), l.request())
		if err != nil {
			return succession{}, fmt.Errorf("lock %+v is not free: %w", l, err)
		}
		got, err := a.lease()
		switch {
		case err != nil:
			return succession{}, fmt.Errorf("acquire %+v: %w", l, err)
		case got.State == wire.StateGranted:
			return succession{got, a.received}, nil
		}
	}
}

// wantSucceeded holds each new grant against the one before.
func wantSucceeded(t *testing.T, held []told, next []succession) {
	t.Helper()
	var token, epoch uint64
	for _, l := range held {
		token, epoch = max(token, l.Token), max(epoch, l.Epoch)
	}
	for i, n := range next {
		l := held[i]
		if n.lease.Token <= token || n.lease.Epoch <= epoch {
			t.Errorf("%+v was granted with token %d, epoch %d; want them above %d and %d", l.Lock, n.lease.Token, n.lease.Epoch, token, epoch)
		}
		if n.received.Before(l.Until) {
			t.Errorf("%+v was granted %v before the end of what its dead owner was promised", l.Lock, l.Until.Sub(n.received))
		}
	}
}

// wantNoLocks checks that no lock of the tenant is held or waited for.
func (c *client) wantNoLocks(t *testing.T) error {
	t.Helper()
	a := c.must(t, http.MethodGet, "/v1/locks", nil)
	var list wire.LockList
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != http.StatusOK {
		t.Fatalf("list of locks: %v: %d %s", err, a.status, a.body)
	}
	if len(list.Locks) > 0 {
		return errors.New(string(a.body))
	}
	return nil
}
