package review

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// State is every tenant's classes with their versions and signatures. It is a deterministic function of the commands
// applied to it. It is not safe for concurrent use; what its readers hand out stays as it is while the state goes on.
type State struct {
	tenants map[TenantID]map[ClassName]*Class
}

// NewState is the empty state.
func NewState() *State { return &State{tenants: map[TenantID]map[ClassName]*Class{}} }

// Apply carries out one command. A refused command changes nothing.
func (s *State) Apply(c Command) Result {
	switch c := c.(type) {
	case Declare:
		return s.declare(c)
	case Sign:
		return s.sign(c)
	case Reject:
		return s.reject(c)
	case Withdraw:
		return s.withdraw(c)
	case Retire:
		return s.retire(c)
	}
	panic(fmt.Sprintf("review: unknown command %T", c)) // the set is closed, and DecodeCommand knows it
}

// Class is one class with its history.
func (s *State) Class(t TenantID, n ClassName) (Class, bool) {
	c := s.tenants[t][n]
	if c == nil {
		return Class{}, false
	}
	return *c, true
}

// Classes are a tenant's classes by name, retired ones and those never signed included. The state must not change while
// the sequence is read.
func (s *State) Classes(t TenantID) iter.Seq[Class] {
	return func(yield func(Class) bool) {
		for _, n := range slices.Sorted(maps.Keys(s.tenants[t])) {
			if !yield(*s.tenants[t][n]) {
				return
			}
		}
	}
}

// Tenants are the tenants that ever declared a class, sorted.
func (s *State) Tenants() []TenantID { return slices.Sorted(maps.Keys(s.tenants)) }

// Desired is what the partition's log ought to carry for a class: the version signed last, or that the class is retired.
type Desired struct {
	Class   ClassName
	Version uint64 // signed last; only a higher one replaces it in the partition
	Digest  Digest
	Posture Posture
	Retired bool // the class ought to grant nothing any more
}

// Desired lists, by class name, what ought to be in force for a tenant. Classes without a signed version are not in it.
func (s *State) Desired(t TenantID) []Desired {
	var list []Desired
	for c := range s.Classes(t) {
		if v, signed := c.Version(c.Current); signed {
			list = append(list, Desired{Class: c.Name, Version: v.Number, Digest: v.Digest, Posture: v.Posture, Retired: c.Retired})
		}
	}
	return list
}

func (s *State) declare(d Declare) Result {
	if !d.valid() {
		return refuse(RefusedInvalid)
	}
	if d.Posture.Digest() != d.Digest {
		return refuse(RefusedDigest)
	}
	c := s.tenants[d.Tenant][d.Class]
	if c == nil {
		c = &Class{Tenant: d.Tenant, Name: d.Class}
	}
	if v, same := c.standing(d.Digest); same {
		return unchanged(v)
	}
	switch {
	case !PurposeAllowed(c.Purpose, d.Posture.Purpose):
		return refuse(RefusedPurpose)
	case d.Base != c.Base():
		return refuse(RefusedStaleBase)
	case s.full(c, d.Digest):
		return refuse(RefusedTooMany)
	}
	s.keep(c)
	events := c.withdrawStale(d)
	v := c.open(d)
	return about(v, append(events, c.event(EventDeclared, v, d.Author.ID, "", d.AtMS))...)
}

// standing is the version that already says what digest names: signed last and not retired, or in review and signable.
func (c *Class) standing(digest Digest) (Version, bool) {
	if v, _ := c.Version(c.Current); v.Digest == digest && !c.Retired {
		return v, true
	}
	for _, v := range c.InReview() {
		if v.Digest == digest && !c.Stale(v) {
			return v, true
		}
	}
	return Version{}, false
}

// full reports whether a further version with the given digest would pass a limit.
func (s *State) full(c *Class, digest Digest) bool {
	if len(c.Versions) == 0 {
		return len(s.tenants[c.Tenant]) >= ClassesMax
	}
	open := 0
	for _, v := range c.InReview() {
		if v.Digest != digest { // one with this digest is stale, and gives way
			open++
		}
	}
	return len(c.Versions) >= VersionsMax || open >= InReviewMax
}

func (s *State) keep(c *Class) {
	if s.tenants[c.Tenant] == nil {
		s.tenants[c.Tenant] = map[ClassName]*Class{}
	}
	s.tenants[c.Tenant][c.Name] = c
}

// withdrawStale takes back the versions that say the same on an older base; the declaration puts them on the present one.
func (c *Class) withdrawStale(d Declare) []Event {
	var events []Event
	for _, v := range c.InReview() {
		if v.Digest == d.Digest {
			v.State = StateWithdrawn
			v.Decision = Decision{By: d.Author.ID, Reason: "declared anew on the present version", AtMS: d.AtMS}
			c.put(v)
			events = append(events, c.event(EventWithdrawn, v, v.Decision.By, v.Decision.Reason, d.AtMS))
		}
	}
	return events
}

// open adds the version that d declares.
func (c *Class) open(d Declare) Version {
	required := []Group{d.Posture.Owner}
	if v, signed := c.Version(c.Current); signed {
		required = append(required, v.Posture.Owner)
	}
	slices.Sort(required)
	v := Version{
		Number: uint64(len(c.Versions)) + 1, Digest: d.Digest, Base: d.Base, BaseNumber: c.Current, Posture: d.Posture,
		File: d.File, Warnings: d.Warnings, Author: d.Author, Source: d.Source, DeclaredAtMS: d.AtMS,
		State: StateInReview, Required: slices.Compact(required),
	}
	c.Versions = append(c.Versions, v)
	return v
}

// put replaces a version. It copies the history, so that what was handed out stays as it was.
func (c *Class) put(v Version) {
	c.Versions = slices.Clone(c.Versions)
	c.Versions[v.Number-1] = v
}

func (s *State) withdraw(w Withdraw) Result {
	if !w.By.valid() {
		return refuse(RefusedInvalid)
	}
	c := s.tenants[w.Tenant][w.Class]
	v, known := version(c, w.Version)
	switch {
	case !known:
		return refuse(RefusedUnknown)
	case !v.Author.same(w.By):
		return refuse(RefusedNotAuthor)
	case v.State == StateWithdrawn:
		return unchanged(v)
	case v.State != StateInReview:
		return refuse(RefusedNotInReview)
	}
	v.State = StateWithdrawn
	v.Decision = Decision{By: w.By.ID, AtMS: w.AtMS}
	c.put(v)
	return about(v, c.event(EventWithdrawn, v, w.By.ID, "", w.AtMS))
}

func (s *State) retire(r Retire) Result {
	if !r.By.valid() {
		return refuse(RefusedInvalid)
	}
	c := s.tenants[r.Tenant][r.Class]
	if c == nil {
		return refuse(RefusedUnknown)
	}
	v, signed := c.Version(c.Current)
	switch {
	case !signed:
		return refuse(RefusedNeverSigned)
	case c.Retired:
		return unchanged(v)
	}
	var events []Event
	for _, open := range c.InReview() {
		open.State = StateWithdrawn
		open.Decision = Decision{By: r.By.ID, Reason: "the class was retired", AtMS: r.AtMS}
		c.put(open)
		events = append(events, c.event(EventWithdrawn, open, r.By.ID, open.Decision.Reason, r.AtMS))
	}
	v.State = StateRetired
	v.Decision = Decision{By: r.By.ID, AtMS: r.AtMS}
	c.put(v)
	c.Retired = true
	return about(v, append(events, c.event(EventRetired, v, r.By.ID, "", r.AtMS))...)
}

func version(c *Class, number uint64) (Version, bool) {
	if c == nil {
		return Version{}, false
	}
	return c.Version(number)
}

func (d Declare) valid() bool {
	return ClassName(d.Tenant).Valid() && d.Class == d.Posture.Class && d.Posture.valid() &&
		len(d.File) > 0 && len(d.File) <= FileBytesMax && d.Author.valid() && d.Source.valid() &&
		(d.Base == "" || d.Base.Valid()) && len(d.Warnings) <= WarningsMax && validRules(d.Warnings)
}

// validRules reports whether rules are well formed, sorted, and each there once.
func validRules(rules []RuleID) bool {
	for i, r := range rules {
		if !r.valid() || i > 0 && rules[i-1] >= r {
			return false
		}
	}
	return true
}
