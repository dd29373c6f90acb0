package client_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
)

const (
	dialling = time.Second            // how long a connection to a slow network takes to stand
	writing  = 300 * time.Millisecond // how long each write takes to leave
)

// slowNetwork is a network to a platform whose connections take long to stand, each request on one of its own. It is made of pipes, so
// that a bubble has it.
type slowNetwork struct {
	dials    chan struct{} // one for each that has begun
	accepted chan net.Conn
	closed   chan struct{}
	wrote    atomic.Pointer[time.Time] // when the first byte of the latest request began to leave
}

// slowConn is one of its connections, at the client's end.
type slowConn struct {
	net.Conn
	network *slowNetwork
	begun   atomic.Bool
}

func (c *slowConn) Write(b []byte) (int, error) {
	if !c.begun.Swap(true) {
		c.network.wrote.Store(new(time.Now()))
	}
	time.Sleep(writing) // virtual
	return c.Conn.Write(b)
}

func newSlowNetwork(t *testing.T, p *clienttest.Platform) (*slowNetwork, *http.Transport) {
	t.Helper()
	n := &slowNetwork{dials: make(chan struct{}, 100), accepted: make(chan net.Conn), closed: make(chan struct{})}
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{Transport: p.Transport(), ErrorLog: quiet, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host
	}}
	server := &http.Server{Handler: proxy, ErrorLog: quiet}
	served := make(chan error, 1)
	go func() { served <- server.Serve(n) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: got %v, want ErrServerClosed", err)
		}
	})
	return n, &http.Transport{DialContext: n.dial, DisableKeepAlives: true}
}

func (n *slowNetwork) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.dials <- struct{}{}
	timer := time.NewTimer(dialling)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	here, there := net.Pipe()
	select {
	case n.accepted <- there:
		return &slowConn{Conn: here, network: n}, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Accept, Close and Addr make the network a net.Listener.
func (n *slowNetwork) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *slowNetwork) Close() error {
	close(n.closed)
	return nil
}

func (*slowNetwork) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// overSlowNetwork makes a client that reaches the platform over a slow network.
func overSlowNetwork(t *testing.T, p *clienttest.Platform) (*client.Client, *slowNetwork) {
	t.Helper()
	network, transport := newSlowNetwork(t, p)
	c, err := client.New(p.Endpoints(), p.APIKey(), append(p.Options(), client.WithTransport(transport))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c, network
}

// TestHeartbeat_namesNothingWhoseReleaseBeganWhileItsConnectionWasDialled: two leases are due together; one is released while the
// heartbeat for both waits for its connection.
func TestHeartbeat_namesNothingWhoseReleaseBeganWhileItsConnectionWasDialled(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		c, network := overSlowNetwork(t, p)
		kept, given := acquire(t, c, "kept"), acquire(t, c, "given")
		for range 3 { // two acquires, and then the heartbeat
			<-network.dials
		}
		time.Sleep(dialling / 2) // virtual
		began := time.Now()
		if err := given.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		released := time.Now()
		var meanwhile [][]string
		for _, r := range p.Requests(clienttest.Match{Op: clienttest.Heartbeat}) {
			if r.At.After(began) && r.At.Before(released) {
				meanwhile = append(meanwhile, r.Leases)
			}
		}
		if len(meanwhile) != 1 || !slices.Equal(meanwhile[0], []string{kept.ID()}) {
			t.Errorf("heartbeats between the beginning and the end of the release: got those of %v, want one, of %s alone", meanwhile, kept.ID())
		}
		if err := kept.Err(); err != nil {
			t.Errorf("the lease that was named: got %v, want held", err)
		}
	})
}

// TestHeartbeat_isNotSentWhenAllWasReleasedWhileItsConnectionWasDialled: the only lease is released meanwhile, and nobody is in doubt.
func TestHeartbeat_isNotSentWhenAllWasReleasedWhileItsConnectionWasDialled(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		c, network := overSlowNetwork(t, p)
		l := acquire(t, c, "k")
		var doubts atomic.Int32
		l.OnDoubt(func(error) { doubts.Add(1) })
		for range 2 {
			<-network.dials
		}
		time.Sleep(dialling / 2) // virtual
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(p.Requests(clienttest.Match{Op: clienttest.Heartbeat})); got != 0 || doubts.Load() != 0 {
			t.Errorf("after the release: got %d heartbeats and %d times of doubt, want none", got, doubts.Load())
		}
	})
}

// TestHeartbeat_countsFromBeforeItsFirstByteLeft: it is dialled and written slowly. The deadline counts from when it began to leave,
// which is after the dialling and before the writing.
func TestHeartbeat_countsFromBeforeItsFirstByteLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		useWithin := acquire(t, newClient(t, p), "fast").Remaining()
		c, network := overSlowNetwork(t, p)
		l := acquire(t, c, "slow")
		if got, want := l.Deadline(), network.wrote.Load().Add(useWithin); !got.Equal(want) {
			t.Errorf("deadline after the grant: got %v, want %v after the first byte began to leave", got.Sub(*network.wrote.Load()), useWithin)
		}
		for range 2 {
			<-network.dials
		}
		time.Sleep(dialling + 5*writing) // virtual: it is answered by then
		if got, want := l.Deadline(), network.wrote.Load().Add(useWithin); !got.Equal(want) {
			t.Errorf("deadline after a heartbeat: got %v, want %v after its first byte began to leave", got.Sub(*network.wrote.Load()), useWithin)
		}
	})
}
