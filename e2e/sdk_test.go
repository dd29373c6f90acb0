package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/stanchion-locks/stanchion/client"
)

// link is a machine's connection to the nodes. While it is cut, what is sent vanishes and nothing connects.
type link struct{ cut atomic.Bool }

func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return linkConn{conn, l}, err
}

type linkConn struct {
	net.Conn
	link *link
}

func (c linkConn) Write(b []byte) (int, error) {
	if c.link.cut.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// holder makes a client of the SDK that speaks to the nodes over a link.
func (c *cluster) holder(l *link) *sdk.Client {
	c.t.Helper()
	var nodes []string
	for _, n := range c.file.Nodes {
		nodes = append(nodes, n.URL)
	}
	transport := &http.Transport{DialContext: l.dial}
	s, err := sdk.New(nodes, c.file.APIKey, sdk.WithTransport(transport))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Close(ctx) // a client that is cut off cannot release
		transport.CloseIdleConnections()
	})
	return s
}

// TestSDK_keepsItsLeaseOverAChangeOfLeaderAndTellsOfItsLossBeforeTheNextGrant: the leader is killed under a holder, which keeps its
// lease; then the holder is cut off, and has said so when the waiter behind it is granted.
func TestSDK_keepsItsLeaseOverAChangeOfLeaderAndTellsOfItsLossBeforeTheNextGrant(t *testing.T) {
	c := newCluster(t)
	c.start("--processes")
	ctx, cancel := context.WithTimeout(t.Context(), 2*awaitTime)
	defer cancel()
	var cable link
	a, b := c.holder(&cable), c.holder(new(link))
	first, err := a.Acquire(ctx, "ledger-close", "sdk")
	if err != nil {
		t.Fatal(err)
	}
	var lostAt, doubted atomic.Int64
	first.OnLost(func(error) { lostAt.Store(time.Now().UnixNano()) })
	first.OnDoubt(func(error) { doubted.Add(1) })

	killed := time.Now()
	kill9(c.pid(c.leader()))
	await(t, "the lease to be renewed by the next leader", func() error {
		if err := first.Err(); err != nil {
			t.Fatalf("after the leader was killed: got %v, want held", err)
		}
		if !first.Deadline().After(killed.Add(10 * time.Second)) {
			return fmt.Errorf("its deadline is %v after the kill", first.Deadline().Sub(killed))
		}
		return nil
	})
	if now, err := b.Leader(ctx, "ledger-close", "sdk"); err != nil || now.Token != first.Token() {
		t.Errorf("the holder after the change of leader: got %+v, %v, want token %d", now, err, first.Token())
	}

	cable.cut.Store(true)
	second, err := b.Acquire(ctx, "ledger-close", "sdk", sdk.Wait(30*time.Second))
	grantedAt := time.Now().UnixNano()
	if err != nil {
		t.Fatal(err)
	}
	if at := lostAt.Load(); at == 0 || at > grantedAt {
		t.Errorf("loss told at %d, next grant known at %d: want the loss first", at, grantedAt)
	}
	if cause := context.Cause(first.Context()); !errors.Is(cause, sdk.ErrDeadline) || doubted.Load() == 0 {
		t.Errorf("cause %v after %d times of doubt: want ErrDeadline after one at least", cause, doubted.Load())
	}
	if second.Token() <= first.Token() {
		t.Errorf("tokens: got %d after %d, want a higher one", second.Token(), first.Token())
	}
	if err := second.Release(ctx); err != nil {
		t.Error(err)
	}
	c.stop(syscall.SIGTERM)
}
