package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/client/deadline"
)

// Client holds leases for one process. It has one session and one heartbeat, however many leases, and no goroutine while it
// has neither lease nor request. It is safe for concurrent use.
type Client struct {
	config
	watch *deadline.Watch
	nodes *nodes
	http  *http.Client
	owned *http.Transport // nil: the transport is the caller's
	short chan struct{}   // one for each short request under way; its capacity bounds them

	closing    context.Context // ends when Close begins: nothing new is asked
	beginClose context.CancelFunc
	life       context.Context // ends when Close is done: nothing is sent
	endLife    context.CancelFunc
	closeOnce  sync.Once
	closed     chan struct{} // closed when Close is done
	closeErr   error         // what Close had to say; read after closed

	mu      sync.Mutex
	session *session // guarded by mu; nil: none yet

	workMu sync.Mutex     // taken last
	work   sync.WaitGroup // every goroutine of the client; added to with workMu held, while life goes on
}

const (
	shortCallsMax   = 128                    // acquires and releases under way at a time; the rest waits its turn
	sessionIdleTime = 4 * time.Minute        // the platform keeps a silent session for ten, and asks for a new one after five
	callbackGrace   = 100 * time.Millisecond // for what ends with Close's own context
)

// New makes a client of the nodes at endpoints, 1 to 16 addresses like https://host:port, with an API key that has a scope such as
// locks:ledger-*. It starts nothing and sends nothing. Close it.
func New(endpoints []string, apiKey string, opts ...Option) (*Client, error) {
	config, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	nodes, err := newNodes(endpoints, apiKey)
	if err != nil {
		return nil, err
	}
	c := &Client{config: config, watch: deadline.NewWatch(config.clock), nodes: nodes, short: make(chan struct{}, shortCallsMax),
		closed: make(chan struct{})}
	if config.transport == nil {
		c.owned = newTransport(config.tls)
		config.transport = c.owned
	}
	c.http = &http.Client{Transport: config.transport, CheckRedirect: stay}
	c.closing, c.beginClose = context.WithCancel(context.Background())
	c.life, c.endLife = context.WithCancel(context.Background())
	return c, nil
}

// SetAPIKey replaces the API key for all requests from now on: after a rotation, whose successor keeps the session. Under a key
// that is no successor, leases that are held cannot be kept.
func (c *Client) SetAPIKey(key string) { c.nodes.setKey(key) }

// begin starts a goroutine of the client, and reports whether it did: after Close there are none.
func (c *Client) begin(f func()) bool {
	c.workMu.Lock()
	defer c.workMu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.work.Go(f)
	return true
}

// current is the session to ask with: a new one after a silence in which the platform may have forgotten it, and after its end.
func (c *Client) current() (*session, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return nil, 0, ErrClosed
	}
	for {
		if c.session == nil {
			c.session = newSession(c)
		}
		if n, ok := c.session.number(); ok {
			return c.session, n, nil
		}
		c.session = nil
	}
}

// Close ends every wait, releases every lease, each by itself, and ends the session. Callbacks of OnLost have returned before the
// release of their lease leaves. The error names what was not released; that ends by itself when its lease has run out. ctx
// bounds it all: when it ends first, the rest is given up. A second call waits for the first one, and says the same.
func (c *Client) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		c.closeErr = c.close(ctx)
		close(c.closed)
	})
	<-c.closed
	return c.closeErr
}

func (c *Client) close(ctx context.Context) error {
	c.beginClose()
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	var err error
	if s != nil {
		err = s.releaseAll(ctx)
	}
	if s != nil && err == nil {
		err = s.end(ctx)
	}
	c.workMu.Lock()
	c.endLife()
	c.workMu.Unlock()
	err = errors.Join(err, c.waitForWork(ctx))
	if c.owned != nil {
		c.owned.CloseIdleConnections()
	}
	return err
}

// waitForWork waits for the client's goroutines. What sends has been told to stop; a callback of the user's may go on.
func (c *Client) waitForWork(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the last of the goroutines that it waits for
		c.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	timer := time.NewTimer(callbackGrace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("stanchion: close: callbacks are running still: %w", context.Cause(ctx))
	}
}
