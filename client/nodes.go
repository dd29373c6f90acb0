package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

const endpointsMax = 16

// nodes are the addresses to ask, which of them leads as far as is known, and the API key. Safe for concurrent use.
type nodes struct {
	all   []string
	https bool // all of them are

	mu     sync.Mutex
	key    string // guarded by mu
	leader string // guarded by mu; where the last answer said the leader is; empty: unknown
	first  int    // guarded by mu; of all, where the next round begins while no leader is known
}

func newNodes(endpoints []string, key string) (*nodes, error) {
	if len(endpoints) == 0 || len(endpoints) > endpointsMax {
		return nil, fmt.Errorf("stanchion: a client needs 1 to %d endpoints, not %d", endpointsMax, len(endpoints))
	}
	if key == "" {
		return nil, errors.New("stanchion: a client needs an API key")
	}
	n := &nodes{key: key, https: true, first: rand.IntN(len(endpoints))}
	for _, e := range endpoints {
		u, err := parseNode(e)
		if err != nil {
			return nil, err
		}
		n.all = append(n.all, u)
		n.https = n.https && strings.HasPrefix(u, "https:")
	}
	return n, nil
}

// parseNode is a node's address as requests begin with it.
func parseNode(address string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("stanchion: endpoint %q is no address like https://host:port", address)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func (n *nodes) setKey(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.key = key
}

func (n *nodes) apiKey() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.key
}

// route is one operation's way through the nodes: rounds in which each is asked once, the leader first.
type route struct {
	tried []string
}

// next is the node for the operation's next attempt.
func (r *route) next(n *nodes) string {
	node := n.pick(r.tried)
	if node == "" {
		r.tried = r.tried[:0]
		node = n.pick(nil)
	}
	r.tried = append(r.tried, node)
	return node
}

// pick is the leader, unless it was tried, then one of the others; empty: all were tried.
func (n *nodes) pick(tried []string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leader != "" && !slices.Contains(tried, n.leader) {
		return n.leader
	}
	for i := range n.all {
		if node := n.all[(n.first+i)%len(n.all)]; !slices.Contains(tried, node) {
			return node
		}
	}
	return ""
}

// answered takes the leader from an answer. A hint that would send the API key over an open connection, where all endpoints are https, is
// not followed.
func (n *nodes) answered(from string, header http.Header) {
	_, hint, _ := strings.Cut(header.Get("Stanchion-Leader"), " ")
	n.mu.Lock()
	defer n.mu.Unlock()
	leader, err := parseNode(hint)
	switch {
	case err != nil, n.https && !strings.HasPrefix(leader, "https:"):
		n.settle(from)
	default:
		n.leader = leader
	}
}

// settle stays with a node that answers, where no leader is named; with mu held.
func (n *nodes) settle(node string) {
	for i, a := range n.all {
		if a == node {
			n.first = i
		}
	}
}

// failed forgets a leader that does not answer, or does not lead.
func (n *nodes) failed(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leader == node {
		n.leader = ""
	}
	if n.all[n.first] == node {
		n.first = (n.first + 1) % len(n.all)
	}
}
