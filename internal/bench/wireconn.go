package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

const (
	callTime       = 30 * time.Second // for one call, above what a request may hang
	dialTime       = 5 * time.Second
	answerBytesMax = 8 << 20
	headersMax     = 100
	readBytes      = 8 << 10
)

// conn is one client's connection to a node: HTTP/1.1, one request at a time. It is not safe for concurrent use.
type conn struct {
	to   *target
	net  net.Conn // nil: not connected
	r    *bufio.Reader
	used bool   // a request was answered on this connection
	out  []byte // the request
	body []byte // the last answer's

	leader []byte // what the last answer says about the leader
}

func (t *target) conn() *conn { return &conn{to: t, r: bufio.NewReaderSize(nil, readBytes)} }

// call sends a request and reads its answer. The body is good until the next call. When ctx ends the call ends with its
// error, and the connection is closed.
func (c *conn) call(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	reused := c.used
	status, err = c.try(ctx, method, path, body)
	if err != nil && reused && ctx.Err() == nil && lost(err) {
		status, err = c.try(ctx, method, path, body) // nothing was answered, and every call here may be repeated
	}
	switch {
	case ctx.Err() != nil:
		return 0, nil, context.Cause(ctx)
	case err != nil && lost(err):
		return 0, nil, &Failure{Err: err, Remedy: again}
	case err != nil:
		return 0, nil, err
	}
	return status, c.body, nil
}

// lost reports whether the connection was lost: on one that was used before, the node may have closed it meanwhile.
func lost(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, errNoAnswer) || ok && !op.Timeout() && op.Op != "dial"
}

var errNoAnswer = errors.New("the connection was closed before an answer")

func (c *conn) try(ctx context.Context, method, path string, body []byte) (int, error) {
	if err := c.connect(ctx); err != nil {
		return 0, err
	}
	open := c.net
	cut := context.AfterFunc(ctx, func() { _ = open.Close() }) // ends reads and writes; nothing else is to be done about it
	defer cut()
	status, stays, err := c.exchange(method, path, body)
	if err != nil || !stays {
		c.close()
	}
	c.used = err == nil && stays
	if err != nil {
		return 0, fmt.Errorf("%s %s%s: %w", method, c.to.base, path, err)
	}
	return status, nil
}

func (c *conn) connect(ctx context.Context) error {
	if c.net != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	open, err := c.to.dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.to.base, err)
	}
	c.net = open
	c.r.Reset(open)
	return nil
}

// dial opens a connection to the target.
func (t *target) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{}
	plain, err := d.DialContext(ctx, "tcp", t.address)
	if err != nil || !t.https {
		return plain, err
	}
	secure := tls.Client(plain, t.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return secure, nil
}

func (c *conn) close() {
	if c.net != nil {
		_ = c.net.Close() // whatever was on the way is given up
		c.net, c.used = nil, false
	}
}

// exchange writes a request and reads its answer. stays is whether the connection can be used again.
func (c *conn) exchange(method, path string, body []byte) (status int, stays bool, err error) {
	if err := c.net.SetDeadline(time.Now().Add(callTime)); err != nil {
		return 0, false, err
	}
	c.out = c.to.appendRequest(c.out[:0], method, path, body)
	if _, err := c.net.Write(c.out); err != nil {
		return 0, false, err
	}
	for {
		h, err := c.head()
		if err != nil {
			return 0, false, err
		}
		if h.status >= 200 { // others announce the answer
			return h.status, !h.closes && h.bounded(), c.read(h)
		}
	}
}

func (t *target) appendRequest(b []byte, method, path string, body []byte) []byte {
	b = append(append(append(b, method...), ' '), t.prefix...)
	b = append(append(b, path...), t.headers...)
	if body != nil {
		b = append(b, "Content-Type: application/json\r\nContent-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n"...)
	}
	return append(append(b, "\r\n"...), body...)
}

// head is what the lines before a body say.
type head struct {
	status  int
	length  int64 // -1: not said
	chunked bool
	closes  bool
}

func (h head) empty() bool   { return h.status == 204 || h.status == 304 || h.length == 0 }
func (h head) bounded() bool { return h.chunked || h.length >= 0 || h.empty() }

func (c *conn) head() (head, error) {
	h := head{length: -1}
	line, err := c.line()
	if err != nil {
		if len(line) == 0 && errors.Is(err, io.EOF) {
			err = errNoAnswer
		}
		return h, err
	}
	const statusFrom, statusTo = len("HTTP/1.1 "), len("HTTP/1.1 200")
	if len(line) < statusTo || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return h, fmt.Errorf("answered %.40q, which is no HTTP; is the address right?", line)
	}
	if h.status, err = strconv.Atoi(string(line[statusFrom:statusTo])); err != nil {
		return h, fmt.Errorf("answered status %.40q", line)
	}
	h.closes = line[statusFrom-2] == '0'
	c.leader = c.leader[:0]
	for range headersMax {
		line, err := c.line()
		if err != nil || len(line) == 0 {
			return h, err
		}
		if err := c.header(&h, line); err != nil {
			return h, err
		}
	}
	return h, fmt.Errorf("answered with more than %d headers", headersMax)
}

// line reads a line without its end.
func (c *conn) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return line, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

func (c *conn) header(h *head, line []byte) (err error) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	is := func(want string) bool { return len(name) == len(want) && bytes.EqualFold(name, []byte(want)) }
	switch {
	case is("Content-Length"):
		if h.length, err = strconv.ParseInt(string(value), 10, 64); err != nil || h.length < 0 {
			return fmt.Errorf("answered with Content-Length %.40q", value)
		}
	case is("Transfer-Encoding"):
		h.chunked = bytes.EqualFold(value, []byte("chunked"))
	case is("Connection"):
		h.closes = h.closes || bytes.EqualFold(value, []byte("close"))
	case is("Stanchion-Leader"):
		c.leader = append(c.leader, value...)
	}
	return nil
}

// read reads the body that a head announces.
func (c *conn) read(h head) error {
	c.body = c.body[:0]
	switch {
	case h.length > answerBytesMax:
		return fmt.Errorf("answered %d bytes; at most %d are read", h.length, answerBytesMax)
	case h.chunked:
		return c.readChunks()
	case h.empty():
		return nil
	case h.length < 0:
		return c.readAll(c.r)
	}
	if int64(cap(c.body)) < h.length {
		c.body = make([]byte, 0, h.length)
	}
	c.body = c.body[:h.length]
	_, err := io.ReadFull(c.r, c.body)
	return err
}

func (c *conn) readAll(r io.Reader) error {
	b := bytes.NewBuffer(c.body)
	n, err := io.Copy(b, io.LimitReader(r, answerBytesMax+1))
	c.body = b.Bytes()
	if err == nil && n > answerBytesMax {
		err = fmt.Errorf("answered more than %d bytes", answerBytesMax)
	}
	return err
}

// readChunks reads a body of chunks and what follows the last of them.
func (c *conn) readChunks() error {
	if err := c.readAll(httputil.NewChunkedReader(c.r)); err != nil {
		return err
	}
	for range headersMax {
		if line, err := c.line(); err != nil || len(line) == 0 {
			return err
		}
	}
	return fmt.Errorf("answered with more than %d trailers", headersMax)
}
