package clienttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// leaderHeader names the leader in answers: its id, a space, its address.
const leaderHeader = "Stanchion-Leader"

// Transport reaches the nodes at [Platform.Endpoints] without a socket. It is safe for concurrent use.
func (p *Platform) Transport() http.RoundTripper { return transport{p} }

type transport struct{ platform *Platform }

// outcome is what became of a request on its way.
type outcome struct {
	reply reply
	err   error
}

// RoundTrip carries a request to its node, and the answer back. Like a connection that breaks, an error leaves open whether
// the request was carried out. It is the context's cause if that ended first.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readAll(r)
	if err != nil {
		return nil, err
	}
	n := t.platform.nodeAt(r.URL.Host)
	if n == nil {
		return nil, fmt.Errorf("%w: %s", errNoHost, r.URL.Host)
	}
	c := newCall(n, r, body)
	ctx, end, err := t.platform.arrive(r.Context(), c)
	if err != nil {
		return nil, err
	}
	defer end()
	done := make(chan outcome, 1)
	if !t.platform.start(func() { done <- t.platform.handle(ctx, c) }) {
		return nil, errOver
	}
	select {
	case o := <-done:
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return o.response(r)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func readAll(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(io.LimitReader(r.Body, heartbeatBodyBytesMax+1))
}

func (p *Platform) nodeAt(host string) *Node {
	for _, n := range p.nodes {
		if "http://"+host == n.url {
			return n
		}
	}
	return nil
}

func (o outcome) response(r *http.Request) (*http.Response, error) {
	if o.err != nil {
		return nil, o.err
	}
	a := o.reply
	return &http.Response{Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header, Request: r,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body))}, nil
}

// arrive takes a request in. Its context ends with the client's, and when the connection breaks; end says that nobody waits
// for the answer any more.
func (p *Platform) arrive(client context.Context, c *call) (ctx context.Context, end func(), err error) {
	if client.Err() != nil {
		return nil, nil, context.Cause(client)
	}
	ctx, c.abort = context.WithCancelCause(client)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || c.node.cut {
		err = errRefused
		if p.closed {
			err = errOver
		}
		c.abort(err)
		return nil, nil, err
	}
	p.calls[c] = true
	p.record(c)
	return ctx, func() { p.leave(c) }, nil
}

func (p *Platform) leave(c *call) {
	c.abort(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, c)
	p.change()
}

// start runs f in a goroutine that the end of the test waits for; false: the test is over.
func (p *Platform) start(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Go(f)
	}
	return !p.closed
}

// handle carries a request out, with all that goes wrong.
func (p *Platform) handle(ctx context.Context, c *call) outcome {
	if err := c.node.awake(ctx); err != nil {
		return outcome{err: err}
	}
	f := p.fateOf(c)
	if f[faultDropRequest] != nil {
		return outcome{err: errReset}
	}
	if !p.sleep(context.Background(), f.delay(faultDelayRequest)) {
		return outcome{err: errOver}
	}
	a, err := p.carryOut(ctx, c, f)
	if err != nil {
		return outcome{err: err}
	}
	if !p.sleep(ctx, f.delay(faultDelayAnswer)) {
		return outcome{err: context.Cause(ctx)}
	}
	if err := c.node.awake(ctx); err != nil {
		return outcome{err: err}
	}
	if f[faultLoseAnswer] != nil {
		return outcome{err: errReset}
	}
	return outcome{reply: p.reply(ctx, c, a)}
}

// sleep waits for d, unless ctx or the test ends first.
func (p *Platform) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-p.over:
	}
	return false
}

// carryOut carries a request out, and its copy where there is one.
func (p *Platform) carryOut(ctx context.Context, c *call, f fate) (answer, error) {
	if g := f[faultAnswer]; g != nil {
		return answer{problem: g.problem}, nil
	}
	a, w := p.answer(c)
	if f[faultRepeat] != nil {
		p.repeat(c, f.delay(faultRepeat))
	}
	if w == nil {
		return a, nil
	}
	select {
	case a := <-w.answer:
		return a, nil
	case <-ctx.Done():
		p.hangup(w)
		return answer{}, context.Cause(ctx)
	}
}

// repeat has a copy of a request arrive after a while.
func (p *Platform) repeat(c *call, d time.Duration) {
	again := *c
	again.acquire.Poll = new(wire.Duration(0))
	if d <= 0 {
		p.answer(&again)
		return
	}
	p.start(func() {
		if p.sleep(context.Background(), d) {
			p.answer(&again)
		}
	})
}

// atTheDoor are the problems of requests that no leader was asked for.
var atTheDoor = map[wire.Code]bool{wire.CodeInvalidRequest: true, wire.CodeUnauthorized: true, wire.CodeMethodNotAllowed: true,
	wire.CodeTooLarge: true, wire.CodeUnsupportedMediaType: true}

// reply writes an answer as it leaves, and takes it into the record.
func (p *Platform) reply(ctx context.Context, c *call, a answer) reply {
	r := a.write()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.noQuorum && !atTheDoor[r.code] {
		r.header.Set(leaderHeader, p.leader.name+" "+p.leader.address(c.real))
	}
	if ctx.Err() == nil {
		c.request.Status, c.request.Code = r.status, r.code
	}
	p.change()
	return r
}

// address is where the node is reached; with mu held.
func (n *Node) address(real bool) string {
	if real {
		return n.served
	}
	return n.url
}
