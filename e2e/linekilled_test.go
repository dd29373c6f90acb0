package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	sdk "github.com/stanchion-locks/stanchion/client"
)

const (
	lineKeys    = 10
	lineClients = 20
)

// line is what became of the waiters for one key.
type line struct {
	key    string
	holder *sdk.Lease
	tokens []uint64 // by place
	moved  []bool   // asked anew, under a later number: a machine that stalls for seconds loses places
}

// killLeaderUnderLine has 200 requests of 20 clients wait for ten keys, kills the leader, and has each holder release its key at once: all are
// granted in order, and their coming back does not cost the next leader its place. A machine that stalls for seconds may do that as well:
// then it is done once more.
func killLeaderUnderLine(t *testing.T, c *cluster) {
	const rounds = 3
	ctx := c.caseContext()
	for round := 1; ; round++ {
		c.awaitAllReady()
		changes := c.killUnderLines(ctx, round)
		t.Logf("round %d: %d changes of leader", round, changes)
		if changes == 1 || t.Failed() {
			return
		}
		if round == rounds {
			t.Fatalf("changes of leader after one kill: got %d, in each of %d rounds more than one; want one", changes, rounds)
		}
	}
}

// awaitAllReady waits until every node serves, also one that was killed and started again.
func (c *cluster) awaitAllReady() {
	c.t.Helper()
	for _, n := range c.file.Nodes {
		await(c.t, n.ID+" is ready", func() error { return c.readyz(n.ID) })
	}
}

// killUnderLines fills lines, kills the leader under them, has them served, and counts the changes of leader.
func (c *cluster) killUnderLines(ctx context.Context, round int) (changes uint64) {
	c.t.Helper()
	holder := c.member(c.urls(), nil)
	clients := make([]*sdk.Client, lineClients)
	for i := range clients {
		clients[i] = c.member(c.urls(), nil)
	}
	lines := make([]*line, lineKeys)
	var waiting, setUp sync.WaitGroup
	for i := range lines {
		l := &line{key: fmt.Sprintf("line-%d-%d", round, i), tokens: make([]uint64, lineClients), moved: make([]bool, lineClients)}
		lines[i] = l
		setUp.Go(func() { l.fill(ctx, c.t, holder, clients, &waiting) })
	}
	setUp.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
	leader, before := c.leader(), c.epoch(ctx, holder)
	kill9(c.pid(leader))
	for _, l := range lines {
		waiting.Go(func() { wantReleased(ctx, c.t, l.holder) })
	}
	waiting.Wait()
	c.wantLines(lines)
	return c.epoch(ctx, holder) - before
}

// epoch is the partition's, which counts its leaders.
func (c *cluster) epoch(ctx context.Context, s *sdk.Client) uint64 {
	c.t.Helper()
	l, err := s.Acquire(ctx, classCase, "epoch")
	if err != nil {
		c.t.Fatal(err)
	}
	if err := l.Release(ctx); err != nil {
		c.t.Fatal(err)
	}
	return l.Epoch()
}

// wantLines checks that lines were served in order, and that they were still the same lines.
func (c *cluster) wantLines(lines []*line) {
	c.t.Helper()
	kept := 0
	for _, l := range lines {
		kept += l.wantOrder(c.t)
	}
	if kept < lineKeys*lineClients*3/4 {
		c.t.Errorf("kept their places in line: got %d of %d, want nearly all", kept, lineKeys*lineClients)
	}
	if c.t.Failed() || kept < lineKeys*lineClients {
		c.t.Logf("kept their places in line: %d of %d", kept, lineKeys*lineClients)
		c.logLine(c.t)
	}
}

// fill has a key held and each of the clients wait for it, one after the other.
func (l *line) fill(ctx context.Context, t *testing.T, holder *sdk.Client, clients []*sdk.Client, waiting *sync.WaitGroup) {
	var err error
	if l.holder, err = holder.Acquire(ctx, classLine, l.key); err != nil {
		t.Error(err)
		return
	}
	for place, c := range clients {
		queued := make(chan struct{})
		var once sync.Once
		waiting.Go(func() {
			defer once.Do(func() { close(queued) })
			l.await(ctx, t, c, place, func() { once.Do(func() { close(queued) }) })
		})
		<-queued
	}
}

// await waits for the key, takes note of the grant, and gives it back.
func (l *line) await(ctx context.Context, t *testing.T, c *sdk.Client, place int, queued func()) {
	lease, err := c.Acquire(ctx, classLine, l.key, sdk.OnQueued(func(sdk.Place) { queued() }))
	if err != nil {
		t.Error(err)
		return
	}
	_, number, _ := strings.Cut(lease.ID(), ".")
	n, _ := strconv.Atoi(number)
	l.tokens[place], l.moved[place] = lease.Token(), n > lineKeys
	wantReleased(ctx, t, lease)
}

// wantReleased gives a lease back. On a machine that stalls for long it may have run out before a node answers.
func wantReleased(ctx context.Context, t *testing.T, l *sdk.Lease) {
	if err := l.Release(ctx); err != nil && !errors.Is(err, sdk.ErrDeadline) {
		t.Error(err)
	}
}

// wantOrder checks that each place was served after the one before, and counts the places that were kept.
func (l *line) wantOrder(t *testing.T) (kept int) {
	t.Helper()
	before := l.holder.Token()
	for place, token := range l.tokens {
		if l.moved[place] {
			continue
		}
		if token <= before {
			t.Errorf("%s: place %d has token %d, the one before it %d", l.key, place+1, token, before)
		}
		before = token
		kept++
	}
	return kept
}

// logLine prints how requests left a line otherwise than by being served.
func (c *cluster) logLine(t *testing.T) {
	t.Helper()
	operator := newClient(t, c.file).with(c.file.OperatorAPIKey)
	for _, n := range c.file.Nodes {
		events, _, err := operator.audit(t, n.URL, url.Values{"class": {classLine}})
		t.Logf("%s has %d events, %v", n.ID, len(events), err)
		for _, e := range events {
			if e.Kind != "granted" && e.Kind != "queued" && e.Kind != "promoted" && e.Kind != "released" {
				t.Logf("%s: %s %s %s %s (token %d) %s", e.At, e.Kind, e.Reason, e.Key, e.Request, e.Token, e.Detail)
			}
		}
	}
}
