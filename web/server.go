package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/web/api"
)

const (
	readHeaderTime = 5 * time.Second
	idleTime       = 2 * time.Minute
	headerBytesMax = 16 << 10
	drainTime      = 5 * time.Second

	// requestTime bounds a request from its first byte to its last. A read deadline that passes while a request hangs
	// would cancel it, so both directions get the longest answer and the time for a body and for writing.
	requestTime = api.AnswerMax + 14*time.Second
)

// Config is what a Server is made of.
type Config struct {
	// API answers the lease API on this listener. Stopping the server stops it.
	API *api.API
	// Log takes what went wrong. Nil: slog.Default.
	Log *slog.Logger
	// AccessLog takes one line, at level Info, for each request that reads, administers or is refused. What changes leases is
	// in the audit or comes too often. Nil: none is kept.
	AccessLog *slog.Logger
	// ClientIP finds the client's address, for the log. Nil: the connection's own; headers are believed by nobody.
	ClientIP echo.IPExtractor
	// Internal answers what nodes ask each other, at addresses below /internal/. Only the listener between nodes has it.
	Internal http.Handler
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// Server serves one listener: the public one, or the one that the node's peers pass requests on to.
type Server struct {
	api      *api.API
	internal http.Handler // nil: none
	echo     *echo.Echo
	routes   []Route
	log      *slog.Logger
	access   *slog.Logger
	now      func() time.Time
}

// New makes a server with all its routes. It starts nothing.
func New(c Config) (*Server, error) {
	if c.API == nil {
		return nil, errors.New("web: no API")
	}
	s := &Server{api: c.API, internal: c.Internal, echo: echo.New(), log: c.Log, access: c.AccessLog, now: c.Now}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.echo.IPExtractor = c.ClientIP
	if c.ClientIP == nil {
		s.echo.IPExtractor = echo.ExtractIPDirect()
	}
	s.echo.HTTPErrorHandler = s.unrouted
	for _, r := range c.API.Routes() {
		s.route(r.Method, r.Path, r.Permission, r.Handle)
	}
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.internal != nil && strings.HasPrefix(r.URL.Path, "/internal/") {
		s.internal.ServeHTTP(w, r)
		return
	}
	s.echo.ServeHTTP(w, r)
}

// Run serves the listener, which it closes, until ctx ends. Requests that hang are then told to go to another node, and
// all are given 5 s to be answered. It returns nil after such an end, else what broke the listener.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: readHeaderTime, ReadTimeout: requestTime, WriteTimeout: requestTime,
		IdleTimeout: idleTime, MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	s.api.Stop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		_ = server.Close() // what has not been answered by now is an unknown outcome to its client, and repeated
	}
	<-served
	return nil
}
