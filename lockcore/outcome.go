package lockcore

import "fmt"

// Outcome is what a command led to: decided, replicated, equal on every replica.
type Outcome uint8

// The outcomes.
const (
	Granted Outcome = iota + 1 // the lease is held; Token names the grant
	Queued                     // the request waits in the key's queue
	Ended                      // the lease is over; Reason says how
	Done                       // carried out; there is no lease to speak of
	Refused                    // nothing changed but, where Reason says so, the id is used up
	outcomeCount
)

func (o Outcome) String() string {
	names := [...]string{"", "granted", "queued", "ended", "done", "refused"}
	if o == 0 || o >= outcomeCount {
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
	return names[o]
}

// Reason says why a command was refused or how a lease ended. Numbers are part of the log format and never reused.
type Reason uint8

// How leases and waits end.
const (
	Released        Reason = iota + 1 // by its holder
	Expired                           // no heartbeat in time
	PickupMissed                      // handed to a waiter that did not fetch it
	Forced                            // force-released
	MaxHold                           // held longer than the class allows
	ClassRetired                      // the class was retired
	TenantDropped                     // the tenant was dropped
	SessionOver                       // its session was ended by the client
	WaitTimeout                       // waited as long as it asked to
	WaitLeft                          // left the queue by its own request
	Disconnected                      // its connection was lost and no poll followed
	Silent                            // stopped polling
	Burned                            // released before it was ever acquired
	reasonEndsCount                   // not a reason
)

// Why commands are refused. A held, already-held or queue-full acquire uses its id up, so that a copy of the request
// that arrives later cannot be granted; the others leave the id as it was.
const (
	RefusedStaleEpoch    Reason = iota + 64 // proposed under another epoch; repeat it under this one
	RefusedUnknown                          // no such tenant, lease or session
	RefusedForeign                          // the session belongs to another owner
	RefusedDropped                          // the tenant is being dropped
	RefusedSuspended                        // the tenant takes no new acquire
	RefusedNotInForce                       // the class has no version in force
	RefusedRetired                          // the class is retired
	RefusedHeld                             // somebody holds the key and the request does not queue
	RefusedAlreadyHeld                      // this session holds the key under another id
	RefusedQueueFull                        // the class's max_waiters wait already
	RefusedIDConflict                       // the id was used for another class or key
	RefusedTooOld                           // the id is older than what the session remembers
	RefusedStaleToken                       // the token is not the lease's
	RefusedSessionOver                      // the session has ended
	RefusedWait                             // the wait is longer than the class allows
	RefusedQuotaKeys                        // the tenant has as many keys as it may
	RefusedQuotaLeases                      // … leases
	RefusedQuotaWaiters                     // … waiters
	RefusedQuotaSessions                    // … sessions
	RefusedEnded                            // the lease is over already
	RefusedEnding                           // the hold is being ended from outside
	RefusedNotDue                           // a long lease's logged deadline has not come
	RefusedNotLong                          // a short lease is not extended through the log
	RefusedNotHeld                          // the request waits, and has no lease
	RefusedNotWaiting                       // the request does not wait any more
	RefusedNotDelayed                       // the key is not in this lock delay
	RefusedBusy                             // something of it is still held or queued
	RefusedStaleVersion                     // a version or revision that a later one has overtaken
	RefusedPurpose                          // the purpose of a class's name is fixed
	RefusedPosture                          // correctness is never open
	RefusedInvalid                          // a value out of its range
	RefusedQuotaSession                     // the session holds and waits for as much as one may
	reasonRefusalsCount                     // not a reason
)

var reasonNames = map[Reason]string{
	Released: "released", Expired: "expired", PickupMissed: "pickup_missed", Forced: "forced", MaxHold: "max_hold",
	ClassRetired: "class_retired", TenantDropped: "tenant_dropped", SessionOver: "session_ended",
	WaitTimeout: "wait_timeout", WaitLeft: "left", Disconnected: "disconnected", Silent: "silent", Burned: "burned",

	RefusedStaleEpoch: "stale_epoch", RefusedUnknown: "unknown", RefusedForeign: "foreign", RefusedDropped: "dropped",
	RefusedSuspended: "suspended", RefusedNotInForce: "not_in_force", RefusedRetired: "retired", RefusedHeld: "held",
	RefusedAlreadyHeld: "already_held", RefusedQueueFull: "queue_full", RefusedIDConflict: "id_conflict",
	RefusedTooOld: "too_old", RefusedStaleToken: "stale_token", RefusedSessionOver: "session_over",
	RefusedWait: "wait_too_long", RefusedQuotaKeys: "quota_keys", RefusedQuotaLeases: "quota_leases",
	RefusedQuotaWaiters: "quota_waiters", RefusedQuotaSessions: "quota_sessions", RefusedEnded: "ended",
	RefusedEnding: "ending", RefusedNotDue: "not_due", RefusedNotLong: "not_long", RefusedNotHeld: "not_held",
	RefusedNotWaiting: "not_waiting", RefusedNotDelayed: "not_delayed", RefusedBusy: "busy",
	RefusedStaleVersion: "stale_version", RefusedPurpose: "purpose_fixed", RefusedPosture: "posture",
	RefusedInvalid: "invalid", RefusedQuotaSession: "quota_session",
}

// String is the reason's stable name, as the audit and the API spell it.
func (r Reason) String() string {
	if s, ok := reasonNames[r]; ok {
		return s
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Reasons lists every reason in number order, for tables and tests that must miss none.
func Reasons() []Reason {
	var all []Reason
	for r := Released; r < reasonEndsCount; r++ {
		all = append(all, r)
	}
	for r := RefusedStaleEpoch; r < reasonRefusalsCount; r++ {
		all = append(all, r)
	}
	return all
}

// Outcomes lists every outcome.
func Outcomes() []Outcome { return []Outcome{Granted, Queued, Ended, Done, Refused} }

// Result answers one command. Only the node that proposed it looks at it; what the outside sees follows from events.
type Result struct {
	Outcome Outcome
	Reason  Reason // of Ended and Refused; else 0
	Token   Token  // of Granted, and of Ended where there had been a grant
	Epoch   Epoch  // of AdvanceEpoch: the number it was given
}

func refuse(r Reason) Result { return Result{Outcome: Refused, Reason: r} }

// usesUp reports whether an acquire refused for r has used its id up.
func (r Reason) usesUp() bool {
	return r == RefusedHeld || r == RefusedAlreadyHeld || r == RefusedQueueFull
}
