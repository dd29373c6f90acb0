package review

import (
	"slices"
	"time"
)

// Limits of the replicated state. Beyond them a command is refused, so that no caller can fill the log without bound.
const (
	ClassesMax  = 10_000 // classes of a tenant, retired ones included
	VersionsMax = 10_000 // versions of a class
	InReviewMax = 16     // versions of a class in review at once
	PersonsMax  = 16     // people who answer for one API key
	GroupsMax   = 1_000  // groups of a signer
	WarningsMax = 32     // warnings of a version
)

// AuthAgeMSMax is how long before a signature its signer may have proved who they are.
const AuthAgeMSMax = 5 * 60_000

// authSkewMS is how far an identity provider's clock may run ahead of the platform's.
const authSkewMS = 30_000

// Command is one request to the replicated state. The set is closed.
type Command interface{ kind() commandKind }

type commandKind uint8

const (
	kindDeclare       commandKind = 1
	kindSign          commandKind = 2
	kindReject        commandKind = 3
	kindWithdraw      commandKind = 4
	kindRetire        commandKind = 5
	kindTransferOwner commandKind = 6
)

// Declare adds a version of a class, in review. The file was read by whoever proposes (see [NewDeclare]), so that replicas
// of different releases never differ over a reading of YAML; the state checks the statement itself.
//
// A statement equal to the one signed last, or to one in review on the present base, makes no new version. Refused with
// RefusedInvalid, RefusedDigest, RefusedPurpose, RefusedStaleBase or RefusedTooMany.
type Declare struct {
	Tenant   TenantID  `cbor:"1,keyasint"`
	Class    ClassName `cbor:"2,keyasint"`
	File     []byte    `cbor:"3,keyasint"` // class file as it was sent; at most FileBytesMax
	Posture  Posture   `cbor:"4,keyasint"`
	Digest   Digest    `cbor:"5,keyasint"` // of Posture
	Warnings []RuleID  `cbor:"6,keyasint"` // that a signer must tick; sorted
	Base     Digest    `cbor:"7,keyasint,omitempty"`
	Author   Actor     `cbor:"8,keyasint"`
	Source   Source    `cbor:"9,keyasint"`
	AtMS     int64     `cbor:"10,keyasint"`
}

// Sign is an owner's yes to a version. Refused with RefusedInvalid, RefusedUnknown, RefusedNotInReview, RefusedDigest,
// RefusedStaleBase, RefusedPurpose, RefusedAuthor, RefusedNotOwner, RefusedStaleAuth or RefusedWarnings. A signature that
// is there already changes nothing and answers as it did.
type Sign struct {
	Tenant        TenantID  `cbor:"1,keyasint"`
	Class         ClassName `cbor:"2,keyasint"`
	Version       uint64    `cbor:"3,keyasint"`
	Digest        Digest    `cbor:"4,keyasint"` // that was on the signer's screen
	Signer        Person    `cbor:"5,keyasint"`
	SignerGroups  []Group   `cbor:"6,keyasint"` // by the identity provider's own claims
	Ticked        []RuleID  `cbor:"7,keyasint"`
	ClaimsVersion int       `cbor:"8,keyasint"` // of the claims table that was on the screen
	AuthTimeMS    int64     `cbor:"9,keyasint"` // when the signer last proved who they are
	AtMS          int64     `cbor:"10,keyasint"`
}

// Reject is an owner's no to a version in review. Refused with RefusedInvalid (also without a reason), RefusedUnknown,
// RefusedNotInReview, RefusedDigest or RefusedNotOwner.
type Reject struct {
	Tenant  TenantID  `cbor:"1,keyasint"`
	Class   ClassName `cbor:"2,keyasint"`
	Version uint64    `cbor:"3,keyasint"`
	Digest  Digest    `cbor:"4,keyasint"` // that was on the screen
	By      Person    `cbor:"5,keyasint"`
	Groups  []Group   `cbor:"6,keyasint"` // by the identity provider's own claims
	Reason  string    `cbor:"7,keyasint"`
	AtMS    int64     `cbor:"8,keyasint"`
}

// Withdraw takes back a version in review, by its author. Refused with RefusedInvalid, RefusedUnknown, RefusedNotInReview
// or RefusedNotAuthor.
type Withdraw struct {
	Tenant  TenantID  `cbor:"1,keyasint"`
	Class   ClassName `cbor:"2,keyasint"`
	Version uint64    `cbor:"3,keyasint"`
	By      Actor     `cbor:"4,keyasint"`
	AtMS    int64     `cbor:"5,keyasint"`
}

// Retire ends a class: it grants nothing any more, and what is in review is withdrawn. The name keeps its purpose and its
// history; a later signed version brings it back. Refused with RefusedInvalid, RefusedUnknown or RefusedNeverSigned;
// retiring what is retired changes nothing.
type Retire struct {
	Tenant TenantID  `cbor:"1,keyasint"`
	Class  ClassName `cbor:"2,keyasint"`
	By     Actor     `cbor:"3,keyasint"`
	AtMS   int64     `cbor:"4,keyasint"`
	Reason string    `cbor:"5,keyasint,omitempty"` // for people; may be empty
}

// TransferOwner puts another group in the place of the one that must sign whatever replaces the version signed last: the
// way on when that group is gone from the identity provider. It signs nothing and changes nothing that is in force. What is
// in review keeps none of its signatures, since whoever gave them read of another owner. Whether the group is gone, and
// whether an operator asks, is for the proposer. Refused with RefusedInvalid (also without a reason), RefusedUnknown,
// RefusedNeverSigned or RefusedNotOwner (From is not whose signature is needed); a transfer that was carried out changes
// nothing.
type TransferOwner struct {
	Tenant TenantID  `cbor:"1,keyasint"`
	Class  ClassName `cbor:"2,keyasint"`
	From   Group     `cbor:"3,keyasint"`
	To     Group     `cbor:"4,keyasint"`
	By     Actor     `cbor:"5,keyasint"`
	Reason string    `cbor:"6,keyasint"`
	AtMS   int64     `cbor:"7,keyasint"`
}

func (Declare) kind() commandKind       { return kindDeclare }
func (Sign) kind() commandKind          { return kindSign }
func (Reject) kind() commandKind        { return kindReject }
func (Withdraw) kind() commandKind      { return kindWithdraw }
func (Retire) kind() commandKind        { return kindRetire }
func (TransferOwner) kind() commandKind { return kindTransferOwner }

// Declaration is what NewDeclare needs beyond the file.
type Declaration struct {
	Tenant TenantID
	Name   string // the file's name, for findings
	File   []byte
	Base   Digest // of the version that the author means to replace; see Class.Base
	Author Actor
	Source Source
	At     time.Time
}

// NewDeclare reads the class file of d and makes the command that declares it. Findings that refuse the file make the
// command useless: check Findings.Err first. Where opts names no day, the day of d.At is taken.
func NewDeclare(d Declaration, opts Options) (Declare, Findings) {
	if opts.Today == "" {
		opts.Today = DateOf(d.At)
	}
	f, findings := Parse(d.Name, d.File, opts)
	if findings.Err() != nil {
		return Declare{}, findings
	}
	return Declare{
		Tenant: d.Tenant, Class: f.Class, File: slices.Clone(d.File), Posture: f.Posture(), Digest: f.Digest(),
		Warnings: findings.Warnings().Rules(), Base: d.Base, Author: d.Author, Source: d.Source, AtMS: d.At.UnixMilli(),
	}, findings
}
