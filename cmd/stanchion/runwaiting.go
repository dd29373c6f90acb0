package main

import (
	"context"
	"time"

	"github.com/stanchion-locks/stanchion/client"
)

const (
	placesMax    = 64              // places in line that wait to be told; in between ones may be left out
	holderLook   = 2 * time.Second // for a look at who holds
	holderEvery  = 5 * time.Second // how often one looks at most: many may wait
	progressTick = time.Second
)

// waiting tells of the wait for a grant.
type waiting struct {
	running *running
	places  chan client.Place
	began   time.Time
	place   int
	holder  client.Leadership // zero: nobody, or not known
	looked  time.Time         // when it was last asked
}

func (r *running) newWaiting() *waiting {
	return &waiting{running: r, places: make(chan client.Place, placesMax), began: time.Now()}
}

// queued takes a place in line.
func (w *waiting) queued(p client.Place) {
	select {
	case w.places <- p:
	default:
	}
}

// run tells of each place, with who holds, until ctx ends. On a terminal the line is kept up to date.
func (w *waiting) run(ctx context.Context) {
	tick := time.NewTicker(progressTick)
	defer tick.Stop()
	for {
		select {
		case p := <-w.places:
			w.place, w.holder = p.Position, client.Leadership{} // whose place is another one waits for another holder
			w.look(ctx)
			w.say()
		case <-ctx.Done():
			return
		case <-tick.C:
			if w.shown() {
				w.look(ctx)
				w.say()
			}
		}
	}
}

// shown reports whether there is a line to keep up to date.
func (w *waiting) shown() bool { return w.place > 0 && w.running.report.live() }

// look asks who holds, now and then. Where that is not known in time, the last answer stays.
func (w *waiting) look(ctx context.Context) {
	if time.Since(w.looked) < holderEvery {
		return
	}
	w.looked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, holderLook)
	defer cancel()
	o := w.running.options
	if now, err := w.running.client.Leader(ctx, o.class, o.key); err == nil {
		w.holder = now
	}
}

func (w *waiting) say() {
	e := runEvent{Event: eventWaiting, Place: w.place, WaitedMS: milliseconds(time.Since(w.began))}
	if h := w.holder; !h.Since.IsZero() {
		e.Holder, e.HolderKey, e.HeldSince = h.Holder, h.APIKey, new(h.Since.UTC())
	}
	w.running.report.say(e)
}
