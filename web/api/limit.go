package api

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

// placed says which node answers a route. Every other node passes the request on, and leaves counting it to that one.
type placed uint8

const (
	atArrival       placed = iota // the node that the request reaches
	atPartition                   // the leader of the tenant's partition
	atControlLeader               // the leader of the control group
)

const (
	// operatorRequestsPerSecond bounds what operators may ask of one node, all of their API keys together.
	operatorRequestsPerSecond = 100
	// burstMin is how many requests may come at once from a tenant whose quota of a second is less.
	burstMin = 10
	// limitsKept is how many tenants' buckets are kept without asking whether they are full again.
	limitsKept = 4096
	// quotaAge is how long a quota is believed before it is looked up again.
	quotaAge = time.Second
)

// bucket says which of a tenant's buckets a request draws from.
type bucket uint8

const (
	bucketOther   bucket = iota
	bucketKeep           // keeping, giving back and ending holds
	bucketReports        // what guards report: an API key that may do no more must not keep a holder from keeping
	bucketCount
)

// Limits hold every tenant to its quota of requests per second, at the node that answers them. A tenant has three buckets
// of its whole quota each: one that heartbeats, releases, ends of sessions and force-releases draw from, one for what guards
// report, and one for all other requests, so that no flood of acquires, reads or reports keeps a holder from keeping and
// giving back. What a holder does counts in the bucket of all others as well, but is never refused for it: a tenant has its
// quota in all. A bucket holds one second's worth, at least 10 requests. A changed quota counts a second later at the latest.
//
// One Limits serves all APIs of a node. Safe for concurrent use.
type Limits struct {
	now     func() time.Time
	tenants sync.Map // of tenants.TenantID to *limit

	// A bucket that is full again says what a new one says, so it need not be kept: what is kept follows from the requests
	// of the last seconds, not from all tenants that ever asked.
	kept    atomic.Int64
	sweepMu sync.Mutex
	swept   time.Time // guarded by sweepMu
}

// limit is one tenant's.
type limit struct {
	buckets  [bucketCount]*rate.Limiter
	lookedUp atomic.Int64 // when the quota was, in nanoseconds since the Unix epoch
}

// NewLimits makes limits that nobody has used yet. now is the clock; nil: time.Now.
func NewLimits(now func() time.Time) *Limits {
	if now == nil {
		now = time.Now
	}
	return &Limits{now: now}
}

// take counts a request of the tenant, or reports that it is one too many. quota is asked now and then.
func (l *Limits) take(tenant tenants.TenantID, from bucket, quota func() int) bool {
	now := l.now()
	t, fresh := l.of(tenant, now, quota)
	allowed := t.buckets[from].AllowN(now, 1)
	if allowed && from == bucketKeep {
		t.buckets[bucketOther].ReserveN(now, 1) // it is never refused for the others, but they are fewer for it
	}
	if fresh {
		l.sweep(now) // when it has been drawn from, or it would be swept as one that is full
	}
	return allowed
}

// of finds the tenant's buckets, at the size that its quota gives them, or makes them.
func (l *Limits) of(tenant tenants.TenantID, now time.Time, quota func() int) (t *limit, fresh bool) {
	found, ok := l.tenants.Load(tenant)
	if !ok {
		found, ok = l.tenants.LoadOrStore(tenant, newLimit(now, quota()))
		return found.(*limit), !ok
	}
	t = found.(*limit)
	if at := t.lookedUp.Load(); now.UnixNano()-at >= int64(quotaAge) && t.lookedUp.CompareAndSwap(at, now.UnixNano()) {
		t.resize(now, quota())
	}
	return t, false
}

func newLimit(now time.Time, perSecond int) *limit {
	t := new(limit)
	for i := range t.buckets {
		t.buckets[i] = rate.NewLimiter(rate.Limit(perSecond), burst(perSecond))
	}
	t.lookedUp.Store(now.UnixNano())
	return t
}

func burst(perSecond int) int { return max(perSecond, burstMin) }

func (t *limit) resize(now time.Time, perSecond int) {
	for _, b := range t.buckets {
		if b.Limit() != rate.Limit(perSecond) {
			b.SetLimitAt(now, rate.Limit(perSecond))
			b.SetBurstAt(now, burst(perSecond))
		}
	}
}

// full reports whether the buckets are as a new tenant's would be.
func (t *limit) full(now time.Time) bool {
	for _, b := range t.buckets {
		if b.TokensAt(now) < float64(b.Burst()) {
			return false
		}
	}
	return true
}

// sweep counts a tenant in and, when many are kept, forgets those whose buckets are full, at most once a second. A request
// that is counted in a bucket at the moment in which it is forgotten is counted in none: one too many, at most.
func (l *Limits) sweep(now time.Time) {
	if l.kept.Add(1) <= limitsKept || !l.sweepMu.TryLock() {
		return
	}
	defer l.sweepMu.Unlock()
	if now.Sub(l.swept) < time.Second {
		return
	}
	l.swept = now
	l.tenants.Range(func(tenant, t any) bool {
		if t.(*limit).full(now) {
			l.tenants.Delete(tenant)
			l.kept.Add(-1)
		}
		return true
	})
}

// withinQuota counts the caller's request, if this node is the one that answers it, in the bucket that it names, or reports
// that it is one too many.
func (a *API) withinQuota(method string, p tenants.Principal, needed Permission) (from bucket, within bool) {
	from = needed.draws
	if method == http.MethodGet {
		from = bucketOther
	}
	return from, !a.answers(p, needed) || a.takes(p.Tenant, from)
}

const (
	holdBackDefault = time.Second // on average
	// heldMax bounds the answers of one tenant that are held back at a time; further ones are given at once.
	heldMax = 1000
)

// hold holds the answer to a request over the quota back for a while, half of it drawn at random, so that those refused together
// do not come back together. A client that does not mind Retry-After, and repeats as
// fast as it is answered, is slowed by it, before it takes the processor time that others need.
func (a *API) hold(ctx context.Context, tenant lockcore.TenantID) {
	if a.holdBack < 0 {
		return
	}
	held := a.held.enter(tenant, LaneOther)
	if held == nil {
		return
	}
	defer held.Add(-1)
	timer := time.NewTimer(a.holdBack/2 + rand.N(a.holdBack))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-a.stopping.Done():
	}
}

// takes counts a request that this node answers.
func (a *API) takes(tenant tenants.TenantID, from bucket) bool {
	return a.limits.take(tenant, from, func() int { return a.requestsPerSecond(tenant) })
}

// answers reports whether this node answers the request itself. An error is an answer too.
func (a *API) answers(p tenants.Principal, needed Permission) bool {
	var ref LeaderRef
	var known bool
	switch {
	case a.peer, needed.answers == atArrival:
		return true
	case needed.answers == atControlLeader:
		ref, known = a.platform.ControlLeader()
	default:
		ref, known = a.platform.Leader(lockcore.TenantID(p.Tenant))
	}
	return !known || ref.Self
}

// requestsPerSecond is the tenant's quota. One that is not there, as it has been dropped since, has the default.
func (a *API) requestsPerSecond(tenant tenants.TenantID) int {
	if tenant == tenants.Platform {
		return operatorRequestsPerSecond
	}
	perSecond := tenants.QuotasDefault().RequestsPerSecond
	a.platform.ViewControl(func(m *control.Machine) {
		if t, known := m.Tenant(tenant); known {
			perSecond = t.Quotas.RequestsPerSecond
		}
	})
	return perSecond
}
