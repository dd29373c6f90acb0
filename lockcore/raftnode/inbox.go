package raftnode

import (
	"net"
	"sync"
	"time"
)

const (
	inboxConnsMax = 16
	inboxPatience = time.Second
)

// inbox is a net.Listener fed by the port with connections of one kind.
type inbox struct {
	addr     net.Addr
	conns    connSet
	incoming chan net.Conn
	done     chan struct{}
	end      func() // once: closes done
	close    func() // once: end, forgets the inbox at the port, closes its connections
}

func newInbox(addr net.Addr, forget func()) *inbox {
	b := &inbox{addr: addr, incoming: make(chan net.Conn, inboxConnsMax), done: make(chan struct{})}
	b.end = sync.OnceFunc(func() { close(b.done) })
	b.close = sync.OnceFunc(func() {
		b.end()
		forget()
		b.conns.closeAll()
	})
	return b
}

// Accept waits for the next connection; after Close it is net.ErrClosed.
func (b *inbox) Accept() (net.Conn, error) {
	select {
	case <-b.done: // first, so that a closed inbox hands out nothing
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-b.incoming:
		return conn, nil
	case <-b.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and closes every connection that came through, or was dialled for, this inbox.
func (b *inbox) Close() error {
	b.close()
	return nil
}

// Addr is the address that others are told.
func (b *inbox) Addr() net.Addr { return b.addr }

// deliver hands conn to whoever accepts, or closes it when nobody does in time.
func (b *inbox) deliver(conn net.Conn, peer NodeID) {
	owned, err := b.conns.adopt(conn, peer)
	if err != nil {
		return
	}
	patience := time.NewTimer(inboxPatience)
	defer patience.Stop()
	select {
	case b.incoming <- owned:
	case <-b.done:
		owned.Close()
	case <-patience.C:
		owned.Close()
	}
}

// textAddr is an address that is only ever printed.
type textAddr string

// Network names the transport.
func (textAddr) Network() string { return "stanchion" }

// String returns the address.
func (a textAddr) String() string { return string(a) }
