package bench

import (
	"bytes"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// HoldOptions say how leases are held while something is measured.
type HoldOptions struct {
	LeasesPerSession int           // 1 .. LeasesPerSessionMax
	Every            time.Duration // between a session's heartbeats, EveryMin .. EveryMax; 0: 5 s, or less if the platform asks for it
}

// everyDefault is the period of heartbeats that others are measured with, too.
const everyDefault = 5 * time.Second

// holdersMax is how many connections acquire leases and send heartbeats.
const holdersMax = 64

func (o HoldOptions) validate() error {
	err := inRange("leases-per-session", o.LeasesPerSession, 1, LeasesPerSessionMax)
	if o.Every != 0 && (o.Every < EveryMin || o.Every > EveryMax) {
		err = errors.Join(err, fmt.Errorf("%w: every is %v to %v, not %v", ErrRange, EveryMin, EveryMax, o.Every))
	}
	return err
}

// holding is a growing number of leases that are held. Its holders' goroutines own what they hold.
type holding struct {
	*run
	perSession int
	every      time.Duration
	holders    []*holder
	reached    chan struct{} // a holder has as many leases as it was to have
	taken      atomic.Int64  // leases, by all holders

	beat    *recorder // heartbeats, from when they were due
	service *recorder // heartbeats, from when they were sent
}

// hold settles how often heartbeats are due, and makes holders that hold nothing yet. work is for load.
func (r *run) hold(ctx context.Context, o HoldOptions) (*holding, error) {
	every, err := r.period(ctx, o.Every)
	if err != nil {
		return nil, err
	}
	h := &holding{run: r, perSession: o.LeasesPerSession, every: every, reached: make(chan struct{}, holdersMax),
		beat: newRecorder(), service: newRecorder()}
	for i := range holdersMax {
		h.holders = append(h.holders, &holder{holding: h, i: i, grow: make(chan int, 1)})
	}
	return h, nil
}

// period is how often heartbeats are to come. It asks the platform, with a lease that it gives back at the end.
func (r *run) period(ctx context.Context, asked time.Duration) (time.Duration, error) {
	c := r.conn()
	defer c.close()
	body := acquireBody(r.Class, "bench-"+r.id+"-period", noWait)
	status, answer, err := c.call(ctx, http.MethodPut, newLeaseRequests(r.session()).next(), body)
	if err == nil && status != http.StatusOK {
		err = failure(status, answer)
	}
	if err != nil {
		return 0, fmt.Errorf("acquire: %w", err)
	}
	l, err := readLease(answer)
	switch {
	case err != nil:
		return 0, err
	case asked == 0:
		return max(EveryMin, min(everyDefault, l.ContactWithin.Std())), nil
	case asked >= l.UseWithin.Std():
		return 0, fmt.Errorf("%w: every is %v, and a lease of %s is over after %s; send heartbeats sooner", ErrRange, asked, r.Class, l.UseWithin)
	}
	return asked, nil
}

// growTo has the holders hold so many leases, and returns when they do.
func (h *holding) growTo(ctx context.Context, leases int) error {
	shown := h.taken.Load()
	h.stage(fmt.Sprintf("take %d leases", leases), leases-int(shown))
	tick := time.NewTicker(progressTick)
	defer tick.Stop()
	sessions := (leases + h.perSession - 1) / h.perSession
	for i, one := range h.holders {
		full, last := share(sessions, i), (sessions-1)%holdersMax == i
		want := full * h.perSession
		if last {
			want -= sessions*h.perSession - leases
		}
		one.grow <- want // each has reached what it was told before
	}
	for waiting := len(h.holders); waiting > 0; {
		select {
		case <-h.reached:
			waiting--
		case <-tick.C:
			now := h.taken.Load()
			h.step(int(now - shown))
			shown = now
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// share is how many of so many sessions are holder i's: sessions go round.
func share(sessions, i int) int { return (sessions + holdersMax - 1 - i) / holdersMax }

// work is a holder's part of the load.
func (h *holding) work(ctx, running context.Context, i int) error {
	return h.holders[i].work(ctx, running)
}

// holder takes leases and keeps them with heartbeats, over one connection. A heartbeat that is due goes before taking.
type holder struct {
	*holding
	i    int
	grow chan int // how many leases it is to hold

	// The rest is owned by work.
	c        *conn
	want     int
	have     int
	growing  bool
	sessions []*heldSession
	due      dueHeap
}

// heldSession is a session that holds leases.
type heldSession struct {
	requests  *leaseRequests
	heartbeat string // path
	held      uint64 // leases 1 .. held
	body      []byte // of the heartbeat
	due       time.Time
}

func (h *holder) work(ctx, running context.Context) error {
	h.c = h.conn()
	defer h.c.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for running.Err() == nil {
		var err error
		switch {
		case h.isDue():
			err = h.beatNext(ctx)
		case h.have < h.want:
			err = h.take(ctx)
		case h.growing:
			h.growing = false
			h.reached <- struct{}{} // as large as there are holders
		default:
			h.idle(running, timer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *holder) isDue() bool { return len(h.due) > 0 && !time.Now().Before(h.due[0].due) }

// idle waits for the next heartbeat, or for more to do.
func (h *holder) idle(running context.Context, timer *time.Timer) {
	next := EveryMax
	if len(h.due) > 0 {
		next = time.Until(h.due[0].due)
	}
	timer.Reset(next)
	select {
	case <-running.Done():
	case h.want = <-h.grow:
		h.growing = true
	case <-timer.C:
	}
}

// take takes one more lease, in a session that has room or in a new one.
func (h *holder) take(ctx context.Context) error {
	n := len(h.sessions)
	if n == 0 || h.sessions[n-1].held == uint64(h.perSession) {
		session := h.session()
		h.sessions = append(h.sessions, &heldSession{requests: newLeaseRequests(session), heartbeat: "/v1/sessions/" + session + "/heartbeat"})
		n++
	}
	s := h.sessions[n-1]
	key := fmt.Sprintf("bench-%s-held-%d-%d", h.id, h.i, h.have)
	if err := h.c.want(ctx, http.MethodPut, s.requests.next(), acquireBody(h.Class, key, noWait)); err != nil {
		return fmt.Errorf("take lease %d of this client: %w", h.have+1, err)
	}
	h.have++
	s.held++
	s.body = appendHeld(s.body, s.held)
	if s.held == 1 {
		s.due = time.Now().Add(h.first(n - 1))
		heap.Push(&h.due, s)
	}
	h.taken.Add(1)
	return nil
}

// first is when a session's first heartbeat comes: spread, so that not all come at once, however many there will be.
func (h *holder) first(session int) time.Duration {
	const golden = 0.618033988749895
	_, place := math.Modf(float64(session*holdersMax+h.i) * golden)
	return time.Duration(place * float64(h.every))
}

// appendHeld adds a lease to the body of its session's heartbeat.
func appendHeld(body []byte, n uint64) []byte {
	const end = "]}"
	if len(body) == 0 {
		body = append(body, `{"leases":[`...)
	} else {
		body = append(body[:len(body)-len(end)], ',')
	}
	return append(strconv.AppendUint(body, n, 10), end...)
}

// beatNext sends the heartbeat that has been due for longest. The next one is due a period after this one was, whenever
// it was sent.
func (h *holder) beatNext(ctx context.Context) error {
	s := h.due[0]
	due, sent := s.due, time.Now()
	status, answer, err := h.c.call(ctx, http.MethodPost, s.heartbeat, s.body)
	if err == nil && status != http.StatusOK {
		err = failure(status, answer)
	}
	if err == nil {
		err = allHeld(answer)
	}
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if h.counts.Load() {
		h.beat.record(time.Since(due))
		h.service.record(time.Since(sent))
	}
	s.due = due.Add(h.every)
	heap.Fix(&h.due, 0)
	return nil
}

var noneLost = []byte(`"lost":[]`)

// allHeld checks the answer to a heartbeat.
func allHeld(answer []byte) error {
	if bytes.Contains(answer, noneLost) {
		return nil
	}
	var a wire.HeartbeatAnswer
	if err := json.Unmarshal(answer, &a); err != nil {
		return fmt.Errorf("the answer is none to a heartbeat: %w", err)
	}
	if len(a.Lost) == 0 {
		return nil
	}
	return &Failure{Err: fmt.Errorf("%d leases were lost, one with %s %s: their heartbeats came too late, or somebody ended them",
		len(a.Lost), a.Lost[0].Code, a.Lost[0].Reason), Remedy: "hold fewer --leases, more in a session, or take a --class with a longer lease"}
}

// dueHeap is a heap of sessions by when their heartbeat is due.
type dueHeap []*heldSession

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dueHeap) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueHeap) Push(s any)        { *d = append(*d, s.(*heldSession)) }
func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	s := (*d)[last]
	*d = (*d)[:last]
	return s
}
