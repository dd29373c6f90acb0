package platform

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

const (
	forwardIdleMax     = 256
	forwardIdleTimeout = 90 * time.Second
)

// newForward carries requests to other nodes over the port between nodes. A request's host is the node's id; the
// connection itself proves who is at its other end.
func newForward(m *raftnode.Mux) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			node, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, fmt.Errorf("forward to %s: %w", address, err)
			}
			return m.DialAPI(ctx, raftnode.NodeID(node))
		},
		MaxIdleConns:        forwardIdleMax,
		MaxIdleConnsPerHost: forwardIdleMax,
		IdleConnTimeout:     forwardIdleTimeout,
		DisableCompression:  true,
	}
}
