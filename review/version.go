package review

import (
	"cmp"
	"slices"
	"strings"
)

// VersionState is where a version of a class stands. A version is in review from its declaration on.
type VersionState string

// The states.
const (
	StateInReview   VersionState = "in_review"  // waiting for signatures
	StateSigned     VersionState = "signed"     // ought to be in force; the partition's log decides when it is
	StateRejected   VersionState = "rejected"   // an owner said no, with a reason
	StateWithdrawn  VersionState = "withdrawn"  // its author took it back, or it was declared anew on another base
	StateSuperseded VersionState = "superseded" // a later version was signed
	StateRetired    VersionState = "retired"    // was signed when the class was retired
)

func (s VersionState) valid() bool {
	switch s {
	case StateInReview, StateSigned, StateRejected, StateWithdrawn, StateSuperseded, StateRetired:
		return true
	}
	return false
}

// Person is a human being as an identity provider knows them. Issuer and Subject say who; the rest is for people.
type Person struct {
	Issuer  string `cbor:"1,keyasint"`
	Subject string `cbor:"2,keyasint"`
	Email   string `cbor:"3,keyasint,omitempty"`
}

func (p Person) valid() bool {
	return labelText.accepts(p.Issuer) && labelText.accepts(p.Subject) && (p.Email == "" || labelText.accepts(p.Email))
}

// same reports whether p and q must be taken for one human being: one identity, or one address under two identities.
func (p Person) same(q Person) bool {
	return p.Issuer == q.Issuer && p.Subject == q.Subject ||
		p.Email != "" && strings.EqualFold(p.Email, q.Email)
}

// Actor is who declared, withdrew or retired: a person, or an API key together with the people who answer for it.
type Actor struct {
	ID      string   `cbor:"1,keyasint"`           // what is shown: a person's name or address, or an API key's id
	Lineage string   `cbor:"2,keyasint,omitempty"` // first API key of the rotation chain; empty for a person
	Persons []Person `cbor:"3,keyasint"`           // the person; or whoever created or rotated the API key. 1 .. PersonsMax
}

func (a Actor) valid() bool {
	if !labelText.accepts(a.ID) || (a.Lineage != "" && !labelText.accepts(a.Lineage)) || len(a.Persons) == 0 ||
		len(a.Persons) > PersonsMax {
		return false
	}
	return !slices.ContainsFunc(a.Persons, func(p Person) bool { return !p.valid() })
}

// Includes reports whether p is one of the people behind a: the same identity, or the same address under another.
func (a Actor) Includes(p Person) bool { return a.includes(p) }

func (a Actor) includes(p Person) bool { return slices.ContainsFunc(a.Persons, p.same) }

// same reports whether b may act for a: one API key's lineage, or a person in common.
func (a Actor) same(b Actor) bool {
	return a.Lineage != "" && a.Lineage == b.Lineage || slices.ContainsFunc(b.Persons, a.includes)
}

// Source says where a class file came from, for the reviewer. Every field may be empty.
type Source struct {
	Repo   string `cbor:"1,keyasint,omitempty"`
	Commit string `cbor:"2,keyasint,omitempty"`
	URL    string `cbor:"3,keyasint,omitempty"` // http or https only, since it becomes a link
}

func (s Source) valid() bool {
	field, _ := s.Problem()
	return field == ""
}

// Problem names the first field that is not as it must be, and says why; empty: nothing is wrong.
func (s Source) Problem() (field, why string) {
	for _, text := range [...]struct {
		field, value string
		limits       textLimits
	}{{"repo", s.Repo, labelText}, {"commit", s.Commit, labelText}, {"url", s.URL, urlText}} {
		if text.value == "" {
			continue
		}
		if why := text.limits.problem(text.value); why != "" {
			return text.field, why
		}
	}
	if s.URL != "" && !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://") {
		return "url", "does not begin with https:// or http://"
	}
	return "", ""
}

// Signature is one owner's yes to one version.
type Signature struct {
	Signer        Person   `cbor:"1,keyasint"`
	Groups        []Group  `cbor:"2,keyasint"` // the owner groups for which it counts, sorted
	Ticked        []RuleID `cbor:"3,keyasint"` // the warnings that the signer ticked, sorted
	ClaimsVersion int      `cbor:"4,keyasint"` // of the claims table that the signer was shown
	AuthTimeMS    int64    `cbor:"5,keyasint"` // when the signer last proved who they are
	AtMS          int64    `cbor:"6,keyasint"`
}

// Version is one declaration of a class and what became of it. A Version handed out is not changed afterwards; callers
// must not modify what it refers to.
type Version struct {
	Number       uint64       `cbor:"1,keyasint"` // from 1, without gaps
	Digest       Digest       `cbor:"2,keyasint"` // of the posture statement
	Base         Digest       `cbor:"3,keyasint,omitempty"`
	BaseNumber   uint64       `cbor:"4,keyasint,omitempty"` // version that this one replaces; 0: the first of its name
	Posture      Posture      `cbor:"5,keyasint"`
	File         []byte       `cbor:"6,keyasint"` // class file as it was sent
	Warnings     []RuleID     `cbor:"7,keyasint"` // each must be ticked; sorted
	Author       Actor        `cbor:"8,keyasint"`
	Source       Source       `cbor:"9,keyasint"`
	DeclaredAtMS int64        `cbor:"10,keyasint"`
	State        VersionState `cbor:"11,keyasint"`
	Required     []Group      `cbor:"12,keyasint"` // owner groups that must sign; sorted
	Signatures   []Signature  `cbor:"13,keyasint"`
	Decision     Decision     `cbor:"14,keyasint"`
}

// Decision is how a version left the state in_review otherwise than by signatures. It is empty until then.
type Decision struct {
	By     string `cbor:"1,keyasint,omitempty"` // who, as shown to people
	Reason string `cbor:"2,keyasint,omitempty"`
	AtMS   int64  `cbor:"3,keyasint,omitempty"`
}

// Missing are the owner groups whose signature the version still needs.
func (v Version) Missing() []Group {
	var missing []Group
	for _, g := range v.Required {
		if !slices.ContainsFunc(v.Signatures, func(s Signature) bool { return slices.Contains(s.Groups, g) }) {
			missing = append(missing, g)
		}
	}
	return missing
}

// Class is one class name of one tenant, with the whole history of its versions.
type Class struct {
	Tenant   TenantID  `cbor:"1,keyasint"`
	Name     ClassName `cbor:"2,keyasint"`
	Purpose  Purpose   `cbor:"3,keyasint,omitempty"` // fixed by the first signed version, for ever; empty before it
	Current  uint64    `cbor:"4,keyasint,omitempty"` // the version signed last; 0: none
	Retired  bool      `cbor:"5,keyasint,omitempty"`
	Versions []Version `cbor:"6,keyasint"` // by Number
	// Successor is the group that an operator put in the place of the owner of the version signed last; empty: none.
	Successor Group `cbor:"7,keyasint,omitempty"`
}

// Version is the version with the given number.
func (c Class) Version(number uint64) (Version, bool) {
	if number == 0 || number > uint64(len(c.Versions)) {
		return Version{}, false
	}
	return c.Versions[number-1], true
}

// Base is the digest on which a new version must be based: that of the version signed last, or none.
func (c Class) Base() Digest {
	v, _ := c.Version(c.Current)
	return v.Digest
}

// Owner is the group that must sign whatever replaces the version signed last; empty: none is signed.
func (c Class) Owner() Group {
	v, _ := c.Version(c.Current)
	return cmp.Or(c.Successor, v.Posture.Owner)
}

// required are the groups that must sign a version whose owner is declared: a change of owner needs both.
func (c Class) required(declared Group) []Group {
	groups := []Group{declared}
	if owner := c.Owner(); owner != "" {
		groups = append(groups, owner)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// Conflicts are the other versions in review that would replace the same version as v, one in review: the first that is
// fully signed makes the others stale.
func (c Class) Conflicts(v Version) []uint64 {
	var rivals []uint64
	for _, open := range c.InReview() {
		if v.State == StateInReview && open.Number != v.Number && open.BaseNumber == v.BaseNumber {
			rivals = append(rivals, open.Number)
		}
	}
	return rivals
}

// InReview are the versions that wait for signatures. More than one on the same base is a conflict: the first that is
// fully signed makes the others stale.
func (c Class) InReview() []Version {
	var open []Version
	for _, v := range c.Versions {
		if v.State == StateInReview {
			open = append(open, v)
		}
	}
	return open
}

// Stale reports whether v, a version of c in review, was declared on another base than the class has by now. It cannot be
// signed any more; declaring the same file again puts it on the new base.
func (c Class) Stale(v Version) bool { return v.BaseNumber != c.Current }
