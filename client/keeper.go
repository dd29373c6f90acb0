package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stanchion-locks/stanchion/client/deadline"
	"github.com/stanchion-locks/stanchion/client/wire"
)

const (
	alarmEvery   = time.Second // how often deadlines are looked at, whatever timers believe: the machine may have slept
	beatsMax     = 3           // heartbeats under way at a time: one that hangs must not hold up the next
	beatNamesMax = 10_000      // leases in one
	beatTimeMin  = 500 * time.Millisecond
	beatTimeMax  = 5 * time.Second
	hedgeMin     = 100 * time.Millisecond
	hedgeMax     = 2 * time.Second
)

// errNoAnswer is the cause of doubt while a heartbeat hangs.
var errNoAnswer = errors.New("a heartbeat has not been answered yet")

// keep is the session's keeper: it sends heartbeats when they are due and ends holds whose deadline has passed, as long as there are any.
func (s *session) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.wake:
		}
		next, ok := s.turn()
		if !ok {
			return
		}
		timer.Reset(next)
	}
}

// turn does what is due and says in how long to look again; false: nothing is held.
func (s *session) turn() (time.Duration, bool) {
	for _, l := range s.held() {
		_ = l.Err() // ends the hold if its deadline has passed
	}
	now := s.client.watch.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.leases) == 0 {
		s.keeping = false
		return 0, false
	}
	if s.due(now) && s.inFlight < beatsMax {
		s.send(now)
	}
	return s.next(now), true
}

// due reports whether any lease is; with mu held.
func (s *session) due(now deadline.Instant) bool {
	for _, l := range s.leases {
		if l.due <= now {
			return true
		}
	}
	return false
}

// next is in how long something is to be looked at; with mu held.
func (s *session) next(now deadline.Instant) time.Duration {
	next := now.Add(alarmEvery)
	for _, l := range s.leases {
		next = min(next, l.deadline.At())
		if s.inFlight < beatsMax { // otherwise the end of one of them wakes
			next = min(next, l.due)
		}
	}
	return max(next.Sub(now), time.Millisecond)
}

// send sends one heartbeat for all leases that are due, and those that are past half of their time: they are due together from
// then on. Others are not named, since each renewal of a long lease is an entry in the log. With mu held.
func (s *session) send(now deadline.Instant) {
	var named []*Lease
	limit := beatTimeMax
	for _, l := range s.leases {
		if l.due.Sub(now) > l.every/2 || len(named) == beatNamesMax {
			continue
		}
		if l.due <= now && s.failures > 0 {
			l.doubtHanging()
		}
		l.due = now.Add(min(max(l.every/2, hedgeMin), hedgeMax))
		limit = min(limit, max(l.every, beatTimeMin))
		named = append(named, l)
	}
	s.failures++ // until one is answered
	s.inFlight++
	s.used = now
	b := beat{session: s, node: s.route.next(s.client.nodes), limit: limit, named: named, began: now, failures: s.failures}
	if !s.client.begin(b.run) {
		s.inFlight--
	}
}

// beat is one heartbeat under way.
type beat struct {
	session  *session
	node     string
	limit    time.Duration
	named    []*Lease
	began    deadline.Instant
	failures int // heartbeats in a row that are not answered, this one included
}

// doubtHanging says that no heartbeat was answered for a while, unless it is in doubt already; with session.mu held.
func (l *Lease) doubtHanging() {
	l.mu.Lock()
	doubted := l.last != nil
	l.mu.Unlock()
	if !doubted {
		l.doubt(errNoAnswer)
	}
}

func (b beat) run() {
	r, err := b.ask()
	b.answered(r, err)
	b.session.mu.Lock()
	defer b.session.mu.Unlock()
	b.session.inFlight--
	b.session.signal()
}

// ask sends the heartbeat.
func (b beat) ask() (reply, error) {
	all := make([]uint64, 0, len(b.named))
	for _, l := range b.named {
		all = append(all, l.n)
	}
	longest, err := json.Marshal(wire.HeartbeatRequest{Leases: all})
	if err != nil {
		return reply{}, err
	}
	c := b.session.client
	return c.sendLate(c.life, b.limit, b.node, "/v1/sessions/"+b.session.id+"/heartbeat", len(longest), b.names)
}

// names is the heartbeat's body: what of its leases is held still, at the last moment. One whose release has begun is not named.
func (b beat) names() ([]byte, error) {
	s := b.session
	request := wire.HeartbeatRequest{Leases: make([]uint64, 0, len(b.named))}
	s.mu.Lock()
	for _, l := range b.named {
		if s.leases[l.n] == l {
			request.Leases = append(request.Leases, l.n)
		}
	}
	s.mu.Unlock()
	if len(request.Leases) == 0 {
		return nil, errAllReleased
	}
	slices.Sort(request.Leases)
	return json.Marshal(request)
}

// errAllReleased: there was nothing left to keep when the heartbeat was about to leave.
var errAllReleased = errors.New("all were released")

// answered takes the answer, or that there is none.
func (b beat) answered(r reply, err error) {
	var answer wire.HeartbeatAnswer
	if err == nil && r.problem == nil {
		if err = r.read(&answer); err == nil {
			b.session.kept(r.sent, answer)
			return
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, errAllReleased) {
		return
	}
	b.missed(r.after, errProblem(r, err))
}

// kept applies an answer. It says what it says of the leases in it; absence means nothing.
func (s *session) kept(sent deadline.Instant, answer wire.HeartbeatAnswer) {
	s.mu.Lock()
	s.failures, s.route = 0, route{}
	s.mu.Unlock()
	for _, h := range answer.Held {
		if l := s.lease(h.LeaseID); l != nil {
			s.renew(l, sent, h)
		}
	}
	for _, gone := range answer.Lost {
		if l := s.lease(gone.LeaseID); l != nil {
			l.lose(causeOf(gone), detailOf(gone))
		}
	}
}

func (s *session) renew(l *Lease, sent deadline.Instant, h wire.Held) {
	if !l.deadline.Extend(sent, h.UseWithin.Std()) {
		l.lose(ErrDeadline, "")
		return
	}
	s.mu.Lock()
	if sent >= l.renewed {
		l.every = max(h.ContactWithin.Std(), hedgeMin)
		l.renewed, l.due = sent, sent.Add(l.every)
	}
	s.mu.Unlock()
	l.sure()
}

func (s *session) lease(id string) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[s.numberOf(id)]
}

// missed has the leases named again soon, and puts them in doubt, unless another heartbeat kept them meanwhile.
func (b beat) missed(after time.Duration, cause error) {
	now := b.session.client.watch.Now()
	for _, l := range b.named {
		if b.again(l, now, after) {
			l.doubt(cause)
		}
	}
}

// again makes a lease due after a pause, and reports whether it is not kept.
func (b beat) again(l *Lease, now deadline.Instant, after time.Duration) bool {
	s := b.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[l.n] != l || l.renewed > b.began {
		return false
	}
	wait := backoff(b.failures, max(min(l.every/4, pauseMax), pauseMin))
	l.due = now.Add(max(wait, min(after, l.every/2)))
	return true
}
