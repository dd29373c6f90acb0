package clienttest

import (
	"slices"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

const (
	hangupGrace = 500 * time.Millisecond // for a waiter whose connection was lost
	silenceMin  = 5 * time.Second        // for one that does not poll
	silentPolls = 3
)

// poll is a request that hangs for a waiter.
type poll struct {
	lease    *lease
	received time.Time
	answer   chan answer // holds one
	alarm    *alarm
}

// grant gives a lock to a request. All of this file runs with mu held.
func (p *Platform) grant(l *lease, handed bool) {
	p.token++
	p.index++
	l.stop()
	l.class = p.classes[l.name.class]
	l.state, l.token, l.epoch, l.handed, l.since = wire.StateGranted, p.token, p.epoch, handed, time.Now()
	term := l.class.Lease
	if handed {
		term = l.class.pickup()
	}
	p.lockOf(l.name).holder = l
	p.run(l, l.since.Add(term))
}

// run lets a lease run until then.
func (p *Platform) run(l *lease, until time.Time) {
	l.expires = until
	l.expiry.stop()
	l.expiry = p.after(time.Until(until), func() { p.finish(l, l.expired()) })
}

// expired is how a lease ends that has run out.
func (l *lease) expired() end {
	switch {
	case l.state == wire.StateEnding:
		return l.ended
	case l.handed:
		return endPickupMissed
	}
	return endExpired
}

// renew gives a lease its full term for a request that names it, unless it is being ended.
func (p *Platform) renew(l *lease, received time.Time) {
	l.contact = received
	if l.state != wire.StateGranted {
		return
	}
	l.handed = false
	if until := received.Add(l.class.Lease); until.After(l.expires) {
		p.run(l, until)
	}
}

// enqueue puts a request in line.
func (p *Platform) enqueue(l *lease) {
	k := p.lockOf(l.name)
	k.queue = append(k.queue, l)
	l.state, l.since = wire.StateQueued, time.Now()
	p.watch(l)
}

// watch begins to watch over a waiter.
func (p *Platform) watch(l *lease) {
	l.stop()
	l.lastPoll = time.Now()
	if l.wait > 0 {
		l.timeout = p.after(l.wait, func() { p.finish(l, endWaitTimeout) })
	}
	p.watchSilence(l, l.silenceMax())
}

func (l *lease) silenceMax() time.Duration { return max(silenceMin, silentPolls*l.class.pollLimit()) }

func (p *Platform) watchSilence(l *lease, d time.Duration) {
	l.silence = p.after(d, func() {
		left := l.silenceMax() - time.Since(l.lastPoll)
		switch {
		case l.parked != nil:
			p.watchSilence(l, l.silenceMax())
		case left > 0:
			p.watchSilence(l, left)
		default:
			p.finish(l, endSilent)
		}
	})
}

// stop takes back the lease's alarms.
func (l *lease) stop() {
	l.expiry.stop()
	l.timeout.stop()
	l.silence.stop()
}

// park lets a request hang until its turn comes or its time is over. A newer one takes an older one's place. Nil: it is
// not to hang.
func (p *Platform) park(l *lease, received time.Time, hang time.Duration) *poll {
	p.deliver(l, nil)
	l.lastPoll = time.Now()
	hang = min(hang, l.class.pollLimit())
	if hang <= 0 {
		return nil
	}
	w := &poll{lease: l, received: received, answer: make(chan answer, 1)}
	l.parked = w
	w.alarm = p.after(hang, func() {
		if l.parked == w {
			l.lastPoll = time.Now()
			p.deliver(l, nil)
		}
	})
	return w
}

// deliver answers what hangs for a lease, if anything does: with a problem, or with how things stand.
func (p *Platform) deliver(l *lease, problem *wire.Problem) {
	w := l.parked
	if w == nil {
		return
	}
	l.parked = nil
	w.alarm.stop()
	if problem != nil {
		w.answer <- answer{problem: problem}
		return
	}
	w.answer <- p.describe(l, w.received)
}

// hangup is told that the connection of a request that hangs is lost.
func (p *Platform) hangup(w *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := w.lease
	if l.parked != w {
		return
	}
	l.parked = nil
	w.alarm.stop()
	lost := time.Now()
	l.lastPoll = lost
	p.after(hangupGrace, func() {
		if l.state == wire.StateQueued && l.parked == nil && l.lastPoll.Equal(lost) {
			p.finish(l, endDisconnected)
		}
	})
	p.change()
}

// finish ends a request, whether it is held or waits, and hands its lock to the next waiter.
func (p *Platform) finish(l *lease, how end) {
	k := p.lockOf(l.name)
	l.stop()
	l.state, l.ended = wire.StateEnded, how
	p.index++
	if i := slices.Index(k.queue, l); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
	}
	if k.holder == l {
		k.holder = nil
		p.promote(k)
	}
	if k.holder == nil {
		delete(p.locks, l.name)
	}
	p.deliver(l, nil)
}

// promote grants a lock to its first waiter.
func (p *Platform) promote(k *lock) {
	if len(k.queue) == 0 {
		return
	}
	next := k.queue[0]
	k.queue = slices.Delete(k.queue, 0, 1)
	p.grant(next, true)
	p.deliver(next, nil)
}

// finishAll ends what a session waits for, so that nothing is handed to itself, and then what it holds.
func (p *Platform) finishAll(s *session) {
	live := s.live()
	for _, l := range live {
		if l.state == wire.StateQueued {
			p.finish(l, endSession)
		}
	}
	for _, l := range live {
		if l.held() {
			p.finish(l, endSession)
		}
	}
}

// lead begins an epoch with a new leader, which knows of no request that hangs and lets every lease run anew.
func (p *Platform) lead(n *Node) {
	p.leader = n
	p.epoch++
	p.index++
	for _, k := range p.locks {
		h := k.holder
		h.contact = time.Time{}
		term := h.class.Lease
		if h.handed {
			term = h.class.pickup()
		}
		p.run(h, time.Now().Add(term))
		for _, l := range k.queue {
			p.deliver(l, wire.NewProblem(wire.CodeNotLeader, "Another node leads the partition now."))
			p.watch(l)
		}
	}
}

func (p *Platform) loseQuorum() {
	p.noQuorum = true
	for _, k := range p.locks {
		for _, l := range k.queue {
			p.deliver(l, noQuorum())
		}
	}
}

func noQuorum() *wire.Problem {
	return wire.NewProblem(wire.CodeNoQuorum, "No majority of the partition's nodes answered in time.")
}
