package leader

import (
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// beat is one heartbeat on its way: what must be known before it can be answered.
type beat struct {
	request  Heartbeat
	receipt  time.Duration
	waiting  int // the confirm round and the extensions still out
	err      error
	touched  []touched
	extended map[uint64]bool // of the long leases held at the receipt: whether the extension was accepted
	done     func(HeartbeatAnswer, error)
}

type touched struct {
	h        *holding
	deadline time.Duration
}

// Heartbeat renews the leases that it names and calls done once: with each of them as held or lost, or with ErrNotLeader,
// ErrNoQuorum, ErrUnknownOutcome or ErrNotFound (no such session). Timers move at once; what the holder may rely on
// moves when a majority has confirmed this leader, or when a long lease's extension is applied. Leases that it does not
// name are left as they are.
func (l *Leader) Heartbeat(r Heartbeat, done func(HeartbeatAnswer, error)) {
	if l.state != phaseReady {
		done(HeartbeatAnswer{}, ErrNotLeader)
		return
	}
	l.heard(r.Tenant, r.Session)
	b := &beat{request: r, receipt: l.clock.Now(), extended: map[uint64]bool{}, done: done}
	b.waiting = 1
	if l.owns(r.Caller, r.Session) {
		for _, n := range r.Sequences {
			l.renew(b, n)
		}
	}
	l.rounds.ask(func(err error) { l.beaten(b, err) })
	l.flush()
}

// renew begins to renew one lease of the heartbeat.
func (l *Leader) renew(b *beat, n uint64) {
	h := l.holdings[b.ref(n)]
	switch {
	case h == nil:
	case h.long:
		b.waiting++
		l.extend(h, b.receipt, func(accepted bool, err error) {
			b.extended[n] = accepted
			l.beaten(b, err)
		})
	default:
		if deadline, ok := h.touch(b.receipt); ok {
			b.touched = append(b.touched, touched{h, deadline})
		}
	}
}

func (b *beat) ref(n uint64) ref {
	return ref{b.request.Tenant, lockcore.LeaseID{Session: b.request.Session, Sequence: n}}
}

// beaten notes that the round or an extension is back, and answers when all are.
func (l *Leader) beaten(b *beat, err error) {
	if err != nil && b.err == nil {
		b.err = err
	}
	if b.waiting--; b.waiting > 0 {
		return
	}
	if b.err != nil {
		b.done(HeartbeatAnswer{}, b.err)
		return
	}
	if !l.owns(b.request.Caller, b.request.Session) {
		b.done(HeartbeatAnswer{}, ErrNotFound)
		return
	}
	for _, t := range b.touched {
		l.confirmTouch(t.h, t.deadline)
	}
	b.done(l.beatAnswer(b), nil)
}

// beatAnswer says of each lease named whether it is held, as things stand now.
func (l *Leader) beatAnswer(b *beat) HeartbeatAnswer {
	a := HeartbeatAnswer{Index: l.machine.Index()}
	for _, n := range b.request.Sequences {
		id := b.ref(n)
		h := l.holdings[id]
		accepted, asked := b.extended[n]
		if h == nil || h.doomed || h.ending || (asked && !accepted) {
			a.Lost = append(a.Lost, l.lost(id, h))
			continue
		}
		if held, err := l.describe(id, b.receipt); err == nil && held.Status == StatusGranted {
			a.Held = append(a.Held, held)
		}
	}
	return a
}

// lost says why a lease is not held.
func (l *Leader) lost(id ref, h *holding) Lost {
	lost := Lost{Lease: id.lease, Reason: lockcore.RefusedUnknown}
	lease, known := l.machine.Lease(id.tenant, id.lease)
	switch {
	case !known:
		if a, err := l.describeUnknown(id, Answer{}); err == nil {
			lost.Reason = a.Reason
		}
	case lease.State == lockcore.StateEnded:
		lost.Reason, lost.Token = lease.Reason, lease.Token
	case lease.State == lockcore.StateWaiting:
		lost.Reason = lockcore.RefusedNotHeld
	case h != nil && h.ending:
		lost.Reason, lost.Token, lost.Ending = lease.Ending, lease.Token, true
	default:
		lost.Reason, lost.Token = lockcore.Expired, lease.Token
	}
	return lost
}
