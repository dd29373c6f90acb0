package clienttest

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Platform is a lock platform of one or more nodes. All its methods may be called concurrently, at any time.
type Platform struct {
	t     testing.TB
	nodes []*Node
	clock *Clock
	over  chan struct{}  // closed when the test is over
	work  sync.WaitGroup // requests being carried out, and alarms; added to with mu held, while not closed

	mu       sync.Mutex
	closed   bool                // guarded by mu
	changed  chan struct{}       // guarded by mu; closed, and made anew, whenever something has changed
	calls    map[*call]bool      // guarded by mu; requests that somebody waits for
	alarms   map[*alarm]bool     // guarded by mu; those that have not gone off
	servers  []*httptest.Server  // guarded by mu
	keys     map[string]*apiKey  // guarded by mu; by the secret
	classes  map[string]class    // guarded by mu
	sessions map[string]*session // guarded by mu
	locks    map[lockName]*lock  // guarded by mu; what is held
	token    uint64              // guarded by mu; of the last grant
	index    uint64              // guarded by mu; grows with each change
	epoch    uint64              // guarded by mu
	leader   *Node               // guarded by mu
	noQuorum bool                // guarded by mu
	faults   []*Fault            // guarded by mu; in the order in which they were made
	seen     []*Request          // guarded by mu; the latest requests
}

// Option changes how a platform is made.
type Option func(*config)

type config struct{ nodes int }

const nodesMax = 16

// Nodes is how many nodes the platform has, 1 to 16. The default is 3.
func Nodes(n int) Option { return func(c *config) { c.nodes = n } }

// New makes a platform that lasts as long as the test. It has no class yet; its first node leads. When the test ends, all
// that the platform does ends, and the test fails if a request is still under way: somebody was not closed or waited for.
func New(t testing.TB, opts ...Option) *Platform {
	t.Helper()
	c := config{nodes: 3}
	for _, o := range opts {
		o(&c)
	}
	if c.nodes < 1 || c.nodes > nodesMax {
		t.Fatalf("clienttest: a platform has 1 to %d nodes, not %d", nodesMax, c.nodes)
	}
	p := &Platform{t: t, clock: NewClock(), over: make(chan struct{}), changed: make(chan struct{}), calls: map[*call]bool{},
		alarms: map[*alarm]bool{}, keys: map[string]*apiKey{}, classes: map[string]class{}, sessions: map[string]*session{},
		locks: map[lockName]*lock{}, epoch: 1}
	for i := range c.nodes {
		name := fmt.Sprintf("node%d", i+1)
		p.nodes = append(p.nodes, &Node{platform: p, name: name, url: "http://" + name + ".test"})
	}
	p.leader = p.nodes[0]
	p.keys[firstKey] = &apiKey{name: "clienttest", lineage: firstKey}
	t.Cleanup(p.close)
	return p
}

// Endpoints are the addresses of the nodes, for [Platform.Transport]. No name server knows them; see Serve.
func (p *Platform) Endpoints() []string {
	var all []string
	for _, n := range p.nodes {
		all = append(all, n.url)
	}
	return all
}

// Clock is the clock that [Platform.Options] gives to clients.
func (p *Platform) Clock() *Clock { return p.clock }

// Await waits until cond is true. It is asked now and after each change: of a lease, a queue, a node, the record. Within
// a bubble, synctest.Wait does as well. The error says that ctx, or the test, ended first.
func (p *Platform) Await(ctx context.Context, cond func() bool) error {
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if cond() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.over:
			return errOver
		}
	}
}

// errOver ends what is under way at the end of the test.
var errOver = errors.New("clienttest: the test is over")

// change wakes whoever awaits something; with mu held.
func (p *Platform) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// endingTime is how long requests may take to end when the test is over: their clients may have just been told.
const endingTime = time.Second

func (p *Platform) close() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), endingTime)
	defer cancel()
	if err := p.Await(ctx, func() bool { return len(p.underWay()) == 0 }); err != nil {
		p.t.Errorf("clienttest: the test ends with requests under way; close clients and wait for what they do:\n\t%s",
			strings.Join(p.underWay(), "\n\t"))
	}
	for _, s := range p.end() {
		s.Close()
	}
	p.work.Wait()
}

// underWay lists what somebody waits for.
func (p *Platform) underWay() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for c := range p.calls {
		all = append(all, fmt.Sprintf("%s at %s since %s", c.request.Op, c.node.name, c.request.At.Format(time.RFC3339Nano)))
	}
	slices.Sort(all)
	return all
}

// end stops all that goes on, and gives the servers that are to be closed.
func (p *Platform) end() []*httptest.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	close(p.over)
	for c := range p.calls {
		c.abort(errOver)
	}
	for a := range p.alarms {
		a.stop()
	}
	return p.servers
}

// alarm calls something at a later time.
type alarm struct {
	platform *Platform
	timer    *time.Timer
	off      bool // guarded by platform.mu; taken back
}

// after calls f with mu held when d has passed, unless it is taken back; called with mu held.
func (p *Platform) after(d time.Duration, f func()) *alarm {
	a := &alarm{platform: p, off: p.closed}
	if p.closed {
		return a
	}
	p.work.Add(1)
	p.alarms[a] = true
	a.timer = time.AfterFunc(d, func() {
		defer p.work.Done()
		p.mu.Lock()
		defer p.mu.Unlock()
		if !a.off {
			a.off = true
			delete(p.alarms, a)
			if !p.noQuorum { // nothing is decided without; the next leader sets alarms of its own
				f()
			}
			p.change()
		}
	})
	return a
}

// stop takes an alarm back; nil is none. With mu held.
func (a *alarm) stop() {
	if a == nil || a.off {
		return
	}
	a.off = true
	delete(a.platform.alarms, a)
	if a.timer.Stop() {
		a.platform.work.Done()
	}
}
