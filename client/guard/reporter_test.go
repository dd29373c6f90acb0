package guard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client/guard"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// service stands for the nodes of a lock service: it keeps what reporters sent, and answers as it is told.
type service struct {
	mu     sync.Mutex
	sent   []delivery                           // guarded by mu
	answer func(d delivery, n int) (int, error) // nil: 204. n counts requests from 1
}

// delivery is one request.
type delivery struct {
	host, key, contentType, path string
	raw                          string
	report                       wire.GuardReport
}

// RoundTrip takes a report without a network, so that time can be made up.
func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	status, err := s.take(r)
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	return w.Result(), nil
}

func (s *service) take(r *http.Request) (int, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	d := delivery{host: r.URL.Host, key: r.Header.Get("Authorization"), contentType: r.Header.Get("Content-Type"),
		path: r.Method + " " + r.URL.Path, raw: string(raw)}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&d.report); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, d)
	if s.answer == nil {
		return http.StatusNoContent, nil
	}
	return s.answer(d, len(s.sent))
}

func (s *service) deliveries() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]delivery(nil), s.sent...)
}

// reporter makes a reporter to the service, which logs into the test's own buffer.
func (s *service) reporter(t *testing.T, log io.Writer) *guard.Reporter {
	t.Helper()
	r, err := guard.NewReporter(guard.ReporterConfig{Endpoints: []string{"https://a.test", "https://b.test/"}, APIKey: "stn_key",
		Client: &http.Client{Transport: s}, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// use makes a guard that reports, and has 33 enter and 32 be refused as often as told.
func use(t *testing.T, r *guard.Reporter, key string, refusals int) *guard.Memory {
	t.Helper()
	g := &guard.Memory{Reporting: guard.Reporting{Reporter: r, Class: "ledger-close"}}
	if _, err := g.Enter(t.Context(), key, 33); err != nil {
		t.Fatal(err)
	}
	for range refusals {
		if _, err := g.Enter(t.Context(), key, 32); !errors.Is(err, guard.ErrStale) {
			t.Fatalf("32: got %v, want ErrStale", err)
		}
	}
	return g
}

// running runs a reporter until the returned function is called, which returns Run's error.
func running(t *testing.T, r *guard.Reporter) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func TestReporter_tellsChecksAndRejections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		r := s.reporter(t, io.Discard)
		stop := running(t, r)
		g := use(t, r, thirty, 2)
		_ = g.Check(thirty, 33)
		_ = g.Check(thirty, 34) // refused, and not stale
		_ = g.Check(thirty, 0)
		<-time.After(10 * time.Second) // of the bubble's clock
		synctest.Wait()
		sent := s.deliveries()
		if len(sent) != 1 {
			t.Fatalf("reports in one interval: got %d, want 1", len(sent))
		}
		d, rep := sent[0], sent[0].report
		if d.path != "POST /v1/guard/reports" || d.key != "Bearer stn_key" || d.contentType != "application/json" {
			t.Errorf("request: got %+v", d)
		}
		if !regexp.MustCompile(`^[0-9a-f]{32}\.1$`).MatchString(rep.ReportID) || rep.Class != "ledger-close" || rep.Key != thirty || rep.Checks != 6 {
			t.Errorf("report: got %+v, want number 1 with 6 checks", rep)
		}
		if len(rep.Rejections) != 1 || rep.Rejections[0].Token != 32 || rep.Rejections[0].Highest != 33 || rep.Rejections[0].Count != 2 ||
			rep.Rejections[0].At.Location() != time.UTC {
			t.Errorf("rejections: got %+v, want one of 32 because of 33, twice", rep.Rejections)
		}
		if err := stop(); err != nil {
			t.Errorf("run: got %v, want none", err)
		}
		if n := len(s.deliveries()); n != 1 {
			t.Errorf("reports after nothing more happened: got %d, want 1", n)
		}
	})
}

func TestReporter_repeatsTheSameReportUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []int{503, 0, 429, 408, 500, 302, 200, 204}
		s := &service{answer: func(_ delivery, n int) (int, error) {
			switch {
			case n > len(answers):
				return http.StatusNoContent, nil
			case answers[n-1] == 0:
				return 0, errors.New("connection lost")
			}
			return answers[n-1], nil
		}}
		r := s.reporter(t, io.Discard)
		stop := running(t, r)
		use(t, r, "a", 1)
		use(t, r, "b", 0)
		<-time.After(time.Minute) // of the bubble's clock
		synctest.Wait()
		sent := s.deliveries()
		if len(sent) != len(answers)+1 {
			t.Fatalf("requests: got %d, want %d", len(sent), len(answers)+1)
		}
		hosts := map[string]bool{}
		for i, d := range sent[:len(answers)] {
			hosts[d.host] = true
			if d.raw != sent[0].raw {
				t.Errorf("request %d: got %s, want what was sent first, %s", i+1, d.raw, sent[0].raw)
			}
		}
		if len(hosts) != 2 {
			t.Errorf("endpoints tried: got %v, want both", hosts)
		}
		if last := sent[len(answers)].report; !strings.HasSuffix(last.ReportID, ".2") || last.Key != "b" || last.Rejections == nil {
			t.Errorf("next report: got %+v, want number 2 about b", last)
		}
		if err := stop(); err != nil || r.Lost() != (guard.Lost{}) {
			t.Errorf("end: got %v and lost %+v, want none", err, r.Lost())
		}
	})
}

func TestReporter_dropsARefusedReportAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answer: func(_ delivery, n int) (int, error) {
			if n == 1 {
				return http.StatusForbidden, nil
			}
			return http.StatusNoContent, nil
		}}
		var log bytes.Buffer
		r := s.reporter(t, &log)
		stop := running(t, r)
		use(t, r, "a", 3)
		use(t, r, "b", 0)
		if err := stop(); err != nil {
			t.Errorf("run: got %v, want none", err)
		}
		sent := s.deliveries()
		if len(sent) != 2 || !strings.HasSuffix(sent[1].report.ReportID, ".2") {
			t.Errorf("requests: got %+v, want two, numbered 1 and 2", sent)
		}
		if want := (guard.Lost{Checks: 4, Rejections: 3, Reports: 1}); r.Lost() != want {
			t.Errorf("lost: got %+v, want %+v", r.Lost(), want)
		}
		if !strings.Contains(log.String(), "guard report refused") || !strings.Contains(log.String(), "reports_lost=1") {
			t.Errorf("log: got %q, want the refusal and the loss", log.String())
		}
	})
}

func TestReporter_endsInBoundedTimeAndCountsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answer: func(delivery, int) (int, error) { return http.StatusServiceUnavailable, nil }}
		r := s.reporter(t, io.Discard)
		stop := running(t, r)
		use(t, r, "a", 1)
		<-time.After(time.Hour) // of the bubble's clock: the service is down for long
		use(t, r, "b", 0)
		before := time.Now()
		err := stop()
		if took := time.Since(before); took > 5*time.Second {
			t.Errorf("end: took %v of the bubble's clock, want at most 5s", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run: got %v, want that the last reports were not delivered", err)
		}
		if want := (guard.Lost{Checks: 3, Rejections: 1, Reports: 2}); r.Lost() != want {
			t.Errorf("lost: got %+v, want %+v", r.Lost(), want)
		}
		for _, d := range s.deliveries() {
			if !strings.HasSuffix(d.report.ReportID, ".1") {
				t.Errorf("sent %s before number 1 was answered", d.report.ReportID)
			}
		}
	})
}

func TestReporter_finishesTheRoundUnderWayWithTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up bool // changed while the bubble is still
		s := &service{answer: func(delivery, int) (int, error) {
			if up {
				return http.StatusNoContent, nil
			}
			return http.StatusBadGateway, nil
		}}
		r := s.reporter(t, io.Discard)
		stop := running(t, r)
		use(t, r, "a", 0)
		<-time.After(20 * time.Second) // of the bubble's clock
		synctest.Wait()
		use(t, r, "a", 1)
		up = true
		if err := stop(); err != nil {
			t.Errorf("run: got %v, want none", err)
		}
		sent := s.deliveries()
		if len(sent) < 3 || sent[len(sent)-2].raw != sent[0].raw || !strings.HasSuffix(sent[len(sent)-1].report.ReportID, ".2") {
			t.Errorf("requests at the end: got %+v, want number 1 as it was, then number 2", sent)
		}
	})
}

func TestReporter_isBoundedAndCountsWhatHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		r := s.reporter(t, io.Discard)
		g := &guard.Memory{Reporting: guard.Reporting{Reporter: r, Class: "ledger-close"}}
		if _, err := g.Enter(t.Context(), "key 0000", 1000); err != nil {
			t.Fatal(err)
		}
		for token := range uint64(70) { // 0 is no token at all, 69 are stale
			_, _ = g.Enter(t.Context(), "key 0000", token)
		}
		for i := range 1100 {
			_, _ = g.Enter(t.Context(), fmt.Sprintf("key %04d", i+1), 1)
		}
		stop := running(t, r)
		if err := stop(); err != nil {
			t.Fatalf("run: %v", err)
		}
		sent := s.deliveries()
		if len(sent) != 1024 || sent[0].report.Checks != 71 || len(sent[0].report.Rejections) != 64 {
			t.Errorf("got %d reports, the first with %d checks and %d rejections, want 1024, 71 and 64",
				len(sent), sent[0].report.Checks, len(sent[0].report.Rejections))
		}
		if want := (guard.Lost{Checks: 77, Rejections: 5}); r.Lost() != want {
			t.Errorf("lost: got %+v, want %+v", r.Lost(), want)
		}
	})
}

func TestReporter_reachesARealServer(t *testing.T) {
	s := &service{}
	arrived := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := s.take(r)
		if err != nil {
			status = http.StatusBadRequest
		}
		w.WriteHeader(status)
		select {
		case arrived <- struct{}{}:
		default:
		}
	}))
	defer server.Close()
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	r, err := guard.NewReporter(guard.ReporterConfig{Endpoints: []string{down.URL, server.URL}, APIKey: "stn_key",
		Interval: time.Millisecond, Client: server.Client(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, r)
	use(t, r, thirty, 1)
	<-arrived
	if err := stop(); err != nil {
		t.Fatalf("run: got %v, want none", err)
	}
	var checks, rejections uint64
	counted := map[string]bool{} // as the service counts: each id once, since an answer may not have arrived
	for _, d := range s.deliveries() {
		if counted[d.report.ReportID] {
			continue
		}
		counted[d.report.ReportID] = true
		if !strings.HasSuffix(d.report.ReportID, fmt.Sprintf(".%d", len(counted))) {
			t.Errorf("report %d: got id %s", len(counted), d.report.ReportID)
		}
		checks += d.report.Checks
		for _, rejected := range d.report.Rejections {
			rejections += rejected.Count
		}
	}
	if checks != 2 || rejections != 1 {
		t.Errorf("got %d checks and %d rejections, want 2 and 1", checks, rejections)
	}
}

func TestNewReporter_refusesWhatCannotWork(t *testing.T) {
	good := guard.ReporterConfig{Endpoints: []string{"https://a.test:8420"}, APIKey: "stn_key"}
	if _, err := guard.NewReporter(good); err != nil {
		t.Fatalf("a good one: got %v, want none", err)
	}
	for name, change := range map[string]func(*guard.ReporterConfig){
		"no endpoint":         func(c *guard.ReporterConfig) { c.Endpoints = nil },
		"too many endpoints":  func(c *guard.ReporterConfig) { c.Endpoints = make([]string, 17) },
		"no address":          func(c *guard.ReporterConfig) { c.Endpoints = []string{"a.test"} },
		"a password in it":    func(c *guard.ReporterConfig) { c.Endpoints = []string{"https://u:p@a.test"} },
		"another scheme":      func(c *guard.ReporterConfig) { c.Endpoints = []string{"ftp://a.test"} },
		"no API key":          func(c *guard.ReporterConfig) { c.APIKey = "" },
		"a negative interval": func(c *guard.ReporterConfig) { c.Interval = -1 },
	} {
		cfg := good
		change(&cfg)
		if _, err := guard.NewReporter(cfg); err == nil {
			t.Errorf("%s: got none, want an error", name)
		}
	}
}
