package leader

import (
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// wait is what the leader knows of one waiter beyond the machine.
type wait struct {
	ref      ref
	class    lockcore.ClassName
	parked   *Poll         // the request that hangs for it; nil: none
	lastPoll time.Duration // when a request for it was last there
	silence  time.Duration // how long none may be
	leaving  bool          // a Leave is on its way
	silent   *alarm        // looks for silence
	deadline *alarm        // ends the wait; nil: none
}

// Poll is a request that waits for an answer.
type Poll struct {
	ref     ref
	arrived time.Duration
	until   time.Duration // when it is answered at the latest, as things then stand
	done    func(Answer, error)
	gone    bool // its connection was lost
}

// answer answers a poll once; what comes later is not heard.
func (p *Poll) answer(a Answer, err error) {
	if p.done == nil {
		return
	}
	done := p.done
	p.done = nil
	done(a, err)
}

// queueUp begins to watch over a waiter, from now.
func (l *Leader) queueUp(id ref, lease *lockcore.Lease) {
	if l.waits[id] != nil {
		return
	}
	now := l.clock.Now()
	w := &wait{ref: id, class: lease.Class, lastPoll: now}
	l.allowSilence(w)
	l.waits[id] = w
	l.watchSilence(w, now+w.silence)
	if lease.WaitMS > 0 {
		w.deadline = l.alarms.set(now+millis(lease.WaitMS), func(time.Duration) { l.leave(w, lockcore.WaitTimeout) })
	}
}

// allowSilence gives a waiter as long as the class in force says, and never less than it was promised before.
func (l *Leader) allowSilence(w *wait) {
	w.silence = max(w.silence, purgeMin, purgePolls*l.pollLimit(w.ref.tenant, w.class))
}

func (l *Leader) watchSilence(w *wait, at time.Duration) {
	w.silent = l.alarms.set(at, func(now time.Duration) { l.checkSilence(w, now) })
}

// unqueue forgets a waiter that was handed its lease or left, and answers its parked request.
func (l *Leader) unqueue(id ref, proposed time.Duration) {
	w := l.waits[id]
	if w == nil {
		return
	}
	delete(l.waits, id)
	l.alarms.takeBack(w.silent)
	l.alarms.takeBack(w.deadline)
	if p := w.parked; p != nil {
		l.deliveries = append(l.deliveries, delivery{p, proposed})
	}
}

// delivery is an answer to make when the whole entry has been followed.
type delivery struct {
	poll     *Poll
	proposed time.Duration
}

// deliver answers requests that an entry decided. One that did not arrive before the entry was proposed is answered
// after a confirm round: the entry may be older than a change of leader, even if the clock stood still meanwhile.
func (l *Leader) deliver() {
	due := l.deliveries
	l.deliveries = nil
	for _, d := range due {
		if d.poll.arrived < d.proposed {
			l.conclude(d.poll)
		} else {
			l.settle(d.poll)
		}
	}
}

func (l *Leader) pollLimit(tenant lockcore.TenantID, class lockcore.ClassName) time.Duration {
	if c, ok := l.machine.Class(tenant, class); ok {
		return millis(lockcore.PollLimitMS(c.LeaseMS))
	}
	return 0
}

// park lets a request hang until its waiter's turn comes or its time is over. A newer request takes an older one's place.
func (l *Leader) park(w *wait, p *Poll) {
	now := l.clock.Now()
	if older := w.parked; older != nil {
		w.parked = nil
		l.settle(older)
	}
	w.lastPoll = now
	l.allowSilence(w)
	switch {
	case p.gone:
		l.watchHangup(w)
	case p.until <= now:
		l.settle(p)
	default:
		w.parked = p
		l.alarms.set(p.until, func(now time.Duration) { l.unpark(w, p, now) })
	}
}

// unpark answers a request whose time is over; its waiter stays in the queue.
func (l *Leader) unpark(w *wait, p *Poll, now time.Duration) {
	if w.parked == p {
		w.parked, w.lastPoll = nil, now
		l.settle(p)
	}
}

// Hangup tells the leader that a request's connection is lost. Its waiter leaves unless another request follows soon; a
// request that is not parked yet is treated so when it is.
func (l *Leader) Hangup(p *Poll) {
	p.gone = true
	if w := l.waits[p.ref]; w != nil && w.parked == p {
		w.parked, w.lastPoll = nil, l.clock.Now()
		l.watchHangup(w)
	}
}

func (l *Leader) watchHangup(w *wait) {
	lost := w.lastPoll
	l.alarms.set(lost+hangupGrace, func(time.Duration) {
		if w.parked == nil && w.lastPoll == lost {
			l.leave(w, lockcore.Disconnected)
		}
	})
}

// checkSilence purges a waiter without a request for too long, or looks again later.
func (l *Leader) checkSilence(w *wait, now time.Duration) {
	if l.waits[w.ref] != w {
		return
	}
	next := w.lastPoll + w.silence
	if w.parked != nil || w.leaving {
		next = now + w.silence
	}
	if now >= next {
		w.leaving, next = true, now+w.silence
		l.silent = append(l.silent, w)
	}
	l.watchSilence(w, next)
}

// purge proposes the waiters found silent in this step, those of a tenant together.
func (l *Leader) purge() {
	silent := l.silent
	l.silent = nil
	for len(silent) > 0 {
		n, tenant := 0, silent[0].ref.tenant
		var ids []lockcore.LeaseID
		for n < len(silent) && n < batchCommandsMax && silent[n].ref.tenant == tenant {
			ids = append(ids, silent[n].ref.lease)
			n++
		}
		l.propose(tenant, true, lockcore.WaiterGone{Tenant: tenant, Leases: ids}, nil)
		silent = silent[n:]
	}
}

// leave takes a waiter out of its queue, unless it has been handed its lease meanwhile.
func (l *Leader) leave(w *wait, cause lockcore.Reason) {
	if l.waits[w.ref] != w || w.leaving {
		return
	}
	w.leaving = true
	c := lockcore.Leave{Tenant: w.ref.tenant, Lease: w.ref.lease, Cause: cause}
	l.propose(w.ref.tenant, true, c, nil)
}
