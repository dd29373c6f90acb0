package guard

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ReporterConfig says where reports go. Endpoints and APIKey are required; the rest has defaults.
type ReporterConfig struct {
	Endpoints []string      // the service's nodes, like https://host:port; 1 to 16, tried in turn
	APIKey    string        // with the scope guard:report
	Interval  time.Duration // between two rounds of reports, of which half to all is waited at random; 0: 10 s
	FinalTime time.Duration // for the last reports, once Run's context has ended; 0: 5 s
	Client    *http.Client  // nil: one of its own. Redirects are never followed: the API key goes to endpoints alone
	Log       *slog.Logger  // nil: slog.Default()
	Now       func() time.Time
}

const (
	intervalDefault  = 10 * time.Second
	finalTimeDefault = 5 * time.Second
	endpointsMax     = 16
)

// validate fills in the defaults.
func (c *ReporterConfig) validate() error {
	if len(c.Endpoints) == 0 || len(c.Endpoints) > endpointsMax {
		return fmt.Errorf("guard: a reporter needs 1 to %d endpoints, not %d", endpointsMax, len(c.Endpoints))
	}
	endpoints := make([]string, 0, len(c.Endpoints))
	for _, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("guard: endpoint %q is no address like https://host:port", e)
		}
		endpoints = append(endpoints, strings.TrimRight(e, "/"))
	}
	c.Endpoints = endpoints
	switch {
	case c.APIKey == "":
		return errors.New("guard: a reporter needs an API key")
	case c.Interval < 0 || c.FinalTime < 0:
		return errors.New("guard: a reporter's times are not negative")
	}
	c.setDefaults()
	return nil
}

func (c *ReporterConfig) setDefaults() {
	if c.Interval == 0 {
		c.Interval = intervalDefault
	}
	if c.FinalTime == 0 {
		c.FinalTime = finalTimeDefault
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	client := http.Client{}
	if c.Client != nil {
		client = *c.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Client = &client
}

// Reporter gathers what guards decide and tells the lock service: how many checks there were, and which stale tokens were
// refused, per lock. It keeps counts of at most 1,024 locks, with 64 rejections each, and as many again while they are
// being sent; what has no room is counted in Lost. Guards never wait for it, and decide the same whatever becomes of it.
// Several guards may share one. Safe for concurrent use.
type Reporter struct {
	cfg     ReporterConfig
	id      string // 128 random bits
	running atomic.Bool

	mu      sync.Mutex
	tallies tallies // guarded by mu
	lost    Lost    // guarded by mu

	pending []report // owned by Run: taken, not answered yet; the first may have been sent
	last    uint64   // owned by Run: number of the last report that was sent
	first   int      // owned by Run: the endpoint to try first
	told    Lost     // owned by Run: what was logged
}

// NewReporter makes a reporter that gathers from now on, and sends as soon as Run runs.
func NewReporter(cfg ReporterConfig) (*Reporter, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return &Reporter{cfg: cfg, id: hex.EncodeToString(id[:]), tallies: tallies{}}, nil
}

// Lost says what no report said so far, and why. A program should export it as metrics.
func (r *Reporter) Lost() Lost {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Run sends reports at each interval until ctx ends, then what is left, for at most FinalTime, and returns. An error says
// that some of the last reports were not delivered, or that Run was running already.
func (r *Reporter) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("guard: the reporter is running already")
	}
	defer r.running.Store(false)
	for pause(ctx, jitter(r.cfg.Interval)) == nil {
		if err := r.flush(ctx); err != nil {
			break // ctx has ended
		}
	}
	return r.finish(ctx)
}

// finish sends the round under way and what came after it, with the same ids as before.
func (r *Reporter) finish(ctx context.Context) error {
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.FinalTime)
	defer cancel()
	err := r.flush(final)
	if err == nil {
		err = r.flush(final)
	}
	left := append(r.pending, r.take()...)
	r.pending = nil
	for _, unheard := range left {
		r.lose(unheard.lost())
	}
	r.tellLost()
	if err != nil {
		return fmt.Errorf("guard: deliver the last %d reports: %w", len(left), err)
	}
	return nil
}

// flush sends what is pending, or else what was gathered. The error is that of ctx; pending then begins with the report
// that was not answered.
func (r *Reporter) flush(ctx context.Context) error {
	defer r.tellLost()
	if len(r.pending) == 0 {
		r.pending = r.take()
	}
	for len(r.pending) > 0 {
		next := &r.pending[0]
		if next.ReportID == "" {
			r.last++
			next.ReportID = fmt.Sprintf("%s.%d", r.id, r.last)
		}
		accepted, err := r.deliver(ctx, *next)
		if err != nil {
			return err
		}
		if !accepted {
			r.lose(next.lost())
		}
		r.pending = r.pending[1:]
	}
	return nil
}

// take ends a round of gathering.
func (r *Reporter) take() []report {
	r.mu.Lock()
	taken := r.tallies
	r.tallies = tallies{}
	r.mu.Unlock()
	return taken.reports()
}

// observe counts one decision; stale is set when it refused a stale token.
func (r *Reporter) observe(lock lockName, stale *StaleError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var at time.Time
	if stale != nil {
		at = r.cfg.Now()
	}
	r.lost = r.lost.plus(r.tallies.add(lock, stale, at))
}

func (r *Reporter) lose(lost Lost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = r.lost.plus(lost)
}

// tellLost logs losses since it was called last.
func (r *Reporter) tellLost() {
	lost := r.Lost()
	if lost == r.told {
		return
	}
	r.told = lost
	r.cfg.Log.Warn("guard reports are incomplete", "checks_lost", lost.Checks, "rejections_lost", lost.Rejections,
		"reports_lost", lost.Reports)
}
