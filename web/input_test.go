package web_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

// never fails the test when a partition is asked anything.
func never(t *testing.T) *locks {
	return &locks{acquire: func(context.Context, leader.Acquire) (leader.Answer, error) {
		t.Error("a bad request reached the partition")
		return leader.Answer{}, leader.ErrNotFound
	}}
}

func TestAcquire_refusesBadDurationsAndGrantsNothing(t *testing.T) {
	n := leading(t, never(t))
	values := []string{`86400000000000`, `24.5`, `"24"`, `-1`, `0`, `null`, `""`, `1e99`, `9223372036854775807`, `"-1s"`, `"25h"`,
		`1125899906842624`, `9007199254740992`, `4611686018427387904`, `"9223372036854775807ms"`, `"1h30m"`}
	for _, field := range []string{"wait", "poll"} {
		for _, value := range values {
			out := n.do(t, put(leaseOne, `{"class":"c","key":"k","`+field+`":`+value+`}`))
			p := out.problem(t)
			if p.Code != wire.CodeInvalidRequest || p.Field != field || !strings.Contains(p.Detail, "from 0s to") {
				t.Errorf("%s %s: %s; want invalid_request with field and limits", field, value, out.body)
			}
		}
	}
}

func TestIDs_haveOneSpelling(t *testing.T) {
	n := leading(t, never(t))
	bad := []string{"x", session, session + ".", session + ".0", session + ".01", session + ".-1", session + ".+1", session + ".1.1",
		session + ".9007199254740992", session + ".99999999999999999999", session + ".1e3", session + "%2E1", session + ".1%20",
		strings.ToUpper(session) + ".1", session[1:] + ".1", session + "0.1", strings.Repeat("g", 32) + ".1",
		strings.Repeat("0", 32) + ".1", "%2e%2e", session + ".1;", session + ".%31"}
	for _, id := range bad {
		for _, method := range []string{http.MethodPut, http.MethodGet, http.MethodDelete} {
			in := request{method: method, path: "/v1/leases/" + id, key: goodKey}
			if method == http.MethodPut {
				in.body = plainAcquire
			}
			out := n.do(t, in)
			if p := out.problem(t); p.Code != wire.CodeInvalidRequest || p.Field != "lease_id" {
				t.Errorf("%s %s: %s; want invalid_request of lease_id", method, id, out.body)
			}
		}
	}
	for _, id := range []string{"x", session + ".1", strings.ToUpper(session), strings.Repeat("0", 32), session + "%20"} {
		for _, in := range []request{
			{method: http.MethodPost, path: "/v1/sessions/" + id + "/heartbeat", key: goodKey, body: `{"leases":[1]}`},
			{method: http.MethodDelete, path: "/v1/sessions/" + id, key: goodKey},
		} {
			out := n.do(t, in)
			if p := out.problem(t); p.Code != wire.CodeInvalidRequest || p.Field != "session" {
				t.Errorf("%s %s: %s; want invalid_request of session", in.method, in.path, out.body)
			}
		}
	}
}

func TestQuery_isReadStrictly(t *testing.T) {
	n := leading(t, never(t))
	lease := "/v1/leases/" + leaseOne
	for _, test := range []struct{ method, path, field string }{
		{"DELETE", lease + "?token=0", "token"}, {"DELETE", lease + "?token=-1", "token"}, {"DELETE", lease + "?token=", "token"},
		{"DELETE", lease + "?token=01", "token"}, {"DELETE", lease + "?token=1.0", "token"}, {"DELETE", lease + "?token=9007199254740992", "token"},
		{"DELETE", lease + "?token=1&token=1", "token"}, {"DELETE", lease + "?Token=1", "Token"}, {"DELETE", lease + "?force=1", "force"},
		{"GET", lease + "?token=1", "token"}, {"DELETE", "/v1/sessions/" + session + "?now=1", "now"},
		{"GET", "/v1/locks?class=C", "class"}, {"GET", "/v1/locks?class=", "class"}, {"GET", "/v1/locks?key=", "key"},
		{"GET", "/v1/locks?key=%00", "key"}, {"GET", "/v1/locks?key=%ff", "key"}, {"GET", "/v1/locks?prefix=", "prefix"},
		{"GET", "/v1/locks?prefix=a&key=b", "prefix"}, {"GET", "/v1/locks?key=a;b", ""}, {"GET", "/v1/locks?key=%zz", ""},
		{"GET", "/v1/locks?key=a&key=b", "key"}, {"GET", "/v1/locks?limit=0", "limit"}, {"GET", "/v1/locks?limit=1001", "limit"},
		{"GET", "/v1/locks?limit=1e2", "limit"}, {"GET", "/v1/locks?limit=", "limit"}, {"GET", "/v1/locks?cursor=", "cursor"},
		{"GET", "/v1/locks?cursor=AAAA", "cursor"}, {"GET", "/v1/locks?cursor=" + strings.Repeat("A", 1025), "cursor"},
		{"GET", "/v1/locks?tenant=globex", "tenant"},
	} {
		out := n.do(t, request{method: test.method, path: test.path, key: goodKey})
		if p := out.problem(t); p.Code != wire.CodeInvalidRequest || p.Field != test.field {
			t.Errorf("%s %s: %s; want invalid_request of %q", test.method, test.path, out.body, test.field)
		}
	}
}

func TestBody_isBoundedAndTyped(t *testing.T) {
	n := leading(t, never(t))
	heartbeat := "/v1/sessions/" + session + "/heartbeat"
	for _, test := range []struct {
		in   request
		code wire.Code
	}{
		{put(leaseOne, strings.Repeat(" ", 16<<10)+plainAcquire), wire.CodeTooLarge},
		{request{method: "POST", path: heartbeat, key: goodKey, body: strings.Repeat(" ", 128<<10) + `{"leases":[1]}`}, wire.CodeTooLarge},
		{request{method: "PUT", path: "/v1/leases/" + leaseOne, key: goodKey}, wire.CodeUnsupportedMediaType},
		{request{method: "PUT", path: "/v1/leases/" + leaseOne, key: goodKey, body: plainAcquire, contentType: "application/json; charset=latin1"}, wire.CodeUnsupportedMediaType},
		{request{method: "GET", path: "/v1/leases/" + leaseOne, key: goodKey, body: "{}"}, wire.CodeInvalidRequest},
		{request{method: "DELETE", path: "/v1/leases/" + leaseOne, key: goodKey, body: "{}"}, wire.CodeInvalidRequest},
	} {
		out := n.do(t, test.in)
		if p := out.problem(t); p.Code != test.code {
			t.Errorf("%s %s: %.200s; want %s", test.in.method, test.in.path, out.body, test.code)
		}
	}
}

func TestBody_takesLargeHeartbeatsAndACharset(t *testing.T) {
	n := leading(t, &locks{heartbeat: func(_ context.Context, r leader.Heartbeat) (leader.HeartbeatAnswer, error) {
		return leader.HeartbeatAnswer{Index: uint64(len(r.Sequences))}, nil
	}})
	var body strings.Builder
	body.WriteString(`{"leases":[1`)
	for i := 2; i <= leader.HeartbeatMax; i++ {
		fmt.Fprintf(&body, ",%d", i)
	}
	body.WriteString(`]}`)
	out := n.do(t, request{method: "POST", path: "/v1/sessions/" + session + "/heartbeat", key: goodKey, body: body.String(),
		contentType: "application/json; charset=UTF-8"})
	if out.status != 200 || !strings.Contains(string(out.body), `"index":10000}`) {
		t.Errorf("%d %.200s; want 200 for 10,000 leases", out.status, out.body)
	}
}

// raw sends bytes as they are and reads the answer's status.
func raw(t *testing.T, n *node, request string) int {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(n.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestServer_boundsHeadersAndRefusesSmuggling(t *testing.T) {
	n := leading(t, never(t))
	head := "PUT /v1/leases/" + leaseOne + " HTTP/1.1\r\nHost: n1.test\r\nAuthorization: Bearer " + goodKey +
		"\r\nContent-Type: application/json\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 17<<10, strings.Repeat(" ", 17<<10))
	for _, test := range []struct {
		name, request string
		status        int
	}{
		{"headers over the limit", head + "X-Filler: " + strings.Repeat("x", 32<<10) + "\r\n\r\n", 431},
		{"two lengths", head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400},
		{"chunked body over the limit", head + "Transfer-Encoding: chunked\r\n\r\n" + chunked, 413},
		{"two API keys", "GET /v1/locks HTTP/1.1\r\nHost: n1.test\r\nAuthorization: Bearer " + goodKey +
			"\r\nAuthorization: Bearer " + foreignKey + "\r\n\r\n", 401},
	} {
		if got := raw(t, n, test.request); got != test.status {
			t.Errorf("%s: %d; want %d", test.name, got, test.status)
		}
	}
}
