package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/tenants"
)

// Authorise finds out who asks and whether the permission is theirs; ProblemOf knows its errors.
func (a *API) Authorise(c echo.Context, needed Permission) (tenants.Principal, error) {
	p, err := a.platform.Authenticate(bearer(c.Request().Header))
	switch {
	case errors.Is(err, ErrNotReady):
		return tenants.Principal{}, err
	case err != nil:
		c.Response().Header()["Www-Authenticate"] = challenge
		return tenants.Principal{}, wire.NewProblem(wire.CodeUnauthorized, "")
	}
	if !needed.heldBy(p) {
		return p, forbidden(tenants.Scope{Verb: needed.verb, Classes: needed.example})
	}
	return p, nil
}

var challenge = []string{"Bearer"}

// bearer is the API key that a request presents; empty if there is none, or more than one, or in another scheme.
func bearer(h http.Header) string {
	const scheme = "Bearer "
	values := h["Authorization"]
	if len(values) != 1 || len(values[0]) < len(scheme) || !strings.EqualFold(values[0][:len(scheme)], scheme) {
		return ""
	}
	return values[0][len(scheme):]
}

func forbidden(lacking tenants.Scope) *wire.Problem {
	p := wire.NewProblem(wire.CodeForbidden, "The API key lacks a scope that covers "+lacking.String()+".")
	p.Scope = lacking.String()
	return p
}

func caller(p tenants.Principal) leader.Caller {
	return leader.Caller{Tenant: lockcore.TenantID(p.Tenant), Owner: lockcore.OwnerID(p.Lineage), APIKey: string(p.KeyID)}
}

// mayUse reports whether the caller's scopes take in the class.
func mayUse(p tenants.Principal, class lockcore.ClassName) bool {
	return p.Scopes.Allows(tenants.VerbLocks, string(class))
}

// mayLook reports whether the caller may see who holds and waits under the class.
func mayLook(p tenants.Principal, class lockcore.ClassName) bool {
	return mayUse(p, class) || p.Scopes.Allows(tenants.VerbAdministerTenant, "")
}
