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
	return reviewResult(r), events
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
		return m.wrongActor(id, c.Class, c.Author, c.AtMS)
	case review.Withdraw:
		return m.wrongActor(id, c.Class, c.By, c.AtMS)
	case review.Retire:
		return m.wrongActor(id, c.Class, c.By, c.AtMS)
	case review.Sign:
		return m.maySign(t, c)
	case review.TransferOwner:
		return m.mayTransfer(t, c)
	}
	return ""
}

// wrongActor holds what an API key does to a class against what is known of the key: that it works and has the scope, and
// that all who answer for it are named, since none of them may sign. The proposer's word alone would be a way round.
func (m *Machine) wrongActor(id tenants.TenantID, class review.ClassName, by review.Actor, atMS int64) string {
	if by.Lineage == "" {
		return "" // a person, whom only the proposer knows
	}
	key, ok := m.tenants.APIKey(id, tenants.APIKeyID(by.ID))
	switch {
	case !ok || !key.State(atMS).Works() || !key.Scopes.Allows(tenants.VerbDeclareClasses, string(class)):
		return RefusedForbidden
	case by.Lineage != string(key.Lineage) || !slices.Equal(by.Persons, persons(key.Makers)):
		return RefusedAuthor
	}
	return ""
}

// maySign refuses a signature for a group that is none of the tenant's, and one of somebody who has rotated the API key
// that declared the version since: whoever made any key of a lineage answers for what the lineage declares.
func (m *Machine) maySign(t tenants.Tenant, s review.Sign) string {
	class, _ := m.reviews.Class(s.Tenant, s.Class)
	v, declared := class.Version(s.Version)
	switch {
	case !declared:
		return ""
	case !t.HasOwnerGroup(tenants.Group(v.Posture.Owner)):
		return RefusedOwnerGroup
	case v.State == review.StateInReview && v.Author.Lineage != "" && m.madeKeyOf(t.ID, v.Author.Lineage, s.Signer):
		return string(review.RefusedAuthor)
	}
	return ""
}

func (m *Machine) madeKeyOf(id tenants.TenantID, lineage string, p review.Person) bool {
	return slices.ContainsFunc(m.tenants.APIKeys(id), func(k tenants.APIKey) bool {
		return string(k.Lineage) == lineage && review.Actor{Persons: persons(k.Makers)}.Includes(p)
	})
}

// mayTransfer refuses a transfer by an API key that is no operator's, one away from a group that is still there, which would
// be a way past its signature, and one to a group that is none of the tenant's.
func (m *Machine) mayTransfer(t tenants.Tenant, c review.TransferOwner) string {
	switch {
	case !m.operates(c.By, c.AtMS):
		return RefusedForbidden
	case t.HasOwnerGroup(tenants.Group(c.From)):
		return RefusedOwnerStays
	case !t.HasOwnerGroup(tenants.Group(c.To)):
		return RefusedOwnerGroup
	}
	return ""
}

// operates reports whether an API key that is named as the actor is an operator's and works. A person is known to the
// proposer alone.
func (m *Machine) operates(by review.Actor, atMS int64) bool {
	if by.Lineage == "" {
		return true
	}
	key, ok := m.tenants.APIKey(tenants.Platform, tenants.APIKeyID(by.ID))
	return ok && key.State(atMS).Works() && string(key.Lineage) == by.Lineage &&
		key.Scopes.Allows(tenants.VerbOperatePlatform, "")
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
		return target{"retire", tenants.TenantID(c.Tenant), c.Class, 0, c.By.ID, c.Reason, c.AtMS}
	case review.TransferOwner:
		return target{"transfer_owner", tenants.TenantID(c.Tenant), c.Class, 0, c.By.ID, c.Reason, c.AtMS}
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
