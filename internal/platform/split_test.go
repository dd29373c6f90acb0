package platform_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/client/wire"
)

const splitKeys = 8 // that are held on each side

// TestSplit_healsWithNothingFrozen cuts one node off, with clients on both sides, for as long as it takes until all that
// the clients on its side held has run out and been granted on the other side.
func TestSplit_healsWithNothingFrozen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		cutOff func(*testing.T, *cluster) *testNode
	}{
		{"the leader is cut off", func(t *testing.T, c *cluster) *testNode { return c.leader(t, acmePartition) }},
		{"a follower is cut off", func(t *testing.T, c *cluster) *testNode { return c.others(c.leader(t, acmePartition))[0] }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t)
			api, _ := c.furnish(t, classMiddle)
			few := test.cutOff(t, c)
			s := &split{cluster: c, api: api, few: few, many: c.others(few)}
			s.test(t)
		})
	}
}

// split is a cluster of which one node is cut off for a while.
type split struct {
	*cluster
	api  *client
	few  *testNode
	many []*testNode

	lonely *lonely // the clients at the node that is cut off
	busy   *keeper // who keeps the locks of the other side
}

func fewKey(i int) string  { return fmt.Sprintf("few %d", i) }
func manyKey(i int) string { return fmt.Sprintf("many %d", i) }

func (s *split) test(t *testing.T) {
	s.busy = startKeeper(t, s.api, s.many, manyKey)
	s.lonely = startLonely(t, s)
	s.lonely.awaitServed(t)

	s.few.isolate()
	s.lonely.enter(duringSplit)
	heirs := s.inherit(t)
	s.lonely.wantRefused(t)

	s.lonely.enter(afterSplit)
	s.few.rejoin()
	s.lonely.awaitLost(t)
	s.lonely.wantClearAnswers(t)
	s.busy.stop()
	for _, id := range append(heirs, s.busy.ids()...) {
		if r := s.api.release(t, id); r.status != http.StatusOK || r.lease.State != wire.StateEnded {
			t.Errorf("after the split the release of a lease of the larger side is answered %s", r)
		}
	}
	s.wantUsable(t)
	s.awaitReady(t)
	s.awaitEqual(t)
}

// inherit has clients of the larger side wait for each key of the other side until they are granted it, and returns their
// lease ids. By then each kind of request at the node that is cut off has been refused: that is the bound for "at once".
func (s *split) inherit(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ids := make([]string, splitKeys)
	var all errgroup.Group
	for i := range splitKeys {
		ids[i] = newID()
		all.Go(func() error {
			a := acquire{class: classMiddle, key: fewKey(i), wait: "10m", poll: "1s"}
			for n := 0; ctx.Err() == nil; n++ {
				r, err := s.api.send(ctx, s.many[n%len(s.many)], http.MethodPut, "/v1/leases/"+ids[i], a.body())
				switch {
				case err == nil && r.granted():
					s.lonely.inherited(t, i, r, time.Now())
					return s.keep(t, ids[i], r)
				case err == nil && !r.tellsNothing() && r.lease.State != wire.StateQueued:
					return fmt.Errorf("the larger side answers a waiter with %s", r)
				}
			}
			return fmt.Errorf("the larger side does not grant %s", fewKey(i))
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// keep takes a lease that was handed over up for its full term.
func (s *split) keep(t *testing.T, id string, r reply) error {
	s.busy.add(id, r.lease.Token)
	beat := s.api.heartbeatAt(t, s.many, sessionOf(id), 1)
	if len(beat.Held) != 1 {
		return fmt.Errorf("the first heartbeat after the grant of %s is answered %+v", id, beat)
	}
	return nil
}

// wantUsable takes every key and gives it back, at each node in turn.
func (s *split) wantUsable(t *testing.T) {
	t.Helper()
	for i := range splitKeys {
		for k, key := range []string{fewKey(i), manyKey(i)} {
			at, id := []*testNode{s.nodes[(i+k)%nodeCount]}, newID()
			r := s.api.askAt(t, at, http.MethodPut, "/v1/leases/"+id, acquire{class: classMiddle, key: key, wait: "1m"}.body())
			if !r.granted() {
				t.Errorf("after the split %s of %s is answered %s; want a grant", key, at[0].id, r)
			}
			if r := s.api.askAt(t, at, http.MethodDelete, "/v1/leases/"+id, ""); r.lease.Reason != "released" {
				t.Errorf("after the split the release of %s is answered %s", key, r)
			}
		}
	}
}

// keeper is a client that holds some keys and keeps them by heartbeats, and others that it takes on, each with a session
// of its own.
type keeper struct {
	api   *client
	nodes []*testNode
	stop  func() // once it has returned, nothing is kept any more

	mu    sync.Mutex
	holds map[string]uint64 // guarded by mu: token by lease id
}

// startKeeper takes the keys and keeps them until stop; to lose one fails the test.
func startKeeper(t *testing.T, api *client, nodes []*testNode, key func(int) string) *keeper {
	t.Helper()
	k := &keeper{api: api, nodes: nodes, holds: map[string]uint64{}}
	for i := range splitKeys {
		id := newID()
		k.add(id, api.take(t, id, classMiddle, key(i)).lease.Token)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all errgroup.Group
	all.Go(func() error {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			for _, id := range k.ids() {
				k.beat(ctx, t, nodes[n%len(nodes)], id)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		return nil
	})
	k.stop = func() { cancel(); _ = all.Wait() }
	t.Cleanup(k.stop)
	return k
}

func (k *keeper) beat(ctx context.Context, t *testing.T, at *testNode, id string) {
	r, err := k.api.send(ctx, at, http.MethodPost, "/v1/sessions/"+sessionOf(id)+"/heartbeat", `{"leases":[1]}`)
	if err != nil || r.tellsNothing() {
		return // repeated soon, at another node
	}
	var beat wire.HeartbeatAnswer
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := json.Unmarshal(r.body, &beat); err != nil || len(beat.Held) != 1 || beat.Held[0].Token != k.holds[id] {
		t.Errorf("on the larger side a heartbeat is answered %s; want the lease held with token %d", r, k.holds[id])
	}
}

// sessionOf is the session of an id of newID.
func sessionOf(id string) string { return strings.TrimSuffix(id, ".1") }

func (k *keeper) add(id string, token uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holds[id] = token
}

func (k *keeper) ids() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids := make([]string, 0, len(k.holds))
	for id := range k.holds {
		ids = append(ids, id)
	}
	return ids
}
