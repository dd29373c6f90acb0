package e2e_test

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// TestLeaderPaused_costsNobodyALease stops the leader's process for longer than a lease and lets it go on. Another leader
// has taken over meanwhile; the first one, which noticed nothing, has nothing to say any more.
func TestLeaderPaused_costsNobodyALease(t *testing.T) {
	c, f := workFleet(t)
	leader := c.leader()
	holders := f.holders()
	former := leaseID(f.lines[contended[0].key][0].session, 1)
	f.heartbeatsInFlight(10)
	signal(t, c.pid(leader), syscall.SIGSTOP)
	stopped := time.Now()
	f.awaitRenewed(holders, stopped)
	f.giveBack(contended[0].key)()
	f.awaitRenewed(f.holders(), stopped.Add(leaseTime))
	if got := c.leader(); got == leader {
		t.Errorf("leader while %s is stopped: got %s", leader, got)
	}

	answers := askStopped(t, f.client, c.url(leader), former)
	signal(t, c.pid(leader), syscall.SIGCONT)
	woken := time.Now()
	answers()
	f.awaitRenewed(f.holders(), woken)
	f.giveBack(contended[0].key)()
	f.giveBack(contended[1].key)()
	f.finish()
	c.wantSameState()
	c.stop(syscall.SIGTERM)
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("signal %v to process %d: %v", s, pid, err)
	}
}

func (c *cluster) url(node string) string {
	for _, n := range c.file.Nodes {
		if n.ID == node {
			return n.URL
		}
	}
	c.t.Fatalf("there is no node %s", node)
	return ""
}

// askStopped sends a poll and a heartbeat for a lease that is over to a node that is stopped and took it for held. The
// result waits for the answers: they must not say held, nor tell a client with a good API key that it has none.
func askStopped(t *testing.T, client *client, node, lease string) (answers func()) {
	t.Helper()
	session, _, _ := strings.Cut(lease, ".")
	poll := ask(t, client, node, http.MethodPut, "/v1/leases/"+lease, wire.AcquireRequest{Class: "work", Key: contended[0].key})
	beat := ask(t, client, node, http.MethodPost, "/v1/sessions/"+session+"/heartbeat", wire.HeartbeatRequest{Leases: []uint64{1}})
	return func() {
		t.Helper()
		for what, answered := range map[string]<-chan answer{"poll": poll, "heartbeat": beat} {
			a := <-answered
			if body := string(a.body); strings.Contains(body, `"granted"`) || strings.Contains(body, `"held":[{`) {
				t.Errorf("%s answered by the woken node: %s", what, body)
			}
			if a.status >= http.StatusBadRequest && a.problem().Retry == wire.RetryNever {
				t.Errorf("%s answered by the woken node: %d %s; want nothing that tells a client to give up", what, a.status, a.body)
			}
		}
	}
}

// ask sends a request and returns once it has left; the channel gets the answer.
func ask(t *testing.T, client *client, node, method, path string, body any) <-chan answer {
	t.Helper()
	left := make(chan struct{})
	answered := make(chan answer, 1)
	ctx := httptrace.WithClientTrace(context.WithoutCancel(t.Context()),
		&httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(left) }})
	go func() {
		a, _ := client.once(ctx, awaitTime, node, method, path, body) // no answer says nothing, which is right
		answered <- a
	}()
	select {
	case <-left:
	case a := <-answered:
		t.Fatalf("%s %s: answered by a stopped node: %d %s", method, path, a.status, a.body)
	}
	return answered
}
