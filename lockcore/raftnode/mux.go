package raftnode

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	tcpKeepAlive       = 5 * time.Second
	tcpKeepAliveProbes = 3
	tcpUserTimeout     = 5 * time.Second
	handshakeTimeout   = 5 * time.Second
	handshakesMax      = 64 // under way at a time
	refusalBytesMax    = 512
	acceptBackoffMin   = 5 * time.Millisecond
	acceptBackoffMax   = time.Second
)

// MuxConfig describes a node's port.
type MuxConfig struct {
	// Identity is what the node's data directory says; its cluster, node and incarnation are checked on every connection.
	Identity Identity
	// Credentials must name the same node, and the authority that all nodes share.
	Credentials Credentials
	// Listen is the host:port to bind; port 0 takes a free one.
	Listen string
	// Advertise is the host:port under which others reach this node; by default the bound address.
	Advertise string
	// Peers are the addresses of other nodes, host:port. They win over addresses learned from a group's configuration.
	Peers map[NodeID]string
	// Remember, optional, keeps the disk first met under a node's id beyond this process; Identity.Peers are those kept.
	Remember func(node NodeID, disk NodeUUID) error
	// Logger gets each refused connection with what was expected and what came. Required.
	Logger *slog.Logger
}

func (c MuxConfig) validate() error {
	if c.Logger == nil {
		return errors.New("node port: no logger")
	}
	if err := errors.Join(c.Identity.Cluster.Validate(), c.Identity.Node.Validate()); err != nil {
		return fmt.Errorf("node port: %w", err)
	}
	leaf := c.Credentials.Certificate.Leaf
	if leaf == nil || c.Credentials.Roots == nil {
		return fmt.Errorf("node port: %w: certificate or authorities are missing", ErrBadCertificate)
	}
	got, err := certifiedName(leaf)
	if err != nil {
		return fmt.Errorf("node port: %w", err)
	}
	want := peerName{c.Identity.Cluster, c.Identity.Node}
	if err := mismatchUnequal("own certificate", want.uri().String(), got.uri().String()); err != nil {
		return fmt.Errorf("node port: %w", err)
	}
	return nil
}

// Mux is a node's one port for all traffic between nodes: Raft of every group, confirm rounds, forwarded API calls.
// Both sides of each connection prove who they are by certificate and compare cluster, incarnation, source and
// destination before a byte of payload flows. Safe for concurrent use.
type Mux struct {
	cfg       MuxConfig
	listener  net.Listener
	advertise string
	server    *tls.Config
	slots     chan struct{} // one per handshake under way
	conns     connSet       // confirm connections, and those in their handshake
	refusals  refusals      // logged lately

	mu     sync.Mutex
	closed bool                  // guarded by mu
	peers  map[NodeID]string     // guarded by mu
	groups map[GroupID]*endpoint // guarded by mu
	api    *inbox                // guarded by mu: nil until asked for

	pinning sync.Mutex          // held over the write of a disk that is met for the first time, and over nothing else that waits
	pinned  map[NodeID]NodeUUID // guarded by pinning: the disk first met under each node id

	running  sync.WaitGroup // Run
	handlers sync.WaitGroup // connections in handshake, and confirm connections
}

// endpoint is where a group's connections and confirm requests go.
type endpoint struct {
	inbox *inbox
	state func() (term uint64, state State)
}

// Listen binds the port. Nothing is accepted before Run; the caller owns the Mux and calls Close.
func Listen(cfg MuxConfig) (*Mux, error) {
	if leaf, err := parseLeaf(cfg.Credentials.Certificate); err == nil {
		cfg.Credentials.Certificate.Leaf = leaf
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive()}
	listener, err := lc.Listen(context.Background(), "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("bind node port: %w", err)
	}
	m := &Mux{
		cfg:       cfg,
		listener:  listener,
		advertise: cmp.Or(cfg.Advertise, listener.Addr().String()),
		server:    serverTLS(cfg.Credentials),
		slots:     make(chan struct{}, handshakesMax),
		peers:     maps.Clone(cfg.Peers),
		pinned:    maps.Clone(cfg.Identity.Peers),
		groups:    make(map[GroupID]*endpoint),
	}
	if m.peers == nil {
		m.peers = make(map[NodeID]string)
	}
	if m.pinned == nil {
		m.pinned = make(map[NodeID]NodeUUID)
	}
	return m, nil
}

func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: tcpKeepAlive, Interval: tcpKeepAlive, Count: tcpKeepAliveProbes}
}

// Advertise returns the host:port under which others reach this node.
func (m *Mux) Advertise() string { return m.advertise }

// Node returns the id of this node.
func (m *Mux) Node() NodeID { return m.cfg.Identity.Node }

// SetPeer sets the address of another node, host:port, for connections made from now on.
func (m *Mux) SetPeer(node NodeID, addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peers[node] = addr
}

// learn sets the address of a node of which none is known.
func (m *Mux) learn(node NodeID, addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.peers[node]; !known {
		m.peers[node] = addr
	}
}

// address returns where to dial node: the configured address, or else fallback.
func (m *Mux) address(node NodeID, fallback string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if addr := cmp.Or(m.peers[node], fallback); addr != "" {
		return addr, nil
	}
	return "", fmt.Errorf("%w %s", ErrUnknownNode, node)
}

// Run accepts connections until ctx ends or Close is called, and returns nil then, after its goroutines have ended.
func (m *Mux) Run(ctx context.Context) error {
	if !m.begin() {
		return ErrMuxClosed
	}
	defer m.running.Done()
	defer context.AfterFunc(ctx, m.shut)()
	err := m.accept(ctx)
	m.shut()
	m.handlers.Wait()
	return err
}

func (m *Mux) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.running.Add(1)
	}
	return !m.closed
}

// Close closes the port and every connection through it, and waits for Run to return.
func (m *Mux) Close() error {
	m.shut()
	m.running.Wait()
	return nil
}

// shut closes everything without waiting; repeating it is harmless.
func (m *Mux) shut() {
	m.mu.Lock()
	m.closed = true
	boxes := make([]*inbox, 0, len(m.groups)+1)
	for _, e := range m.groups {
		boxes = append(boxes, e.inbox)
	}
	if m.api != nil {
		boxes = append(boxes, m.api)
	}
	m.mu.Unlock()
	m.listener.Close()
	m.conns.closeAll()
	for _, b := range boxes {
		b.Close()
	}
}

func (m *Mux) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

func (m *Mux) accept(ctx context.Context) error {
	backoff := acceptBackoffMin
	for {
		conn, err := m.listener.Accept()
		switch {
		case err == nil:
			backoff = acceptBackoffMin
			m.slots <- struct{}{} // freed within the handshake timeout
			m.handlers.Go(func() { m.handle(conn) })
		case m.isClosed():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on node port: %w", err)
		default: // out of file descriptors, a connection reset meanwhile
			m.cfg.Logger.Warn("accept on node port", "error", err)
			pauseFor(ctx, backoff)
			backoff = min(2*backoff, acceptBackoffMax)
		}
	}
}

// pauseFor waits for d, or until ctx ends.
func pauseFor(ctx context.Context, d time.Duration) {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}

// handle takes one accepted connection through its handshake and to its destination.
func (m *Mux) handle(raw net.Conn) {
	conn, deliver, err := m.welcome(raw)
	<-m.slots
	if err != nil {
		m.logRefusal(raw.RemoteAddr(), err)
		return
	}
	deliver(conn)
}

func (m *Mux) logRefusal(from net.Addr, err error) {
	if m.isClosed() || !m.refusals.first(err.Error(), time.Now()) {
		return
	}
	attrs := []any{"from", from.String(), "error", err}
	if bad, ok := errors.AsType[*MismatchError](err); ok {
		attrs = append(attrs, "check", bad.Check, "expected", bad.Want, "got", bad.Got)
	}
	m.cfg.Logger.Warn("connection refused", attrs...)
}

// APIListener returns the listener on which forwarded API calls arrive. There is one at a time: after it was closed,
// the next call makes a new one.
func (m *Mux) APIListener() net.Listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.api != nil {
		return m.api
	}
	var b *inbox
	b = newInbox(textAddr(m.advertise), func() { m.forgetAPI(b) })
	if m.closed {
		b.end()
		return b
	}
	m.api = b
	return b
}

func (m *Mux) forgetAPI(b *inbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.api == b {
		m.api = nil
	}
}

// register opens a group's place at the port. Closing the returned inbox gives it back.
func (m *Mux) register(group GroupID, state func() (uint64, State)) (*inbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, ErrMuxClosed
	case m.groups[group] != nil:
		return nil, fmt.Errorf("group %s is already open on this node", group)
	}
	e := &endpoint{state: state}
	e.inbox = newInbox(textAddr(raftAddress(m.Node(), m.advertise)), func() { m.unregister(group, e) })
	m.groups[group] = e
	return e.inbox, nil
}

func (m *Mux) unregister(group GroupID, e *endpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups[group] == e {
		delete(m.groups, group)
	}
}

// endpoint returns the group's place, or nil.
func (m *Mux) endpoint(group GroupID) *endpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.groups[group]
}

// pin remembers the disk first met under a node id and refuses another: a member that lost its disk has forgotten its
// votes, and must not come back under the same id.
func (m *Mux) pin(node NodeID, disk NodeUUID) error {
	m.pinning.Lock()
	defer m.pinning.Unlock()
	if known, ok := m.pinned[node]; ok {
		return mismatchUnequal("node UUID of "+string(node), string(known), string(disk))
	}
	if m.cfg.Remember != nil {
		if err := m.cfg.Remember(node, disk); err != nil {
			return err
		}
	}
	m.pinned[node] = disk
	return nil
}

func tuneTCP(conn net.Conn) error {
	tcp, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return fmt.Errorf("tune connection: %w", err)
	}
	return limitUnacknowledged(raw, tcpUserTimeout)
}
