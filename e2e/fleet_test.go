package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// fleet is many workers of one class at a cluster, and their judge.
type fleet struct {
	t       *testing.T
	client  *client
	class   string
	judge   *judge
	traffic *traffic
	workers []*worker
	lines   map[string][]*worker // by key, in the order in which they were put in line

	ctx   context.Context
	halt  context.CancelFunc
	group errgroup.Group
}

func newFleet(t *testing.T, c *cluster, class string) *fleet {
	f := &fleet{t: t, client: newClient(t, c.file), class: class, judge: newJudge(), traffic: newTraffic(), lines: map[string][]*worker{}}
	f.ctx, f.halt = context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		f.halt()
		_ = f.group.Wait() // workers tell the judge
	})
	return f
}

// add starts a worker that wants a key.
func (f *fleet) add(key string) *worker {
	i := len(f.workers)
	w := &worker{caller: caller{client: f.client, next: i}, class: f.class, key: key, name: fmt.Sprintf("worker %d", i),
		session: newSession(), direct: i%2 == 0, judge: f.judge, traffic: f.traffic,
		nudge: make(chan struct{}, 1), giveBack: make(chan struct{}, 1), die: make(chan struct{})}
	f.workers = append(f.workers, w)
	f.lines[key] = append(f.lines[key], w)
	f.group.Go(func() error { return w.run(f.ctx) })
	return w
}

// addHolders starts workers that are granted a key of their own each.
func (f *fleet) addHolders(n int) {
	f.t.Helper()
	for i := range n {
		f.add(keyName(i))
	}
	f.await("all hold", func() error { return every(f.workers, "does not hold", (*worker).isHolding) })
}

func keyName(i int) string { return fmt.Sprintf("key-%02d", i) }

// addWaiters puts workers in line for a key that is held, one after the other.
func (f *fleet) addWaiters(key string, n int) {
	f.t.Helper()
	for range n {
		w := f.add(key)
		f.await(w.name+" is in line", func() error { return every([]*worker{w}, "is not in line", (*worker).isInLine) })
	}
}

func (w *worker) isHolding() bool { return w.holds.Load() }
func (w *worker) isInLine() bool  { return w.inLine.Load() }

func every(workers []*worker, says string, is func(*worker) bool) error {
	for _, w := range workers {
		if !is(w) {
			return fmt.Errorf("%s %s", w.name, says)
		}
	}
	return nil
}

// await waits for something, and fails the test at once when the judge finds something wrong.
func (f *fleet) await(what string, ready func() error) {
	f.t.Helper()
	await(f.t, what, func() error {
		f.wantNoFindings()
		return ready()
	})
}

func (f *fleet) wantNoFindings() {
	f.t.Helper()
	findings := f.judge.verdict()
	for _, found := range findings {
		f.t.Error(found)
	}
	if len(findings) > 0 {
		f.t.FailNow()
	}
}

// holders are the workers that hold at the moment.
func (f *fleet) holders() []*worker {
	return slices.DeleteFunc(slices.Clone(f.workers), func(w *worker) bool { return !w.isHolding() })
}

// awaitRenewed waits until all of the workers have had a heartbeat answered that was sent after a moment.
func (f *fleet) awaitRenewed(holders []*worker, after time.Time) {
	f.t.Helper()
	f.await("every holder has renewed", func() error {
		return every(holders, "has not renewed", func(w *worker) bool { return w.renewed.Load() > after.UnixNano() })
	})
}

// heartbeatsInFlight makes all holders send a heartbeat and returns while at least n are in flight.
func (f *fleet) heartbeatsInFlight(n int64) {
	f.t.Helper()
	late := time.NewTimer(awaitTime)
	defer late.Stop()
	const look = 50 * time.Microsecond
	tick := time.NewTicker(look)
	defer tick.Stop()
	for looks := 0; f.traffic.inFlight.Load() < n; looks++ {
		if looks%200 == 0 {
			for _, w := range f.holders() {
				select {
				case w.nudge <- struct{}{}:
				default:
				}
			}
		}
		select {
		case <-tick.C:
		case <-late.C:
			f.t.Fatalf("%d heartbeats were never in flight together", n)
		}
	}
}

// giveBack tells the holder of a key to release it; it goes to the end of the line. The result waits until the next in
// line holds the key and the former holder is in line again.
func (f *fleet) giveBack(key string) (await func()) {
	f.t.Helper()
	line := f.lines[key]
	holder, next := line[0], line[1]
	f.await(holder.name+" holds "+key, func() error { return every(line[:1], "does not hold", (*worker).isHolding) })
	f.lines[key] = append(slices.Clone(line[1:]), holder)
	holder.giveBack <- struct{}{}
	return func() {
		f.t.Helper()
		f.await(key+" went to the next in line", func() error {
			return errors.Join(every([]*worker{next}, "does not hold", (*worker).isHolding),
				every([]*worker{holder}, "is not in line again", (*worker).isInLine))
		})
	}
}

// takeAnew tells the holders of keys that nobody waits for to release them and ask for them again. The result waits until
// they hold them again.
func (f *fleet) takeAnew(keys ...string) (await func()) {
	f.t.Helper()
	var holders []*worker
	before := map[*worker]int64{}
	for _, key := range keys {
		w := f.lines[key][0]
		holders, before[w] = append(holders, w), w.releases.Load()
		w.giveBack <- struct{}{}
	}
	return func() {
		f.t.Helper()
		f.await("keys were taken anew", func() error {
			return every(holders, "does not hold anew", func(w *worker) bool { return w.isHolding() && w.releases.Load() > before[w] })
		})
	}
}

// abandon makes the holder of a key die without a word, and waits until the next in line holds the key.
func (f *fleet) abandon(key string) {
	f.t.Helper()
	line := f.lines[key]
	close(line[0].die)
	f.lines[key] = line[1:]
	f.await(key+" of a dead holder went to the next in line", func() error {
		return every(line[1:2], "does not hold", (*worker).isHolding)
	})
}

// finish stops all workers, ends their sessions, and gives the judge's verdict.
func (f *fleet) finish() {
	f.t.Helper()
	f.wantNoFindings()
	f.halt()
	_ = f.group.Wait() // workers tell the judge
	for _, w := range f.workers {
		a := f.client.must(f.t, http.MethodDelete, "/v1/sessions/"+w.session, nil)
		if a.status != http.StatusOK {
			f.t.Errorf("end the session of %s: %v", w.name, a.problem())
		}
	}
	f.wantNoFindings()
	f.t.Logf("%d grants; %d heartbeats were in flight when a node was killed; the closest renewal came %v before its deadline",
		f.judge.granted(), f.traffic.straddled.Load(), time.Duration(f.traffic.closest.Load()).Round(time.Millisecond))
}
