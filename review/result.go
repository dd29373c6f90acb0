package review

// Refusal says why a command changed nothing. Empty: it was not refused.
type Refusal string

// The refusals.
const (
	RefusedInvalid     Refusal = "invalid"    // the command contradicts itself or breaks a limit of its fields
	RefusedUnknown     Refusal = "unknown"    // no such class or version
	RefusedDigest      Refusal = "digest"     // the digest is not that of the version, or of the statement sent
	RefusedStaleBase   Refusal = "stale_base" // another version was signed meanwhile: look again
	RefusedPurpose     Refusal = "purpose"    // the name has another purpose, for ever
	RefusedTooMany     Refusal = "too_many"   // ClassesMax, VersionsMax or InReviewMax is reached
	RefusedNotInReview Refusal = "not_in_review"
	RefusedAuthor      Refusal = "author"       // whoever wrote a version never signs it
	RefusedNotOwner    Refusal = "not_owner"    // in none of the owner groups that must sign, or no such group
	RefusedStaleAuth   Refusal = "stale_auth"   // the signer must prove again who they are
	RefusedWarnings    Refusal = "warnings"     // not exactly the version's warnings are ticked
	RefusedNotAuthor   Refusal = "not_author"   // only its author withdraws a version
	RefusedNeverSigned Refusal = "never_signed" // there is nothing to retire
)

// Result is what a command did.
type Result struct {
	Refused   Refusal      // why nothing happened; empty if something did, or was so already
	Unchanged bool         // what was asked for was so already
	Version   uint64       // the version concerned; 0 if there is none
	State     VersionState // of that version, afterwards
	Missing   []Group      // owner groups whose signature that version still needs
	Events    []Event      // what became true, in order
}

func refuse(why Refusal) Result { return Result{Refused: why} }

func about(v Version, events ...Event) Result {
	return Result{Version: v.Number, State: v.State, Missing: v.Missing(), Events: events}
}

func unchanged(v Version) Result {
	r := about(v)
	r.Unchanged = true
	return r
}

// EventKind says what became true.
type EventKind string

// The kinds of events.
const (
	EventDeclared       EventKind = "declared"        // a version is in review
	EventSignatureAdded EventKind = "signature_added" // an owner signed, and others still must
	EventSigned         EventKind = "signed"          // the last signature: the version ought to be in force
	EventRejected       EventKind = "rejected"
	EventWithdrawn      EventKind = "withdrawn"
	EventSuperseded     EventKind = "superseded"
	EventRetired        EventKind = "retired"
	EventOwnerChanged   EventKind = "owner_transferred" // another group must sign what replaces the version signed last
)

// Event is one thing that became true, for the audit trail.
type Event struct {
	Kind    EventKind
	Tenant  TenantID
	Class   ClassName
	Version uint64
	Digest  Digest
	By      string // who, as shown to people
	Note    string // the reason given, if any
	AtMS    int64
}

func (c *Class) event(kind EventKind, v Version, by, note string, atMS int64) Event {
	return Event{Kind: kind, Tenant: c.Tenant, Class: c.Name, Version: v.Number, Digest: v.Digest, By: by, Note: note, AtMS: atMS}
}
