package api

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

// Handler answers one request of an authorised caller; of a public route the principal is empty. An error that it
// returns has not been answered yet.
type Handler func(echo.Context, tenants.Principal) error

// Route is one call of the API.
type Route struct {
	Method     string
	Path       string
	Permission Permission
	Handle     Handler
}

// Permission is what a route asks of its caller. The zero value permits nobody and is no permission.
type Permission struct {
	name    string
	verb    tenants.Verb // empty: anybody
	example string       // class pattern that says what is lacking when no scope has the verb
	lane    Lane
}

// The permissions.
var (
	Public       = Permission{name: "public"}
	LocksAcquire = Permission{name: "locks, may hang", verb: tenants.VerbLocks, example: "*", lane: LaneAcquire}
	LocksKeep    = Permission{name: "locks", verb: tenants.VerbLocks, example: "*", lane: LaneKeep}
)

// String is the permission's name, for tables.
func (p Permission) String() string { return p.name }

// IsZero reports whether no permission is named.
func (p Permission) IsZero() bool { return p.name == "" }

// Public reports whether the route asks for no API key.
func (p Permission) Public() bool { return p == Public }

// heldBy reports whether a scope has the permission's verb. For which classes, the handler asks when it knows the class.
func (p Permission) heldBy(caller tenants.Principal) bool {
	return slices.ContainsFunc(caller.Scopes, func(s tenants.Scope) bool { return s.Verb == p.verb })
}

// Routes lists the calls. The caller registers each with its permission.
func (a *API) Routes() []Route {
	return []Route{
		{http.MethodPut, "/v1/leases/:lease", LocksAcquire, a.acquire},
		{http.MethodGet, "/v1/leases/:lease", LocksKeep, a.look},
		{http.MethodDelete, "/v1/leases/:lease", LocksKeep, a.release},
		{http.MethodPost, "/v1/sessions/:session/heartbeat", LocksKeep, a.heartbeat},
		{http.MethodDelete, "/v1/sessions/:session", LocksKeep, a.endSession},
		{http.MethodGet, "/v1/locks", LocksKeep, a.listLocks},
		{http.MethodGet, "/healthz", Public, a.alive},
		{http.MethodGet, "/readyz", Public, a.ready},
		{http.MethodGet, "/openapi.json", Public, openAPI},
		{http.MethodGet, "/schema/class.json", Public, classSchema},
	}
}

// Serve answers one request: who asks, may they, is there room, and then the handler. It returns who asked, for the log.
func (a *API) Serve(c echo.Context, needed Permission, h Handler) (tenants.Principal, error) {
	c.Response().Header()["Cache-Control"] = noStore
	if needed.Public() {
		return tenants.Principal{}, h(c, tenants.Principal{})
	}
	p, err := a.Authorise(c, needed)
	if err != nil {
		return p, err
	}
	under := a.inFlight.enter(lockcore.TenantID(p.Tenant), needed.lane)
	if under == nil {
		return p, wire.NewProblem(wire.CodeOverloaded, "Too many requests of the tenant are under way at this node.")
	}
	defer under.Add(-1)
	return p, h(c, p)
}

var noStore = []string{"no-store"}
