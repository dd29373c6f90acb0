package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/internal/platform"
	"github.com/stanchion-locks/stanchion/web"
	"github.com/stanchion-locks/stanchion/web/api"
)

// node is one node of a cluster with all its doors.
type node struct {
	platform platform.Config
	listen   string // host:port of the API
	admin    string // path of the operator's socket
	private  string // host:port of metrics and profiles; empty: none
	access   string // path of the access log; empty: none
	dev      bool   // a node of a development cluster: its operator's socket takes reviews as well
	log      *slog.Logger
}

// gcPercent lets the heap grow to five times of what lives before it is collected, unless GOGC says otherwise: a node
// lives on some tens of megabytes, and its collections are felt by whoever waits for a grant.
const gcPercent = 400

func collectLess() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
}

// run opens the node and serves until ctx ends.
func (n node) run(ctx context.Context) error {
	collectLess()
	public, err := net.Listen("tcp", n.listen)
	if err != nil {
		return fmt.Errorf("bind the API's port: %w; is another node running there? choose another with listen or --port", err)
	}
	p, err := platform.Open(n.platform)
	if err != nil {
		return errors.Join(err, public.Close())
	}
	var access *slog.Logger
	if n.access != "" {
		log, file := openAccessLog(n.access)
		defer file.Close()
		access = log
	}
	g, ctx := errgroup.WithContext(ctx)
	below, stop := context.WithCancel(context.WithoutCancel(ctx))
	doors, doorsCtx := errgroup.WithContext(ctx)
	limits := api.NewLimits(nil) // one for both, as a tenant has one quota
	doors.Go(func() error { return n.serveAPI(doorsCtx, p, public, access, limits, false) })
	doors.Go(func() error { return n.serveAPI(doorsCtx, p, p.PeerListener(), nil, limits, true) })
	doors.Go(func() error { return n.serveAdmin(doorsCtx, p) })
	if n.private != "" {
		doors.Go(func() error { return servePrivate(doorsCtx, n.private, p.Collector()) })
	}
	g.Go(func() error { return p.Run(below) })
	g.Go(func() error { defer stop(); return doors.Wait() })
	n.log.Info("node started", "node", string(n.platform.Node), "listen", public.Addr().String())
	return g.Wait()
}

func (n node) serveAPI(ctx context.Context, p *platform.Platform, l net.Listener, access *slog.Logger, limits *api.Limits,
	peer bool) error {
	a, err := api.New(api.Config{Platform: p, NodeID: string(n.platform.Node), Peer: peer, Limits: limits})
	if err != nil {
		return err
	}
	c := web.Config{API: a, Log: n.log, AccessLog: access}
	if peer {
		c.Internal = p.Internal()
	}
	s, err := web.New(c)
	if err != nil {
		return err
	}
	return s.Run(ctx, l)
}

func (n node) serveAdmin(ctx context.Context, p *platform.Platform) error {
	l, err := listenSocket(n.admin)
	if err != nil {
		return err
	}
	return serveHTTP(ctx, l, newAdmin(p, n.dev, n.log))
}

// listenSocket makes a Unix socket that only the node's own user may open. A socket left behind by a node that was killed
// is replaced: the data folder's lock has made sure that no other node runs on it.
func listenSocket(path string) (net.Listener, error) {
	const pathBytesMax = 100 // the kernel takes 107
	if len(path) > pathBytesMax {
		return nil, fmt.Errorf("operator's socket %s: the path is longer than %d bytes; set admin in the configuration", path, pathBytesMax)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("operator's socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("operator's socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("operator's socket: %w", err), l.Close())
	}
	return l, nil
}
