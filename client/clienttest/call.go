package clienttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// call is one request on its way through the platform.
type call struct {
	node    *Node
	real    bool                    // it came to a real address
	abort   context.CancelCauseFunc // ends it without an answer
	request *Request                // guarded by platform.mu once it is in the record
	secret  string                  // the API key presented

	problem  *wire.Problem // what is wrong with it; nil: nothing
	id       leaseID       // of an acquire, a look, a release
	session  string        // of a heartbeat, an end of a session
	acquire  wire.AcquireRequest
	numbers  []uint64 // of a heartbeat
	token    uint64   // of a release; 0: none
	class    string   // of an acquire, a list
	key      string   // likewise
	prefix   string   // of a list
	limit    int      // likewise
	received time.Time
}

const (
	bodyBytesMax          = 16 << 10
	heartbeatBodyBytesMax = 128 << 10
	heartbeatMax          = 10_000
	keyBytesMax           = 512
	nameBytesMax          = 63
	holderBytesMax        = 128
	waitMax               = 24 * time.Hour
	locksMax              = 1_000
	locksDefault          = 100

	nameRule = "must be a class name: 1 to 63 lower-case letters, digits and hyphens"
	keyRule  = "must be 1 to 512 bytes of UTF-8 without control characters"
)

func (c *call) lock() lockName { return lockName{c.class, c.key} }

// hang is how long the request may hang at its own wish.
func (c *call) hang() time.Duration {
	if c.acquire.Poll == nil {
		return pollMax
	}
	return c.acquire.Poll.Std()
}

func (id leaseID) text() string { return id.session + "." + strconv.FormatUint(id.n, 10) }

// newCall reads a request. What is wrong with it is told when it is carried out.
func newCall(n *Node, r *http.Request, body []byte) *call {
	c := &call{node: n, secret: bearer(r.Header), request: &Request{At: time.Now(), Node: n.name}}
	c.problem = c.read(r, body)
	return c
}

// bearer is the API key that a request presents.
func bearer(h http.Header) string {
	scheme, key, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return key
}

func (c *call) read(r *http.Request, body []byte) *wire.Problem {
	path := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/v1/"), "/")
	switch {
	case len(path) == 2 && path[0] == "leases":
		return c.readLease(r, path[1], body)
	case len(path) == 2 && path[0] == "sessions" && r.Method == http.MethodDelete:
		c.request.Op = EndSession
		return firstOf(c.readSession(path[1]), queryOf(r, body))
	case len(path) == 3 && path[0] == "sessions" && path[2] == "heartbeat" && r.Method == http.MethodPost:
		c.request.Op = Heartbeat
		return firstOf(c.readSession(path[1]), c.readHeartbeat(r, body))
	case len(path) == 1 && path[0] == "locks" && r.Method == http.MethodGet:
		c.request.Op = ListLocks
		return firstOf(queryOf(r, body, "class", "key", "prefix", "limit"), c.readList(r.URL.Query()))
	}
	return wire.NewProblem(wire.CodeNotFound, "This platform in memory has no such call.")
}

// firstOf is the first problem, if there is one.
func firstOf(all ...*wire.Problem) *wire.Problem {
	for _, p := range all {
		if p != nil {
			return p
		}
	}
	return nil
}

func (c *call) readLease(r *http.Request, text string, body []byte) *wire.Problem {
	op, known := leaseOps[r.Method]
	if !known {
		return wire.NewProblem(wire.CodeMethodNotAllowed, "")
	}
	c.request.Op = op
	id, ok := parseLeaseID(text)
	if !ok {
		return invalid("lease_id", "must be 32 lower-case hexadecimal digits, a dot, and a number from 1 to 2^53-1")
	}
	c.id = id
	c.request.Leases = []string{text}
	switch op {
	case Acquire:
		return c.readAcquire(r, body)
	case Release:
		return firstOf(queryOf(r, body, "token"), c.readToken(r.URL.Query()))
	}
	return queryOf(r, body)
}

var leaseOps = map[string]Op{http.MethodPut: Acquire, http.MethodGet: Look, http.MethodDelete: Release}

func (c *call) readToken(q url.Values) *wire.Problem {
	if !q.Has("token") {
		return nil
	}
	var ok bool
	c.token, ok = parseNumber(q.Get("token"))
	return unless(ok, "token", "must be the grant's token: a whole number from 1 to 2^53-1")
}

func (c *call) readSession(text string) *wire.Problem {
	c.session = text
	return unless(validSession(text), "session", "must be 32 lower-case hexadecimal digits, not all zero")
}

func (c *call) readAcquire(r *http.Request, body []byte) *wire.Problem {
	if p := firstOf(queryOf(r, nil), readJSON(r, body, bodyBytesMax, &c.acquire)); p != nil {
		return p
	}
	a := c.acquire
	c.class, c.key = a.Class, a.Key
	c.request.Class, c.request.Key, c.request.Holder = a.Class, a.Key, a.Holder
	return firstOf(
		unless(validName(a.Class), "class", nameRule),
		unless(validKey(a.Key), "key", keyRule),
		unless(validText(a.Holder, holderBytesMax), "holder", "must be at most 128 bytes of UTF-8 without control characters"),
		unless(a.Wait == nil || a.Wait.Std() <= waitMax, "wait", `must be from 0s to 24h, or "unlimited"`),
		unless(a.Poll == nil || *a.Poll >= 0 && a.Poll.Std() <= pollMax, "poll", "must be from 0s to 10s"))
}

func (c *call) readHeartbeat(r *http.Request, body []byte) *wire.Problem {
	var beat struct {
		Leases *[]uint64 `json:"leases"`
	}
	if p := firstOf(queryOf(r, nil), readJSON(r, body, heartbeatBodyBytesMax, &beat)); p != nil {
		return p
	}
	if beat.Leases == nil {
		return invalid("leases", "is missing")
	}
	c.numbers = *beat.Leases
	sorted := slices.Compact(slices.Sorted(slices.Values(c.numbers)))
	ok := len(sorted) == len(c.numbers) && len(sorted) <= heartbeatMax
	if len(sorted) > 0 {
		ok = ok && sorted[0] >= 1 && sorted[len(sorted)-1] <= numberMax
	}
	for _, n := range c.numbers {
		c.request.Leases = append(c.request.Leases, leaseID{c.session, n}.text())
	}
	return unless(ok, "leases", "must be a list of at most 10000 lease numbers, each from 1 to 2^53-1 and there once")
}

func (c *call) readList(q url.Values) *wire.Problem {
	c.class, c.key, c.prefix, c.limit = q.Get("class"), q.Get("key"), q.Get("prefix"), locksDefault
	c.request.Class, c.request.Key = c.class, c.key
	var err error
	if q.Has("limit") {
		c.limit, err = strconv.Atoi(q.Get("limit"))
	}
	return firstOf(
		unless(!q.Has("class") || validName(c.class), "class", nameRule),
		unless(!q.Has("key") || validKey(c.key), "key", keyRule),
		unless(!q.Has("prefix") || c.prefix != "" && c.key == "", "prefix", "must be 1 to 512 bytes, and not together with `key`"),
		unless(err == nil && c.limit >= 1 && c.limit <= locksMax, "limit", "must be a whole number from 1 to 1000"))
}

// readJSON reads a body strictly: one value, and no field that is not known.
func readJSON(r *http.Request, body []byte, bytesMax int, into any) *wire.Problem {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil || kind != "application/json":
		return wire.NewProblem(wire.CodeUnsupportedMediaType, "")
	case len(body) > bytesMax:
		return wire.NewProblem(wire.CodeTooLarge, "This call takes at most "+strconv.Itoa(bytesMax)+" bytes.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return invalid("", "the body is not what this call takes: "+err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("", "the body goes on after its end")
	}
	return nil
}

// queryOf refuses a body, and parameters that are not known, given twice, or malformed.
func queryOf(r *http.Request, body []byte, known ...string) *wire.Problem {
	if len(body) > 0 {
		return invalid("", "this call takes no body")
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("", "the query is not well formed")
	}
	for name, values := range q {
		if !slices.Contains(known, name) || len(values) > 1 {
			return invalid(name, "is no parameter of this call, or is given twice")
		}
	}
	return nil
}

func invalid(field, why string) *wire.Problem {
	detail := why
	if field != "" {
		detail = "`" + field + "` " + why + "."
	}
	p := wire.NewProblem(wire.CodeInvalidRequest, detail)
	p.Field = field
	return p
}

func unless(ok bool, field, why string) *wire.Problem {
	if ok {
		return nil
	}
	return invalid(field, why)
}

func validName(s string) bool {
	foreign := strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-")
	return s != "" && len(s) <= nameBytesMax && foreign == ""
}

func validKey(s string) bool { return s != "" && validText(s, keyBytesMax) }

// validText reports whether s is UTF-8 without control characters and not too long. Empty is valid.
func validText(s string, bytesMax int) bool {
	control := func(r rune) bool { return r < 0x20 || (r >= 0x7f && r < 0xa0) }
	return len(s) <= bytesMax && utf8.ValidString(s) && !strings.ContainsFunc(s, control)
}
