package leader

import (
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// Acquire asks for a lease, polls for it or repeats either, and calls done once: with the grant, with a place in the
// queue when the poll's time is over, with a refusal, or with ErrNotLeader, ErrNoQuorum, ErrUnknownOutcome,
// ErrOverloaded or ErrNotFound. The returned poll is for Hangup.
func (l *Leader) Acquire(r Acquire, done func(Answer, error)) *Poll {
	now := l.clock.Now()
	p := &Poll{ref: ref{r.Tenant, r.Lease}, arrived: now, done: done}
	if l.state != phaseReady {
		p.answer(Answer{}, ErrNotLeader)
		return p
	}
	p.until = now + min(max(r.Poll, 0), l.pollLimit(r.Tenant, r.Class))
	l.heard(r.Tenant, r.Lease.Session)
	if lease := l.own(r); lease != nil {
		l.poll(p, lease)
	} else {
		l.request(p, r)
	}
	l.flush()
	return p
}

// own finds the caller's request if it is a repetition; whatever else is for the machine to judge.
func (l *Leader) own(r Acquire) *lockcore.Lease {
	s, known := l.machine.Session(r.Tenant, r.Lease.Session)
	if !known || s.Owner != r.Owner {
		return nil
	}
	lease, known := l.machine.Lease(r.Tenant, r.Lease)
	if !known || lease.Class != r.Class || lease.Key != r.Key {
		return nil
	}
	return lease
}

// request puts a first acquire into the log.
func (l *Leader) request(p *Poll, r Acquire) {
	c := lockcore.Acquire{Tenant: r.Tenant, Owner: r.Owner, Lease: r.Lease, Class: r.Class, Key: r.Key,
		WaitMS: l.waitMS(r), Holder: r.Holder, APIKey: r.APIKey}
	l.ask(r.Tenant, false, c, func(result lockcore.Result, _ time.Duration, err error) { l.requested(p, result, err) })
}

func (l *Leader) waitMS(r Acquire) int64 {
	if r.Wait != WaitDefault {
		if r.Wait < 0 {
			return lockcore.WaitUnlimited
		}
		return r.Wait.Milliseconds()
	}
	class, ok := l.machine.Class(r.Tenant, r.Class)
	switch {
	case !ok || class.Refuses:
		return 0
	case class.MaxWaitMS == 0:
		return lockcore.WaitUnlimited
	}
	return class.MaxWaitMS
}

// requested answers an acquire from its own entry, which was proposed after the request arrived.
func (l *Leader) requested(p *Poll, result lockcore.Result, err error) {
	if err != nil {
		p.answer(Answer{}, err)
		return
	}
	if result.Outcome == lockcore.Refused {
		if result.Reason == lockcore.RefusedUnknown { // a tenant that the partition has not heard of has no class in force
			result.Reason = lockcore.RefusedNotInForce
		}
		p.answer(l.refusal(result.Reason))
		return
	}
	if w := l.waits[p.ref]; w != nil {
		l.park(w, p)
		return
	}
	l.conclude(p)
}

// refusal turns the machine's refusal of a caller's command into an answer. What belongs to somebody else answers as what
// does not exist.
func (l *Leader) refusal(r lockcore.Reason) (Answer, error) {
	switch r {
	case lockcore.RefusedStaleEpoch:
		return Answer{}, ErrNotLeader
	case lockcore.RefusedForeign, lockcore.RefusedUnknown:
		return Answer{}, ErrNotFound
	}
	return Answer{Status: StatusRefused, Reason: r, Index: l.machine.Index()}, nil
}

// poll answers a repeated request: it takes up a lease that was handed over, hangs while its waiter waits, and else says
// after a confirm round how things stand.
func (l *Leader) poll(p *Poll, lease *lockcore.Lease) {
	if w := l.waits[p.ref]; w != nil {
		l.park(w, p)
		return
	}
	h := l.holdings[p.ref]
	if h == nil || !h.handed || h.doomed || h.ending {
		l.settle(p)
		return
	}
	l.takeUp(h, p.arrived, func(err error) {
		if err != nil {
			p.answer(Answer{}, err)
			return
		}
		l.conclude(p)
	})
}

// takeUp gives a lease its full term for a request that names it: a short one once a majority confirms, a long one
// through the log. done is called when it has been decided; how, the holding says.
func (l *Leader) takeUp(h *holding, receipt time.Duration, done func(error)) {
	if h.long {
		l.extend(h, receipt, func(_ bool, err error) { done(err) })
		return
	}
	deadline, ok := h.touch(receipt)
	l.rounds.ask(func(err error) {
		if err == nil && ok {
			l.confirmTouch(h, deadline)
		}
		done(err)
	})
}

// settle answers a poll as things stand after a confirm round that begins now.
func (l *Leader) settle(p *Poll) {
	l.rounds.ask(func(err error) {
		if err != nil {
			p.answer(Answer{}, err)
			return
		}
		l.conclude(p)
	})
}

// conclude answers a poll as things stand, once that may be said. Of a doomed lease nothing may be said until its fate is
// known.
func (l *Leader) conclude(p *Poll) {
	if h := l.holdings[p.ref]; h != nil && h.doomed {
		h.onEnd = append(h.onEnd, func() { l.concludeEnded(p) })
		return
	}
	p.answer(l.describe(p.ref, p.arrived))
}

func (l *Leader) concludeEnded(p *Poll) {
	if l.state == phaseStopped {
		p.answer(Answer{}, ErrNotLeader)
		return
	}
	l.settle(p)
}

// describe says where a request stands, for an answer to a request received at receipt.
func (l *Leader) describe(id ref, receipt time.Duration) (Answer, error) {
	lease, known := l.machine.Lease(id.tenant, id.lease)
	a := Answer{Lease: lease, Index: l.machine.Index()}
	if !known {
		return l.describeUnknown(id, a)
	}
	switch lease.State {
	case lockcore.StateWaiting:
		return l.describeWaiting(id, a, receipt), nil
	case lockcore.StateEnded:
		return describeEnded(a), nil
	}
	return l.describeHeld(id, a, receipt)
}

// describeEnded says how a request ended. An id used up by a refusal answers that refusal, as often as asked.
func describeEnded(a Answer) Answer {
	a.Status, a.Reason = StatusEnded, a.Lease.Reason
	if a.Reason >= lockcore.RefusedStaleEpoch {
		return Answer{Status: StatusRefused, Reason: a.Reason, Index: a.Index}
	}
	return a
}

// describeUnknown tells an id that is no longer remembered from one that was never seen.
func (l *Leader) describeUnknown(id ref, a Answer) (Answer, error) {
	s, known := l.machine.Session(id.tenant, id.lease.Session)
	switch {
	case known && s.Forgot(id.lease.Sequence):
		a.Status, a.Reason = StatusRefused, lockcore.RefusedTooOld
		return a, nil
	case known && s.Ended:
		a.Status, a.Reason = StatusEnded, lockcore.SessionOver
		return a, nil
	}
	return Answer{}, ErrNotFound
}

func (l *Leader) describeWaiting(id ref, a Answer, receipt time.Duration) Answer {
	a.Status, a.Position = StatusQueued, l.machine.Position(id.tenant, a.Lease)
	a.ContactWithin = l.clock.Now() - receipt + l.pollLimit(id.tenant, a.Lease.Class)
	return a
}

func (l *Leader) describeHeld(id ref, a Answer, receipt time.Duration) (Answer, error) {
	h := l.holdings[id]
	switch {
	case h == nil || h.doomed:
		return Answer{}, ErrUnknownOutcome
	case h.ending:
		a.Status, a.Reason = StatusEnding, a.Lease.Ending
		return a, nil
	}
	a.Status, a.UseWithin = StatusGranted, h.useWithin(receipt)
	if a.UseWithin == 0 && h.handed {
		return l.lateHandOff(a), nil
	}
	now := l.clock.Now()
	due := min(millis(a.Lease.HeartbeatMS), max(0, h.told-now)/2)
	a.ContactWithin = now - receipt + due
	return a, nil
}

// lateHandOff answers for a lease handed over so late that its window has passed for this request: the next request, at
// once, takes it up.
func (l *Leader) lateHandOff(a Answer) Answer {
	return Answer{Status: StatusQueued, Lease: a.Lease, Position: 1, Index: a.Index}
}
