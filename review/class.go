package review

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// TenantID is a tenant's slug: 1–63 lower-case letters, digits and hyphens.
type TenantID string

// ClassName names a lock class within its tenant: 1–63 lower-case letters, digits and hyphens.
type ClassName string

// NameBytesMax bounds a class name.
const NameBytesMax = 63

// Valid reports whether n may name a class.
func (n ClassName) Valid() bool {
	if n == "" || len(n) > NameBytesMax {
		return false
	}
	for i := range len(n) {
		c := n[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Purpose says what a class is for. It has no default and is fixed for the class's name, for ever.
type Purpose string

// The purposes.
const (
	PurposeCorrectness Purpose = "correctness" // two late writes can damage the data
	PurposeEfficiency  Purpose = "efficiency"  // doing the work twice costs only the work
)

// Enforcement says whether the resource checks the fencing token. It has no default.
type Enforcement string

// The enforcements.
const (
	EnforcementFenced   Enforcement = "fenced"   // a guard at the resource refuses stale tokens
	EnforcementAdvisory Enforcement = "advisory" // nothing at the resource checks
)

// QuorumLoss says what the class does while no majority answers. It has no default.
type QuorumLoss string

// The behaviours.
const (
	QuorumLossClosed QuorumLoss = "closed" // no grants
	QuorumLossOpen   QuorumLoss = "open"   // unprotected grants; for efficiency only
)

// WaitMode says what happens to a request for a key that is held.
type WaitMode string

// The wait modes.
const (
	WaitQueue  WaitMode = "queue"  // requests queue in order; the default
	WaitRefuse WaitMode = "refuse" // nobody queues
)

// Group names an owner group as the identity provider writes it, without the file's "group:" prefix.
type Group string

// Date is a calendar day written YYYY-MM-DD, so that dates compare as text. Empty means none.
type Date string

// DateOf is the UTC day of t.
func DateOf(t time.Time) Date { return Date(t.UTC().Format(time.DateOnly)) }

// Valid reports whether d is a day of the calendar in its one written form.
func (d Date) Valid() bool {
	t, err := time.Parse(time.DateOnly, string(d))
	return err == nil && DateOf(t) == d
}

// Digest names bytes: "sha256:" and 64 lower-case hexadecimal digits. Empty means none.
type Digest string

const digestPrefix = "sha256:"

// DigestOf is the digest of b.
func DigestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest(digestPrefix + hex.EncodeToString(sum[:]))
}

// Valid reports whether d has the form of a digest.
func (d Digest) Valid() bool {
	if len(d) != len(digestPrefix)+2*sha256.Size || d[:len(digestPrefix)] != digestPrefix {
		return false
	}
	for _, c := range d[len(digestPrefix):] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// ClassFile is a class file that was read without errors, with its defaults filled in.
type ClassFile struct {
	Format      int // 1
	Class       ClassName
	Description string // empty if the file has none
	Resource    string
	Owner       Group
	Purpose     Purpose
	Enforcement Enforcement
	QuorumLoss  QuorumLoss
	Guard       string        // empty if the file has none
	Lease       time.Duration // 1 s .. 1 h
	Heartbeat   time.Duration // over 0, at most half of Lease
	LockDelay   time.Duration // 0 .. 60 s
	MaxHold     time.Duration // 1 s .. 10,000 h; 0: unlimited
	ReviewBy    Date          // empty if the file has none
	WaitMode    WaitMode
	MaxWait     time.Duration // 1 s .. 24 h; 0: unlimited, and for WaitRefuse
	MaxWaiters  int           // 1 .. 100,000; 0 for WaitRefuse
}

// Posture is the statement that the file makes, in the form that is signed and stored.
func (f ClassFile) Posture() Posture {
	return Posture{
		Format: f.Format, Class: f.Class, Description: f.Description, Resource: f.Resource, Owner: f.Owner,
		Purpose: f.Purpose, Enforcement: f.Enforcement, QuorumLoss: f.QuorumLoss, Guard: f.Guard,
		LeaseMS: f.Lease.Milliseconds(), HeartbeatMS: f.Heartbeat.Milliseconds(), LockDelayMS: f.LockDelay.Milliseconds(),
		MaxHoldMS: f.MaxHold.Milliseconds(), ReviewBy: f.ReviewBy,
		WaitMode: f.WaitMode, MaxWaitMS: f.MaxWait.Milliseconds(), MaxWaiters: f.MaxWaiters,
	}
}

// Canonical is the file's posture statement as RFC 8785 JSON: see [Posture.Canonical].
func (f ClassFile) Canonical() []byte { return f.Posture().Canonical() }

// Digest names the file's posture statement. Two files that differ only in spelling have one digest.
func (f ClassFile) Digest() Digest { return f.Posture().Digest() }
