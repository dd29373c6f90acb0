package lockcore

// EventKind numbers what became true. Numbers are part of the audit's content and never reused.
type EventKind uint8

// The event kinds. Heartbeats of short leases, extensions and reads are none.
const (
	EventEpochAdvanced    EventKind = iota + 1
	EventTenantPut                  // made, or changed
	EventTenantDropped              // refuses everything from here
	EventTenantGone                 // its last lease ended; Token is its final one
	EventClassInForce               // Version grants from here
	EventClassRetired               //
	EventQueued                     // Lease waits
	EventGranted                    // Lease holds the key with Token, asked for and granted in one
	EventPromoted                   // Lease, which had waited, holds the key with Token
	EventRefused                    // an acquire or release was refused for Reason
	EventLeft                       // Lease left the queue for Reason
	EventEnding                     // Lease is being ended from outside for Reason
	EventEnded                      // Lease held the key until here; Reason
	EventDelayStarted               // the key stays ungranted until the delay of Token ends
	EventDelayEnded                 //
	EventBurned                     // Lease was released before it was acquired
	EventSessionEnded               //
	EventSessionForgotten           //
	EventLevelRaised                //
	EventGuardReported              // a guard has made Count checks of the key's tokens
	EventFenced                     // a guard refused Token, Count times, because it had seen Highest
	eventKindCount
)

var eventNames = [eventKindCount]string{
	EventEpochAdvanced: "epoch_advanced", EventTenantPut: "tenant_put", EventTenantDropped: "tenant_dropped",
	EventTenantGone: "tenant_gone", EventClassInForce: "class_in_force", EventClassRetired: "class_retired",
	EventQueued: "queued", EventGranted: "granted", EventPromoted: "promoted", EventRefused: "refused",
	EventLeft: "left", EventEnding: "ending", EventEnded: "ended", EventDelayStarted: "delay_started",
	EventDelayEnded: "delay_ended", EventBurned: "burned", EventSessionEnded: "session_ended",
	EventSessionForgotten: "session_forgotten", EventLevelRaised: "level_raised",
	EventGuardReported: "guard_reported", EventFenced: "fenced",
}

func (k EventKind) String() string {
	if k == 0 || k >= eventKindCount {
		return "unknown"
	}
	return eventNames[k]
}

// Event is one thing that became true by an entry. Its position in the log and its ordinal within the entry identify it.
// Fields that a kind does not speak of are zero.
type Event struct {
	Kind    EventKind
	Reason  Reason
	Tenant  TenantID
	Class   ClassName
	Key     Key
	Lease   LeaseID
	Token   Token
	Epoch   Epoch
	Version uint64 // of the posture
	Holder  string // the holder's own label
	APIKey  string // id of the API key that asked
	By      string // who ended or retired it
	Note    string // the person's reason, or a digest
	AtMS    int64  // leader's wall clock, milliseconds since the Unix epoch, for people
	Count   uint64 // of GuardReported and Fenced: how often
	Highest Token  // of Fenced: the highest token that the guard had seen
	SeenMS  int64  // of Fenced: when last, on the guard's wall clock, milliseconds since the Unix epoch, for people
}
