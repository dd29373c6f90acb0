package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/tenants"
)

// keyTenant is whose API keys a request is about: the tenant that the address names, else the caller's own, which for an
// operator is the platform.
func keyTenant(c echo.Context, p tenants.Principal) (tenants.TenantID, error) {
	if slices.Contains(c.ParamNames(), "tenant") {
		return tenantOf(c)
	}
	return p.Tenant, nil
}

// keyOf is the API key that the address names. What cannot be an id is as unknown as an id that nobody has.
func keyOf(c echo.Context, p tenants.Principal) (tenants.TenantID, tenants.APIKeyID, error) {
	tenant, err := keyTenant(c, p)
	id := tenants.APIKeyID(c.Param("id"))
	if err == nil && !id.Valid() {
		err = wire.NewProblem(wire.CodeNotFound, "")
	}
	return tenant, id, err
}

// createAPIKey is POST /v1/api-keys, and below a tenant for operators.
func (a *API) createAPIKey(c echo.Context, p tenants.Principal) error {
	tenant, err := keyTenant(c, p)
	if err != nil {
		return err
	}
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := readJSON(c, apiKeyBodyBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	req, err := decodeNewAPIKey(body.b)
	if err != nil {
		return err
	}
	return a.atControlLog(c, body.b, func(ctx context.Context) error {
		return a.makeKey(ctx, c, tenant, "", func(fresh tenants.Credential, nowMS int64) tenants.Command {
			return tenants.CreateAPIKey{Tenant: tenant, Key: fresh.ID(), Hash: fresh.Hash(), Name: req.name, Scopes: req.scopes,
				ExpiresMS: nowMS + req.life.Milliseconds(), By: p.Actor(), AtMS: nowMS}
		})
	})
}

// rotateAPIKey is POST /v1/api-keys/{id}/rotate, and below a tenant for operators.
func (a *API) rotateAPIKey(c echo.Context, p tenants.Principal) error {
	tenant, id, err := keyOf(c, p)
	if err != nil {
		return err
	}
	return a.rotate(c, p, tenant, id)
}

// rotateSelf is POST /v1/api-keys/self/rotate: an API key makes its own successor.
func (a *API) rotateSelf(c echo.Context, p tenants.Principal) error {
	return a.rotate(c, p, p.Tenant, p.KeyID)
}

func (a *API) rotate(c echo.Context, p tenants.Principal, tenant tenants.TenantID, id tenants.APIKeyID) error {
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := readJSON(c, apiKeyBodyBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	req, err := decodeRotation(body.b)
	if err != nil {
		return err
	}
	return a.atControlLog(c, body.b, func(ctx context.Context) error {
		return a.makeKey(ctx, c, tenant, id, func(fresh tenants.Credential, nowMS int64) tenants.Command {
			return tenants.RotateAPIKey{Tenant: tenant, Key: id, Successor: fresh.ID(), Hash: fresh.Hash(),
				ExpiresMS: nowMS + cmp.Or(req.life, a.lifeOf(tenant, id)).Milliseconds(), OverlapEndsMS: nowMS + req.overlap.Milliseconds(), By: p.Actor(), AtMS: nowMS}
		})
	})
}

// lifeOf is how long an API key was given when it was made; of an unknown one, which is refused anyway, the least.
func (a *API) lifeOf(tenant tenants.TenantID, id tenants.APIKeyID) time.Duration {
	life := expiryMin
	a.platform.ViewControl(func(m *control.Machine) {
		if k, known := m.APIKey(tenant, id); known {
			life = time.Duration(k.ExpiresMS-k.CreatedMS) * time.Millisecond
		}
	})
	return life
}

// drawsMax bounds how often an id is drawn anew because it is taken; one draw in 10^17 is.
const drawsMax = 3

// makeKey draws an API key, has it made, waits until the other nodes know it, and shows it, this once.
func (a *API) makeKey(ctx context.Context, c echo.Context, tenant tenants.TenantID, replaces tenants.APIKeyID,
	command func(fresh tenants.Credential, nowMS int64) tenants.Command) error {
	var fresh tenants.Credential
	var r control.Result
	for range drawsMax {
		var err error
		if fresh, err = tenants.GenerateCredential(rand.Reader); err != nil {
			return err
		}
		if r, err = a.platform.Control(ctx, control.Entry{Tenants: command(fresh, time.Now().UnixMilli())}); err != nil {
			return err
		}
		if r.Reason != tenants.RefusedKeyExists.String() {
			break
		}
	}
	if !r.OK {
		return tenantsRefused(r)
	}
	made := wire.APIKeyMade{Secret: fresh.Reveal(), Spread: a.spread(ctx)}
	var known, replaced bool
	a.platform.ViewControl(func(m *control.Machine) {
		made.APIKey, known = apiKey(m, tenant, fresh.ID())
		var old wire.APIKey
		if old, replaced = apiKey(m, tenant, replaces); replaced {
			made.Replaces = &old
		}
	})
	if !known { // ended by somebody else at this very moment, with its tenant
		return wire.NewProblem(wire.CodeNotFound, "")
	}
	return c.JSON(http.StatusCreated, made)
}

// spread waits a little until the other nodes have applied what was just done: a client goes to any of them.
func (a *API) spread(ctx context.Context) wire.Spread {
	applied, behind := a.platform.AwaitApplied(ctx)
	return wire.Spread{AppliedOn: texts(applied), NotYetOn: texts(behind)}
}

// listAPIKeys is GET /v1/api-keys, and below a tenant for operators: a page, in the order in which they were made.
func (a *API) listAPIKeys(c echo.Context, p tenants.Principal) error {
	tenant, err := keyTenant(c, p)
	if err != nil {
		return err
	}
	if err := noBody(c); err != nil {
		return err
	}
	q, err := queryOf(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, from, err := pageOf(q, func(text string) bool { _, ok := parseKeyPosition(text); return ok })
	if err != nil {
		return err
	}
	return a.atControlLog(c, nil, func(ctx context.Context) error {
		var list wire.APIKeyList
		var keys []tenants.APIKey
		known := tenant == tenants.Platform
		err := a.platform.ReadControl(ctx, func(m *control.Machine) {
			if t, made := m.Tenant(tenant); made {
				known = !t.Dropped
			}
			keys, list.CompleteTo = m.APIKeys(tenant), m.Revision()
		})
		switch {
		case err != nil:
			return err
		case !known:
			return wire.NewProblem(wire.CodeNotFound, "")
		}
		list.APIKeys, list.NextCursor = keyPage(keys, from, limit)
		return c.JSON(http.StatusOK, list)
	})
}

// keyPosition is an API key's place in the order of a list.
type keyPosition struct {
	createdMS int64
	id        tenants.APIKeyID
}

func (k keyPosition) String() string { return strconv.FormatInt(k.createdMS, 10) + "/" + string(k.id) }

func parseKeyPosition(text string) (keyPosition, bool) {
	created, id, split := strings.Cut(text, "/")
	ms, err := strconv.ParseInt(created, 10, 64)
	return keyPosition{ms, tenants.APIKeyID(id)}, split && err == nil && tenants.APIKeyID(id).Valid()
}

func (k keyPosition) before(other keyPosition) bool {
	return k.createdMS < other.createdMS || k.createdMS == other.createdMS && k.id < other.id
}

// keyPage is the part of the keys, which are in order, that begins at from, and where the next page begins.
func keyPage(keys []tenants.APIKey, from string, limit int) (page []wire.APIKey, next string) {
	page = []wire.APIKey{}
	first, _ := parseKeyPosition(from)
	nowMS := time.Now().UnixMilli()
	for _, k := range keys {
		at := keyPosition{k.CreatedMS, k.ID}
		switch {
		case at.before(first):
			continue
		case len(page) == limit:
			return page, opaque(at.String())
		}
		page = append(page, apiKeyView(k, nowMS))
	}
	return page, ""
}

// getAPIKey is GET /v1/api-keys/{id}, and below a tenant for operators.
func (a *API) getAPIKey(c echo.Context, p tenants.Principal) error {
	tenant, id, err := keyOf(c, p)
	if err != nil {
		return err
	}
	return a.lookAtKey(c, tenant, id)
}

// getSelf is GET /v1/api-keys/self: what an API key is and may do.
func (a *API) getSelf(c echo.Context, p tenants.Principal) error {
	return a.lookAtKey(c, p.Tenant, p.KeyID)
}

func (a *API) lookAtKey(c echo.Context, tenant tenants.TenantID, id tenants.APIKeyID) error {
	if err := nothingElse(c); err != nil {
		return err
	}
	return a.atControlLog(c, nil, func(ctx context.Context) error {
		var view wire.APIKey
		var known bool
		err := a.platform.ReadControl(ctx, func(m *control.Machine) { view, known = apiKey(m, tenant, id) })
		switch {
		case err != nil:
			return err
		case !known:
			return wire.NewProblem(wire.CodeNotFound, "")
		}
		return c.JSON(http.StatusOK, view)
	})
}

// revokeAPIKey is POST /v1/api-keys/{id}/revoke, and below a tenant for operators.
func (a *API) revokeAPIKey(c echo.Context, p tenants.Principal) error {
	tenant, id, err := keyOf(c, p)
	if err != nil {
		return err
	}
	if err := noQuery(c); err != nil {
		return err
	}
	note, body, err := readNote(c, true)
	if err != nil {
		return err
	}
	return a.endKey(c, body, tenant, id, tenants.RevokeAPIKey{Tenant: tenant, Key: id, Note: note, By: p.Actor(),
		AtMS: time.Now().UnixMilli()})
}

// endOverlap is POST /v1/api-keys/{id}/end-overlap, and below a tenant for operators.
func (a *API) endOverlap(c echo.Context, p tenants.Principal) error {
	tenant, id, err := keyOf(c, p)
	if err != nil {
		return err
	}
	if err := nothingElse(c); err != nil {
		return err
	}
	return a.endKey(c, nil, tenant, id, tenants.EndOverlap{Tenant: tenant, Key: id, By: p.Actor(), AtMS: time.Now().UnixMilli()})
}

// endKey carries out what ends an API key, and says on which nodes it has ended by now.
func (a *API) endKey(c echo.Context, body []byte, tenant tenants.TenantID, id tenants.APIKeyID, command tenants.Command) error {
	return a.atControlLog(c, body, func(ctx context.Context) error {
		if _, err := a.change(ctx, command); err != nil {
			return err
		}
		ended := wire.APIKeyEnded{Spread: a.spread(ctx)}
		var known bool
		a.platform.ViewControl(func(m *control.Machine) { ended.APIKey, known = apiKey(m, tenant, id) })
		if !known {
			return wire.NewProblem(wire.CodeNotFound, "")
		}
		return c.JSON(http.StatusOK, ended)
	})
}

// apiKey is a tenant's API key as it stands now.
func apiKey(m *control.Machine, tenant tenants.TenantID, id tenants.APIKeyID) (wire.APIKey, bool) {
	k, known := m.APIKey(tenant, id)
	return apiKeyView(k, time.Now().UnixMilli()), known
}

func apiKeyView(k tenants.APIKey, nowMS int64) wire.APIKey {
	view := wire.APIKey{ID: string(k.ID), Tenant: string(k.Tenant), Name: k.Name, State: wire.KeyState(k.State(nowMS).String()),
		Scopes: k.Scopes.Strings(), May: k.Scopes.Sentences(), CreatedAt: wallTime(k.CreatedMS), CreatedBy: control.Shown(k.CreatedBy),
		ExpiresAt: wallTime(k.ExpiresMS), LastUsedAt: timeIf(k.LastUsedMS), Lineage: string(k.Lineage),
		Predecessor: string(k.Predecessor), Successor: string(k.Successor), EndedAt: timeIf(k.EndedMS)}
	if k.Successor != "" {
		view.OverlapEndsAt = timeIf(k.OverlapEndsMS)
	}
	return view
}

// timeIf is a moment, or nil for zero.
func timeIf(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	return new(wallTime(ms))
}
