package raftnode

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// callerKey is where the test's server finds which node called.
type callerKey struct{}

func TestMux_servesHTTPBetweenNodes(t *testing.T) {
	p := newMuxPair(t)
	client := p.listen(p.identity("n2"), p.ca)
	client.SetPeer("n1", p.server.Advertise())
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s for %s", r.URL.Path, r.Context().Value(callerKey{}))
		}),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			peer, _ := PeerOf(conn)
			return context.WithValue(ctx, callerKey{}, peer)
		},
	}
	var work sync.WaitGroup
	listener := p.server.APIListener()
	work.Go(func() { server.Serve(listener) })
	defer work.Wait()
	defer server.Close()

	transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		return client.DialAPI(ctx, NodeID(host))
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://n1/v1/leases", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); err != nil || string(got) != "/v1/leases for n2" {
		t.Errorf("answer: got %q, %v, want the path and the caller", got, err)
	}
}

func TestRefusals_areLoggedOnceInAWhile(t *testing.T) {
	var r refusals
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		text  string
		after time.Duration
		want  bool
	}{
		{"cluster", 0, true},
		{"cluster", refusalSilence - 1, false},
		{"group", refusalSilence - 1, true},
		{"cluster", refusalSilence, true},
	} {
		if got := r.first(c.text, start.Add(c.after)); got != c.want {
			t.Errorf("%s after %v: got %v, want %v", c.text, c.after, got, c.want)
		}
	}
	for i := range 3 * refusalsKeptMax {
		r.first(fmt.Sprint(i), start)
	}
	if got := len(r.last); got > refusalsKeptMax {
		t.Errorf("texts kept: got %d, want at most %d", got, refusalsKeptMax)
	}
}
