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
	verb    tenants.Verb    // empty: anybody, with anyKey anybody with an API key
	also    [2]tenants.Verb // or one of these
	anyKey  bool            // any API key that works
	example string          // class pattern that says what is lacking when no scope has the verb
	lane    Lane            // see laneOf
	draws   bucket          // what its changes draw from: see Limits
	answers placed          // which node answers; the others pass on
}

// The permissions.
var (
	Public       = Permission{name: "public"}
	LocksAcquire = Permission{name: "locks, may hang", verb: tenants.VerbLocks, example: "*", lane: LaneAcquire,
		answers: atPartition}
	LocksKeep = Permission{name: "locks", verb: tenants.VerbLocks, example: "*", lane: LaneKeep, draws: bucketKeep,
		answers: atPartition}
	LocksLook = Permission{name: "locks or tenant:admin", verb: tenants.VerbLocks, example: "*",
		also: [2]tenants.Verb{tenants.VerbAdministerTenant}, answers: atPartition}
	// A flood of acquires must keep nobody from ending a hold, and no evidence of what a guard refused from being counted.
	EndHolds = Permission{name: "tenant:admin", verb: tenants.VerbAdministerTenant, lane: LaneKeep, draws: bucketKeep,
		answers: atPartition}
	ReportGuards      = Permission{name: "guard:report", verb: tenants.VerbReportGuard, draws: bucketReports, answers: atPartition}
	AnyAPIKey         = Permission{name: "any API key", anyKey: true, answers: atControlLeader}
	OperatePlatform   = Permission{name: "platform:operator", verb: tenants.VerbOperatePlatform, answers: atControlLeader}
	AdministerAPIKeys = Permission{name: "tenant:admin or platform:operator", verb: tenants.VerbAdministerTenant,
		also: [2]tenants.Verb{tenants.VerbOperatePlatform}, answers: atControlLeader}
	// ReadAudit may hang, and lets exports take long: neither keeps a heartbeat out.
	ReadAudit = Permission{name: "audit:read or platform:operator", verb: tenants.VerbReadAudit,
		also: [2]tenants.Verb{tenants.VerbOperatePlatform}, lane: LaneAcquire}
	ClassesDeclare = Permission{name: "classes:declare", verb: tenants.VerbDeclareClasses, example: "*", answers: atControlLeader}
	ClassesRead    = Permission{name: "locks, classes:declare or audit:read", verb: tenants.VerbLocks, example: "*",
		also: [2]tenants.Verb{tenants.VerbDeclareClasses, tenants.VerbReadAudit}, answers: atControlLeader}
	ClassesAwait = Permission{name: "locks, classes:declare or audit:read, may hang", verb: tenants.VerbLocks, example: "*",
		also: [2]tenants.Verb{tenants.VerbDeclareClasses, tenants.VerbReadAudit}, lane: LaneAcquire, answers: atControlLeader}
)

// String is the permission's name, for tables.
func (p Permission) String() string { return p.name }

// IsZero reports whether no permission is named.
func (p Permission) IsZero() bool { return p.name == "" }

// Public reports whether the route asks for no API key.
func (p Permission) Public() bool { return p == Public }

// AtControlLeader reports whether the leader of the control group answers the route; others pass the request on to it.
func (p Permission) AtControlLeader() bool { return p.answers == atControlLeader }

// heldBy reports whether a scope has the permission's verb. For which classes, the handler asks when it knows the class.
func (p Permission) heldBy(caller tenants.Principal) bool {
	return p.anyKey || slices.ContainsFunc(caller.Scopes, func(s tenants.Scope) bool {
		return s.Verb == p.verb || slices.Contains(p.also[:], s.Verb)
	})
}

// laneOf is the lane of a request: to look at a lease is not to keep it.
func (p Permission) laneOf(method string) Lane {
	if method == http.MethodGet && p.lane == LaneKeep {
		return LaneOther
	}
	return p.lane
}

// Routes lists the calls. The caller registers each with its permission.
func (a *API) Routes() []Route {
	return []Route{
		{http.MethodPut, "/v1/leases/:lease", LocksAcquire, a.acquire},
		{http.MethodGet, "/v1/leases/:lease", LocksKeep, a.look},
		{http.MethodDelete, "/v1/leases/:lease", LocksKeep, a.release},
		{http.MethodPost, "/v1/sessions/:session/heartbeat", LocksKeep, a.heartbeat},
		{http.MethodDelete, "/v1/sessions/:session", LocksKeep, a.endSession},
		{http.MethodGet, "/v1/locks", LocksLook, a.listLocks},
		{http.MethodGet, "/v1/locks/why", LocksLook, a.why},
		{http.MethodPost, "/v1/locks/force-release", EndHolds, a.forceRelease},
		{http.MethodPost, "/v1/guard/reports", ReportGuards, a.reportGuard},
		{http.MethodGet, "/v1/audit", ReadAudit, a.searchAudit},
		{http.MethodGet, "/v1/audit/checkpoint", ReadAudit, a.auditCheckpoints},
		{http.MethodGet, "/v1/audit/proof", ReadAudit, a.auditProof},
		{http.MethodGet, "/v1/audit/consistency", ReadAudit, a.auditConsistency},
		{http.MethodGet, "/v1/audit/kinds", Public, auditKinds},
		{http.MethodGet, "/v1/classes", ClassesRead, a.listClasses},
		{http.MethodPut, "/v1/classes/:class", ClassesDeclare, a.declareClass},
		{http.MethodGet, "/v1/classes/:class", ClassesAwait, a.getClass},
		{http.MethodDelete, "/v1/classes/:class", ClassesDeclare, a.retireClass},
		{http.MethodGet, "/v1/classes/:class/versions", ClassesRead, a.listVersions},
		{http.MethodPost, "/v1/tenants", OperatePlatform, a.createTenant},
		{http.MethodGet, "/v1/tenants", OperatePlatform, a.listTenants},
		{http.MethodGet, "/v1/tenants/:tenant", OperatePlatform, a.getTenant},
		{http.MethodPatch, "/v1/tenants/:tenant", OperatePlatform, a.changeTenant},
		{http.MethodDelete, "/v1/tenants/:tenant", OperatePlatform, a.dropTenant},
		{http.MethodPost, "/v1/tenants/:tenant/suspend", OperatePlatform, a.suspendTenant},
		{http.MethodPost, "/v1/tenants/:tenant/resume", OperatePlatform, a.resumeTenant},
		{http.MethodPost, "/v1/tenants/:tenant/classes/:class/transfer-owner", OperatePlatform, a.transferOwner},
		{http.MethodPost, "/v1/tenants/:tenant/api-keys", OperatePlatform, a.createAPIKey},
		{http.MethodGet, "/v1/tenants/:tenant/api-keys", OperatePlatform, a.listAPIKeys},
		{http.MethodGet, "/v1/tenants/:tenant/api-keys/:id", OperatePlatform, a.getAPIKey},
		{http.MethodPost, "/v1/tenants/:tenant/api-keys/:id/rotate", OperatePlatform, a.rotateAPIKey},
		{http.MethodPost, "/v1/tenants/:tenant/api-keys/:id/revoke", OperatePlatform, a.revokeAPIKey},
		{http.MethodPost, "/v1/tenants/:tenant/api-keys/:id/end-overlap", OperatePlatform, a.endOverlap},
		{http.MethodPost, "/v1/api-keys", AdministerAPIKeys, a.createAPIKey},
		{http.MethodGet, "/v1/api-keys", AdministerAPIKeys, a.listAPIKeys},
		{http.MethodGet, "/v1/api-keys/self", AnyAPIKey, a.getSelf},
		{http.MethodPost, "/v1/api-keys/self/rotate", AnyAPIKey, a.rotateSelf},
		{http.MethodGet, "/v1/api-keys/:id", AdministerAPIKeys, a.getAPIKey},
		{http.MethodPost, "/v1/api-keys/:id/rotate", AdministerAPIKeys, a.rotateAPIKey},
		{http.MethodPost, "/v1/api-keys/:id/revoke", AdministerAPIKeys, a.revokeAPIKey},
		{http.MethodPost, "/v1/api-keys/:id/end-overlap", AdministerAPIKeys, a.endOverlap},
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
	if from, within := a.withinQuota(c.Request().Method, p, needed); !within {
		if from != bucketKeep {
			a.hold(c.Request().Context(), lockcore.TenantID(p.Tenant))
		}
		return p, wire.NewProblem(wire.CodeRateLimited, "")
	}
	under := a.inFlight.enter(lockcore.TenantID(p.Tenant), needed.laneOf(c.Request().Method))
	if under == nil {
		return p, wire.NewProblem(wire.CodeOverloaded, "Too many requests of the tenant are under way at this node.")
	}
	defer under.Add(-1)
	return p, h(c, p)
}

var noStore = []string{"no-store"}
