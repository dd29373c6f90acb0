package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// run is one measurement under way.
type run struct {
	Config
	*target
	meter  *meter
	counts atomic.Bool // a window is open
	notes  []string
}

// begin checks that the cluster answers. Whoever began must call finish.
func (c Config) begin(ctx context.Context) (*run, error) {
	t, err := newTarget(ctx, c.Endpoints, c.APIKey, c.TLS)
	if err != nil {
		return nil, err
	}
	r := &run{Config: c, target: t, meter: newMeter(c.Metrics)}
	if len(c.Metrics) == 0 {
		r.notes = append(r.notes, noMetrics)
	}
	return r, nil
}

const noMetrics = "server CPU and memory were not measured: give the addresses of the nodes' metrics with --metrics or STANCHION_METRICS"

// finish gives back what is held and joins what went wrong on the way.
func (r *run) finish(ctx context.Context, err error) error {
	r.meter.close()
	moved := r.moved(ctx)
	if ended := r.end(ctx); ended != nil {
		return errors.Join(err, ended)
	}
	if err != nil {
		return err
	}
	return moved
}

// errMoved is returned when the figures are of two leaders, or of one that passed requests on.
var errMoved = errors.New("the leader changed during the measurement")

func (r *run) moved(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	if now, err := r.leader(ctx); err != nil || now != r.base {
		return &Failure{Err: errors.Join(errMoved, err), Remedy: again}
	}
	return nil
}

// window is what was used while a load was measured.
type window struct {
	took        time.Duration
	cores       *float64 // of the servers; nil: not measured
	clientCores float64
	memory      float64 // of the servers, in bytes; 0: not measured
}

func (w window) perSecond(count int64) float64 { return float64(count) / w.took.Seconds() }

// open warms a load up that runs already, and then measures for the seconds that were asked for. It ends early with ctx,
// which the load ends too when it fails.
func (r *run) open(ctx context.Context, what string) (window, error) {
	if err := r.pass(ctx, what+", warm-up", r.warmUp()); err != nil {
		return window{}, err
	}
	return r.watch(ctx, what, r.seconds())
}

// watch measures for some time.
func (r *run) watch(ctx context.Context, what string, d time.Duration) (window, error) {
	before, err := r.meter.read(ctx)
	if err != nil {
		return window{}, err
	}
	r.counts.Store(true)
	began := time.Now()
	err = r.pass(ctx, what, d)
	r.counts.Store(false)
	w := window{took: time.Since(began)}
	if err != nil {
		return w, err
	}
	after, err := r.meter.read(ctx)
	if err != nil {
		return w, err
	}
	w.clientCores, w.memory = after.clientCores(before), after.memory()
	w.cores, err = after.cores(before)
	return w, err
}

const progressTick = 100 * time.Millisecond

// pass waits, and shows how far it is.
func (r *run) pass(ctx context.Context, what string, d time.Duration) error {
	r.stage(what, int(d/progressTick))
	tick := time.NewTicker(progressTick)
	defer tick.Stop()
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return nil
		case <-tick.C:
			r.step(1)
		}
	}
}

func (r *run) stage(what string, steps int) {
	if r.Progress != nil {
		r.Progress.Begin(what, steps)
	}
}

func (r *run) step(n int) {
	if r.Progress != nil {
		r.Progress.Step(n)
	}
}

// load runs workers while a function measures, and waits for all of them. When the function returns, running ends, and the
// workers finish what they are at; when one of them fails, or ctx ends, all is cut.
func load(ctx context.Context, workers int, work func(ctx, running context.Context, i int) error,
	measure func(ctx context.Context) error) error {
	cut, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	running, stop := context.WithCancel(cut)
	done := make(chan struct{}, workers)
	for i := range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			if err := work(cut, running, i); err != nil {
				cancel(fmt.Errorf("client %d: %w", i+1, err)) // the first cause stays
			}
		}()
	}
	err := measure(cut)
	stop()
	for range workers {
		<-done
	}
	if cause := context.Cause(cut); cause != nil {
		return cause
	}
	return err
}
