package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// The classes of the cases.
const (
	classCase    = "case"    // its leases outlast any stall of the machine
	classShort   = "short"   // the shortest that there are
	classPressed = "pressed" // short enough that a busy machine may lose some
	classLine    = "line"    // as most classes have it
)

// caseTime is for one case, on the busiest machine.
const caseTime = 2 * awaitTime

// TestSDK_keepsTheRulesThatLockServicesBreakInPractice: one cluster of three processes, on which each case does what has made other lock
// services lose a lock, or keep one that nobody held. The last one kills the leader.
func TestSDK_keepsTheRulesThatLockServicesBreakInPractice(t *testing.T) {
	c := newCluster(t)
	wait := []string{"wait:", "  max_wait: 10m"}
	c.start("--processes", "--profile", "production", "--classes", writeClasses(t, classFile(classCase, append(wait, "lease: 1m")...),
		classFile(classShort, append(wait, "lease: 1s")...), classFile(classPressed, append(wait, "lease: 2s")...),
		classFile(classLine, append(wait, "lease: 10s")...)))
	for _, one := range []struct {
		rule string
		run  func(t *testing.T, c *cluster)
	}{
		{"contenders of one process exclude each other", wantExclusion},
		{"a wait cancelled around a release holds or is gone", raceCancels},
		{"a request whose answer was cut off is one request", acquireThroughCuts},
		{"thousands of leases leave nothing behind", acquireManyAtOnce},
		{"the shortest lease is kept over many terms", keepShortest},
		{"a dead holder's key is free once its lease is over", takeFromTheDead},
		{"a machine without time to spare has one holder of each key", holdUnderPressure},
		{"a line outlives its leader and keeps its order", killLeaderUnderLine},
	} {
		t.Run(one.rule, func(t *testing.T) {
			own := *c
			own.t = t
			one.run(t, &own)
		})
	}
	c.stop(syscall.SIGTERM)
}

// member is a client of the SDK, closed when the test ends. A transport of nil is the SDK's own.
func (c *cluster) member(nodes []string, transport http.RoundTripper) *sdk.Client {
	c.t.Helper()
	var opts []sdk.Option
	if transport != nil {
		opts = append(opts, sdk.WithTransport(transport))
	}
	s, err := sdk.New(nodes, c.file.APIKey, opts...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), awaitTime)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			c.t.Error(err)
		}
	})
	return s
}

func (c *cluster) urls() []string {
	var all []string
	for _, n := range c.file.Nodes {
		all = append(all, n.URL)
	}
	return all
}

// caseContext ends when a case has had its time.
func (c *cluster) caseContext() context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), caseTime)
	c.t.Cleanup(cancel)
	return ctx
}

// wantFree checks that nobody holds a key or waits for it, as the platform sees it from now on.
func wantFree(ctx context.Context, t *testing.T, c *sdk.Client, class, key string) {
	t.Helper()
	now, err := c.Leader(ctx, class, key)
	if err != nil || now.Token != 0 || now.Waiters != 0 {
		t.Errorf("%s %s: got %+v, %v; want no holder and no waiter", class, key, now, err)
	}
}

// wantGrants runs work that acquires leases and returns their tokens, and checks that each was granted once and nothing else was: a
// tenant's tokens count its grants.
func (c *cluster) wantGrants(ctx context.Context, n int, work func() []uint64) {
	c.t.Helper()
	counter := c.member(c.urls(), nil)
	before := c.nextToken(ctx, counter)
	tokens := work()
	after := c.nextToken(ctx, counter)
	slices.Sort(tokens)
	if got := len(slices.Compact(tokens)); got != n || after-before-1 != uint64(n) {
		c.t.Errorf("got %d leases with tokens of their own and %d grants, want %d of each", got, after-before-1, n)
	}
}

// nextToken takes the tenant's next token.
func (c *cluster) nextToken(ctx context.Context, s *sdk.Client) uint64 {
	c.t.Helper()
	l, err := s.Acquire(ctx, classCase, "counter")
	if err != nil {
		c.t.Fatal(err)
	}
	if err := l.Release(ctx); err != nil {
		c.t.Fatal(err)
	}
	return l.Token()
}

// wantNoLocks checks that nothing of a class is held or waited for.
func (c *cluster) wantNoLocks(class string) {
	c.t.Helper()
	a := newClient(c.t, c.file).must(c.t, http.MethodGet, "/v1/locks?class="+class, nil)
	var list wire.LockList
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != http.StatusOK || len(list.Locks) != 0 {
		c.t.Errorf("locks of %s: got %d, %v, %.1000s, want none", class, a.status, err, a.body)
	}
}

// wantExclusion has clients of one process, and goroutines of one client, try for one key at once.
func wantExclusion(t *testing.T, c *cluster) {
	const contenders = 20
	ctx := c.caseContext()
	one := c.member(c.urls(), nil)
	for key, who := range map[string]struct {
		client  func() *sdk.Client
		refused error
	}{
		"by-clients":    {func() *sdk.Client { return c.member(c.urls(), nil) }, sdk.ErrHeld},
		"by-goroutines": {func() *sdk.Client { return one }, sdk.ErrAlreadyHeld},
	} {
		leases, errs := make([]*sdk.Lease, contenders), make([]error, contenders)
		var wait sync.WaitGroup
		for i := range contenders {
			client := who.client()
			wait.Go(func() { leases[i], errs[i] = client.TryAcquire(ctx, classCase, key) })
		}
		wait.Wait()
		won := slices.DeleteFunc(leases, func(l *sdk.Lease) bool { return l == nil })
		refused := slices.DeleteFunc(errs, func(err error) bool { return !errors.Is(err, who.refused) })
		if len(won) != 1 || len(refused) != contenders-1 {
			t.Fatalf("%s: got %d holders and %d that were told %v, want 1 and %d", key, len(won), len(refused), who.refused, contenders-1)
		}
		if err := won[0].Release(ctx); err != nil {
			t.Error(err)
		}
		wantFree(ctx, t, one, classCase, key)
	}
}

// keepShortest holds ten leases of the shortest length until each has been held for five terms in one go. A machine that stalls for a term may
// lose one, at its deadline and for no other reason: then it is taken again.
func keepShortest(t *testing.T, c *cluster) {
	const leases, long = 10, 5 * time.Second
	ctx := c.caseContext()
	s := c.member(c.urls(), nil)
	lost := make([]int, leases)
	var wait sync.WaitGroup
	for i := range leases {
		wait.Go(func() {
			key := fmt.Sprintf("shortest-%d", i)
			for ; ; lost[i]++ {
				err := keepFor(ctx, s, key, long)
				if err == nil {
					return
				}
				if !errors.Is(err, sdk.ErrDeadline) || ctx.Err() != nil {
					t.Errorf("%s: got %v, want held, or its deadline passed", key, err)
					return
				}
			}
		})
	}
	wait.Wait()
	t.Logf("losses at the deadline before the last hold: %v", lost)
}

// keepFor acquires a key and holds it so long; the platform's holder is that lease then.
func keepFor(ctx context.Context, s *sdk.Client, key string, long time.Duration) error {
	l, err := s.Acquire(ctx, classShort, key)
	if err != nil {
		return err
	}
	held := time.NewTimer(long)
	defer held.Stop()
	select {
	case <-held.C:
	case <-l.Context().Done():
	}
	now, looked := s.Leader(ctx, classShort, key)
	if err := l.Err(); err != nil {
		return errors.Join(err, ignoreLost(l.Release(ctx)))
	}
	if looked != nil || now.Token != l.Token() {
		return errors.Join(looked, fmt.Errorf("held with token %d; the platform says %+v", l.Token(), now))
	}
	return l.Release(ctx)
}

// ignoreLost leaves out that the lease was lost, which is known.
func ignoreLost(err error) error {
	if _, lost := errors.AsType[*sdk.LostError](err); lost {
		return nil
	}
	return err
}
