package leader

import (
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// Release gives a lease back or leaves the queue, and calls done once.
func (l *Leader) Release(r Release, done func(Answer, error)) {
	if l.state != phaseReady {
		done(Answer{}, ErrNotLeader)
		return
	}
	l.heard(r.Tenant, r.Lease.Session)
	c := lockcore.Release{Tenant: r.Tenant, Owner: r.Owner, Lease: r.Lease, Token: r.Token}
	l.ask(r.Tenant, true, c, func(result lockcore.Result, _ time.Duration, err error) {
		done(l.ended(r, result, err))
	})
	l.flush()
}

func (l *Leader) ended(r Release, result lockcore.Result, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	if result.Outcome == lockcore.Refused {
		return l.refusal(result.Reason)
	}
	lease, _ := l.machine.Lease(r.Tenant, r.Lease)
	return Answer{Status: StatusEnded, Reason: result.Reason, Lease: lease, Index: l.machine.Index()}, nil
}

// EndSession releases all that a session holds, leaves all its queues, and calls done once.
func (l *Leader) EndSession(r EndSession, done func(error)) {
	if l.state != phaseReady {
		done(ErrNotLeader)
		return
	}
	l.heard(r.Tenant, r.Session)
	if l.batcher.full(r.Tenant, true) {
		done(ErrOverloaded)
		return
	}
	l.batcher.put(r.Tenant, true, pending{
		command: lockcore.EndSession{Tenant: r.Tenant, Owner: r.Owner, Session: r.Session},
		bytes:   l.weight(r.Tenant, r.Session),
		done:    func(result lockcore.Result, _ time.Duration, err error) { done(l.sessionEnded(result, err)) },
	})
	l.flush()
}

// weight makes the end of a session that holds much count for as much as its work, so that few of them share an entry:
// an entry must not keep the machine for long.
func (l *Leader) weight(tenant lockcore.TenantID, session lockcore.SessionID) int {
	const bytesPerLease = 16
	s, known := l.machine.Session(tenant, session)
	if !known {
		return 0
	}
	return bytesPerLease * s.Live
}

func (l *Leader) sessionEnded(result lockcore.Result, err error) error {
	if err != nil || result.Outcome != lockcore.Refused {
		return err
	}
	if _, err = l.refusal(result.Reason); err != nil {
		return err
	}
	return ErrOverloaded // the tenant's quota of sessions: later it may go
}

// Look says where a lease stands and changes nothing, not even its timer.
func (l *Leader) Look(r Look, done func(Answer, error)) {
	if l.state != phaseReady {
		done(Answer{}, ErrNotLeader)
		return
	}
	p := &Poll{ref: ref{r.Tenant, r.Lease}, arrived: l.clock.Now(), done: done}
	l.rounds.ask(func(err error) {
		switch {
		case err != nil:
			p.answer(Answer{}, err)
		case !l.owns(r.Caller, r.Lease.Session):
			p.answer(Answer{}, ErrNotFound)
		default:
			l.conclude(p)
		}
	})
}

func (l *Leader) owns(c Caller, session lockcore.SessionID) bool {
	s, known := l.machine.Session(c.Tenant, session)
	return known && s.Owner == c.Owner
}
