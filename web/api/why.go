package api

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	waitersOfWhy = 100
	// leaderTime is how long the leader is waited for before this node answers what it knows itself.
	leaderTime = 3 * time.Second
	// expirySlack is how long after its deadline a lease is ended at the latest, as published; after a change of leader a
	// lease may also run a tenth longer.
	expirySlack      = time.Second
	restartedPercent = 110
)

// why is GET /v1/locks/why: what is known of one lock, for people. The partition's leader answers; while there is none that
// can be reached, whichever node was asked answers what it knows, and says so.
func (a *API) why(c echo.Context, p tenants.Principal) error {
	if err := noBody(c); err != nil {
		return err
	}
	q, err := factsQuery(c, p)
	if err != nil {
		return err
	}
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	here, elsewhere, err := a.at(c, q.Tenant)
	if err == nil && here == nil {
		err = a.passOnSoon(ctx, c, elsewhere)
		switch {
		case err == nil || c.Response().Committed:
			return err
		case !a.takes(p.Tenant, bucketOther): // it was not counted when it came, as others answer it
			return wire.NewProblem(wire.CodeRateLimited, "")
		}
	}
	facts := a.platform.Facts(ctx, q)
	return c.JSON(http.StatusOK, a.explain(q, facts, a.classFacts(p.Tenant, string(q.Class))))
}

// passOnSoon passes the request on to the leader, but does not wait for it as long as others do.
func (a *API) passOnSoon(ctx context.Context, c echo.Context, to LeaderRef) error {
	ctx, cancel := context.WithTimeout(ctx, leaderTime)
	defer cancel()
	return a.passOn(ctx, c, to, nil, nil)
}

func factsQuery(c echo.Context, p tenants.Principal) (FactsQuery, error) {
	params, err := queryOf(c, "class", "key")
	if err != nil {
		return FactsQuery{}, err
	}
	q := FactsQuery{Tenant: lockcore.TenantID(p.Tenant), Class: lockcore.ClassName(params.Get("class")),
		Key: lockcore.Key(params.Get("key")), WaitersMax: waitersOfWhy}
	switch {
	case !lockcore.ValidName(string(q.Class)):
		return q, &badRequest{"class", classRule}
	case !lockcore.ValidKey(string(q.Key)):
		return q, &badRequest{"key", keyRule}
	case !mayLook(p, q.Class):
		return q, forbidden(tenants.Scope{Verb: tenants.VerbLocks, Classes: string(q.Class)})
	}
	return q, nil
}

// explain is the facts as they are published, with what follows from them.
func (a *API) explain(q FactsQuery, f Facts, class classFacts) wire.Why {
	w := wire.Why{Class: string(q.Class), Key: string(q.Key), Stale: f.Stale, Index: f.Index, AsOf: f.At.UTC(),
		Posture: posture(f, class), Waiters: make([]wire.WhyWaiter, 0, len(f.Waiting)), Waiting: f.Lock.Waiters,
		Quotas: quotaUses(f.Tenant), Partition: wire.WhyPartition{Node: f.Node, Leader: f.Leader, Ready: f.Ready,
			Quorum: !f.Stale, Epoch: uint64(f.Epoch), Voters: append([]wire.VoterSeen{}, f.Voters...)}}
	if f.Lock.Holder != nil {
		w.Holder = a.whyHolder(q.Tenant, f)
	}
	for i, waiter := range f.Waiting {
		w.Waiters = append(w.Waiters, a.whyWaiter(q.Tenant, f, i, waiter))
	}
	if f.Lock.DelayToken != 0 {
		length := millis(f.Lock.DelayMS)
		w.Delay = &wire.WhyDelay{Token: uint64(f.Lock.DelayToken), Length: length, EndsWithin: length + wire.Duration(expirySlack)}
	}
	w.Findings = findings(w, f, class)
	return w
}

func millis(ms int64) wire.Duration { return wire.Duration(time.Duration(ms) * time.Millisecond) }

// posture is the class as it grants now.
func posture(f Facts, class classFacts) wire.WhyClass {
	w := wire.WhyClass{State: class.state(f.Class), Signed: class.signed, InReview: class.inReview}
	if f.Guard != (lockcore.Guard{}) {
		w.Guard = &wire.GuardState{Last: wallTime(f.Guard.AtMS), Checks: f.Guard.Checks, Rejections: f.Guard.Rejections}
	}
	c := f.Class
	if c == nil {
		return w
	}
	w.Version, w.Purpose, w.Enforcement = c.Version, c.Purpose.String(), c.Enforcement.String()
	w.QuorumLoss, w.Lease, w.Heartbeat = c.QuorumLoss.String(), millis(c.LeaseMS), millis(c.HeartbeatMS)
	w.LockDelay, w.MaxHold = millis(c.LockDelayMS), millis(c.MaxHoldMS)
	w.WaitMode = "refuse"
	if !c.Refuses {
		w.WaitMode, w.MaxWait, w.MaxWaiters = "queue", millis(c.MaxWaitMS), c.MaxWaiters
	}
	return w
}

func (a *API) whyHolder(tenant lockcore.TenantID, f Facts) *wire.WhyHolder {
	l := f.Lock.Holder
	h := &wire.WhyHolder{Label: l.Holder, APIKey: a.platform.KeyName(tenant, l.APIKey), Since: wallTime(l.AtMS),
		Token: uint64(l.Token), Epoch: uint64(l.Epoch), PostureVersion: l.Version, Lease: millis(l.LeaseMS),
		Heartbeat: millis(l.HeartbeatMS)}
	if l.Ending != 0 {
		h.Ending = l.Ending.String()
	}
	if f.SinceContact >= 0 {
		h.HeartbeatAge, h.ExpiresWithin = new(wire.Duration(f.SinceContact)), new(expiresWithin(f))
	}
	return h
}

// expiresWithin is when the lease ends at the latest unless its holder is heard of again. The last request counts as
// having renewed it, which it did not where a hold is being ended: it may end sooner.
func expiresWithin(f Facts) wire.Duration {
	l := f.Lock.Holder
	length := time.Duration(l.LeaseMS) * time.Millisecond
	if l.Epoch != f.Epoch {
		length = length * restartedPercent / 100
	}
	return wire.Duration(max(0, length+expirySlack-f.SinceContact))
}

func (a *API) whyWaiter(tenant lockcore.TenantID, f Facts, at int, l *lockcore.Lease) wire.WhyWaiter {
	since := wallTime(l.AtMS)
	w := wire.WhyWaiter{Position: at + 1, Label: l.Holder, APIKey: a.platform.KeyName(tenant, l.APIKey), Since: since,
		Waited: wire.Duration(max(0, f.At.Sub(since)))}
	if l.WaitMS != lockcore.WaitUnlimited {
		w.MaxWait = new(millis(l.WaitMS))
	}
	return w
}

func quotaUses(t lockcore.TenantState) []wire.QuotaUse {
	if t.ID == "" {
		return []wire.QuotaUse{}
	}
	return []wire.QuotaUse{
		{Quota: "keys", InUse: t.Keys, Limit: t.Quotas.Keys},
		{Quota: "leases", InUse: t.Occupied, Limit: t.Quotas.Leases},
		{Quota: "waiters", InUse: t.Waiting, Limit: t.Quotas.Waiters},
		{Quota: "sessions", InUse: t.Sessions, Limit: t.Quotas.Sessions},
	}
}
