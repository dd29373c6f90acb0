package platform_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/client/wire"
)

func TestCutOffLeader_neverAnswersWhatIsStale(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	api, _ := c.furnish(t, classLong)
	first, waiter := newSession(), newID()
	api.take(t, first+".1", classLong, "k")
	queue := acquire{class: classLong, key: "k", wait: "5m"}
	if r := api.acquire(t, waiter, queue); r.lease.State != wire.StateQueued {
		t.Fatalf("behind a holder the request is answered %s", r)
	}
	old := c.leader(t, acmePartition)
	old.isolate()
	asked := askCutOff(t, api, old, first, waiter, queue.body())

	rest := c.others(old)
	c.leader(t, acmePartition, old)
	if r := api.askAt(t, rest, http.MethodDelete, "/v1/leases/"+first+".1", ""); r.lease.Reason != "released" {
		t.Fatalf("the release at the others is answered %s", r)
	}
	taken := api.askAt(t, rest, http.MethodPut, "/v1/leases/"+waiter, queue.body())
	if !taken.granted() {
		t.Fatalf("the others answer the waiter with %s; want a grant", taken)
	}
	asked.more(t, 5)
	asked.stop()

	old.rejoin()
	eventually(t, "the node that was cut off shows the new holder", func() bool {
		r, err := api.send(t.Context(), old, http.MethodGet, "/v1/leases/"+waiter, "")
		return err == nil && r.granted() && r.lease.Token == taken.lease.Token
	})
	if r := api.askAt(t, []*testNode{old}, http.MethodGet, "/v1/leases/"+first+".1", ""); r.lease.State != wire.StateEnded {
		t.Errorf("the node that was cut off says of the old lease %s; want ended", r)
	}
	api.release(t, waiter)
	api.take(t, newID(), classLong, "k")
}

// questions asks a node the same things over and over. None may be answered as done: the node is cut off.
type questions struct {
	rounds chan struct{} // one for each round of questions
	stop   func()
}

func askCutOff(t *testing.T, api *client, n *testNode, session, waiter, body string) *questions {
	ctx, cancel := context.WithCancel(t.Context())
	q := &questions{rounds: make(chan struct{})}
	var all errgroup.Group
	all.Go(func() error {
		for ctx.Err() == nil {
			for _, question := range []struct{ method, path, body string }{
				{http.MethodGet, "/v1/locks?" + url.Values{"class": {classLong}, "key": {"k"}}.Encode(), ""},
				{http.MethodGet, "/v1/leases/" + session + ".1", ""},
				{http.MethodPost, "/v1/sessions/" + session + "/heartbeat", `{"leases":[1]}`},
				{http.MethodPut, "/v1/leases/" + waiter, body},
			} {
				r, err := api.send(ctx, n, question.method, question.path, question.body)
				if err != nil {
					break // stopped
				}
				if code := r.code(); code != wire.CodeNoQuorum && code != wire.CodeNotLeader {
					t.Errorf("%s %s at a leader that is cut off is answered %s", question.method, question.path, r)
				}
			}
			select {
			case q.rounds <- struct{}{}:
			case <-ctx.Done():
			}
		}
		return nil
	})
	q.stop = func() { cancel(); _ = all.Wait() }
	t.Cleanup(q.stop)
	return q
}

// more awaits some more whole rounds of questions.
func (q *questions) more(t *testing.T, rounds int) {
	t.Helper()
	for range rounds + 1 { // the first may have begun before
		select {
		case <-q.rounds:
		case <-time.After(patience):
			t.Fatal("the questions are not answered")
		}
	}
}

func TestOneWayCut_endsInALeaderThatServes(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	api, _ := c.furnish(t, classLong)
	for i, cut := range []func(*testNode){(*testNode).muffle, (*testNode).deafen} {
		old := c.leader(t, acmePartition)
		cut(old)
		for j := range 3 {
			api.take(t, newID(), classLong, fmt.Sprintf("key %d of cut %d", j, i))
		}
		old.rejoin()
		c.awaitReady(t)
	}
	c.awaitEqual(t)
}

func TestFollower_carriesNoLease(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	api, _ := c.furnish(t, classShort)
	follower := c.others(c.leader(t, acmePartition))[0]
	session := newSession()
	granted := api.askAt(t, []*testNode{follower}, http.MethodPut, "/v1/leases/"+session+".1", acquire{class: classShort, key: "k"}.body())
	if !granted.granted() {
		t.Fatalf("through a follower the acquire is answered %s", granted)
	}
	const beats = 12 // at a quarter of a lease each, three leases
	follower.stop(t)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for range beats {
		beat := api.heartbeatAt(t, c.others(follower), session, 1)
		if len(beat.Held) != 1 || beat.Held[0].Token != granted.lease.Token {
			t.Fatalf("after the follower stopped a heartbeat is answered %+v; want the lease held with token %d", beat, granted.lease.Token)
		}
		<-tick.C
	}
}

func TestQuorumLoss_leavesEveryWaiterQueuedOrTold(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	api, _ := c.furnish(t, classLong)
	holder := newID()
	before := api.take(t, holder, classLong, "k")
	var waiters []*waiter
	for range 5 {
		waiters = append(waiters, startWaiter(t, api, acquire{class: classLong, key: "k", wait: "5m", poll: "1s"}))
	}
	for _, w := range waiters {
		w.await(t, "it is queued", func(r reply) bool { return r.lease.State == wire.StateQueued })
	}
	for _, n := range c.nodes {
		n.isolate()
	}
	for _, w := range waiters {
		w.await(t, "it is told that there is no quorum", func(r reply) bool { return r.code() == wire.CodeNoQuorum })
	}
	for _, n := range c.nodes {
		n.rejoin()
	}
	if r := api.release(t, holder); r.lease.State != wire.StateEnded {
		t.Fatalf("after the quorum is back the release is answered %s", r)
	}
	tokens := map[uint64]bool{before.lease.Token: true}
	for _, w := range waiters { // each lets go when it is granted, so that all get their turn
		r := w.result(t)
		switch {
		case r.granted() && tokens[r.lease.Token]:
			t.Errorf("token %d is granted twice", r.lease.Token)
		case r.granted():
			tokens[r.lease.Token] = true
		case r.lease.State != wire.StateEnded:
			t.Errorf("a waiter ends with %s; want a grant or an explicit end", r)
		}
	}
	if len(tokens) < 2 {
		t.Error("none of the waiters was granted after the quorum was back")
	}
	if lock := api.lock(t, classLong, "k"); lock != nil {
		t.Errorf("when all are done the lock is %+v; want it free", lock)
	}
}

// waiter polls for a lease until it is granted or ended, and gives a grant back.
type waiter struct {
	answers chan reply
	done    chan reply
}

func startWaiter(t *testing.T, api *client, a acquire) *waiter {
	w := &waiter{answers: make(chan reply, 1000), done: make(chan reply, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	var all errgroup.Group
	all.Go(func() error {
		id, tick := newID(), time.NewTicker(50*time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			at := api.cluster.nodes[i%nodeCount]
			r, err := api.send(ctx, at, http.MethodPut, "/v1/leases/"+id, a.body())
			if err != nil {
				continue
			}
			select {
			case w.answers <- r:
			default: // nobody looks any more
			}
			if !r.tellsNothing() && r.lease.State != wire.StateQueued {
				if r.granted() {
					api.release(t, id)
				}
				w.done <- r
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		return nil
	})
	t.Cleanup(func() { cancel(); _ = all.Wait() })
	return w
}

func (w *waiter) await(t *testing.T, what string, ok func(reply) bool) {
	t.Helper()
	deadline := time.After(patience)
	var last reply
	for {
		select {
		case last = <-w.answers:
			if ok(last) {
				return
			}
		case <-deadline:
			t.Fatalf("waited %v in vain for a waiter: %s; its last answer was %s", patience, what, last)
		}
	}
}

func (w *waiter) result(t *testing.T) reply {
	t.Helper()
	select {
	case r := <-w.done:
		return r
	case <-time.After(patience):
		t.Fatalf("waited %v in vain: a waiter's turn", patience)
		panic("unreachable")
	}
}

func TestQueue_holdsUpNoOtherKey(t *testing.T) {
	t.Parallel()
	const waiters = 300
	c := startCluster(t)
	ofAcme, ofGlobex := c.furnish(t, classLong, classMiddle)
	ofAcme.take(t, newID(), classMiddle, "a")
	body := acquire{class: classMiddle, key: "a", wait: "10m", poll: "10s"}.body()
	ctx, cancel := context.WithCancel(t.Context())
	var all errgroup.Group
	for i := range waiters {
		all.Go(func() error {
			path := "/v1/leases/" + newID()
			for ctx.Err() == nil {
				_, _ = ofAcme.send(ctx, c.nodes[i%nodeCount], http.MethodPut, path, body) // it waits, and asks again
			}
			return nil
		})
	}
	t.Cleanup(func() { cancel(); _ = all.Wait() })
	session := newSession()
	ofAcme.take(t, session+".1", classLong, "kept") // and with it the entries that a long lease's clock needs
	waiting := func() int { return ofAcme.lock(t, classMiddle, "a").WaitersTotal }
	eventually(t, "everybody waits", func() bool { return waiting() == waiters })

	leader := c.leader(t, acmePartition)
	for _, test := range []struct {
		by    *client
		class string
	}{{ofAcme, classMiddle}, {ofAcme, classLong}, {ofGlobex, classMiddle}} {
		before := leader.group(acmePartition).LastIndex
		granted := test.by.take(t, newID(), test.class, "b")
		if after := leader.group(acmePartition).LastIndex; after > before+3 {
			t.Errorf("a grant beside the queue took %d log entries; want its own, and at most two of the clock's", after-before)
		}
		if got := waiting(); got != waiters {
			t.Errorf("after the grant %s %d requests wait; want all %d", granted, got, waiters)
		}
	}
}
