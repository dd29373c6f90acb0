package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// Limits of FairnessOptions.
const (
	SteadyClientsMax = 256
	FloodClientsMax  = 1024
)

// FairnessOptions say how fairness is measured: a tenant with a steady rate, first alone, then beside one that floods.
type FairnessOptions struct {
	Rate         int    // pairs per second of the steady tenant, 1 .. RateMax; within its quota
	Clients      int    // its connections, 1 .. SteadyClientsMax
	FloodAPIKey  string // of the tenant that floods: another one
	FloodClass   string // whose keys that takes; empty: as Config.Class
	FloodClients int    // its connections, 1 .. FloodClientsMax
}

// FairnessRow is what was measured of the steady tenant, alone or flooded.
type FairnessRow struct {
	Load           string  `json:"load"` // alone or flooded
	Rate           int     `json:"rate_per_second"`
	Clients        int     `json:"clients"`
	Seconds        float64 `json:"seconds"`
	Pairs          int64   `json:"pairs"`
	PairsPerSecond float64 `json:"pairs_per_second"`
	// Acquire counts from when the pair was due, so that one that had to wait for another before it is as late as it was.
	Acquire     Latency  `json:"acquire"`
	P99ToAlone  float64  `json:"acquire_p99_to_alone"`
	Flood       *Flood   `json:"flood"` // null: alone
	ServerCores *float64 `json:"server_cpu_cores"`
	ClientCores float64  `json:"client_cpu_cores"`
}

// Flood is what the flooding tenant was answered meanwhile.
type Flood struct {
	Clients        int     `json:"clients"`
	Requests       int64   `json:"requests"`
	PerSecond      float64 `json:"requests_per_second"`
	Granted        int64   `json:"granted"`
	Refused        int64   `json:"refused"`      // 409
	RateLimited    int64   `json:"rate_limited"` // 429
	Overloaded     int64   `json:"overloaded"`   // 503
	RefusedForWhat string  `json:"refused_code,omitempty"`
}

func (o FairnessOptions) validate(steady string) error {
	errs := []error{inRange("rate", o.Rate, 1, RateMax), inRange("clients", o.Clients, 1, SteadyClientsMax),
		inRange("flood-clients", o.FloodClients, 1, FloodClientsMax)}
	switch o.FloodAPIKey {
	case "":
		errs = append(errs, fmt.Errorf("%w: no API key of the tenant that floods", ErrRange))
	case steady:
		errs = append(errs, fmt.Errorf("%w: the tenant that floods has the same API key as the other", ErrRange))
	}
	return errors.Join(errs...)
}

// Fairness measures what a flooding tenant costs another. Errors: ErrRange, ErrRestarted, and what the cluster answered. Answers
// that refuse the flooding tenant something are counted and are no errors.
func Fairness(ctx context.Context, c Config, o FairnessOptions) (report Report[FairnessRow], err error) {
	if err := errors.Join(c.validate(), o.validate(c.APIKey)); err != nil {
		return report, err
	}
	r, err := c.begin(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = r.finish(ctx, err) }()
	flooder, err := newTarget(ctx, c.Endpoints, o.FloodAPIKey, c.TLS)
	if err != nil {
		return report, fmt.Errorf("the tenant that floods: %w", err)
	}
	defer func() { err = errors.Join(err, flooder.end(ctx)) }()
	report = newReport[FairnessRow]("fairness", r)
	report.Notes = append(report.Notes, floodNotes(r, flooder)...)
	alone, err := r.steady(ctx, o, nil)
	if err != nil {
		return report, err
	}
	f := newFlood(r, flooder, o)
	flooded, err := r.flooded(ctx, o, f)
	if err != nil {
		return report, err
	}
	alone.P99ToAlone = 1
	flooded.P99ToAlone = float64(flooded.Acquire.P99) / float64(max(alone.Acquire.P99, 1))
	report.Rows = append(report.Rows, alone, flooded)
	if f := flooded.Flood; f.Granted == 0 {
		report.Notes = append(report.Notes, fmt.Sprintf("the flood was granted nothing (%s): it was of requests that are refused, "+
			"which cost less; name a class of that tenant that is in force with --flood-class", f.RefusedForWhat))
	}
	return report, nil
}

// floodNotes say what makes the flood less than one.
func floodNotes(r *run, flooder *target) []string {
	if flooder.base == r.base {
		return nil
	}
	return []string{"the two tenants are led by different nodes, " + r.base + " and " + flooder.base +
		": they share machines and disks at most, not a leader"}
}

// steady measures the steady tenant. f is the flood beside it; nil: it is alone.
func (r *run) steady(ctx context.Context, o FairnessOptions, f *flood) (FairnessRow, error) {
	row := FairnessRow{Load: "alone", Rate: o.Rate, Clients: o.Clients}
	if f != nil {
		row.Load = "flooded"
	}
	s := &steadyLoad{run: r, options: o, began: time.Now(), acquire: newRecorder()}
	var w window
	err := load(ctx, o.Clients, s.client, func(ctx context.Context) (err error) {
		w, err = r.open(ctx, fmt.Sprintf("%d pairs/s, %s", o.Rate, row.Load))
		return err
	})
	if err != nil {
		return row, fmt.Errorf("the steady tenant: %w", err)
	}
	row.Seconds, row.Acquire, row.ServerCores, row.ClientCores = w.took.Seconds(), s.acquire.latency(), w.cores, w.clientCores
	row.Pairs = row.Acquire.Count
	row.PairsPerSecond = w.perSecond(row.Pairs)
	if f != nil {
		row.Flood = f.answered(o.FloodClients, w)
	}
	return row, nil
}

// steadyLoad is a load of pairs at a rate, however long they take.
type steadyLoad struct {
	*run
	options FairnessOptions
	began   time.Time
	acquire *recorder
}

// client makes every pair that is its turn, at the moment it is due or as soon after it as the ones before are done.
func (l *steadyLoad) client(ctx, running context.Context, i int) error {
	c := l.conn()
	defer c.close()
	p := newLeaseRequests(l.session())
	body := acquireBody(l.Class, fmt.Sprintf("bench-%s-steady-%d", l.id, i), noWait)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := i; ; n += l.options.Clients {
		due := l.began.Add(time.Duration(n) * time.Second / time.Duration(l.options.Rate))
		if !until(running, timer, due) {
			return nil
		}
		path := p.next()
		if err := c.want(ctx, http.MethodPut, path, body); err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		if l.counts.Load() {
			l.acquire.record(time.Since(due))
		}
		if err := c.want(ctx, http.MethodDelete, path, nil); err != nil {
			return fmt.Errorf("release: %w", err)
		}
	}
}

// until waits for a moment, or reports that ctx has ended.
func until(ctx context.Context, timer *time.Timer, at time.Time) bool {
	timer.Reset(time.Until(at))
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// flooded measures the steady tenant while another floods.
func (r *run) flooded(ctx context.Context, o FairnessOptions, f *flood) (row FairnessRow, err error) {
	err = load(ctx, o.FloodClients, f.client, func(ctx context.Context) (err error) {
		row, err = r.steady(ctx, o, f)
		return err
	})
	return row, err
}

// flood is a load of pairs as fast as they are answered, whatever the answer is. Safe for concurrent use.
type flood struct {
	*target
	counts *atomic.Bool
	class  string

	requests, granted, refused, limited, overloaded atomic.Int64
	why                                             atomic.Pointer[wire.Code] // of the first refusal
}

func newFlood(r *run, t *target, o FairnessOptions) *flood {
	f := &flood{target: t, counts: &r.counts, class: o.FloodClass}
	if f.class == "" {
		f.class = r.Class
	}
	return f
}

// client asks for a key of its own and gives it back. It minds no refusal: the id is as it was, or used up.
func (f *flood) client(ctx, running context.Context, i int) error {
	c := f.conn()
	defer c.close()
	p := newLeaseRequests(f.session())
	body := acquireBody(f.class, fmt.Sprintf("bench-%s-flood-%d", f.id, i), noWait)
	for running.Err() == nil {
		path := p.next()
		status, err := f.ask(ctx, c, http.MethodPut, path, body)
		if err == nil && status == http.StatusOK {
			_, err = f.ask(ctx, c, http.MethodDelete, path, nil)
		}
		if err != nil {
			return fmt.Errorf("flood: %w", err)
		}
	}
	return nil
}

// ask makes a request and counts its answer.
func (f *flood) ask(ctx context.Context, c *conn, method, path string, body []byte) (int, error) {
	status, answer, err := c.call(ctx, method, path, body)
	if err != nil {
		return 0, err
	}
	counter := new(atomic.Int64)
	switch {
	case status == http.StatusOK && method == http.MethodPut:
		counter = &f.granted
	case status == http.StatusOK:
	case status == http.StatusConflict:
		counter = &f.refused
	case status == http.StatusTooManyRequests:
		counter = &f.limited
	case status == http.StatusServiceUnavailable:
		counter = &f.overloaded
	default:
		return 0, failure(status, answer)
	}
	if status >= http.StatusBadRequest {
		f.remember(answer)
	}
	if f.counts.Load() {
		f.requests.Add(1)
		counter.Add(1)
	}
	return status, nil
}

// remember keeps the first reason for which the flood was refused something.
func (f *flood) remember(answer []byte) {
	var p wire.Problem
	if f.why.Load() == nil && json.Unmarshal(answer, &p) == nil {
		f.why.CompareAndSwap(nil, &p.Code)
	}
}

func (f *flood) answered(clients int, w window) *Flood {
	answered := &Flood{Clients: clients, Requests: f.requests.Load(), Granted: f.granted.Load(), Refused: f.refused.Load(),
		RateLimited: f.limited.Load(), Overloaded: f.overloaded.Load()}
	answered.PerSecond = w.perSecond(answered.Requests)
	if code := f.why.Load(); code != nil {
		answered.RefusedForWhat = string(*code)
	}
	return answered
}

func (FairnessRow) header() []string {
	return []string{"load", "rate/s", "pairs/s", "acquire p50", "p90", "p99", "p99.9", "max", "p99 to alone", "flood requests/s", "granted",
		"refused", "limited", "server cores", "client cores"}
}

func (f FairnessRow) cells() []string {
	l, flooded := f.Acquire, Flood{}
	if f.Flood != nil {
		flooded = *f.Flood
	}
	return []string{f.Load, number(f.Rate), decimal(f.PairsPerSecond, 0), ms(l.P50), ms(l.P90), ms(l.P99), ms(l.P999), ms(l.Max),
		decimal(f.P99ToAlone, 2), decimal(flooded.PerSecond, 0), number(int(flooded.Granted)), number(int(flooded.Refused)),
		number(int(flooded.RateLimited + flooded.Overloaded)), measured(f.ServerCores, 2), decimal(f.ClientCores, 2)}
}
