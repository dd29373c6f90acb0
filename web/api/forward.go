package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// forwardBytesMax bounds an answer that is passed back. The largest is a page of locks with their waiters.
const forwardBytesMax = 32 << 20

// headersOn go with a request that is passed on, headersBack come back with its answer. All others stay behind.
var (
	headersOn   = []string{"Authorization", "Content-Type", "Accept"}
	headersBack = []string{"Content-Type", "Location", "Retry-After", "Www-Authenticate", HeaderLeader}
)

// passOn sends the request to the node that leads, with the caller's own API key, and its answer back. An err is returned
// as it is, so that a handler can end with one line.
func (a *API) passOn(ctx context.Context, c echo.Context, to LeaderRef, body []byte, err error) error {
	if err != nil {
		return err
	}
	sent := new(sending)
	req := sent.request(ctx, c, to, bytes.Clone(body)) // the transport may still read it when it has given up
	req.Header.Set(headerForwardedBy, a.nodeID)
	resp, err := a.platform.Forward(to.NodeID).RoundTrip(req)
	if err != nil {
		return sent.failure(ctx, to, err)
	}
	defer func() { _ = resp.Body.Close() }()
	buf := newBuffer()
	defer buf.release()
	if err := buf.fill(resp.Body, forwardBytesMax); err != nil {
		return unknownAt(ctx, to)
	}
	copyHeaders(c.Response().Header(), resp.Header, headersBack)
	c.Response().WriteHeader(resp.StatusCode)
	_, err = c.Response().Write(buf.b)
	return err
}

// sending watches whether a request may have reached the other node.
type sending struct {
	asked     atomic.Bool // for a connection
	connected atomic.Bool // had one, so that bytes may have left
}

func (s *sending) request(ctx context.Context, c echo.Context, to LeaderRef, body []byte) *http.Request {
	in := c.Request()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { s.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { s.connected.Store(true) },
	})
	out := &http.Request{Method: in.Method, Header: make(http.Header, 8), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL: &url.URL{Scheme: "http", Host: to.NodeID, Path: in.URL.Path, RawPath: in.URL.RawPath, RawQuery: in.URL.RawQuery}}
	if body != nil {
		out.ContentLength = int64(len(body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body, _ = out.GetBody()
	}
	copyHeaders(out.Header, in.Header, headersOn)
	out.Header[HeaderRequestID] = c.Response().Header()[HeaderRequestID]
	if !makesKey(c) {
		// Present and empty, it is not sent, and tells the transport that the request may be repeated on a fresh connection
		// when an idle one turns out to be dead: ids make the call repeatable.
		out.Header["X-Idempotency-Key"] = []string{}
	}
	return out.WithContext(ctx)
}

// makesKey reports whether the call makes an API key, which has no id before: done twice, it makes two, or refuses the
// rotation that it has itself made.
func makesKey(c echo.Context) bool {
	return c.Request().Method == http.MethodPost &&
		(strings.HasSuffix(c.Path(), "/api-keys") || strings.HasSuffix(c.Path(), "/rotate"))
}

// failure says what a failed pass means: nothing was done if there was no connection, else nobody knows.
func (s *sending) failure(ctx context.Context, to LeaderRef, err error) error {
	if s.neverLeft(err) && ctx.Err() == nil {
		p := notLeader(to, true)
		p.Detail = "The node that is thought to lead the tenant's partition cannot be reached from here; nothing was done."
		return p
	}
	return unknownAt(ctx, to)
}

func (s *sending) neverLeft(err error) bool {
	if s.connected.Load() {
		return false
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return s.asked.Load() || ok && dial.Op == "dial"
}

func unknownAt(ctx context.Context, to LeaderRef) error {
	if errors.Is(context.Cause(ctx), errStopping) {
		return errStopping
	}
	p := wire.NewProblem(wire.CodeOutcomeUnknown, "The request was passed on to the leader, and no answer came back.")
	p.Leader = &wire.Leader{Node: to.NodeID, URL: to.URL}
	return p
}

func copyHeaders(to, from http.Header, names []string) {
	for _, name := range names {
		if values := from[name]; len(values) > 0 {
			to[name] = values
		}
	}
}
