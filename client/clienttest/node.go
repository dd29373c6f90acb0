package clienttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Node is one node of a platform. Its methods may be called concurrently, at any time.
type Node struct {
	platform *Platform
	name     string // node1
	url      string // for the platform's transport

	served string        // guarded by platform.mu; its real address; empty: none
	cut    bool          // guarded by platform.mu
	gate   chan struct{} // guarded by platform.mu; closed when a pause ends; nil: it is not paused
}

// Node is one of the platform's nodes, counted from 1. A number that there is not panics.
func (p *Platform) Node(n int) *Node {
	if n < 1 || n > len(p.nodes) {
		panic(fmt.Sprintf("clienttest: there is no node %d; nodes are 1 to %d", n, len(p.nodes)))
	}
	return p.nodes[n-1]
}

// Name is the node's id, such as "node2".
func (n *Node) Name() string { return n.name }

// URL is the node's address for [Platform.Transport].
func (n *Node) URL() string { return n.url }

// Pause has the node do nothing: what asks it, and what it was about to answer, hangs until Resume, or until the client
// gives up. The platform goes on without it: leases run, and other nodes answer.
func (n *Node) Pause() {
	n.platform.mu.Lock()
	defer n.platform.mu.Unlock()
	if n.gate == nil {
		n.gate = make(chan struct{})
	}
}

// Resume ends a pause.
func (n *Node) Resume() {
	n.platform.mu.Lock()
	defer n.platform.mu.Unlock()
	if n.gate != nil {
		close(n.gate)
		n.gate = nil
	}
}

// Cut takes the node off the network: connections to it are refused, and those that it has break. At a real address (see
// Serve) connections are closed without an answer.
func (n *Node) Cut() {
	n.platform.mu.Lock()
	defer n.platform.mu.Unlock()
	n.cut = true
	for c := range n.platform.calls {
		if c.node == n {
			c.abort(errReset)
		}
	}
}

// Restore undoes Cut.
func (n *Node) Restore() {
	n.platform.mu.Lock()
	defer n.platform.mu.Unlock()
	n.cut = false
}

// Lead has the node be the leader, in a new epoch. What hangs is answered not_leader, every lease begins its full term
// anew, and waiters keep their places. The leader may be elected again.
func (n *Node) Lead() {
	n.platform.mu.Lock()
	defer n.platform.mu.Unlock()
	n.platform.lead(n)
	n.platform.change()
}

// Leader is the node that leads.
func (p *Platform) Leader() *Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leader
}

// LoseQuorum leaves the platform without a majority: all nodes answer no_quorum, also to what hangs, and nothing is granted,
// kept, given back or expired.
func (p *Platform) LoseQuorum() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loseQuorum()
	p.change()
}

// RestoreQuorum undoes LoseQuorum. The leader is elected again, in a new epoch: see [Node.Lead].
func (p *Platform) RestoreQuorum() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noQuorum {
		p.noQuorum = false
		p.lead(p.leader)
		p.change()
	}
}

// awake waits while the node is paused.
func (n *Node) awake(ctx context.Context) error {
	for {
		n.platform.mu.Lock()
		gate := n.gate
		n.platform.mu.Unlock()
		if gate == nil {
			return nil
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// How connections fail.
var (
	errRefused error = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	errReset   error = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	errNoHost        = errors.New("clienttest: no node of the platform has this address")
)
