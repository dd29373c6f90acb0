package raftnode

import (
	"net"
	"sync"
)

// peerConn is an accepted or dialled connection whose other side proved to be peer.
type peerConn struct {
	net.Conn
	peer NodeID
	set  *connSet
}

// Close closes the connection and forgets it.
func (c *peerConn) Close() error {
	c.set.forget(c)
	return c.Conn.Close()
}

// PeerOf tells which node is at the other end of a connection from Mux.APIListener or Mux.DialAPI.
func PeerOf(conn net.Conn) (NodeID, bool) {
	c, ok := conn.(*peerConn)
	if !ok {
		return "", false
	}
	return c.peer, true
}

// connSet holds the open connections of one owner, who can close them all. Safe for concurrent use; the zero value is
// an empty set.
type connSet struct {
	mu     sync.Mutex
	open   map[*peerConn]struct{} // guarded by mu
	closed bool                   // guarded by mu
}

// adopt makes the set the owner of conn; a closed set closes it and returns ErrMuxClosed.
func (s *connSet) adopt(conn net.Conn, peer NodeID) (*peerConn, error) {
	c := &peerConn{Conn: conn, peer: peer, set: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return nil, ErrMuxClosed
	}
	if s.open == nil {
		s.open = make(map[*peerConn]struct{})
	}
	s.open[c] = struct{}{}
	return c, nil
}

func (s *connSet) forget(c *peerConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// closeAll closes what is open and everything adopted later.
func (s *connSet) closeAll() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.closed = true
	s.mu.Unlock()
	for c := range open {
		c.Conn.Close()
	}
}
