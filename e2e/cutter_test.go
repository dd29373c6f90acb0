package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	sdk "github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// cut says where on its way a request is cut off.
type cut int

const (
	cutNowhere cut = iota
	cutBefore      // the node never gets it
	cutAfter       // the node has answered
)

// cuts are what the requests for a lease meet, by its number: its first acquires, and its first releases.
var cuts = [][]cut{{cutAfter}, {cutBefore}, {cutBefore, cutAfter}, {cutAfter, cutAfter}}

// cutter stands between a client and all nodes. It closes the connection of a request that it cuts off.
type cutter struct {
	next  http.RoundTripper
	nodes map[string]string // address of a node, by the address that stands for it

	mu    sync.Mutex
	seen  map[string]int             // guarded by mu; requests so far, by method and path
	ids   map[string]map[string]bool // guarded by mu; by key: the paths of its acquires
	count map[cut]int                // guarded by mu
}

// newCutter opens an address for each node, and returns them.
func newCutter(c *cluster) (x *cutter, addresses []string) {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	c.t.Cleanup(transport.CloseIdleConnections)
	x = &cutter{next: transport, nodes: map[string]string{}, seen: map[string]int{}, ids: map[string]map[string]bool{}, count: map[cut]int{}}
	var servers []*httptest.Server
	for _, n := range c.file.Nodes {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { x.serve(w, r, n.URL) }))
		servers = append(servers, s)
		address := "http://" + s.Listener.Addr().String()
		x.nodes[address] = n.URL
		addresses = append(addresses, address)
	}
	for _, s := range servers { // they read nodes
		s.Start()
		c.t.Cleanup(s.Close)
	}
	return x, addresses
}

func (x *cutter) serve(w http.ResponseWriter, r *http.Request, node string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection
	}
	fate := x.fate(r, body)
	if fate == cutBefore {
		panic(http.ErrAbortHandler)
	}
	request, err := http.NewRequestWithContext(r.Context(), r.Method, node+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	request.Header = r.Header.Clone()
	res, err := x.next.RoundTrip(request)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || fate == cutAfter {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), res.Header)
	w.Header().Set("Stanchion-Leader", x.standIn(res.Header.Get("Stanchion-Leader")))
	w.WriteHeader(res.StatusCode)
	_, _ = w.Write(answer) // whether it arrives is the client's to see
}

// standIn is the hint to the leader, with the address that stands for it.
func (x *cutter) standIn(hint string) string {
	for address, node := range x.nodes {
		hint = strings.Replace(hint, " "+node, " "+address, 1)
	}
	return hint
}

// fate decides about a request, and takes note of it.
func (x *cutter) fate(r *http.Request, body []byte) cut {
	_, number, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/leases/"), ".")
	n, err := strconv.Atoi(number)
	if err != nil {
		return cutNowhere // about a session, or a list
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var request wire.AcquireRequest
	if json.Unmarshal(body, &request) == nil {
		if x.ids[request.Key] == nil {
			x.ids[request.Key] = map[string]bool{}
		}
		x.ids[request.Key][r.URL.Path] = true
	}
	each := cuts[n%len(cuts)]
	before := x.seen[r.Method+r.URL.Path]
	x.seen[r.Method+r.URL.Path]++
	if before >= len(each) {
		return cutNowhere
	}
	x.count[each[before]]++
	return each[before]
}

// acquireThroughCuts acquires and releases many keys at once while connections are cut off before and after the node's answer. Each lease is one
// request under one id, granted once, and nothing is left.
func acquireThroughCuts(t *testing.T, c *cluster) {
	const leases = 500
	x, addresses := newCutter(c)
	s := c.member(addresses, nil)
	ctx := c.caseContext()
	c.wantGrants(ctx, leases, func() []uint64 { return takeEach(ctx, t, s, "cut", leases) })
	c.wantNoLocks(classCase)
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, ids := range x.ids {
		if len(ids) != 1 {
			t.Errorf("%s was asked for under %d ids, want 1", key, len(ids))
		}
	}
	if x.count[cutBefore] < leases || x.count[cutAfter] < leases {
		t.Errorf("cut off before the node got it: %d, after it answered: %d; want %d at least of each", x.count[cutBefore], x.count[cutAfter], leases)
	}
}

// acquireManyAtOnce acquires and releases thousands of keys on one client: each is granted once, and nothing is left.
func acquireManyAtOnce(t *testing.T, c *cluster) {
	const leases = 2_000
	s := c.member(c.urls(), nil)
	ctx := c.caseContext()
	c.wantGrants(ctx, leases, func() []uint64 { return takeEach(ctx, t, s, "many", leases) })
	c.wantNoLocks(classCase)
}

// takeEach acquires and releases so many keys, 64 at a time, and returns the tokens.
func takeEach(ctx context.Context, t *testing.T, s *sdk.Client, prefix string, n int) []uint64 {
	t.Helper()
	const workers = 64
	tokens := make([]uint64, n)
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			for i := worker; i < n; i += workers {
				l, err := s.Acquire(ctx, classCase, fmt.Sprintf("%s-%d", prefix, i))
				if err != nil {
					t.Error(err)
					return
				}
				tokens[i] = l.Token()
				if err := l.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	return tokens
}
