package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stanchion-locks/stanchion/client/deadline"
	"github.com/stanchion-locks/stanchion/client/wire"
)

const (
	dialTime       = 2 * time.Second
	idleTime       = 90 * time.Second
	idlePerNodeMax = 256
	answerBytesMax = 8 << 20 // a heartbeat of 10,000 leases is answered with less than two
)

// newTransport makes the client's own transport. HTTP/1.1 alone: each request has a connection to itself, so that none
// waits behind one that hangs, and one that hung is thrown away with its connection.
func newTransport(t *tls.Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: t, Protocols: protocols, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: dialTime,
		MaxIdleConnsPerHost: idlePerNodeMax, IdleConnTimeout: idleTime}
}

// stay follows no redirect: nodes send none, and the API key goes to nodes alone.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// reply is a node's answer.
type reply struct {
	sent    deadline.Instant // before the request left: promises count from here
	body    []byte           // of a success
	problem *wire.Problem    // otherwise
	after   time.Duration    // Retry-After; 0: none
}

// read decodes a success.
func (r reply) read(into any) error {
	if err := json.Unmarshal(r.body, into); err != nil {
		return fmt.Errorf("an answer that is no JSON of this API: %w", err)
	}
	return nil
}

// undecided reports whether the node could not say: another one may.
func (r reply) undecided() bool {
	return r.problem != nil && (r.problem.Retry == wire.RetrySameID || r.problem.Code == wire.CodeNotReady)
}

// send sends a request to one node, and gives its answer within limit. An error means that there was none, and that the
// request may have been carried out all the same.
func (c *Client) send(ctx context.Context, limit time.Duration, node, method, path string, body []byte) (reply, error) {
	r, err := http.NewRequest(method, node+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.exchange(ctx, limit, node, r)
}

// sendLate is send for a POST whose body is made when the connection is there, for that may take seconds. It has at most so many bytes.
func (c *Client) sendLate(ctx context.Context, limit time.Duration, node, path string, most int, content func() ([]byte, error)) (reply, error) {
	r, err := http.NewRequest(http.MethodPost, node+path, nil)
	if err != nil {
		return reply{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(most)
	r.GetBody = func() (io.ReadCloser, error) { return &lateBody{most: most, content: content}, nil }
	r.Body, _ = r.GetBody()
	return c.exchange(ctx, limit, node, r)
}

// lateBody is JSON that is made when the first of it is read, and filled up with white space: its length is announced before.
type lateBody struct {
	most    int
	content func() ([]byte, error)
	rest    []byte // nil: not made yet
}

func (b *lateBody) Read(into []byte) (int, error) {
	if b.rest == nil {
		made, err := b.content()
		if err != nil {
			return 0, err
		}
		b.rest = append(made, bytes.Repeat([]byte{' '}, b.most-len(made))...)
	}
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(into, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (*lateBody) Close() error { return nil }

// exchange sends a request, with the API key.
func (c *Client) exchange(ctx context.Context, limit time.Duration, node string, r *http.Request) (reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not answer in %v", node, limit))
	defer cancel()
	var sent atomic.Int64
	sent.Store(int64(c.watch.Now()))
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(int64(c.watch.Now())) }}) // it has left no earlier than this
	r.Header.Set("Authorization", "Bearer "+c.nodes.apiKey())
	res, err := c.http.Do(r.WithContext(ctx))
	if err != nil {
		return c.silent(ctx, node, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, answerBytesMax))
	if err != nil {
		return c.silent(ctx, node, err)
	}
	return c.answer(node, res, raw, deadline.Instant(sent.Load()))
}

// silent is no answer: why, rather than that a context ended.
func (c *Client) silent(ctx context.Context, node string, err error) (reply, error) {
	if errors.Is(err, errAllReleased) {
		return reply{}, err // it was ours not to send it
	}
	c.nodes.failed(node)
	if cause := context.Cause(ctx); cause != nil {
		return reply{}, cause
	}
	return reply{}, err
}

func (c *Client) answer(node string, res *http.Response, raw []byte, sent deadline.Instant) (reply, error) {
	a := reply{sent: sent, body: raw}
	if res.StatusCode >= http.StatusMultipleChoices {
		a.body, a.problem = nil, new(wire.Problem)
		if json.Unmarshal(raw, a.problem) != nil || a.problem.Code == "" {
			c.nodes.failed(node)
			return reply{}, fmt.Errorf("%s answers %q, which is no answer of this API: is the address right?", node, res.Status)
		}
		if a.problem.Code != wire.CodeNotReady { // another node may be ready at once
			a.after = retryAfter(res.Header)
		}
	}
	c.nodes.answered(node, res.Header)
	if a.undecided() {
		c.nodes.failed(node)
	}
	return a, nil
}

const retryAfterMax = time.Minute

func retryAfter(h http.Header) time.Duration {
	secs, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(secs)*time.Second, retryAfterMax)
}

// sendShort is send for a request that does not hang: only so many are under way at a time. Heartbeats do not come here.
func (c *Client) sendShort(ctx context.Context, limit time.Duration, node, method, path string, body []byte) (reply, error) {
	select {
	case c.short <- struct{}{}:
		defer func() { <-c.short }()
	case <-ctx.Done():
		return reply{}, context.Cause(ctx)
	}
	return c.send(ctx, limit, node, method, path, body)
}

// errProblem is a reply's problem as an error, or err.
func errProblem(r reply, err error) error {
	if err != nil {
		return err
	}
	if r.problem == nil {
		return errors.New("an answer without sense")
	}
	return r.problem
}
