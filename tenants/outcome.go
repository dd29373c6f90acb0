package tenants

import "fmt"

// Result is what a command led to.
type Result struct {
	Reason Reason // None when it was carried out
	Field  string // with RefusedInvalid: the field at fault, as the API spells it
}

// OK reports whether the command was carried out, or had been before.
func (r Result) OK() bool { return r.Reason == None }

// Reason says why a command was refused. Numbers are part of the log format and never reused.
type Reason uint8

// The reasons.
const (
	None                  Reason = iota
	RefusedInvalid               // a field is out of its range; Result.Field names it
	RefusedUnknownTenant         // no such tenant
	RefusedTenantExists          // the tenant was to be new and is known with other contents
	RefusedTenantDropped         // the tenant is dropped and its slug stays taken
	RefusedNotDropped            // only a dropped tenant has a final token
	RefusedPlacementFixed        // partition and token base do not change here
	RefusedTooManyTenants        // TenantsMax is reached
	RefusedUnknownKey            // no such API key of this tenant
	RefusedKeyExists             // the id is taken; draw another
	RefusedKeyEnded              // the API key is expired, revoked or rotated out
	RefusedAlreadyRotated        // the API key has its successor; rotate that
	RefusedNoOverlap             // the API key has no successor
	RefusedTooManyKeys           // APIKeysPerTenantMax is reached
	RefusedTooManyMakers         // MakersMax people answer for the key already; create a new one
	RefusedForbidden             // the API key that asks may not
	RefusedWiderScope            // the API key that asks would make a wider one
	RefusedTenantEnding          // the tenant is dropped, and its final token is not known yet
	RefusedTokensSpent           // the slug's tokens have come so far that it cannot be given again
	RefusedStaleToken            // the token is of an earlier life of the slug
	reasonCount                  // not a reason
)

func (r Reason) String() string {
	names := [...]string{"", "invalid", "unknown_tenant", "tenant_exists", "tenant_dropped", "tenant_not_dropped",
		"placement_fixed", "too_many_tenants", "unknown_api_key", "api_key_exists", "api_key_ended",
		"api_key_already_rotated", "no_overlap", "too_many_api_keys", "too_many_makers", "forbidden", "wider_scope", "tenant_ending",
		"tokens_spent", "stale_token"}
	if r >= reasonCount {
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
	return names[r]
}

func refuse(r Reason) Result          { return Result{Reason: r} }
func refuseField(field string) Result { return Result{Reason: RefusedInvalid, Field: field} }

// EventKind says what became true. Numbers are part of the audit format and never reused.
type EventKind uint8

// The events.
const (
	EventTenantCreated EventKind = iota + 1
	EventTenantChanged
	EventTenantSuspended
	EventTenantResumed
	EventTenantDropped
	EventFinalTokenRecorded
	EventAPIKeyCreated
	EventAPIKeyRotated
	EventAPIKeyRevoked
	EventOverlapEnded
	EventRefused
	eventKindCount
)

func (k EventKind) String() string {
	names := [...]string{"", "tenant_created", "tenant_changed", "tenant_suspended", "tenant_resumed", "tenant_dropped",
		"final_token_recorded", "api_key_created", "api_key_rotated", "api_key_revoked", "api_key_overlap_ended", "refused"}
	if k == 0 || k >= eventKindCount {
		return fmt.Sprintf("event(%d)", uint8(k))
	}
	return names[k]
}

// Event is one thing that became true, or that was refused. It carries no secret and no hash.
type Event struct {
	Kind      EventKind
	Tenant    TenantID
	Key       APIKeyID // the API key concerned, if any
	KeyName   string
	Successor APIKeyID // of EventAPIKeyRotated
	Token     uint64   // of EventFinalTokenRecorded; of EventTenantCreated: what its tokens count from above
	Refused   Kind     // of EventRefused: the kind of the command
	Reason    Reason   // of EventRefused
	Field     string   // of EventRefused
	By        Actor
	Note      string // the reason that was given
	AtMS      int64  // the proposer's wall time, milliseconds since the Unix epoch, for people
}
