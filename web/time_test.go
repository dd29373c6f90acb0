package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/web"
	"github.com/stanchion-locks/stanchion/web/api"
)

// pipes is a listener whose connections a test makes itself, so that they live in its own time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// inBubble serves a partition in a test's own time and hands a connection to it over.
func inBubble(t *testing.T, l *locks, talk func(t *testing.T, conn net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		a, err := api.New(api.Config{Platform: &platform{locks: l, leader: &self}, NodeID: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := web.New(web.Config{API: a, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		listener, done := newPipes(), make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() { done <- s.Run(ctx, listener) }()
		conn := listener.dial()
		talk(t, conn)
		_ = conn.Close()
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v; want nil", err)
		}
	})
}

func head(method, path string, bodyBytes int) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: n1.test\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		method, path, goodKey, bodyBytes)
}

// answered reads an answer's status and body.
func answered(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestBody_isGivenFiveSeconds(t *testing.T) {
	inBubble(t, never(t), func(t *testing.T, conn net.Conn) {
		began := time.Now()
		if _, err := io.WriteString(conn, head("PUT", "/v1/leases/"+leaseOne, 100)+`{"class":`); err != nil {
			t.Fatal(err)
		}
		status, body := answered(t, conn)
		if took := time.Since(began); status != http.StatusRequestTimeout || !strings.Contains(body, `"code":"request_timeout"`) || took != 5*time.Second {
			t.Errorf("%d %s after %v; want 408 request_timeout after 5s", status, body, took)
		}
	})
}

// TestRequests_mayHangAsLongAsTheyMay: the server's own limits of time must not cancel what hangs within its rights.
func TestRequests_mayHangAsLongAsTheyMay(t *testing.T) {
	for method, limit := range map[string]time.Duration{"PUT": api.PollMax, "GET": 5 * time.Second} {
		wait := func(ctx context.Context) error {
			select {
			case <-time.After(limit):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		l := &locks{
			acquire: func(ctx context.Context, r leader.Acquire) (leader.Answer, error) { return grantedTo(r), wait(ctx) },
			look: func(ctx context.Context, r leader.Look) (leader.Answer, error) {
				return grantedTo(leader.Acquire{Lease: r.Lease, Class: "c", Key: "k"}), wait(ctx)
			},
		}
		inBubble(t, l, func(t *testing.T, conn net.Conn) {
			began, body := time.Now(), ""
			if method == "PUT" {
				body = `{"class":"c","key":"k","poll":"10s"}`
			}
			if _, err := io.WriteString(conn, head(method, "/v1/leases/"+leaseOne, len(body))+body); err != nil {
				t.Fatal(err)
			}
			status, answer := answered(t, conn)
			if took := time.Since(began); status != 200 || took != limit {
				t.Errorf("%s: %d %s after %v; want 200 after %v", method, status, answer, took, limit)
			}
		})
	}
}

func TestRequests_endWhenTheLeaderDoesNotAnswer(t *testing.T) {
	l := &locks{acquire: func(ctx context.Context, _ leader.Acquire) (leader.Answer, error) {
		<-ctx.Done()
		return leader.Answer{}, ctx.Err()
	}}
	inBubble(t, l, func(t *testing.T, conn net.Conn) {
		began, body := time.Now(), `{"class":"c","key":"k","poll":"10s"}`
		if _, err := io.WriteString(conn, head("PUT", "/v1/leases/"+leaseOne, len(body))+body); err != nil {
			t.Fatal(err)
		}
		status, answer := answered(t, conn)
		took := time.Since(began)
		if status != 503 || !strings.Contains(answer, `"code":"outcome_unknown"`) || took != api.AnswerMax {
			t.Errorf("%d %s after %v; want 503 outcome_unknown after %v", status, answer, took, api.AnswerMax)
		}
	})
}

func TestStop_drainsAtMostFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &locks{release: func(ctx context.Context, _ leader.Release) (leader.Answer, error) {
			<-ctx.Done() // longer than anybody waits
			return leader.Answer{}, ctx.Err()
		}}
		a, err := api.New(api.Config{Platform: &platform{locks: l, leader: &self}, NodeID: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := web.New(web.Config{API: a, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		listener, done := newPipes(), make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() { done <- s.Run(ctx, listener) }()
		conn := listener.dial()
		if _, err := io.WriteString(conn, head("DELETE", "/v1/leases/"+leaseOne, 0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v; want nil", err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the server took %v to stop; want at most 5s and a little", took)
		}
		_ = conn.Close()
	})
}
