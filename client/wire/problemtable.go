package wire

import "net/http"

// The codes.
const (
	CodeClassNotInForce Code = "class_not_in_force"
	CodeClassRetired    Code = "class_retired"
	CodeHeld            Code = "held"
	CodeAlreadyHeld     Code = "already_held"
	CodeQueueFull       Code = "queue_full"
	CodeWaitTimeout     Code = "wait_timeout"
	CodeEnded           Code = "ended"
	CodeRevoked         Code = "revoked"
	CodeSessionEnded    Code = "session_ended"
	CodeIDConflict      Code = "id_conflict"
	CodeTooOld          Code = "too_old"
	CodeStaleToken      Code = "stale_token"
	CodeNotHeld         Code = "not_held"

	CodeQuotaExceeded   Code = "quota_exceeded"
	CodeRateLimited     Code = "rate_limited"
	CodeOverloaded      Code = "overloaded"
	CodeTenantSuspended Code = "tenant_suspended"
	CodeTenantDropped   Code = "tenant_dropped"

	CodeTenantExists  Code = "tenant_exists"
	CodeTenantEnding  Code = "tenant_ending"
	CodeTooMany       Code = "too_many"
	CodeAPIKeyEnded   Code = "api_key_ended"
	CodeAPIKeyRotated Code = "api_key_rotated"
	CodeNoOverlap     Code = "no_overlap"
	CodeWiderScope    Code = "wider_scope"

	CodeAuditBehind    Code = "audit_behind"
	CodeNoQuorum       Code = "no_quorum"
	CodeNotLeader      Code = "not_leader"
	CodeOutcomeUnknown Code = "outcome_unknown"
	CodeStopping       Code = "stopping"
	CodeNotReady       Code = "not_ready"
	CodeInternal       Code = "internal"

	CodeStaleBase         Code = "stale_base"
	CodePurposeFixed      Code = "purpose_fixed"
	CodeUnknownOwnerGroup Code = "unknown_owner_group"
	CodeOwnerGroupStays   Code = "owner_group_stays"
	CodeNeverSigned       Code = "never_signed"

	CodeInvalidRequest       Code = "invalid_request"
	CodeUnauthorized         Code = "unauthorized"
	CodeForbidden            Code = "forbidden"
	CodeNotFound             Code = "not_found"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeRequestTimeout       Code = "request_timeout"
	CodeTooLarge             Code = "too_large"
	CodeUnsupportedMediaType Code = "unsupported_media_type"
)

// problemTable is the one place that says what a code means. The documentation is generated from it.
var problemTable = []ProblemKind{
	{CodeClassNotInForce, http.StatusConflict, RetryLater, 5, "The class has no version in force, so it grants nothing.",
		"Declare the class, have its owner sign it, and ask again. The id was not used up."},
	{CodeClassRetired, http.StatusConflict, RetryNever, 0, "The class is retired and grants nothing any more.",
		"Use another class, or have a new version of this one signed."},
	{CodeHeld, http.StatusConflict, RetryNewID, 0, "Somebody else holds the key, and this request does not queue.",
		"Ask again later with a new id, or with a `wait` to queue."},
	{CodeAlreadyHeld, http.StatusConflict, RetryNever, 0, "This session holds the key already, under another id.",
		"Use the lease that the session has, or release it first. One session holds a key once."},
	{CodeQueueFull, http.StatusConflict, RetryNewID, 0, "As many wait for the key as its class allows.",
		"Ask again later with a new id, or have `max_waiters` raised in the class file."},
	{CodeWaitTimeout, http.StatusConflict, RetryNewID, 0, "The request waited as long as it asked to and was not granted.",
		"Ask again with a new id. The place in the queue is gone."},
	{CodeEnded, http.StatusConflict, RetryNewID, 0, "The lease is over; it will not be granted again.",
		"Stop what the lease protected. Ask for a new lease with a new id."},
	{CodeRevoked, http.StatusConflict, RetryNewID, 0, "The lease was ended, or is being ended, from outside.",
		"Stop what the lease protected now, and release it. Ask with a new id if the work is still wanted."},
	{CodeSessionEnded, http.StatusConflict, RetryNewID, 0, "The session has ended and is granted nothing more.",
		"Begin a new session: draw a new session id and number its requests from 1."},
	{CodeIDConflict, http.StatusConflict, RetryNewID, 0, "The lease id was used for another class or key.",
		"Give each lease request its own number. Two processes must not share a session."},
	{CodeTooOld, http.StatusConflict, RetryNewID, 0, "The id is so old that nothing is remembered of it; nothing was done.",
		"Ask with a new id, numbered above all before."},
	{CodeStaleToken, http.StatusConflict, RetryNever, 0, "The token is not the one of this lease; nothing was changed.",
		"Release with the token that the grant carried. To end somebody's hold, look at the lock again: it may have another holder by now."},
	{CodeNotHeld, http.StatusConflict, RetryNever, 0, "Nobody holds the key, so there is no hold to end; nothing was changed.",
		"Look at the lock, at its class and key as they are written: the hold may be over already."},

	{CodeQuotaExceeded, http.StatusTooManyRequests, RetryLater, 5, "The tenant has as much as its quota allows.",
		"Release what is not needed, end sessions that are over, or have the quota raised."},
	{CodeRateLimited, http.StatusTooManyRequests, RetryLater, 3, "The tenant sends more requests per second than its quota allows.",
		"Slow down; wait as long as `Retry-After` says."},
	{CodeOverloaded, http.StatusTooManyRequests, RetryLater, 3, "Too many of the tenant's requests are under way; nothing was done.",
		"Repeat after `Retry-After`, with the same id. Heartbeats come before new requests."},
	{CodeTenantSuspended, http.StatusServiceUnavailable, RetryLater, 5, "The tenant takes no new leases at the moment.",
		"Repeat later with the same id. Leases that are held go on."},
	{CodeTenantDropped, http.StatusForbidden, RetryNever, 0, "The tenant is being dropped; its leases end.",
		"Stop what its leases protected."},

	{CodeTenantExists, http.StatusConflict, RetryNever, 0, "There is a tenant of that name with other contents; nothing was done.",
		"Change it with PATCH, or take another name."},
	{CodeTenantEnding, http.StatusConflict, RetryLater, 5, "The tenant is dropped, and its last fencing token is not known yet.",
		"Make it again when its state is `dropped`: when its last lease has ended."},
	{CodeTooMany, http.StatusConflict, RetryNever, 0, "There are as many as there may be; `detail` says of what.",
		"Do without some that are not needed any more; an ended API key counts for 30 days."},
	{CodeAPIKeyEnded, http.StatusConflict, RetryNever, 0, "The API key is expired, revoked or rotated out already.",
		"Create a new one."},
	{CodeAPIKeyRotated, http.StatusConflict, RetryNever, 0, "The API key has been rotated already: it has a successor.",
		"Rotate the successor. If its secret was lost, revoke it and create a new API key."},
	{CodeNoOverlap, http.StatusConflict, RetryNever, 0, "The API key has no successor, so there is no overlap to end.",
		"Rotate it first, or revoke it."},
	{CodeWiderScope, http.StatusForbidden, RetryNever, 0, "An API key makes none that may do more than itself.",
		"Ask for scopes that those of your API key cover, or use a wider one."},

	{CodeAuditBehind, http.StatusServiceUnavailable, RetryLater, 5, "The audit cannot keep up, and a correctness class is not granted without it.",
		"Repeat later with the same id. What is held goes on. Operators: the node's readiness says what is wrong with its audit."},
	{CodeNoQuorum, http.StatusServiceUnavailable, RetrySameID, 2, "No majority of nodes answers, so nothing can be granted or kept.",
		"A holder works on until its local deadline and then stops. Repeat with the same id at any node."},
	{CodeNotLeader, http.StatusServiceUnavailable, RetrySameID, 0, "This node does not lead the tenant's partition; nothing was done.",
		"Repeat with the same id, at the leader if one is named, else at another node."},
	{CodeOutcomeUnknown, http.StatusServiceUnavailable, RetrySameID, 0, "The request may or may not have been carried out.",
		"Repeat with the same id, never with a new one: the answer will say what became of it."},
	{CodeStopping, http.StatusServiceUnavailable, RetrySameID, 0, "This node is shutting down.",
		"Repeat with the same id at another node, at once: a place in the queue is kept for half a second."},
	{CodeNotReady, http.StatusServiceUnavailable, RetryLater, 2, "This node is not ready to serve.",
		"Wait; `parts` says what for."},
	{CodeInternal, http.StatusInternalServerError, RetrySameID, 0, "The server made a mistake.",
		"Repeat with the same id. If it stays, give the request id to the operator."},

	{CodeStaleBase, http.StatusConflict, RetryNever, 0, "Another version of the class was signed meanwhile; nothing was done.",
		"Look at what is in force now, and declare the class again on that base."},
	{CodePurposeFixed, http.StatusConflict, RetryNever, 0, "The purpose of a class name is fixed by its first signed version, for ever.",
		"Declare the purpose that the name has had, or take another name. Retirement does not free a name."},
	{CodeUnknownOwnerGroup, http.StatusConflict, RetryNever, 0, "The class's owner is none of the tenant's owner groups.",
		"Name one of the tenant's owner groups, or have the platform's operator register this one."},
	{CodeOwnerGroupStays, http.StatusConflict, RetryNever, 0, "The group is an owner group of the tenant still, so its own signature is needed.",
		"Have it sign. If it is gone for good, take it from the tenant's owner groups first."},
	{CodeNeverSigned, http.StatusConflict, RetryNever, 0, "No version of the class was ever signed.",
		"Leave it: what was never signed grants nothing, and may be declared with another owner."},

	{CodeInvalidRequest, http.StatusBadRequest, RetryNever, 0, "The request is not well formed; nothing was done.",
		"Mend what `field` and `detail` name."},
	{CodeUnauthorized, http.StatusUnauthorized, RetryNever, 0, "There is no valid API key in the request.",
		"Send `Authorization: Bearer stn_…` with a key that is neither expired nor revoked."},
	{CodeForbidden, http.StatusForbidden, RetryNever, 0, "The API key's scopes do not allow this.",
		"Use an API key with the scope that `scope` names."},
	{CodeNotFound, http.StatusNotFound, RetryNever, 0, "There is no such thing for this API key.",
		"Check the address and the id. What belongs to somebody else answers the same."},
	{CodeMethodNotAllowed, http.StatusMethodNotAllowed, RetryNever, 0, "The address does not take this method.",
		"Use one of the methods in the `Allow` header."},
	{CodeRequestTimeout, http.StatusRequestTimeout, RetrySameID, 0, "The request's body did not arrive in time; nothing was done.",
		"Repeat with the same id."},
	{CodeTooLarge, http.StatusRequestEntityTooLarge, RetryNever, 0, "The request's body is too large; nothing was done.",
		"Stay within the limit that `detail` names; split a heartbeat by lease."},
	{CodeUnsupportedMediaType, http.StatusUnsupportedMediaType, RetryNever, 0, "The request's body is of a type that this call does not take.",
		"Send `Content-Type: application/json`; a class file may be `application/yaml` as well."},
}

var kindByCode = func() map[Code]ProblemKind {
	rows := make(map[Code]ProblemKind, len(problemTable))
	for _, k := range problemTable {
		rows[k.Code] = k
	}
	return rows
}()
