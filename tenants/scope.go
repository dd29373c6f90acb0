package tenants

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Verb is what a scope allows to do.
type Verb string

// The verbs. The first two concern classes and need a class pattern; the others take none.
const (
	VerbLocks            Verb = "locks"             // take, keep, give back and look at leases
	VerbDeclareClasses   Verb = "classes:declare"   // declare versions of classes
	VerbReadAudit        Verb = "audit:read"        // read and export the audit, reconciliation and posture report
	VerbReportGuard      Verb = "guard:report"      // report what a guard has checked and refused
	VerbAdministerTenant Verb = "tenant:admin"      // API keys, force-release
	VerbOperatePlatform  Verb = "platform:operator" // tenants, partitions, nodes, backups
)

// concernsClasses reports whether scopes of v carry a class pattern.
func (v Verb) concernsClasses() bool { return v == VerbLocks || v == VerbDeclareClasses }

func (v Verb) known() bool {
	switch v {
	case VerbLocks, VerbDeclareClasses, VerbReadAudit, VerbReportGuard, VerbAdministerTenant, VerbOperatePlatform:
		return true
	}
	return false
}

// ScopesMax bounds the scopes of an API key.
const ScopesMax = 32

const classBytesMax = 63

// ErrInvalidScope is returned for a scope that is not in its one written form: an unknown verb, a class verb without a
// pattern, another verb with one, or a pattern that is no class name, possibly cut short by a star at its end.
var ErrInvalidScope = errors.New("invalid scope")

// Scope is one right of an API key: a verb and, where it concerns classes, which of them. Classes is a class name, or
// its beginning followed by a star: "ledger-close", "ledger-*", "*".
type Scope struct {
	_       struct{} `cbor:",toarray"`
	Verb    Verb
	Classes string
}

// ParseScope reads the form that String writes, such as "locks:ledger-*" or "audit:read". Anything else is
// ErrInvalidScope.
func ParseScope(text string) (Scope, error) {
	s := Scope{Verb: Verb(text)}
	for _, v := range [...]Verb{VerbLocks, VerbDeclareClasses} {
		if pattern, ok := strings.CutPrefix(text, string(v)+":"); ok {
			s = Scope{Verb: v, Classes: pattern}
		}
	}
	if !s.valid() {
		return Scope{}, fmt.Errorf("%w: %.80q", ErrInvalidScope, text)
	}
	return s, nil
}

// String is the scope as people write it.
func (s Scope) String() string {
	if s.Classes == "" {
		return string(s.Verb)
	}
	return string(s.Verb) + ":" + s.Classes
}

// MarshalText is String, for JSON; a scope that is not valid is ErrInvalidScope.
func (s Scope) MarshalText() ([]byte, error) {
	if !s.valid() {
		return nil, fmt.Errorf("%w: %.80q", ErrInvalidScope, s.String())
	}
	return []byte(s.String()), nil
}

// UnmarshalText is ParseScope.
func (s *Scope) UnmarshalText(text []byte) error {
	parsed, err := ParseScope(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

func (s Scope) valid() bool {
	if !s.Verb.concernsClasses() {
		return s.Verb.known() && s.Classes == ""
	}
	prefix, open := strings.CutSuffix(s.Classes, "*")
	if !open && prefix == "" || len(prefix) > classBytesMax || open && len(prefix) == classBytesMax {
		return false
	}
	for i := range len(prefix) {
		if !isNameByte(prefix[i]) {
			return false
		}
	}
	return true
}

// Allows reports whether s gives the right to do verb, with class where the verb concerns classes. A verb that concerns
// none ignores class; one that does is not allowed without.
func (s Scope) Allows(verb Verb, class string) bool {
	if s.Verb != verb || !s.valid() {
		return false
	}
	return !verb.concernsClasses() || class != "" && matches(s.Classes, class)
}

// sentences say what each verb allows; %s is which classes.
var sentences = map[Verb]string{
	VerbLocks:            "take, keep, give back and look at locks of %s",
	VerbDeclareClasses:   "declare and retire %s",
	VerbReadAudit:        "read and export the audit, the reconciliation list and the posture report",
	VerbReportGuard:      "report what guards have checked and refused",
	VerbAdministerTenant: "make, rotate and revoke the tenant's API keys, and end anybody's hold",
	VerbOperatePlatform:  "make, suspend and drop tenants, hand out their API keys, and look after the nodes",
}

// Sentence says what the scope allows, as what follows "may".
func (s Scope) Sentence() string {
	sentence := sentences[s.Verb]
	if !s.Verb.concernsClasses() {
		return sentence
	}
	prefix, open := strings.CutSuffix(s.Classes, "*")
	switch {
	case !open:
		return fmt.Sprintf(sentence, "the class "+prefix)
	case prefix == "":
		return fmt.Sprintf(sentence, "all classes")
	}
	return fmt.Sprintf(sentence, "classes whose names begin with "+prefix)
}

// Covers reports whether other gives no right that s does not give. The operator of the platform registers tenants and
// hands them their first API keys: that scope covers all others, though it allows none of their verbs.
func (s Scope) Covers(other Scope) bool {
	if !s.valid() || !other.valid() {
		return false
	}
	if s.Verb == VerbOperatePlatform {
		return true
	}
	if s == other {
		return true
	}
	prefix, open := strings.CutSuffix(s.Classes, "*")
	return s.Verb == other.Verb && open && strings.HasPrefix(other.Classes, prefix)
}

// matches reports whether pattern takes in the class.
func matches(pattern, class string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	if !open {
		return class == pattern
	}
	return strings.HasPrefix(class, prefix)
}

// Scopes are all rights of an API key.
type Scopes []Scope

// ParseScopes reads each text as ParseScope does, and orders them.
func ParseScopes(texts ...string) (Scopes, error) {
	scopes := make(Scopes, 0, len(texts))
	for _, text := range texts {
		s, err := ParseScope(text)
		if err != nil {
			return nil, err
		}
		scopes = append(scopes, s)
	}
	return scopes.ordered(), nil
}

// Allows reports whether one of the scopes gives the right.
func (s Scopes) Allows(verb Verb, class string) bool {
	return slices.ContainsFunc(s, func(own Scope) bool { return own.Allows(verb, class) })
}

// Covers reports whether each of the others is covered by one of s. A union of patterns that happens to take in
// another pattern does not count: the answer is no rather than clever.
func (s Scopes) Covers(others Scopes) bool {
	return !slices.ContainsFunc(others, func(other Scope) bool {
		return !slices.ContainsFunc(s, func(own Scope) bool { return own.Covers(other) })
	})
}

// Strings are the scopes as people write them, in order.
func (s Scopes) Strings() []string {
	texts := make([]string, len(s))
	for i, scope := range s {
		texts[i] = scope.String()
	}
	return texts
}

// Sentences are the scopes as sentences, in order.
func (s Scopes) Sentences() []string {
	texts := make([]string, len(s))
	for i, scope := range s {
		texts[i] = scope.Sentence()
	}
	return texts
}

// ordered is a copy in order, without repetition.
func (s Scopes) ordered() Scopes {
	return slices.Compact(slices.SortedFunc(slices.Values(s), func(a, b Scope) int {
		return cmp.Or(cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Classes, b.Classes))
	}))
}

// valid reports whether s may be the scopes of a key of tenant: the operator's scope is for the platform's keys, and
// they have no other.
func (s Scopes) valid(tenant TenantID) bool {
	if len(s) == 0 || len(s) > ScopesMax {
		return false
	}
	return !slices.ContainsFunc(s, func(scope Scope) bool {
		return !scope.valid() || (scope.Verb == VerbOperatePlatform) != (tenant == Platform)
	})
}
