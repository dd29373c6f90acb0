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
	case TransferOwner:
		return s.transferOwner(c)
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
	c, r, decided := s.judge(d)
	if decided {
		return r
	}
	s.keep(c)
	return c.add(d)
}

// Trial is what Apply would answer to d. It changes nothing, and may run beside other readers.
func (s *State) Trial(d Declare) Result {
	c, r, decided := s.judge(d)
	if decided {
		return r
	}
	apart := *c
	apart.Versions = slices.Clip(apart.Versions) // so that adding one does not write behind the real ones
	return apart.add(d)
}

// judge says whether d adds a version, and to which class; else decided is true and r says what becomes of d.
func (s *State) judge(d Declare) (c *Class, r Result, decided bool) {
	if !d.valid() {
		return nil, refuse(RefusedInvalid), true
	}
	if d.Posture.Digest() != d.Digest {
		return nil, refuse(RefusedDigest), true
	}
	c = s.tenants[d.Tenant][d.Class]
	if c == nil {
		c = &Class{Tenant: d.Tenant, Name: d.Class}
	}
	if v, same := c.standing(d.Digest); same {
		return c, unchanged(v), true
	}
	switch {
	case !PurposeAllowed(c.Purpose, d.Posture.Purpose):
		return c, refuse(RefusedPurpose), true
	case d.Base != c.Base():
		return c, refuse(RefusedStaleBase), true
	case s.full(c, d.Digest):
		return c, refuse(RefusedTooMany), true
	}
	return c, Result{}, false
}

// add puts the version that d declares in review.
func (c *Class) add(d Declare) Result {
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
	v := Version{
		Number: uint64(len(c.Versions)) + 1, Digest: d.Digest, Base: d.Base, BaseNumber: c.Current, Posture: d.Posture,
		File: d.File, Warnings: d.Warnings, Author: d.Author, Source: d.Source, DeclaredAtMS: d.AtMS,
		State: StateInReview, Required: c.required(d.Posture.Owner),
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
	if !r.By.valid() || r.Reason != "" && !reasonText.accepts(r.Reason) {
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
	v.Decision = Decision{By: r.By.ID, Reason: r.Reason, AtMS: r.AtMS}
	c.put(v)
	c.Retired = true
	return about(v, append(events, c.event(EventRetired, v, r.By.ID, r.Reason, r.AtMS))...)
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
