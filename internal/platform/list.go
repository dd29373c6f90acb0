package platform

import (
	"context"
	"strings"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/web/api"
)

// locks is one partition as the lease API sees it.
type locks struct {
	*raftnode.Partition
	audit *auditor
}

// Acquire is the partition's, but for classes that protect correctness: what cannot be accounted for is not granted anew
// while the audit is so far behind that rows are left out. A request that waits already keeps its place, and is granted
// when its turn comes, since that is the log's own doing.
func (l locks) Acquire(ctx context.Context, r leader.Acquire) (leader.Answer, error) {
	if l.audit.behind() && l.protects(r.Caller.Tenant, r.Class) {
		return leader.Answer{}, api.ErrAuditBehind
	}
	return l.Partition.Acquire(ctx, r)
}

// protects reports whether the class is one of correctness.
func (l locks) protects(tenant lockcore.TenantID, class lockcore.ClassName) (correctness bool) {
	l.View(func(m *lockcore.Machine) {
		c, known := m.Class(tenant, class)
		correctness = known && c.Purpose == lockcore.PurposeCorrectness
	})
	return correctness
}

// scanMax bounds the locks that one page looks at; a page that found few among them is short and has a next one.
const scanMax = 10_000

// List reads a page of locks after a confirm round.
func (l locks) List(ctx context.Context, q api.LockQuery) (api.LockPage, error) {
	s := &scan{query: q}
	if err := l.Read(ctx, s.read); err != nil {
		return api.LockPage{}, err
	}
	for i := range s.page.Locks {
		s.page.Locks[i].LastHeartbeat = l.lastHeartbeat(q.Tenant, s.page.Locks[i].Holder)
	}
	return s.page, nil
}

func (l locks) lastHeartbeat(tenant lockcore.TenantID, holder *lockcore.Lease) time.Time {
	if holder == nil {
		return time.Time{}
	}
	since, ok := l.SinceContact(tenant, holder.ID)
	if !ok {
		return time.Time{}
	}
	return time.Now().Add(-since)
}

// scan gathers one page.
type scan struct {
	query   api.LockQuery
	page    api.LockPage
	scanned int
}

func (s *scan) read(m *lockcore.Machine) {
	s.page.Index = m.Index()
	for from, more := s.begin(), true; more; {
		from, more = s.readFrom(m, from)
	}
}

// readFrom reads on from a lock. It ends before a class that is not allowed, of which not even a cursor may tell, and says
// where the next one begins.
func (s *scan) readFrom(m *lockcore.Machine, from api.LockPosition) (next api.LockPosition, more bool) {
	m.EachLock(s.query.Tenant, from.Class, from.Key, func(k lockcore.Lock) bool {
		switch {
		case s.past(k):
			return false
		case s.query.Allows != nil && !s.query.Allows(k.Class):
			next, more = api.LockPosition{Class: k.Class + "\x01"}, true // behind its keys, and before any longer name
			return false
		}
		if s.scanned++; len(s.page.Locks) == s.query.Limit || s.scanned > scanMax {
			s.page.Next = api.LockPosition{Class: k.Class, Key: k.Key}
			return false
		}
		if s.wanted(k) {
			waiting := m.Waiters(s.query.Tenant, k.Class, k.Key, s.query.WaitersMax)
			s.page.Locks = append(s.page.Locks, api.LockState{Lock: k, Waiting: waiting})
		}
		return true
	})
	return next, more
}

// begin is the first lock that may be wanted.
func (s *scan) begin() api.LockPosition {
	q := s.query
	if q.From != (api.LockPosition{}) || q.Class == "" {
		return q.From
	}
	return api.LockPosition{Class: q.Class, Key: max(q.Key, lockcore.Key(q.Prefix))}
}

// past reports that neither k nor any lock behind it can be wanted.
func (s *scan) past(k lockcore.Lock) bool {
	q := s.query
	switch {
	case q.Class == "":
		return false
	case k.Class != q.Class:
		return true
	case q.Key != "" && k.Key > q.Key:
		return true
	}
	return string(k.Key) > q.Prefix && !strings.HasPrefix(string(k.Key), q.Prefix)
}

func (s *scan) wanted(k lockcore.Lock) bool {
	q := s.query
	return (q.Class == "" || k.Class == q.Class) && (q.Key == "" || k.Key == q.Key) &&
		strings.HasPrefix(string(k.Key), q.Prefix)
}
