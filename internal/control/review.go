package control

import (
	"slices"

	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// AuthorOf is the author of what an API key declares, as Apply demands it: the key, its lineage, and everybody who
// answers for it.
func AuthorOf(p tenants.Principal) review.Actor {
	return review.Actor{ID: string(p.KeyID), Lineage: string(p.Lineage), Persons: persons(p.Makers)}
}

func persons(makers []tenants.Person) []review.Person {
	all := make([]review.Person, 0, len(makers))
	for _, p := range makers {
		all = append(all, review.Person{Issuer: p.Issuer, Subject: p.Subject, Email: p.Email})
	}
	return all
}

func (m *Machine) reviewCommand(c review.Command) (Result, []Event) {
	to := targetOf(c)
	if reason := m.inadmissible(c, to.tenant); reason != "" {
		return refuseReview(to, reason)
	}
	r := m.reviews.Apply(c)
	if r.Refused != "" {
		return refuseReview(to, string(r.Refused))
	}
	events := make([]Event, 0, len(r.Events))
	for _, e := range r.Events {
		events = append(events, Event{Kind: "posture_" + string(e.Kind), Tenant: tenants.TenantID(e.Tenant), Class: e.Class,
			Version: e.Version, Digest: e.Digest, By: e.By, Note: e.Note, AtMS: e.AtMS})
	}
	return Result{OK: true, Unchanged: r.Unchanged, Version: r.Version, State: r.State, Missing: r.Missing}, events
}

// inadmissible says why the tenant's own rules do not let the command through, or nothing.
func (m *Machine) inadmissible(c review.Command, id tenants.TenantID) string {
	t, known := m.tenants.Tenant(id)
	switch {
	case !known:
		return RefusedUnknownTenant
	case t.Dropped:
		return RefusedTenantDropped
	}
	switch c := c.(type) {
	case review.Declare:
		if !t.HasOwnerGroup(tenants.Group(c.Posture.Owner)) {
			return RefusedOwnerGroup
		}
		return m.wrongAuthor(c)
	case review.Sign:
		class, _ := m.reviews.Class(c.Tenant, c.Class)
		v, declared := class.Version(c.Version)
		if declared && !t.HasOwnerGroup(tenants.Group(v.Posture.Owner)) {
			return RefusedOwnerGroup
		}
	}
	return ""
}

// wrongAuthor holds what an API key declares against what is known of the key: that it works and has the scope, and that
// all who answer for it are named, since none of them may sign. The proposer's word alone would be a way round.
func (m *Machine) wrongAuthor(d review.Declare) string {
	if d.Author.Lineage == "" {
		return "" // a person, whom only the proposer knows
	}
	key, ok := m.tenants.APIKey(tenants.TenantID(d.Tenant), tenants.APIKeyID(d.Author.ID))
	switch {
	case !ok || !key.State(d.AtMS).Works() || !key.Scopes.Allows(tenants.VerbDeclareClasses, string(d.Class)):
		return RefusedForbidden
	case d.Author.Lineage != string(key.Lineage) || !slices.Equal(d.Author.Persons, persons(key.Makers)):
		return RefusedAuthor
	}
	return ""
}

// target is what a command is about, and who asks.
type target struct {
	command string // its name in the audit
	tenant  tenants.TenantID
	class   review.ClassName
	version uint64
	by      string
	note    string
	atMS    int64
}

func targetOf(c review.Command) target {
	switch c := c.(type) {
	case review.Declare:
		return target{"declare", tenants.TenantID(c.Tenant), c.Class, 0, c.Author.ID, "", c.AtMS}
	case review.Sign:
		return target{"sign", tenants.TenantID(c.Tenant), c.Class, c.Version, personShown(c.Signer), "", c.AtMS}
	case review.Reject:
		return target{"reject", tenants.TenantID(c.Tenant), c.Class, c.Version, personShown(c.By), c.Reason, c.AtMS}
	case review.Withdraw:
		return target{"withdraw", tenants.TenantID(c.Tenant), c.Class, c.Version, c.By.ID, "", c.AtMS}
	case review.Retire:
		return target{"retire", tenants.TenantID(c.Tenant), c.Class, 0, c.By.ID, "", c.AtMS}
	}
	return target{}
}

func personShown(p review.Person) string {
	if p.Email != "" {
		return p.Email
	}
	return p.Subject
}

func refuseReview(to target, reason string) (Result, []Event) {
	e := Event{Kind: EventRefused, Command: to.command, Reason: reason, By: to.by, AtMS: to.atMS, Version: to.version}
	if tenants.ValidSlug(string(to.tenant)) { // what is not in its proper form stays out of the audit
		e.Tenant = to.tenant
	}
	if to.class.Valid() {
		e.Class = to.class
	}
	return Result{Reason: reason}, []Event{e}
}
