package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

// atControlLog answers a request at the control group's leader: here, with f, or passed on to that node. The time of an
// answer goes for both.
func (a *API) atControlLog(c echo.Context, body []byte, f func(context.Context) error) error {
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	here, elsewhere, err := a.atControl(c)
	if err != nil || !here {
		return a.passOn(ctx, c, elsewhere, body, err)
	}
	return f(ctx)
}

// change puts a command about tenants or API keys into the control log. What the log refuses is a problem.
func (a *API) change(ctx context.Context, c tenants.Command) (control.Result, error) {
	r, err := a.platform.Control(ctx, control.Entry{Tenants: c})
	if err == nil && !r.OK {
		err = tenantsRefused(r)
	}
	return r, err
}

// createTenant is POST /v1/tenants. The same again is answered as the tenant stands; a dropped one is made again.
func (a *API) createTenant(c echo.Context, p tenants.Principal) error {
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := readJSON(c, tenantBodyBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	req, err := decodeNewTenant(body.b)
	if err != nil {
		return err
	}
	return a.atControlLog(c, body.b, func(ctx context.Context) error {
		put := tenants.PutTenant{Tenant: req.tenant, OwnerGroups: req.groups, Quotas: req.quotas.OrDefaults(), Create: true,
			By: p.Actor(), AtMS: time.Now().UnixMilli()}
		r, err := a.putTenant(ctx, put)
		if err != nil {
			return err
		}
		status := http.StatusCreated
		if r.Unchanged {
			status = http.StatusOK
		}
		return a.writeTenant(ctx, c, status, req.tenant)
	})
}

// placementsMax bounds how often a tenant is placed anew because somebody else placed it meanwhile.
const placementsMax = 3

// putTenant places a tenant that is not there, and leaves one that is where it stands.
func (a *API) putTenant(ctx context.Context, put tenants.PutTenant) (r control.Result, err error) {
	for range placementsMax {
		put.Partition = 0
		a.platform.ViewControl(func(m *control.Machine) {
			if t, known := m.Tenant(put.Tenant); !known || t.Dropped {
				put.Partition, err = m.PlaceTenant()
			}
		})
		if err != nil {
			return r, wire.NewProblem(wire.CodeNotReady, "The cluster has no partition to place a tenant in yet.")
		}
		r, err = a.platform.Control(ctx, control.Entry{Tenants: put})
		switch {
		case err != nil, r.OK:
			return r, err
		case r.Reason != tenants.RefusedPlacementFixed.String():
			return r, tenantsRefused(r)
		}
	}
	return r, tenantsRefused(r)
}

// listTenants is GET /v1/tenants: a page of all tenants, by slug, dropped ones included.
func (a *API) listTenants(c echo.Context, _ tenants.Principal) error {
	if err := noBody(c); err != nil {
		return err
	}
	q, err := queryOf(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, from, err := pageOf(q, tenants.ValidSlug)
	if err != nil {
		return err
	}
	return a.atControlLog(c, nil, func(ctx context.Context) error {
		var page []tenants.Tenant
		list := wire.TenantList{Tenants: []wire.Tenant{}}
		err := a.platform.ReadControl(ctx, func(m *control.Machine) {
			page, list.CompleteTo = m.TenantsFrom(tenants.TenantID(from), limit+1), m.Revision()
		})
		if err != nil {
			return err
		}
		if len(page) > limit {
			list.NextCursor = opaque(string(page[limit].ID))
			page = page[:limit]
		}
		for _, t := range page {
			list.Tenants = append(list.Tenants, tenantView(t))
		}
		return c.JSON(http.StatusOK, list)
	})
}

// getTenant is GET /v1/tenants/{tenant}: what it is and what it uses.
func (a *API) getTenant(c echo.Context, _ tenants.Principal) error {
	id, err := tenantOf(c)
	if err != nil {
		return err
	}
	if err := nothingElse(c); err != nil {
		return err
	}
	return a.atControlLog(c, nil, func(ctx context.Context) error { return a.writeTenant(ctx, c, http.StatusOK, id) })
}

// changeTenant is PATCH /v1/tenants/{tenant}: what is not named stays as it is.
func (a *API) changeTenant(c echo.Context, p tenants.Principal) error {
	id, err := tenantOf(c)
	if err != nil {
		return err
	}
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := readJSON(c, tenantBodyBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	req, err := decodeTenantChange(body.b)
	if err != nil {
		return err
	}
	return a.afterChange(c, body.b, tenants.ChangeTenant{Tenant: id, OwnerGroups: req.groups, Quotas: req.quotas,
		By: p.Actor(), AtMS: time.Now().UnixMilli()}, id)
}

// afterChange carries a command out and answers how the tenant then stands.
func (a *API) afterChange(c echo.Context, body []byte, command tenants.Command, id tenants.TenantID) error {
	return a.atControlLog(c, body, func(ctx context.Context) error {
		if _, err := a.change(ctx, command); err != nil {
			return err
		}
		return a.writeTenant(ctx, c, http.StatusOK, id)
	})
}

// suspendTenant is POST /v1/tenants/{tenant}/suspend.
func (a *API) suspendTenant(c echo.Context, p tenants.Principal) error {
	return a.withReason(c, true, func(id tenants.TenantID, reason string) tenants.Command {
		return tenants.SuspendTenant{Tenant: id, Note: reason, By: p.Actor(), AtMS: time.Now().UnixMilli()}
	})
}

// resumeTenant is POST /v1/tenants/{tenant}/resume.
func (a *API) resumeTenant(c echo.Context, p tenants.Principal) error {
	return a.withReason(c, false, func(id tenants.TenantID, reason string) tenants.Command {
		return tenants.ResumeTenant{Tenant: id, Note: reason, By: p.Actor(), AtMS: time.Now().UnixMilli()}
	})
}

// dropTenant is DELETE /v1/tenants/{tenant}: its API keys end with the entry, its leases as a force-release ends them.
func (a *API) dropTenant(c echo.Context, p tenants.Principal) error {
	return a.withReason(c, true, func(id tenants.TenantID, reason string) tenants.Command {
		return tenants.DropTenant{Tenant: id, Note: reason, By: p.Actor(), AtMS: time.Now().UnixMilli()}
	})
}

func (a *API) withReason(c echo.Context, needed bool, command func(tenants.TenantID, string) tenants.Command) error {
	id, err := tenantOf(c)
	if err != nil {
		return err
	}
	if err := noQuery(c); err != nil {
		return err
	}
	note, body, err := readNote(c, needed)
	if err != nil {
		return err
	}
	return a.afterChange(c, body, command(id, note), id)
}

// tenantOf is the tenant that the address names. What cannot name one is as unknown as a name that nobody has.
func tenantOf(c echo.Context) (tenants.TenantID, error) {
	slug := c.Param("tenant")
	if !tenants.ValidSlug(slug) {
		return "", wire.NewProblem(wire.CodeNotFound, "")
	}
	return tenants.TenantID(slug), nil
}

// writeTenant answers how a tenant stands.
func (a *API) writeTenant(ctx context.Context, c echo.Context, status int, id tenants.TenantID) error {
	var t tenants.Tenant
	var known bool
	err := a.platform.ReadControl(ctx, func(m *control.Machine) { t, known = m.Tenant(id) })
	switch {
	case err != nil:
		return err
	case !known:
		return wire.NewProblem(wire.CodeNotFound, "")
	}
	view := tenantView(t)
	if s, carried := a.platform.InUse(lockcore.TenantID(id)); carried {
		view.Use = &wire.TenantUse{Keys: s.Keys, Leases: s.Occupied, Waiters: s.Waiting, Sessions: s.Sessions,
			LastToken: uint64(s.LastToken), Ending: s.Dropped}
	}
	return c.JSON(status, view)
}

func tenantView(t tenants.Tenant) wire.Tenant {
	return wire.Tenant{Tenant: string(t.ID), State: tenantState(t), OwnerGroups: texts(t.OwnerGroups),
		Quotas:    wire.Quotas(t.Quotas),
		Partition: uint32(t.Partition), TokenBase: t.TokenBase, EarlierLives: t.EarlierLives,
		CreatedAt: wallTime(t.CreatedMS), ChangedAt: wallTime(t.ChangedMS)}
}

func tenantState(t tenants.Tenant) wire.TenantState {
	switch {
	case t.TokenFinal:
		return wire.TenantDropped
	case t.Dropped:
		return wire.TenantEnding
	case t.Suspended:
		return wire.TenantSuspended
	}
	return wire.TenantLive
}

// codeByRefusal says how what the control log refuses about tenants and API keys is published. A field that is out of its
// range is answered apart, and what only a mistake of ours leads to is internal.
var codeByRefusal = map[tenants.Reason]struct {
	code   wire.Code
	detail string
}{
	tenants.RefusedUnknownTenant:  {wire.CodeNotFound, ""},
	tenants.RefusedUnknownKey:     {wire.CodeNotFound, ""},
	tenants.RefusedTenantExists:   {wire.CodeTenantExists, ""},
	tenants.RefusedPlacementFixed: {wire.CodeTenantExists, "The tenant was made by somebody else at this moment."},
	tenants.RefusedTenantDropped:  {wire.CodeTenantDropped, "The tenant is dropped. It can be made again with POST /v1/tenants."},
	tenants.RefusedTenantEnding:   {wire.CodeTenantEnding, ""},
	tenants.RefusedTooManyTenants: {wire.CodeTooMany, fmt.Sprintf("There are %d tenants, dropped ones included.", tenants.TenantsMax)},
	tenants.RefusedTokensSpent:    {wire.CodeTooMany, "The tokens of this slug have come too far for it to be given again; take another."},
	tenants.RefusedTooManyKeys:    {wire.CodeTooMany, fmt.Sprintf("The tenant has %d API keys.", tenants.APIKeysPerTenantMax)},
	tenants.RefusedTooManyMakers: {wire.CodeTooMany,
		fmt.Sprintf("%d people answer for the API key already; create a new one instead.", tenants.MakersMax)},
	tenants.RefusedKeyEnded:       {wire.CodeAPIKeyEnded, ""},
	tenants.RefusedAlreadyRotated: {wire.CodeAPIKeyRotated, ""},
	tenants.RefusedNoOverlap:      {wire.CodeNoOverlap, ""},
	tenants.RefusedForbidden:      {wire.CodeForbidden, "The API key may not do this, or not any more."},
	tenants.RefusedWiderScope:     {wire.CodeWiderScope, ""},
}

var problemByRefusal = func() map[string]func() *wire.Problem {
	rows := make(map[string]func() *wire.Problem, len(codeByRefusal))
	for reason, row := range codeByRefusal {
		rows[reason.String()] = func() *wire.Problem { return wire.NewProblem(row.code, row.detail) }
	}
	return rows
}()

// tenantsRefused is how a refusal is answered.
func tenantsRefused(r control.Result) error {
	if r.Reason == control.RefusedInvalid {
		if rule, ours := ruleByField[r.Field]; ours {
			return &badRequest{rule.field, rule.why}
		}
	}
	if problem, listed := problemByRefusal[r.Reason]; listed {
		return problem()
	}
	return fmt.Errorf("the control log refused a command of this node's: %s %s", r.Reason, r.Field)
}
