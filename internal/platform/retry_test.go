package platform_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// lossy is a client whose every request is carried out and whose every answer is lost.
func (c *calm) lossy(t testing.TB, like *client) (*client, *testNode) {
	t.Helper()
	through := newLink(t)
	through.lead(c.nodes[rand.N(len(c.nodes))].door.addr())
	always := func() bool { return true }
	through.eatAnswer.Store(&always)
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{cluster: like.cluster, key: like.key, http: &http.Client{Transport: transport}}, &testNode{id: "lossy", door: through}
}

// lose makes a request whose answer is lost, or which is itself given up on its way.
func lose(t testing.TB, i int, c *client, at *testNode, method, path, body string) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if i%2 == 1 {
		defer time.AfterFunc(rand.N(3*time.Millisecond), cancel).Stop()
	}
	r, err := c.send(ctx, at, method, path, body)
	if err == nil {
		return fmt.Errorf("an answer that was to be lost arrived: %s", r)
	}
	return nil
}

func lostAnswersMakeOneEntryEach(t *testing.T, c *calm) {
	const tries = 200
	api := c.client(t, classMiddle)
	lossy, through := c.lossy(t, api)
	api.take(t, newID(), classMiddle, "held")
	tokens := make(map[uint64]int)
	var ids []string
	for i := range tries {
		id, want := newID(), acquire{class: classMiddle, key: fmt.Sprintf("key %d", i)}
		if i%4 == 3 { // a place in a queue must not double either
			want = acquire{class: classMiddle, key: "held", wait: "1m"}
		}
		if err := lose(t, i, lossy, through, http.MethodPut, "/v1/leases/"+id, want.body()); err != nil {
			t.Fatal(err)
		}
		r := api.acquire(t, id, want)
		if want.wait == "" {
			tokens[r.lease.Token]++
		}
		if r.granted() != (want.wait == "") || r.status > 202 {
			t.Fatalf("the repeated request %d is answered %s", i, r)
		}
		ids = append(ids, id)
	}
	for token := range uint64(tries * 3 / 4) {
		if got := tokens[token+2]; got != 1 { // token 1 is the held key's
			t.Errorf("token %d was granted to %d requests; want 1", token+2, got)
		}
	}
	if got, want := c.state(t).Keys, tries*3/4+1; got != want {
		t.Errorf("%d keys are held; want %d", got, want)
	}
	for i, id := range ids {
		if err := lose(t, i, lossy, through, http.MethodDelete, "/v1/leases/"+id, ""); err != nil {
			t.Fatal(err)
		}
		if r := api.release(t, id); r.lease.State != wire.StateEnded {
			t.Fatalf("the repeated release is answered %s", r)
		}
	}
	if s := c.state(t); s.Keys != 1 || s.Waiting != 0 {
		t.Errorf("%d keys and %d waiters are left after every release; want the 1 key that was held and 0", s.Keys, s.Waiting)
	}
}

func triesLeaveNothingBehind(t *testing.T, c *calm) {
	const tries = 300
	api := c.client(t, classLong)
	lossy, through := c.lossy(t, api)
	holder := newID()
	api.take(t, holder, classLong, "k")
	var all errgroup.Group
	all.SetLimit(8)
	body := acquire{class: classLong, key: "k"}.body()
	for i := range tries {
		all.Go(func() error {
			path := "/v1/leases/" + newID()
			if i%10 == 0 {
				return lose(t, i/10, lossy, through, http.MethodPut, path, body)
			}
			r, err := api.send(t.Context(), c.nodes[i%nodeCount], http.MethodPut, path, body)
			if err == nil && !r.tellsNothing() && r.code() != wire.CodeHeld {
				err = fmt.Errorf("a try on a held key is answered %s; want held", r)
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	if lock := api.lock(t, classLong, "k"); lock == nil || lock.WaitersTotal != 0 {
		t.Errorf("after tries that do not queue the lock is %+v; want no waiter", lock)
	}
	api.release(t, holder)
	if lock := api.lock(t, classLong, "k"); lock != nil {
		t.Errorf("after the release the lock is %+v; want it free", lock)
	}
	api.take(t, newID(), classLong, "k")
}

func cancelledWaitIsNoHold(t *testing.T, c *calm) {
	const tries, width = 300, 2 * time.Millisecond
	api := c.client(t, classMiddle)
	at := c.leads(t)
	var all errgroup.Group
	all.SetLimit(6)
	for i := range tries {
		all.Go(func() error { return cancelAtGrant(t, api, at, fmt.Sprintf("key %d", i), width) })
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	if s := c.state(t); s.Keys != 0 || s.Waiting != 0 {
		t.Errorf("%d keys and %d waiters are left; want none", s.Keys, s.Waiting)
	}
}

// cancelAtGrant has a client give its wait up at about the moment at which the holder releases, and give back what it may
// have been granted.
func cancelAtGrant(t *testing.T, api *client, at *testNode, key string, width time.Duration) error {
	holder, waiter := newID(), newID()
	api.take(t, holder, classMiddle, key)
	queue := acquire{class: classMiddle, key: key, wait: "1m"}
	if r := api.acquire(t, waiter, queue); r.lease.State != wire.StateQueued {
		return fmt.Errorf("behind a holder the request is answered %s; want queued", r)
	}
	queue.poll = "10s"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var both errgroup.Group
	var told reply
	both.Go(func() error {
		r, err := api.send(ctx, at, http.MethodPut, "/v1/leases/"+waiter, queue.body())
		if err == nil {
			told = r
		}
		return nil // given up, mostly
	})
	both.Go(func() error {
		api.release(t, holder)
		return nil
	})
	defer time.AfterFunc(rand.N(2*width), cancel).Stop()
	_ = both.Wait()
	if told.granted() {
		if now := api.look(t, waiter); now.lease.Token != told.lease.Token {
			return fmt.Errorf("told of token %d, and then %s", told.lease.Token, now)
		}
	}
	if r := api.release(t, waiter); r.lease.State != wire.StateEnded {
		return fmt.Errorf("giving the wait back is answered %s; want ended", r)
	}
	if lock := api.lock(t, classMiddle, key); lock != nil {
		return fmt.Errorf("the lock is %+v though everybody has let go", lock)
	}
	return nil
}

func sessionHoldsAKeyOnce(t *testing.T, c *calm) {
	api := c.client(t, classMiddle)
	session := newSession()
	first := api.take(t, session+".1", classMiddle, "k")
	for i, again := range []acquire{{class: classMiddle, key: "k"}, {class: classMiddle, key: "k", wait: "10m", poll: "10s"}} {
		r := api.acquire(t, fmt.Sprintf("%s.%d", session, i+2), again)
		if r.status != http.StatusConflict || r.code() != wire.CodeAlreadyHeld {
			t.Errorf("asked for %+v while holding it, the session is answered %s; want already_held", again, r)
		}
	}
	if now := api.look(t, session+".1"); !now.granted() || now.lease.Token != first.lease.Token {
		t.Errorf("the lease is now %s; want it held with token %d", now, first.lease.Token)
	}
}

func droppedClientLeavesTheQueue(t *testing.T, c *calm) {
	api := c.client(t, classMiddle)
	holder, waiter := newID(), newID()
	api.take(t, holder, classMiddle, "k")
	ctx, drop := context.WithCancel(t.Context())
	hung := make(chan error, 1)
	go func() {
		body := acquire{class: classMiddle, key: "k", wait: "10m", poll: "10s"}.body()
		_, err := api.send(ctx, c.nodes[0], http.MethodPut, "/v1/leases/"+waiter, body)
		hung <- err
	}()
	eventually(t, "the request waits", func() bool { return c.state(t).Waiting == 1 })
	drop()
	if err := <-hung; err == nil {
		t.Fatal("the request was answered before its client dropped it")
	}
	eventually(t, "the dropped request has left the queue", func() bool { return c.state(t).Waiting == 0 })
	api.release(t, holder)
	if r := api.look(t, waiter); r.lease.State != wire.StateEnded || r.lease.Reason != "disconnected" {
		t.Errorf("the dropped request is %s; want it ended as disconnected", r)
	}
	if lock := api.lock(t, classMiddle, "k"); lock != nil {
		t.Errorf("the lock is %+v; want it free", lock)
	}
}
