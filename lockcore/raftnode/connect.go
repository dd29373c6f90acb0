package raftnode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// welcome is the listener's half of the handshake. On success it returns the connection, owned by the port's set, and
// what to do with it; on failure the connection is closed and, if a hello was read, the other side was told why.
func (m *Mux) welcome(raw net.Conn) (*peerConn, func(*peerConn), error) {
	conn := tls.Server(raw, m.server)
	owned, err := m.conns.adopt(conn, "")
	if err != nil {
		return nil, nil, err
	}
	deliver, err := m.greet(raw, conn, owned)
	if err != nil {
		owned.Close()
		return nil, nil, err
	}
	return owned, deliver, nil
}

func (m *Mux) greet(raw net.Conn, conn *tls.Conn, owned *peerConn) (func(*peerConn), error) {
	if err := errors.Join(tuneTCP(raw), conn.SetDeadline(time.Now().Add(handshakeTimeout))); err != nil {
		return nil, err
	}
	if err := conn.Handshake(); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	certified, err := certifiedName(conn.ConnectionState().PeerCertificates[0])
	if err != nil {
		return nil, err
	}
	var h hello
	if err := readFrame(conn, &h, handshakeBytesMax); err != nil {
		return nil, fmt.Errorf("read hello of %s: %w", certified.node, err)
	}
	deliver, refusal := m.judge(h, certified)
	if err := writeFrame(conn, m.answer(refusal), handshakeBytesMax); err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, fmt.Errorf("%s connection from %s: %w", h.Kind, certified.node, refusal)
	}
	owned.peer = h.Source
	return deliver, conn.SetDeadline(time.Time{})
}

// judge decides whether to take the connection, and where to.
func (m *Mux) judge(h hello, certified peerName) (func(*peerConn), error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	if err := h.check(m.cfg.Identity, certified); err != nil {
		return nil, err
	}
	if err := m.pin(h.Source, h.SourceUUID); err != nil {
		return nil, err
	}
	switch h.Kind {
	case kindConfirm:
		return m.serveConfirm, nil
	case kindRaft:
		if e := m.endpoint(h.Group); e != nil {
			return m.handOver(e.inbox), nil
		}
		return nil, mismatch("group", "one that is open on "+string(m.Node()), string(h.Group))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.api == nil {
		return nil, errors.New("no API is served on this node yet")
	}
	return m.handOver(m.api), nil
}

// handOver moves a connection from the port's set to the inbox's.
func (m *Mux) handOver(to *inbox) func(*peerConn) {
	return func(c *peerConn) {
		m.conns.forget(c)
		to.deliver(c.Conn, c.peer)
	}
}

func (m *Mux) answer(refusal error) welcome {
	own := m.cfg.Identity
	w := welcome{Version: handshakeVersion, Cluster: own.Cluster, Node: own.Node, Incarnation: own.Incarnation, NodeUUID: own.NodeUUID}
	if refusal != nil {
		text := refusal.Error()
		w.Refusal = strings.ToValidUTF8(text[:min(len(text), refusalBytesMax)], "")
	}
	return w
}

// DialAPI connects to the API listener of another node; the caller closes the connection. Errors: ErrUnknownNode,
// ErrRefused, *MismatchError, ErrMuxClosed, and those of the network.
func (m *Mux) DialAPI(ctx context.Context, node NodeID) (net.Conn, error) {
	return m.dial(ctx, &m.conns, hello{Kind: kindAPI, Destination: node}, "")
}

// dial connects to h.Destination and returns the connection after both sides are sure of each other. set owns it.
func (m *Mux) dial(ctx context.Context, set *connSet, h hello, fallback string) (net.Conn, error) {
	addr, err := m.address(h.Destination, fallback)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	dialer := net.Dialer{KeepAliveConfig: keepAlive()}
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", h.Destination, err)
	}
	own := m.cfg.Identity
	conn := tls.Client(raw, clientTLS(m.cfg.Credentials, peerName{own.Cluster, h.Destination}))
	owned, err := set.adopt(conn, h.Destination)
	if err != nil {
		return nil, err
	}
	if err := m.introduce(ctx, raw, conn, h); err != nil {
		owned.Close()
		return nil, fmt.Errorf("connect to %s at %s: %w", h.Destination, addr, err)
	}
	return owned, nil
}

// introduce is the dialler's half of the handshake.
func (m *Mux) introduce(ctx context.Context, raw net.Conn, conn *tls.Conn, h hello) error {
	if err := tuneTCP(raw); err != nil {
		return err
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	w, err := m.exchange(conn, h)
	if !stop() {
		return context.Cause(ctx) // the deadline was, or is about to be, set to the past
	}
	if err != nil {
		return err
	}
	if w.Refusal != "" {
		return fmt.Errorf("%w: %s", ErrRefused, w.Refusal)
	}
	if err := w.check(m.cfg.Identity, h.Destination); err != nil {
		return err
	}
	return m.pin(h.Destination, w.NodeUUID)
}

func (m *Mux) exchange(conn net.Conn, h hello) (welcome, error) {
	own := m.cfg.Identity
	h.Version, h.Cluster, h.Incarnation = handshakeVersion, own.Cluster, own.Incarnation
	h.Source, h.SourceUUID = own.Node, own.NodeUUID
	if err := writeFrame(conn, h, handshakeBytesMax); err != nil {
		return welcome{}, err
	}
	var w welcome
	if err := readFrame(conn, &w, handshakeBytesMax); err != nil {
		return welcome{}, fmt.Errorf("read answer to hello: %w", err)
	}
	return w, nil
}

func parseLeaf(cert tls.Certificate) (*x509.Certificate, error) {
	if cert.Leaf != nil || len(cert.Certificate) == 0 {
		return cert.Leaf, nil
	}
	return x509.ParseCertificate(cert.Certificate[0])
}
