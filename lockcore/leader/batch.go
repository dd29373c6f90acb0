package leader

import (
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

const (
	batchCommandsMax = lockcore.EntryCommandsMax
	batchBytesMax    = 128 << 10
	// PendingMax bounds the acquires of one tenant that wait for their turn.
	PendingMax = 4096
	// UrgentMax is where a tenant's line takes no more releases and session ends. Extensions, at most one for each lease,
	// are taken beyond it.
	UrgentMax = 4 * HeartbeatMax
	// ProposedMax bounds the marks and guard reports of one tenant, given to Leader.Propose, that wait for their turn. They
	// have a bound of their own, so that no flood of them keeps the tenant's acquires and releases out.
	ProposedMax = 1024
)

// pending is a command that waits for its turn, or is in the entry under way.
type pending struct {
	command lockcore.Command
	bytes   int                                                             // encoded size, or more where it makes more work than its size tells
	sent    func()                                                          // its entry is being proposed; nil: nobody cares
	done    func(result lockcore.Result, proposed time.Duration, err error) // nil: nobody asks
	given   bool                                                            // by Leader.Propose, and counted
}

// batcher gathers commands while an entry is under way; the next entry takes them, from each tenant in turn.
type batcher struct {
	lanes    map[lockcore.TenantID]*lane
	order    []*lane // lanes with commands, in turn
	inFlight []pending
	proposed time.Duration // when the entry under way was proposed
}

// lane is one tenant's commands. What ends something goes before what begins something, so that a release never waits
// behind a line of acquires.
type lane struct {
	tenant lockcore.TenantID
	urgent queue
	normal queue
	given  int // of both
}

// full reports whether a tenant's line takes no more commands of callers. What the leader itself proposes is bounded by
// what the tenant holds, and is always taken.
func (b *batcher) full(tenant lockcore.TenantID, urgent bool) bool {
	l := b.lanes[tenant]
	switch {
	case l == nil:
		return false
	case urgent:
		return l.urgent.len() >= UrgentMax
	}
	return l.normal.len() >= PendingMax
}

// fullOfGiven reports whether a tenant's line takes no more of what Leader.Propose is given.
func (b *batcher) fullOfGiven(tenant lockcore.TenantID) bool {
	l := b.lanes[tenant]
	return l != nil && l.given >= ProposedMax
}

func (b *batcher) put(tenant lockcore.TenantID, urgent bool, p pending) {
	l := b.lanes[tenant]
	if l == nil {
		l = &lane{tenant: tenant}
		b.lanes[tenant] = l
	}
	if l.urgent.len()+l.normal.len() == 0 {
		b.order = append(b.order, l)
	}
	p.bytes += commandBytes(p.command)
	if p.given {
		l.given++
	}
	if urgent {
		l.urgent.push(p)
	} else {
		l.normal.push(p)
	}
}

// take fills a batch: in each turn a tenant gives one command of either line.
func (b *batcher) take() []pending {
	var batch []pending
	bytes := 0
	for len(b.order) > 0 {
		l := b.order[0]
		for _, q := range [...]*queue{&l.urgent, &l.normal} {
			if q.len() == 0 {
				continue
			}
			if len(batch) == batchCommandsMax || (len(batch) > 0 && bytes+q.front().bytes > batchBytesMax) {
				return batch
			}
			p := q.pop()
			bytes += p.bytes
			batch = append(batch, p)
			if p.given {
				l.given--
			}
		}
		b.order = b.order[1:]
		if l.urgent.len()+l.normal.len() > 0 {
			b.order = append(b.order, l)
		} else {
			delete(b.lanes, l.tenant)
		}
	}
	return batch
}

// drain empties the lines, in turn.
func (b *batcher) drain() []pending {
	var all []pending
	for len(b.order) > 0 {
		all = append(all, b.take()...)
	}
	return all
}

// queue is a first-in first-out line.
type queue struct {
	items []pending
	head  int
}

func (q *queue) len() int        { return len(q.items) - q.head }
func (q *queue) front() *pending { return &q.items[q.head] }
func (q *queue) push(p pending)  { q.items = append(q.items, p) }
func (q *queue) pop() pending {
	p := q.items[q.head]
	q.items[q.head] = pending{}
	q.head++
	if q.head > len(q.items)/2 { // what was taken makes room: a line that never empties must not grow for it
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return p
}

// commandBytes estimates an encoded command from above, without encoding it.
func commandBytes(c lockcore.Command) int {
	const frame, rejection = 256, 48
	switch c := c.(type) {
	case lockcore.Acquire:
		return frame + len(c.Key) + len(c.Holder)
	case lockcore.WaiterGone:
		return frame + 32*len(c.Leases)
	case lockcore.MarkEnding:
		return frame + len(c.By) + len(c.Note)
	case lockcore.EndDelay:
		return frame + len(c.Key)
	case lockcore.ReportGuard:
		return frame + len(c.Key) + rejection*len(c.Rejections)
	}
	return frame
}
