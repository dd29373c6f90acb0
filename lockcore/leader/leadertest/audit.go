package leadertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

// Audit follows what is applied and what is answered. Violations are sentences about a property that did not hold; Count
// says how often what a run is meant to provoke has occurred.
type Audit struct {
	Violations []string
	Count      map[string]int

	c         *Cluster
	rolling   map[uint64][32]byte // by index, from whichever node applied it first
	lastToken map[lockcore.TenantID]lockcore.Token
	locks     map[lockName]*lockLine
	grants    map[grantName]*grant
	leases    map[leaseName]lockcore.Token
	epochs    map[uint64]time.Duration // by term: when the epoch entry was committed
	queued    map[leaseName]time.Duration
	polls     map[pollName]polled
}

type lockName struct {
	tenant lockcore.TenantID
	class  lockcore.ClassName
	key    lockcore.Key
}

type grantName struct {
	tenant lockcore.TenantID
	token  lockcore.Token
}

type leaseName struct {
	tenant lockcore.TenantID
	lease  lockcore.LeaseID
}

type pollName struct {
	session *session
	lease   leaseName
}

// polled is what a leader has heard of a waiter.
type polled struct {
	last time.Duration
	gap  time.Duration // the longest that it heard nothing
}

// lockLine is a lock as the log tells of it.
type lockLine struct {
	holder lockcore.Token
	queue  []lockcore.LeaseID
}

// grant is one grant as the log and the answers tell of it.
type grant struct {
	lease    leaseName
	handed   bool
	at       time.Duration // first applied
	told     time.Duration // the latest deadline that any answer gave, in true time
	ended    time.Duration // first applied; 0: not yet
	proposed time.Duration // of the entry that ended it
	ranOut   bool          // ended by the leader, not by its holder
}

func newAudit(c *Cluster) *Audit {
	return &Audit{c: c, Count: map[string]int{}, rolling: map[uint64][32]byte{},
		lastToken: map[lockcore.TenantID]lockcore.Token{}, locks: map[lockName]*lockLine{},
		grants: map[grantName]*grant{}, leases: map[leaseName]lockcore.Token{}, epochs: map[uint64]time.Duration{},
		queued: map[leaseName]time.Duration{}, polls: map[pollName]polled{}}
}

func (a *Audit) violate(format string, args ...any) {
	a.Violations = append(a.Violations, fmt.Sprintf("at %v: ", a.c.now)+fmt.Sprintf(format, args...))
}

func (a *Audit) epochStored(term uint64) { a.epochs[term] = max(a.c.now, 1) }

// applied checks that every node does the same with an entry, and follows it where it was applied first.
func (a *Audit) applied(n *Node, index uint64, e *entry, before lockcore.Epoch, results []lockcore.Result, events []lockcore.Event) {
	rolling := n.Machine.Rolling()
	if known, again := a.rolling[index]; again {
		if known != rolling {
			a.violate("determinism: node %s differs at index %d", n.Name, index)
		}
		return
	}
	a.rolling[index] = rolling
	a.fenced(e, before, results, events)
	for _, event := range events {
		a.follow(n, e, event)
	}
}

// fenced checks that an entry of another leadership than the one in force changes nothing.
func (a *Audit) fenced(e *entry, before lockcore.Epoch, results []lockcore.Result, events []lockcore.Event) {
	if e == e.session.epochEntry {
		return
	}
	if e.session.leader.Epoch() == before {
		return
	}
	if len(events) > 0 {
		a.violate("epoch order: an entry of epoch %d changed the state in epoch %d", e.session.leader.Epoch(), before)
	}
	for _, r := range results {
		if r.Reason == lockcore.RefusedStaleEpoch {
			a.Count["stale commands"]++
		}
	}
}

func (a *Audit) follow(n *Node, e *entry, event lockcore.Event) {
	line := a.line(lockName{event.Tenant, event.Class, event.Key})
	switch event.Kind {
	case lockcore.EventQueued:
		line.queue = append(line.queue, event.Lease)
		a.queued[leaseName{event.Tenant, event.Lease}] = a.c.now
	case lockcore.EventLeft:
		line.leave(event.Lease)
		a.checkSilent(n, e, event)
	case lockcore.EventPromoted:
		a.Count["hand-offs"]++
		if len(line.queue) == 0 || line.queue[0] != event.Lease {
			a.violate("order: %s was granted out of its turn", event.Lease)
		}
		line.leave(event.Lease)
		a.granted(line, event)
	case lockcore.EventGranted:
		a.granted(line, event)
	case lockcore.EventEnded:
		a.ended(line, e, event)
	}
}

func (a *Audit) line(name lockName) *lockLine {
	if a.locks[name] == nil {
		a.locks[name] = &lockLine{}
	}
	return a.locks[name]
}

func (l *lockLine) leave(id lockcore.LeaseID) {
	l.queue = slices.DeleteFunc(l.queue, func(q lockcore.LeaseID) bool { return q == id })
}

func (a *Audit) granted(line *lockLine, event lockcore.Event) {
	name := leaseName{event.Tenant, event.Lease}
	if line.holder != 0 {
		a.violate("exclusion: token %d granted while token %d holds", event.Token, line.holder)
	}
	if event.Token <= a.lastToken[event.Tenant] {
		a.violate("tokens: %d after %d", event.Token, a.lastToken[event.Tenant])
	}
	if first, twice := a.leases[name]; twice {
		a.violate("one grant: lease %s got tokens %d and %d", event.Lease, first, event.Token)
	}
	line.holder, a.lastToken[event.Tenant], a.leases[name] = event.Token, event.Token, event.Token
	a.grants[grantName{event.Tenant, event.Token}] = &grant{lease: name, at: a.c.now,
		handed: event.Kind == lockcore.EventPromoted}
	a.Count["grants"]++
}

func (a *Audit) ended(line *lockLine, e *entry, event lockcore.Event) {
	if line.holder != event.Token {
		a.violate("exclusion: token %d ended while token %d holds", event.Token, line.holder)
	}
	line.holder = 0
	g := a.grants[grantName{event.Tenant, event.Token}]
	if g == nil {
		return
	}
	g.ended, g.proposed = max(a.c.now, 1), e.proposed
	g.ranOut = event.Reason != lockcore.Released && event.Reason != lockcore.SessionOver
	a.Count[event.Reason.String()]++
	a.checkEarly(event.Token, g)
}

// checkEarly checks that nobody was told of a deadline after the moment at which the end was proposed.
func (a *Audit) checkEarly(token lockcore.Token, g *grant) {
	if g.ranOut && g.told > g.proposed {
		a.violate("early expiry: token %d, told %v, end proposed at %v", token, g.told, g.proposed)
	}
}

// checkSilent checks that a waiter purged for its silence was silent, towards the leader that purged it and while that was
// ready, for as long as it may be. A poll that came after the purge was decided is too late.
func (a *Audit) checkSilent(n *Node, e *entry, event lockcore.Event) {
	a.Count[event.Reason.String()]++
	if event.Reason != lockcore.Silent {
		return
	}
	class, ok := n.Machine.Class(event.Tenant, event.Class)
	if !ok {
		return
	}
	may := time.Duration(max(5_000, 3*lockcore.PollLimitMS(class.LeaseMS))) * time.Millisecond
	name := pollName{e.session, leaseName{event.Tenant, event.Lease}}
	if silent := max(a.polls[name].gap, e.proposed-a.lastPoll(name)); silent < may*99/100 {
		a.violate("silence: %s was purged after %v of %v", event.Lease, silent, may)
	}
}

// asked notes a request that keeps a waiter in its queue.
func (a *Audit) asked(s *session, tenant lockcore.TenantID, lease lockcore.LeaseID) {
	name := pollName{s, leaseName{tenant, lease}}
	p := a.polls[name]
	if _, waits := a.queued[name.lease]; waits {
		p.gap = max(p.gap, a.c.now-a.lastPoll(name))
	}
	p.last = a.c.now
	a.polls[name] = p
}

// lastPoll is when a waiter was last heard of, or first could have been.
func (a *Audit) lastPoll(name pollName) time.Duration {
	if p, ok := a.polls[name]; ok {
		return p.last
	}
	return max(a.epochs[name.session.term], a.queued[name.lease])
}

// told is an answer about one lease, with what only the world knows of it.
type told struct {
	session  *session
	client   *Client
	sent     time.Duration // true times
	received time.Duration
	answer   leader.Answer
}

// answered checks an answer in the moment in which it is made.
func (a *Audit) answered(t told) {
	a.checkCurrent(t)
	if t.answer.Lease == nil {
		return
	}
	name := grantName{t.client.Tenant, t.answer.Lease.Token}
	g := a.grants[name]
	if t.answer.Status != leader.StatusGranted || g == nil {
		return
	}
	if g.lease.lease != t.answer.Lease.ID {
		a.violate("one grant: lease %s was told token %d of lease %s", t.answer.Lease.ID, name.token, g.lease.lease)
	}
	if g.ended != 0 && g.ended < t.received {
		a.violate("one grant: token %d told as granted to a request received after its end", name.token)
	}
	if g.handed && t.received > g.at {
		a.Count["pick-ups"]++
	}
	g.told = max(g.told, t.client.deadline(t.sent, t.answer.UseWithin))
	if g.ended != 0 {
		a.checkEarly(name.token, g)
	}
}

// checkCurrent checks that no later leadership had begun, by its committed epoch entry, when the request arrived.
func (a *Audit) checkCurrent(t told) {
	for term, at := range a.epochs {
		if term > t.session.term && at < t.received {
			a.violate("confirmation: term %d answered a request that came after the epoch entry of term %d",
				t.session.term, term)
		}
	}
}

func (a *Audit) failed(err error) {
	switch err {
	case leader.ErrUnknownOutcome:
		a.Count["unknown outcomes"]++
	case leader.ErrNoQuorum:
		a.Count["no quorum"]++
	}
}

// lost notes a heartbeat's answer that a lease is not held.
func (a *Audit) lost(n *Node, tenant lockcore.TenantID, l leader.Lost) {
	if lease, known := n.Machine.Lease(tenant, l.Lease); known && lease.Held() && !l.Ending {
		a.Count["doomed refusals"]++
	}
}
