package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// targetAt is a target at an address, which nobody was asked for.
func targetAt(t *testing.T, url string) *target {
	t.Helper()
	to := &target{key: "stn_test", endpoints: []string{url}}
	if err := to.aim(url); err != nil {
		t.Fatal(err)
	}
	return to
}

// answering serves raw answers: to each request on a connection the next, and then it closes it.
func answering(t *testing.T, answers ...string) (url string, connections *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			answerAll(c, answers)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return "http://" + l.Addr().String(), connections
}

func answerAll(c net.Conn, answers []string) {
	defer c.Close()
	r := bufio.NewReader(c)
	for _, answer := range answers {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(c, answer)
		if strings.HasPrefix(answer, "HTTP/1.0") {
			return // its end is the answer's
		}
	}
}

func TestConn_readsEveryFormOfAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		status int
		body   string
	}{
		"length":           {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
		"lower case":       {"HTTP/1.1 409 Conflict\r\ncontent-length: 2\r\n\r\n{}", 409, "{}"},
		"nothing":          {"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
		"empty":            {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ""},
		"chunks":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", 200, "hello"},
		"chunks, trailers": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n\r\n", 200, "hi"},
		"announced":        {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		"until the end":    {"HTTP/1.0 200 OK\r\n\r\nall of it", 200, "all of it"},
	} {
		url, _ := answering(t, c.answer, c.answer)
		one := targetAt(t, url).conn()
		for call := range 2 { // what the first left behind is not taken for the second's
			status, body, err := one.call(t.Context(), http.MethodGet, "/", nil)
			if err != nil || status != c.status || string(body) != c.body {
				t.Errorf("%s, call %d: got %d %q, %v; want %d %q", name, call, status, body, err, c.status, c.body)
			}
		}
		one.close()
	}
}

func TestConn_refusesWhatIsNoAnswer(t *testing.T) {
	for answer, says := range map[string]string{
		"SSH-2.0-OpenSSH\r\n":                                            "no HTTP",
		"HTTP/1.1 abc OK\r\n\r\n":                                        "status",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n":                  "Content-Length",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n":         "at most",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort":              "EOF",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 200) + "\r\n": "headers",
		"": "before an answer",
	} {
		url, _ := answering(t, answer)
		c := targetAt(t, url).conn()
		status, body, err := c.call(t.Context(), http.MethodGet, "/v1/locks", nil)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), url+"/v1/locks") {
			t.Errorf("%.40q: got %d %q, %v; want an error that says %q and names the address", answer, status, body, err, says)
		}
		c.close()
	}
}

// TestConn_sendsAgainWhenItsConnectionWasClosedMeanwhile: a node closes what was idle for long.
func TestConn_sendsAgainWhenItsConnectionWasClosedMeanwhile(t *testing.T) {
	url, connections := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") // one answer for each connection
	c := targetAt(t, url).conn()
	defer c.close()
	for range 3 {
		if status, body, err := c.call(t.Context(), http.MethodGet, "/", nil); err != nil || status != 200 || string(body) != "ok" {
			t.Fatalf("got %d %q, %v; want 200 ok", status, body, err)
		}
	}
	if got := connections.Load(); got != 3 {
		t.Errorf("connections: got %d, want 3", got)
	}
}

func TestConn_usesOneConnection(t *testing.T) {
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Stanchion-Leader", "n2 http://n2.test")
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("Authorization"), body)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := targetAt(t, s.URL+"/below").conn()
	defer c.close()
	for range 3 {
		_, body, err := c.call(t.Context(), http.MethodPut, "/v1/x", []byte(`{"a":1}`))
		if want := `PUT /below/v1/x Bearer stn_test {"a":1}`; err != nil || string(body) != want || string(c.leader) != "n2 http://n2.test" {
			t.Errorf("got %q, %v, leader %q; want %q and the leader", body, err, c.leader, want)
		}
	}
	if got := connections.Load(); got != 1 {
		t.Errorf("connections: got %d, want 1", got)
	}
}

func TestConn_endsWithItsContext(t *testing.T) {
	arrived := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	defer s.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user has had enough")
	go func() {
		<-arrived
		cancel(why)
	}()
	c := targetAt(t, s.URL).conn()
	defer c.close()
	if _, _, err := c.call(ctx, http.MethodGet, "/", nil); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

// TestConn_speaksTLS: with the certificates that it is given, and with no others.
func TestConn_speaksTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of who does not trust it
	s.StartTLS()
	defer s.Close()
	to := &target{key: "stn_test", baseTLS: s.Client().Transport.(*http.Transport).TLSClientConfig}
	if err := to.aim(s.URL); err != nil {
		t.Fatal(err)
	}
	c := to.conn()
	defer c.close()
	if status, body, err := c.call(t.Context(), http.MethodGet, "/", nil); err != nil || status != 200 || string(body) != "ok" {
		t.Errorf("got %d %q, %v; want 200 ok", status, body, err)
	}
	stranger := targetAt(t, s.URL).conn()
	defer stranger.close()
	if _, _, err := stranger.call(t.Context(), http.MethodGet, "/", nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody vouches for: got %v, want an error", err)
	}
}
