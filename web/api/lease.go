package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/tenants"
)

// acquire is PUT /v1/leases/{id}: ask for a lease, poll for it, or repeat either.
func (a *API) acquire(c echo.Context, p tenants.Principal) error {
	id, err := leaseID(c)
	if err != nil {
		return err
	}
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := readJSON(c, bodyBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	req, err := decodeAcquire(body.b)
	if err != nil {
		return err
	}
	if !mayUse(p, req.Class) {
		return forbidden(tenants.Scope{Verb: tenants.VerbLocks, Classes: string(req.Class)})
	}
	req.Caller, req.Lease = caller(p), id
	return a.atLeader(c, req.Tenant, req.Poll, body.b, func(ctx context.Context, here Locks) error {
		answer, err := here.Acquire(ctx, req)
		if err != nil {
			return err
		}
		return a.writeLease(c, id, answer)
	})
}

// look is GET /v1/leases/{id}.
func (a *API) look(c echo.Context, p tenants.Principal) error {
	id, err := leaseID(c)
	if err != nil {
		return err
	}
	if err := nothingElse(c); err != nil {
		return err
	}
	return a.atLeader(c, lockcore.TenantID(p.Tenant), 0, nil, func(ctx context.Context, here Locks) error {
		answer, err := here.Look(ctx, leader.Look{Caller: caller(p), Lease: id})
		switch {
		case err != nil:
			return err
		case answer.Status == leader.StatusRefused && answer.Lease == nil:
			return a.refused(answer, a.lease(id, answer))
		}
		return writeJSON(c, http.StatusOK, a.lease(id, answer))
	})
}

// release is DELETE /v1/leases/{id}: give back, leave the queue, or burn an id that was never seen.
func (a *API) release(c echo.Context, p tenants.Principal) error {
	id, err := leaseID(c)
	if err != nil {
		return err
	}
	token, err := tokenOf(c)
	if err != nil {
		return err
	}
	return a.atLeader(c, lockcore.TenantID(p.Tenant), 0, nil, func(ctx context.Context, here Locks) error {
		answer, err := here.Release(ctx, leader.Release{Caller: caller(p), Lease: id, Token: token})
		switch {
		case err != nil:
			return err
		case answer.Status != leader.StatusEnded:
			return a.refused(answer, a.lease(id, answer))
		}
		return writeJSON(c, http.StatusOK, a.lease(id, answer))
	})
}

// leaseID reads the lease's id in its one written form: an escaped spelling of it is another text.
func leaseID(c echo.Context) (lockcore.LeaseID, error) {
	id, err := lockcore.ParseLeaseID(c.Param("lease"))
	if err != nil || id.Session == (lockcore.SessionID{}) {
		return id, &badRequest{"lease_id", leaseIDRule}
	}
	return id, nil
}

func sessionID(c echo.Context) (lockcore.SessionID, error) {
	id, err := lockcore.ParseSessionID(c.Param("session"))
	if err != nil || id == (lockcore.SessionID{}) {
		return id, &badRequest{"session", sessionIDRule}
	}
	return id, nil
}

const (
	sessionIDRule = "must be 32 lower-case hexadecimal digits, not all zero"
	leaseIDRule   = "must be 32 lower-case hexadecimal digits, not all zero, a dot, and a number from 1 to 2^53-1"
	tokenRule     = "must be the grant's token: a whole number from 1 to 2^53-1"
)

// tokenOf reads the query of a release.
func tokenOf(c echo.Context) (lockcore.Token, error) {
	if err := noBody(c); err != nil || c.Request().URL.RawQuery == "" {
		return 0, err
	}
	q, err := queryOf(c, "token")
	if err != nil {
		return 0, err
	}
	text := q.Get("token")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 || n > lockcore.SequenceMax || strconv.FormatUint(n, 10) != text {
		return 0, &badRequest{"token", tokenRule}
	}
	return lockcore.Token(n), nil
}
