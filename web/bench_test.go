package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web"
	"github.com/stanchion-locks/stanchion/web/api"
)

// quickPlatform authenticates without work, so that a benchmark counts the handlers alone.
type quickPlatform struct {
	*platform
	principal tenants.Principal
}

func (q quickPlatform) Authenticate(string) (tenants.Principal, error) { return q.principal, nil }

// discarder is an answer that nobody reads.
type discarder struct {
	header http.Header
	status int
}

func (d *discarder) Header() http.Header         { return d.header }
func (d *discarder) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarder) WriteHeader(status int)      { d.status = status }

// serve runs one request over and over against the whole server, without a network.
func serve(b *testing.B, l *locks, method, path, body string) {
	p := &platform{locks: l, leader: &self}
	principal, err := p.Authenticate(goodKey)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	unlimited := api.NewLimits(func() time.Time { // every request has a second of its own
		now = now.Add(time.Second)
		return now
	})
	a, err := api.New(api.Config{Platform: quickPlatform{p, principal}, NodeID: "n1", Limits: unlimited})
	if err != nil {
		b.Fatal(err)
	}
	s, err := web.New(web.Config{API: a, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	reader := strings.NewReader(body)
	r, err := http.NewRequestWithContext(b.Context(), method, path, reader)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+goodKey)
	r.Header.Set("Content-Type", "application/json")
	w := &discarder{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		r.Body = io.NopCloser(reader)
		if body == "" {
			r.Body = http.NoBody
		}
		clear(w.header)
		s.ServeHTTP(w, r)
		if w.status != 200 {
			b.Fatalf("status %d", w.status)
		}
	}
}

func BenchmarkAcquire(b *testing.B) {
	id, err := lockcore.ParseLeaseID(leaseOne)
	if err != nil {
		b.Fatal(err)
	}
	answer := grantedTo(leader.Acquire{Lease: id, Class: "ledger-close", Key: "2026-06"})
	l := &locks{acquire: func(context.Context, leader.Acquire) (leader.Answer, error) { return answer, nil }}
	for name, wait := range map[string]string{"hanging": "10s", "at-once": "0s"} {
		b.Run(name, func(b *testing.B) {
			serve(b, l, http.MethodPut, "/v1/leases/"+leaseOne,
				`{"class":"ledger-close","key":"2026-06","wait":"30s","poll":"`+wait+`","holder":"host-a:4711"}`)
		})
	}
}

func BenchmarkRelease(b *testing.B) {
	id, err := lockcore.ParseLeaseID(leaseOne)
	if err != nil {
		b.Fatal(err)
	}
	answer := leader.Answer{Status: leader.StatusEnded, Reason: lockcore.Released, Lease: heldLease(id, "c", "k")}
	l := &locks{release: func(context.Context, leader.Release) (leader.Answer, error) { return answer, nil }}
	serve(b, l, http.MethodDelete, "/v1/leases/"+leaseOne+"?token=33", "")
}

func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var held leader.HeartbeatAnswer
			var list []string
			for i := range n {
				id, err := lockcore.ParseLeaseID(session + "." + strconv.Itoa(i+1))
				if err != nil {
					b.Fatal(err)
				}
				held.Held = append(held.Held, leader.Answer{Status: leader.StatusGranted, Lease: heldLease(id, "c", "k"),
					UseWithin: 9700 * time.Millisecond, ContactWithin: 5 * time.Second})
				list = append(list, strconv.Itoa(i+1))
			}
			l := &locks{heartbeat: func(context.Context, leader.Heartbeat) (leader.HeartbeatAnswer, error) { return held, nil }}
			serve(b, l, http.MethodPost, "/v1/sessions/"+session+"/heartbeat", `{"leases":[`+strings.Join(list, ",")+`]}`)
		})
	}
}
