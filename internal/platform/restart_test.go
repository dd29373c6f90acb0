package platform_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
)

func TestRestartOfAll_keepsTheStateAndEndsWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	const dead = 50
	c := startCluster(t)
	ofAcme, ofGlobex := c.furnish(t, classShort, classLong)
	kept := newSession()
	old := ofAcme.take(t, kept+".1", classLong, "kept")
	for i := range dead {
		ofAcme.take(t, newID(), classShort, fmt.Sprintf("key %d", i))
	}
	for _, n := range c.nodes {
		n.stop(t)
	}
	for _, n := range c.nodes {
		n.start(t, false)
	}
	beat := ofAcme.heartbeat(t, kept, 1)
	if len(beat.Held) != 1 || beat.Held[0].Token != old.lease.Token {
		t.Errorf("after the restart the old handle's heartbeat is answered %+v; want it held with token %d", beat, old.lease.Token)
	}
	eventually(t, "every lease without an owner has ended by itself", func() bool {
		state, _ := c.machineState(t, 1, acme)
		return state.Keys == 1
	})
	next := ofAcme.take(t, newID(), classShort, "key 0")
	if next.lease.Epoch <= old.lease.Epoch || next.lease.Token <= old.lease.Token+dead {
		t.Errorf("after the restart a grant is %s; want an epoch above %d and a token above %d", next, old.lease.Epoch, old.lease.Token+dead)
	}
	if r := ofAcme.release(t, kept+".1"); r.lease.Reason != "released" {
		t.Errorf("the old handle's release is answered %s", r)
	}
	if r := ofAcme.look(t, kept+".1"); r.lease.State != wire.StateEnded {
		t.Errorf("after its release the old handle is %s", r)
	}
	ofGlobex.take(t, newID(), classLong, "kept")
}

func TestSingleNode_servesAndComesBack(t *testing.T) {
	t.Parallel()
	c := startClusterOf(t, 1)
	api, _ := c.furnish(t, classLong)
	session := newSession()
	granted := api.take(t, session+".1", classLong, "k")
	c.nodes[0].stop(t)
	c.nodes[0].start(t, false) // it leads before anybody has connected
	beat := api.heartbeat(t, session, 1)
	if len(beat.Held) != 1 || beat.Held[0].Token != granted.lease.Token {
		t.Errorf("after the restart a heartbeat is answered %+v; want the lease held with token %d", beat, granted.lease.Token)
	}
	if next := api.take(t, newID(), classLong, "other"); next.lease.Epoch <= granted.lease.Epoch {
		t.Errorf("after the restart a grant is %s; want an epoch above %d", next, granted.lease.Epoch)
	}
}

// machineState is what the partition's leader keeps of a tenant, and at which index.
func (c *cluster) machineState(t testing.TB, partition int, tenant lockcore.TenantID) (state lockcore.TenantState, index uint64) {
	t.Helper()
	c.leader(t, fmt.Sprintf("partition-%d", partition)).platform.ViewPartition(partition, func(m *lockcore.Machine) {
		state, _ = m.Tenant(tenant)
		index = m.Index()
	})
	return state, index
}

// outcome is what a request with an id was told in the end.
type outcome struct {
	id    string
	want  acquire
	reply reply
}

func TestKilledLeaders_giveOneOutcomeForEachID(t *testing.T) {
	t.Parallel()
	const workers, each, keys = 6, 50, 20
	c := startCluster(t)
	api, _ := c.furnish(t, classLong)
	held := newHolders()
	var all errgroup.Group
	results := make([][]outcome, workers)
	for w := range workers {
		all.Go(func() error {
			for i := range each {
				want := acquire{class: classLong, key: fmt.Sprintf("key %d", (w*7+i*3)%keys)}
				o := outcome{newID(), want, reply{}}
				o.reply = api.acquire(t, o.id, want)
				if o.reply.granted() {
					held.begin(t, want.key, o.reply.lease.Token)
					held.end(want.key)
					api.release(t, o.id)
				}
				results[w] = append(results[w], o)
			}
			return nil
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- all.Wait() }()
	kills := c.killLeadersUntil(t, ended)
	if kills < 3 {
		t.Errorf("%d leaders were killed meanwhile; want at least 3", kills)
	}
	for _, of := range results {
		for _, o := range of {
			again := api.acquire(t, o.id, o.want)
			same := o.reply.granted() && again.lease.State == wire.StateEnded && again.lease.Token == o.reply.lease.Token ||
				o.reply.code() == wire.CodeHeld && again.code() == wire.CodeHeld
			if !same {
				t.Errorf("id %s was told %s, and asked again %s", o.id, o.reply, again)
			}
		}
	}
	for _, l := range api.locks(t, map[string][]string{"limit": {"1000"}}) {
		t.Errorf("after every release the lock is still there: %+v", l)
	}
}

// killLeadersUntil kills the leader of the first partition, at random moments, and starts it again, until the work ends.
func (c *cluster) killLeadersUntil(t *testing.T, ended <-chan error) (kills int) {
	t.Helper()
	for {
		victim := c.leader(t, acmePartition)
		_, from := c.machineState(t, 1, acme)
		entries := uint64(1 + rand.N(20))
		done := false
		eventually(t, "some entries pass, or the work ends", func() bool {
			select {
			case err := <-ended:
				if err != nil {
					t.Fatal(err)
				}
				done = true
			default:
			}
			return done || victim.group(acmePartition).Index >= from+entries || !victim.group(acmePartition).Ready
		})
		if done {
			return kills
		}
		victim.kill(t)
		kills++
		victim.start(t, false)
	}
}

// kill ends the node without a word to anybody: its connections are gone first.
func (n *testNode) kill(t testing.TB) {
	t.Helper()
	n.isolate()
	n.door.sever()
	n.stop(t)
	n.door.mend()
	n.rejoin()
}

// holders is who holds each key by what clients were told. Safe for concurrent use.
type holders struct {
	mu     sync.Mutex
	tokens map[uint64]bool   // guarded by mu: every token that was granted
	live   map[string]uint64 // guarded by mu: by key, the token of its grant
}

func newHolders() *holders { return &holders{tokens: map[uint64]bool{}, live: map[string]uint64{}} }

// begin notes a grant that a client was told of.
func (h *holders) begin(t *testing.T, key string, token uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, taken := h.live[key]; taken {
		t.Errorf("%s is granted with token %d while it is held with token %d", key, token, other)
	}
	if h.tokens[token] {
		t.Errorf("token %d is granted twice", token)
	}
	h.live[key], h.tokens[token] = token, true
}

// end notes that a client is about to release.
func (h *holders) end(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.live, key)
}

func TestRestarts_amongSnapshotsLeaveAllNodesEqual(t *testing.T) {
	t.Parallel()
	const restarts, writers = 8, 4
	c := startCluster(t)
	api, _ := c.furnish(t, classLong)
	ctx, cancel := context.WithCancel(t.Context())
	var all errgroup.Group
	granted := make([][]string, writers)
	for w := range writers {
		all.Go(func() error {
			for i := 0; ctx.Err() == nil; i++ {
				id := newID()
				if r := api.acquire(t, id, acquire{class: classLong, key: fmt.Sprintf("writer %d, key %d", w, i)}); !r.granted() {
					return fmt.Errorf("a free key is answered %s", r)
				}
				if i%10 != 0 {
					api.release(t, id)
				} else {
					granted[w] = append(granted[w], id)
				}
			}
			return nil
		})
	}
	for i := range restarts {
		n := c.nodes[i%nodeCount]
		n.kill(t)
		_, from := c.machineState(t, 1, acme)
		eventually(t, "more than a snapshot's worth of entries has passed", func() bool {
			_, now := c.machineState(t, 1, acme)
			return now > from+70
		})
		n.start(t, false)
		eventually(t, "the node has heard of a leader", func() bool { return n.group(acmePartition).Leader != "" })
	}
	cancel()
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	c.awaitEqual(t)
	for _, ids := range granted {
		for _, id := range ids {
			if r := api.look(t, id); r.status != http.StatusOK || r.lease.Token == 0 {
				t.Errorf("of a grant that was answered, there is now %s", r)
			}
		}
	}
}

// awaitEqual awaits that every group is at one index on all nodes, and holds their hashes against each other.
func (c *cluster) awaitEqual(t testing.TB) {
	t.Helper()
	var differ error
	eventually(t, "all nodes have applied the same entries", func() bool {
		first := c.nodes[0].platform.Status(true).Groups
		differ = nil
		for _, n := range c.nodes[1:] {
			for i, g := range n.platform.Status(true).Groups {
				if g.Index != first[i].Index {
					return false
				}
				if g.RollingHash != first[i].RollingHash || g.StateHash != first[i].StateHash {
					differ = errors.Join(differ, fmt.Errorf("%s of %s at index %d has state %s, another node has %s",
						g.Group, n.id, g.Index, g.StateHash, first[i].StateHash))
				}
			}
		}
		return true
	})
	if differ != nil {
		t.Error(differ)
	}
}
