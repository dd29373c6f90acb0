package wire

import (
	"encoding/json"
	"time"
)

// FileFinding is one thing to say about a class file: what is wrong, where, and how to mend it.
type FileFinding struct {
	File     string `json:"file"`   // the class that the address names; the server knows no other name of the file
	Line     int    `json:"line"`   // from 1
	Column   int    `json:"column"` // from 1, in characters
	Rule     string `json:"rule"`   // stable id of the rule
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Remedy   string `json:"remedy"`
}

// VersionState is where a version of a class stands.
type VersionState string

// The states of a version.
const (
	VersionInReview   VersionState = "in_review"  // waits for signatures
	VersionSigned     VersionState = "signed"     // signed; the partition grants under it in a moment
	VersionInForce    VersionState = "in_force"   // the partition grants under it, as the answering node has it
	VersionRejected   VersionState = "rejected"   // an owner said no, with a reason
	VersionWithdrawn  VersionState = "withdrawn"  // taken back, or declared anew on another base
	VersionSuperseded VersionState = "superseded" // a later version was signed
	VersionRetired    VersionState = "retired"    // it was signed when the class was retired
)

// Undecided reports whether more may become of a version by itself: signatures are missing, or the partition is to follow.
func (s VersionState) Undecided() bool { return s == VersionInReview || s == VersionSigned }

// ClassSource says where a class file came from. Every field may be empty.
type ClassSource struct {
	Repo   string `json:"repo,omitempty"`
	Commit string `json:"commit,omitempty"`
	URL    string `json:"url,omitempty"`
}

// ClassDeclaration answers PUT /v1/classes/{class}.
type ClassDeclaration struct {
	Class             string        `json:"class"`
	Version           uint64        `json:"version"` // of a dry run: the number that the version would get
	Digest            string        `json:"digest"`  // of the posture statement
	State             VersionState  `json:"state"`
	Unchanged         bool          `json:"unchanged"` // the statement is in force or in review already; no version was made
	DryRun            bool          `json:"dry_run"`   // nothing was changed
	ReviewURL         string        `json:"review_url,omitempty"`
	Warnings          []FileFinding `json:"warnings"`           // each must be ticked by who signs
	MissingSignatures []string      `json:"missing_signatures"` // owner groups
	ConflictsWith     []uint64      `json:"conflicts_with"`     // other versions in review on the same base
	InForceVersion    uint64        `json:"in_force_version"`   // 0: none
	Base              string        `json:"base"`               // digest of the version that this one would replace; empty: none
}

// ClassSignature is one owner's yes.
type ClassSignature struct {
	Signer   string    `json:"signer"`
	Groups   []string  `json:"groups"` // the owner groups for which it counts
	Ticked   []string  `json:"ticked"` // warnings
	Claims   int       `json:"claims_version"`
	AuthTime time.Time `json:"auth_time"` // when the signer last proved who they are
	SignedAt time.Time `json:"signed_at"`
}

// ClassDecision is how a version left the review otherwise than by signatures.
type ClassDecision struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// ClassVersion is one version of a class. Posture, Claim and File are in the answer about one version alone.
type ClassVersion struct {
	Class             string           `json:"class"`
	Version           uint64           `json:"version"`
	State             VersionState     `json:"state"`
	Stale             bool             `json:"stale"` // in review, and its base was replaced: it cannot be signed; declare it again
	Digest            string           `json:"digest"`
	Base              string           `json:"base"`         // digest of the version that it replaces; empty: it is the first
	BaseVersion       uint64           `json:"base_version"` // 0: it is the first
	Owner             string           `json:"owner"`
	DeclaredBy        string           `json:"declared_by"`       // a person's address, or an API key's id
	APIKey            string           `json:"api_key,omitempty"` // name of that API key
	DeclaredAt        time.Time        `json:"declared_at"`
	Source            ClassSource      `json:"source"`
	Warnings          []string         `json:"warnings"` // rules; each must be ticked by who signs
	Signatures        []ClassSignature `json:"signatures"`
	MissingSignatures []string         `json:"missing_signatures"` // owner groups
	ConflictsWith     []uint64         `json:"conflicts_with"`     // other versions in review on the same base
	Decision          *ClassDecision   `json:"decision,omitempty"`

	Posture json.RawMessage `json:"posture,omitempty"` // the statement, as it is signed
	Claim   *Claim          `json:"claim,omitempty"`
	File    string          `json:"file,omitempty"` // as it was sent
}

// Class is one class of a tenant. Posture, Claim and Nodes are in the answer about one class alone.
type Class struct {
	Class          string     `json:"class"`
	State          ClassState `json:"state"`
	Purpose        string     `json:"purpose,omitempty"` // of the name, for ever; absent until a version was signed
	Owner          string     `json:"owner,omitempty"`   // the group that must sign the next version; absent until one was signed
	InForceVersion uint64     `json:"in_force_version"`  // 0: none
	SignedVersion  uint64     `json:"signed_version"`    // signed last; 0: none
	LatestVersion  uint64     `json:"latest_version"`
	Base           string     `json:"base"`      // digest that a new version is based on; empty: none
	InReview       []uint64   `json:"in_review"` // versions; more than one on the same base is a conflict

	Posture           json.RawMessage `json:"posture,omitempty"` // the statement that was signed last
	Claim             *Claim          `json:"claim,omitempty"`
	Nodes             []ClassNode     `json:"nodes,omitempty"`
	InForceEverywhere *bool           `json:"in_force_everywhere,omitempty"` // every node has applied the version signed last
}

// ClassNode is how far one node is with a class.
type ClassNode struct {
	Node           string `json:"node"`
	InForceVersion uint64 `json:"in_force_version"` // 0: none, or the node did not answer
	Answered       bool   `json:"answered"`
}

// ClassList is one page of GET /v1/classes.
type ClassList struct {
	Classes    []Class `json:"classes"`
	NextCursor string  `json:"next_cursor,omitempty"` // absent: this was the last page
	CompleteTo uint64  `json:"complete_to"`           // entry of the control log that the page reflects
}

// ClassVersionList is one page of GET /v1/classes/{class}/versions, newest first.
type ClassVersionList struct {
	Versions   []ClassVersion `json:"versions"`
	NextCursor string         `json:"next_cursor,omitempty"`
	CompleteTo uint64         `json:"complete_to"`
}

// RetireClassRequest is the body of DELETE /v1/classes/{class}. There may be none.
type RetireClassRequest struct {
	Reason string `json:"reason,omitempty"` // for people, at most 2,000 characters
}

// ClassRetirement answers DELETE /v1/classes/{class}.
type ClassRetirement struct {
	Class     string     `json:"class"`
	State     ClassState `json:"state"`
	Version   uint64     `json:"version"`   // that was in force last
	Unchanged bool       `json:"unchanged"` // it was retired already
}

// TransferOwnerRequest is the body of POST /v1/tenants/{tenant}/classes/{class}/transfer-owner. Groups are named without
// the class file's group: before them.
type TransferOwnerRequest struct {
	From   string `json:"from"`   // whose signature the next version needs; no owner group of the tenant any more
	To     string `json:"to"`     // an owner group of the tenant
	Reason string `json:"reason"` // for people, at most 2,000 characters
}
