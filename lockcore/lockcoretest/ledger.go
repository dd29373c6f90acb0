package lockcoretest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// The invariants that a Ledger checks; each error of it wraps one.
var (
	ErrExclusion  = errors.New("mutual exclusion: a key has at most one holder")
	ErrTokenOrder = errors.New("token order: a tenant's tokens strictly rise over the life of its slug")
	ErrGrantOnce  = errors.New("grant once: a lease id is granted at most once and always names the same token")
	ErrFIFO       = errors.New("first in, first out: grants follow the order of the queue")
	ErrEpochOrder = errors.New("epoch order: no command of another epoch changes anything")
	ErrIsolation  = errors.New("isolation: a command changes nothing of another tenant")
	ErrQuota      = errors.New("quotas are never exceeded")
)

// Ledger follows the stream of events and keeps from it who holds what. It knows no rule of admission: whatever was
// granted, however it came about, must fit what was granted before. Not safe for concurrent use.
type Ledger struct {
	epoch   lockcore.Epoch
	tenants map[lockcore.TenantID]*account
	tokens  map[lockcore.TenantID]lockcore.Token // highest seen of a slug, dropped tenants included
}

type account struct {
	holders map[lockName]hold
	delays  map[lockName]lockcore.Token
	queues  map[lockName][]lockcore.LeaseID
	grants  map[lockcore.LeaseID]*hold // of sessions that are remembered
	quotas  lockcore.Quotas
	counts  lockcore.Quotas // what it kept before the entry
}

type hold struct {
	lease lockcore.LeaseID
	token lockcore.Token
	over  bool
}

// NewLedger is the ledger of an empty machine.
func NewLedger() *Ledger {
	return &Ledger{tenants: map[lockcore.TenantID]*account{}, tokens: map[lockcore.TenantID]lockcore.Token{}}
}

func (l *Ledger) account(id lockcore.TenantID) *account {
	a := l.tenants[id]
	if a == nil {
		a = &account{holders: map[lockName]hold{}, delays: map[lockName]lockcore.Token{},
			queues: map[lockName][]lockcore.LeaseID{}, grants: map[lockcore.LeaseID]*hold{}}
		l.tenants[id] = a
	}
	return a
}

// Entry checks what an entry led to against all that came before, and takes it in.
func (l *Ledger) Entry(e lockcore.Entry, results []lockcore.Result, events []lockcore.Event) error {
	if err := l.checkEpochs(e, results, events); err != nil {
		return err
	}
	overBefore := l.overAnswered(e)
	for _, ev := range events {
		if err := l.event(e, ev); err != nil {
			return fmt.Errorf("event %s: %w", FormatEvent(ev), err)
		}
	}
	for i, c := range e.Commands {
		if forgets(e, c) {
			continue // the same id may be granted anew within the entry
		}
		if err := l.answer(c, results[i], overBefore[i]); err != nil {
			return fmt.Errorf("answer %s to %s: %w", FormatResult(results[i]), FormatCommand(c), err)
		}
	}
	return nil
}

// checkEpochs demands that each command of another epoch is refused for that, and that an entry of nothing else has no
// events. It follows AdvanceEpoch through the entry.
func (l *Ledger) checkEpochs(e lockcore.Entry, results []lockcore.Result, events []lockcore.Event) error {
	epoch, allStale := l.epoch, true
	for i, c := range e.Commands {
		if _, ok := c.(lockcore.AdvanceEpoch); ok {
			if epoch++; results[i].Epoch != epoch {
				return fmt.Errorf("%w: epoch %d follows %d", ErrEpochOrder, results[i].Epoch, epoch-1)
			}
			allStale = false
			continue
		}
		stale := e.Epoch != epoch || epoch == 0
		if refused := results[i].Reason == lockcore.RefusedStaleEpoch; refused != stale {
			return fmt.Errorf("%w: %s under epoch %d, stamped %d, was answered %s", ErrEpochOrder,
				FormatCommand(c), epoch, e.Epoch, FormatResult(results[i]))
		}
		allStale = allStale && stale
	}
	if allStale && len(events) > 0 {
		return fmt.Errorf("%w: a stale entry led to %s", ErrEpochOrder, FormatEvent(events[0]))
	}
	return nil
}

// overAnswered says of each command whether the hold that it asks about was over before the entry.
func (l *Ledger) overAnswered(e lockcore.Entry) []bool {
	over := make([]bool, len(e.Commands))
	for i, c := range e.Commands {
		if a, ok := l.tenants[TenantOf(c)]; ok {
			g := a.grants[leaseOf(c)]
			over[i] = g != nil && g.over
		}
	}
	return over
}

// answer checks what a command that names a lease was told of its grant.
func (l *Ledger) answer(c lockcore.Command, r lockcore.Result, overBefore bool) error {
	id := leaseOf(c)
	if id == (lockcore.LeaseID{}) || r.Token == 0 {
		return nil
	}
	a, ok := l.tenants[TenantOf(c)]
	if !ok {
		return nil // gone within this entry
	}
	g := a.grants[id]
	switch {
	case g == nil && r.Outcome == lockcore.Granted:
		return fmt.Errorf("%w: nothing was granted", ErrGrantOnce)
	case g != nil && g.token != r.Token:
		return fmt.Errorf("%w: it was granted with token %d", ErrGrantOnce, g.token)
	case g != nil && r.Outcome == lockcore.Granted && overBefore:
		return fmt.Errorf("%w: the grant was over", ErrGrantOnce)
	}
	return nil
}

// forgets reports whether the entry forgets the session of the lease that c names, or may end its tenant.
func forgets(e lockcore.Entry, c lockcore.Command) bool {
	return slices.ContainsFunc(e.Commands, func(other lockcore.Command) bool {
		if TenantOf(other) != TenantOf(c) {
			return false
		}
		f, ok := other.(lockcore.ForgetSession)
		_, made := other.(lockcore.PutTenant)
		return made || ok && f.Session == leaseOf(c).Session
	})
}

func (l *Ledger) event(e lockcore.Entry, ev lockcore.Event) error {
	if ev.Kind == lockcore.EventEpochAdvanced {
		if l.epoch++; ev.Epoch != l.epoch {
			return fmt.Errorf("%w: epoch %d is not %d", ErrEpochOrder, ev.Epoch, l.epoch)
		}
		return nil
	}
	if ev.Tenant == "" {
		return nil
	}
	if !slices.ContainsFunc(e.Commands, func(c lockcore.Command) bool { return TenantOf(c) == ev.Tenant }) {
		return fmt.Errorf("%w: no command named the tenant", ErrIsolation)
	}
	a, lock := l.account(ev.Tenant), lockName{ev.Class, ev.Key}
	switch ev.Kind {
	case lockcore.EventGranted, lockcore.EventPromoted:
		return l.granted(a, lock, ev)
	case lockcore.EventQueued:
		if _, held := a.holders[lock]; !held && a.delays[lock] == 0 {
			return fmt.Errorf("%w: it queues for a free key", ErrFIFO)
		}
		a.queues[lock] = append(a.queues[lock], ev.Lease)
	case lockcore.EventLeft:
		at := slices.Index(a.queues[lock], ev.Lease)
		if at < 0 {
			return fmt.Errorf("%w: it left a queue that it was not in", ErrFIFO)
		}
		a.queues[lock] = slices.Delete(slices.Clone(a.queues[lock]), at, at+1)
	case lockcore.EventEnding, lockcore.EventEnded:
		return a.ended(lock, ev)
	case lockcore.EventDelayStarted:
		a.delays[lock] = ev.Token
	case lockcore.EventDelayEnded:
		if a.delays[lock] != ev.Token {
			return fmt.Errorf("%w: the lock delay of token %d ran", ErrExclusion, a.delays[lock])
		}
		delete(a.delays, lock)
	case lockcore.EventSessionForgotten:
		for id := range a.grants {
			if id.Session == ev.Lease.Session {
				delete(a.grants, id)
			}
		}
	case lockcore.EventTenantGone:
		return l.gone(a, ev)
	}
	return nil
}

func (l *Ledger) granted(a *account, lock lockName, ev lockcore.Event) error {
	queue := a.queues[lock]
	current, held := a.holders[lock]
	switch {
	case l.epoch == 0 || ev.Epoch != l.epoch:
		return fmt.Errorf("%w: the epoch in force is %d", ErrEpochOrder, l.epoch)
	case held:
		return fmt.Errorf("%w: %s holds it with token %d", ErrExclusion, leaseName(current.lease), current.token)
	case a.delays[lock] != 0:
		return fmt.Errorf("%w: the lock delay of token %d runs", ErrExclusion, a.delays[lock])
	case ev.Token <= l.tokens[ev.Tenant]:
		return fmt.Errorf("%w: token %d was given already", ErrTokenOrder, l.tokens[ev.Tenant])
	case a.grants[ev.Lease] != nil:
		return fmt.Errorf("%w: it was granted with token %d", ErrGrantOnce, a.grants[ev.Lease].token)
	case ev.Kind == lockcore.EventGranted && len(queue) > 0:
		return fmt.Errorf("%w: %s waits", ErrFIFO, leaseName(queue[0]))
	case ev.Kind == lockcore.EventPromoted && (len(queue) == 0 || queue[0] != ev.Lease):
		return fmt.Errorf("%w: it is not the first of %v", ErrFIFO, queue)
	}
	if ev.Kind == lockcore.EventPromoted {
		a.queues[lock] = queue[1:]
	}
	h := hold{lease: ev.Lease, token: ev.Token}
	a.holders[lock], a.grants[ev.Lease], l.tokens[ev.Tenant] = h, &h, ev.Token
	return nil
}

func (a *account) ended(lock lockName, ev lockcore.Event) error {
	h, held := a.holders[lock]
	if !held || h.lease != ev.Lease || h.token != ev.Token {
		return fmt.Errorf("%w: it does not hold the key", ErrExclusion)
	}
	if ev.Kind == lockcore.EventEnded {
		delete(a.holders, lock)
		if g := a.grants[ev.Lease]; g != nil {
			g.over = true
		}
	}
	return nil
}

func (l *Ledger) gone(a *account, ev lockcore.Event) error {
	switch {
	case len(a.holders) > 0 || len(a.delays) > 0:
		return fmt.Errorf("%w: a tenant is gone and somebody holds", ErrExclusion)
	case ev.Token < l.tokens[ev.Tenant]:
		return fmt.Errorf("%w: the final token is below %d", ErrTokenOrder, l.tokens[ev.Tenant])
	}
	delete(l.tenants, ev.Tenant)
	return nil
}

// Compare checks a tenant of the machine against the ledger: the same holders, delays and queues, and counts that no
// command raised above a quota. It takes time proportional to what the tenant keeps.
func (l *Ledger) Compare(m *lockcore.Machine, id lockcore.TenantID) error {
	a, locks := l.account(id), 0
	var err error
	m.EachLock(id, "", "", func(lock lockcore.Lock) bool {
		locks++
		n := lockName{lock.Class, lock.Key}
		h, held := a.holders[n]
		var waiting []lockcore.LeaseID
		for _, w := range m.Waiters(id, lock.Class, lock.Key, lock.Waiters+1) {
			waiting = append(waiting, w.ID)
		}
		switch {
		case held != (lock.Holder != nil), held && (lock.Holder.ID != h.lease || lock.Holder.Token != h.token):
			err = fmt.Errorf("%w: events say %v holds %v", ErrExclusion, h, n)
		case a.delays[n] != lock.DelayToken:
			err = fmt.Errorf("%w: events say the lock delay of token %d runs on %v", ErrExclusion, a.delays[n], n)
		case !slices.Equal(waiting, a.queues[n]):
			err = fmt.Errorf("%w: in %v wait %v, by the events %v", ErrFIFO, n, waiting, a.queues[n])
		}
		return err == nil
	})
	if err == nil && locks < max(len(a.holders), len(a.delays)) {
		err = fmt.Errorf("%w: %d keys, and by the events %d holders", ErrExclusion, locks, len(a.holders))
	}
	return err
}

// Quotas checks that nothing of the tenant grew above its quota by the entry. A quota may be lowered below what
// is kept already; then nothing of it may grow.
func (l *Ledger) Quotas(m *lockcore.Machine, e lockcore.Entry, id lockcore.TenantID) error {
	t, ok := m.Tenant(id)
	if !ok {
		return nil
	}
	a := l.account(id)
	before, after := a.counts, lockcore.Quotas{Keys: t.Keys, Leases: t.Occupied, Waiters: t.Waiting, Sessions: t.Sessions, Ends: t.Ends}
	m.EachSession(id, func(s *lockcore.Session) bool {
		after.PerSession = max(after.PerSession, s.Live)
		return true
	})
	allowed := mostOf(a.quotas, mostOf(before, t.Quotas))
	for _, c := range e.Commands {
		if put, ok := c.(lockcore.PutTenant); ok && put.Tenant == id {
			allowed = mostOf(allowed, put.Quotas)
		}
	}
	a.counts, a.quotas = after, t.Quotas
	if mostOf(allowed, after) != allowed {
		return fmt.Errorf("%w: %s keeps %+v of %+v, before %+v", ErrQuota, id, after, allowed, before)
	}
	return nil
}

func mostOf(a, b lockcore.Quotas) lockcore.Quotas {
	return lockcore.Quotas{Keys: max(a.Keys, b.Keys), Leases: max(a.Leases, b.Leases),
		Waiters: max(a.Waiters, b.Waiters), Sessions: max(a.Sessions, b.Sessions),
		PerSession: max(a.PerSession, b.PerSession), Ends: max(a.Ends, b.Ends)}
}
