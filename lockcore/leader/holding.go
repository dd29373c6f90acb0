package leader

import (
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// holding is what the leader knows of one held lease beyond the machine.
type holding struct {
	ref    ref
	token  lockcore.Token
	length time.Duration
	long   bool

	expireAt time.Duration // the timer; it may run longer than anybody was told
	told     time.Duration // the latest deadline that an entry or a confirmed request supports
	contact  time.Duration // last request of the holder

	handed    bool // handed to a waiter that has not fetched it yet
	ending    bool
	doomed    bool       // proposed for expiry
	extending int        // extensions that wait for their entry
	queued    *extension // the one of them that is not proposed yet; nil: none
	overdue   bool       // older than its class allows, found while it was doomed
	onEnd     []func()
	expiry    *alarm
	maxHold   *alarm // nil: none
}

// hold begins to keep a lease granted or handed over by an entry of this leadership. What clients may rely on counts
// from the proposal; the timer runs from here.
func (l *Leader) hold(id ref, lease *lockcore.Lease, proposed time.Duration, handed bool) {
	now := l.clock.Now()
	term := millis(lease.LeaseMS)
	if handed {
		term = millis(lockcore.PickupMS(lease.LeaseMS))
	}
	h := l.newHolding(id, lease, now)
	h.told, h.expireAt, h.handed = proposed+term, now+term, handed
	if h.long {
		h.expireAt = proposed + term
	}
	l.keep(h, lease, now)
}

func (l *Leader) newHolding(id ref, lease *lockcore.Lease, now time.Duration) *holding {
	return &holding{ref: id, token: lease.Token, length: millis(lease.LeaseMS), long: lease.Long(), contact: now}
}

// keep puts the holding into the table and sets its alarms.
func (l *Leader) keep(h *holding, lease *lockcore.Lease, now time.Duration) {
	l.holdings[h.ref] = h
	if h.long {
		l.longs++
	}
	l.watchExpiry(h, h.expireAt)
	if lease.MaxHoldMS > 0 && lease.Ending == 0 {
		h.maxHold = l.alarms.set(now+millis(lease.MaxHoldMS), func(time.Duration) { l.endHold(h) })
	}
}

func (l *Leader) watchExpiry(h *holding, at time.Duration) {
	h.expiry = l.alarms.set(at, func(now time.Duration) { l.checkExpiry(h, now) })
}

// drop forgets a holding whose lease has ended.
func (l *Leader) drop(id ref) {
	h := l.holdings[id]
	if h == nil {
		return
	}
	delete(l.holdings, id)
	l.alarms.takeBack(h.expiry)
	l.alarms.takeBack(h.maxHold)
	if h.long {
		l.longs--
	}
	h.decided()
}

// decided goes on with what waited for the fate of a doomed lease.
func (h *holding) decided() {
	waiting := h.onEnd
	h.onEnd = nil
	for _, f := range waiting {
		f()
	}
}

// current reports whether h is still what the table holds.
func (l *Leader) current(h *holding) bool { return l.holdings[h.ref] == h }

// checkExpiry dooms a lease whose timer has run out, or sets the alarm again. An extension under way is awaited: if it
// is accepted, the lease lives.
func (l *Leader) checkExpiry(h *holding, now time.Duration) {
	switch {
	case !l.current(h) || h.doomed:
	case now < h.expireAt:
		l.watchExpiry(h, h.expireAt)
	case h.extending > 0:
		l.watchExpiry(h, now+hangupGrace)
	default:
		l.doom(h)
	}
}

// doom proposes the expiry. From here on nothing says that the lease is held until the outcome is known.
func (l *Leader) doom(h *holding) {
	h.doomed = true
	c := lockcore.Expire{Tenant: h.ref.tenant, Lease: h.ref.lease, Token: h.token, Missed: h.handed}
	l.propose(h.ref.tenant, true, c, func(r lockcore.Result, _ time.Duration, err error) {
		if err != nil || r.Reason != lockcore.RefusedNotDue || !l.current(h) {
			return // ended, or the leadership is over and the next one asks again
		}
		l.lift(h)
	})
}

// lift ends the doom of a long lease whose logged deadline had not come.
func (l *Leader) lift(h *holding) {
	lease, ok := l.machine.Lease(h.ref.tenant, h.ref.lease)
	if !ok || !lease.Held() {
		return
	}
	h.doomed = false
	h.expireAt = l.clockMoment(lease.DeadlineMS)
	l.watchExpiry(h, h.expireAt)
	if h.overdue {
		l.endHold(h)
	}
	h.decided()
}

// clockMoment is the moment of this leadership by which the lease clock has surely passed ms.
func (l *Leader) clockMoment(ms int64) time.Duration {
	return l.readyAt + millis(ms-l.clockBase) + time.Millisecond
}

// endHold ends a hold that is older than its class allows.
func (l *Leader) endHold(h *holding) {
	if !l.current(h) || h.ending {
		return
	}
	if h.overdue = h.doomed; h.overdue {
		return // whatever lifts the doom asks again
	}
	l.propose(h.ref.tenant, true, lockcore.MarkEnding{Tenant: h.ref.tenant, Lease: h.ref.lease, Token: h.token,
		Cause: lockcore.MaxHold}, nil)
}

// touch moves the timer of a live short lease at the receipt of a request that keeps it, and gives the deadline that the
// request supports once it is confirmed. It says no for a lease that takes no more requests.
func (h *holding) touch(receipt time.Duration) (deadline time.Duration, ok bool) {
	h.contact = receipt
	if h.doomed || h.ending {
		return 0, false
	}
	deadline = receipt + h.length
	h.expireAt = max(h.expireAt, deadline)
	return deadline, true
}

// confirmTouch makes the deadline of a confirmed request known, if the lease still takes requests.
func (l *Leader) confirmTouch(h *holding, deadline time.Duration) bool {
	if !l.current(h) || h.doomed || h.ending {
		return false
	}
	h.told, h.handed = max(h.told, deadline), false
	return true
}

// extend logs a long lease's full term and calls done with whether it was accepted.
func (l *Leader) extend(h *holding, receipt time.Duration, done func(accepted bool, err error)) {
	h.contact = receipt
	if h.doomed || h.ending {
		done(false, nil)
		return
	}
	if h.queued != nil {
		h.queued.waiting = append(h.queued.waiting, done)
		return
	}
	e := &extension{waiting: []func(bool, error){done}}
	h.queued = e
	h.extending++
	l.batcher.put(h.ref.tenant, true, pending{
		command: lockcore.Extend{Tenant: h.ref.tenant, Lease: h.ref.lease, Token: h.token},
		sent:    func() { h.queued = nil },
		done:    func(r lockcore.Result, proposed time.Duration, err error) { h.extended(e, r, proposed, err) },
	})
}

// extension is an extension that has not been proposed yet, and who waits for it: it will be proposed after all of their
// requests were received, so it serves them all, and a lease has at most one in line.
type extension struct {
	waiting []func(accepted bool, err error)
}

// extended follows up on an extension.
func (h *holding) extended(e *extension, r lockcore.Result, proposed time.Duration, err error) {
	h.extending--
	if h.queued == e { // never proposed
		h.queued = nil
	}
	accepted := err == nil && r.Outcome == lockcore.Granted
	if accepted {
		h.told = max(h.told, proposed+h.length)
		h.expireAt = max(h.expireAt, proposed+h.length)
		h.handed = false
	}
	for _, done := range e.waiting {
		done(accepted, err)
	}
}

// useWithin is what a client may add to the moment at which it sent the request received at receipt.
func (h *holding) useWithin(receipt time.Duration) time.Duration {
	remaining := h.told - receipt
	epsilon := min(epsilonMax, h.length/epsilonShare)
	return max(0, remaining-remaining*driftPercent/100-epsilon)
}

// LastContact is when the holder of a lease was last heard of, on the leader's clock; false: it is not held here.
func (l *Leader) LastContact(tenant lockcore.TenantID, lease lockcore.LeaseID) (time.Duration, bool) {
	h := l.holdings[ref{tenant, lease}]
	if h == nil {
		return 0, false
	}
	return h.contact, true
}
