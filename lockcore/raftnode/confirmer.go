package raftnode

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ConfirmTimeoutDefault is how long a confirm round waits for a majority unless the caller's context ends before.
const ConfirmTimeoutDefault = time.Second

// Outcomes of a confirm round that is not a yes. After either, nothing may be promised on the strength of it.
var (
	// ErrNotConfirmed: too many voters answered that they follow no leader of this term, or self no longer leads.
	ErrNotConfirmed = errors.New("leadership not confirmed")
	// ErrNoQuorum: no majority of the voters answered in time. The same leadership may ask again.
	ErrNoQuorum = errors.New("no majority of voters answered")
)

// Confirmer asks the voters of a group whether a leader still leads. It keeps one connection to each other node,
// shared by all groups. Safe for concurrent use.
//
// Why a majority of answers is proof: a voter raises and stores its term before it votes. Had a leader of a later term
// been elected before the question was sent, one of the voters who elected it would be among those who answered, and
// would have named the later term.
type Confirmer struct {
	self    NodeID
	timeout time.Duration
	open    func(ctx context.Context, node NodeID) (confirmConn, error)

	nonce atomic.Uint64

	mu     sync.Mutex
	rounds map[uint64]*round // guarded by mu: by nonce
	links  map[NodeID]*link  // guarded by mu
	born   []*link           // guarded by mu: links that Run has not started yet
	wake   chan struct{}     // tells Run of born; holds one signal
}

// NewConfirmer returns a confirmer that speaks through the node's port. timeout bounds each round; zero means
// ConfirmTimeoutDefault. Run must be running for rounds to succeed.
func NewConfirmer(m *Mux, timeout time.Duration) *Confirmer {
	return newConfirmer(m.Node(), timeout, func(ctx context.Context, node NodeID) (confirmConn, error) {
		return m.dial(ctx, &m.conns, hello{Kind: kindConfirm, Destination: node}, "")
	})
}

func newConfirmer(self NodeID, timeout time.Duration, open func(context.Context, NodeID) (confirmConn, error)) *Confirmer {
	if timeout <= 0 {
		timeout = ConfirmTimeoutDefault
	}
	c := &Confirmer{self: self, timeout: timeout, open: open, rounds: make(map[uint64]*round), links: make(map[NodeID]*link), wake: make(chan struct{}, 1)}
	var seed [8]byte
	rand.Read(seed[:])
	c.nonce.Store(binary.BigEndian.Uint64(seed[:]))
	return c
}

// Run owns the connections until ctx ends; it returns nil after its goroutines have ended.
func (c *Confirmer) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	for {
		for _, l := range c.takeBorn() {
			work.Go(func() { l.run(ctx) })
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *Confirmer) takeBorn() []*link {
	c.mu.Lock()
	defer c.mu.Unlock()
	born := c.born
	c.born = nil
	return born
}

// Confirm asks all voters of the group and returns nil as soon as a majority of them, self counted if it is one,
// stands as Follower in term; self is asked whether it still leads in term only after those answers came. Answers
// count by nonce, server, term and state. Errors: ErrNotConfirmed, ErrNoQuorum.
func (c *Confirmer) Confirm(ctx context.Context, group GroupID, term uint64, voters []NodeID, self func() bool) error {
	r := c.begin(group, term, voters)
	defer c.end(r)
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.ask(r)
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	if err := r.verdict(); err != nil {
		return fmt.Errorf("confirm leadership of %s in term %d: %w", group, term, err)
	}
	if !self() {
		return fmt.Errorf("confirm leadership of %s in term %d: %w: this node no longer leads", group, term, ErrNotConfirmed)
	}
	return nil
}

func (c *Confirmer) begin(group GroupID, term uint64, voters []NodeID) *round {
	r := &round{nonce: c.nonce.Add(1), group: group, term: term, need: len(voters)/2 + 1, done: make(chan struct{})}
	for _, v := range voters {
		if v == c.self {
			r.yes++
		} else if !slices.Contains(r.open, v) {
			r.open = append(r.open, v)
		}
	}
	r.peers = slices.Clone(r.open)
	r.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds[r.nonce] = r
	return r
}

func (c *Confirmer) end(r *round) {
	r.over.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rounds, r.nonce)
}

func (c *Confirmer) ask(r *round) {
	q := confirmRequest{Group: r.group, Term: r.term, Nonce: r.nonce}
	frame, err := appendFrame(nil, q, confirmBytesMax)
	if err != nil {
		return // a group id too long to exist: nobody is asked, nobody answers
	}
	for _, peer := range r.peers {
		c.link(peer).send(question{round: r, frame: frame})
	}
}

// link returns the connection to a node; Run starts it at first use.
func (c *Confirmer) link(peer NodeID) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[peer]
	if l == nil {
		l = newLink(peer, c)
		c.links[peer] = l
		c.born = append(c.born, l)
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return l
}

// answered counts an answer that came over the connection to from.
func (c *Confirmer) answered(from NodeID, a confirmAnswer) {
	if a.Server != from {
		return
	}
	c.mu.Lock()
	r := c.rounds[a.Nonce]
	c.mu.Unlock()
	if r != nil {
		r.count(a)
	}
}

// round is one question to the voters of a group.
type round struct {
	nonce uint64
	group GroupID
	term  uint64
	need  int      // yes votes that make a majority
	peers []NodeID // whom to ask
	done  chan struct{}
	over  atomic.Bool // nobody waits any more

	mu      sync.Mutex
	open    []NodeID // guarded by mu: not yet heard
	yes, no int      // guarded by mu
	settled bool     // guarded by mu
}

func (r *round) count(a confirmAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.open, a.Server)
	if at < 0 || a.Group != r.group {
		return
	}
	r.open = slices.Delete(r.open, at, at+1)
	if a.Term == r.term && a.State == Follower {
		r.yes++
	} else {
		r.no++
	}
	r.settle()
}

// settle wakes the waiter once the answers that are out cannot change the verdict. mu is held, or r is not yet shared.
func (r *round) settle() {
	decided := r.yes >= r.need || r.yes+len(r.open) < r.need
	if decided && !r.settled {
		r.settled = true
		close(r.done)
	}
}

func (r *round) verdict() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.yes >= r.need:
		return nil
	case r.no > 0:
		return fmt.Errorf("%w: %d of %d needed voters agree, %d stand elsewhere", ErrNotConfirmed, r.yes, r.need, r.no)
	}
	return fmt.Errorf("%w: %d of %d needed", ErrNoQuorum, r.yes, r.need)
}
