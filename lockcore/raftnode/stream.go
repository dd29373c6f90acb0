package raftnode

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// A server's address in a group's replicated configuration is node@host:port: who to expect, and where.

func raftAddress(node NodeID, addr string) raft.ServerAddress {
	return raft.ServerAddress(string(node) + "@" + addr)
}

func parseRaftAddress(address raft.ServerAddress) (NodeID, string, error) {
	node, addr, ok := strings.Cut(string(address), "@")
	if !ok || NodeID(node).Validate() != nil {
		return "", "", fmt.Errorf("server address %q: %w", address, ErrBadID)
	}
	return NodeID(node), addr, nil
}

// stream is one group's share of the port, in the shape that Raft's network transport wants.
type stream struct {
	*inbox
	mux   *Mux
	group GroupID
}

var _ raft.StreamLayer = (*stream)(nil)

// Dial connects to the same group on the node that the address names.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	node, addr, err := parseRaftAddress(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.mux.dial(ctx, &s.conns, hello{Kind: kindRaft, Group: s.group, Destination: node}, addr)
}
