package control

import (
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

func (m *Machine) tenantsCommand(c tenants.Command) (Result, []Event) {
	if put, ok := c.(tenants.PutTenant); ok {
		if reason := m.misplaced(put); reason != "" {
			return refusePut(put, reason)
		}
	}
	r, events := m.tenants.Apply(c)
	quiet := c.Kind() == tenants.KindRecordKeyUses // it has no events even where it changes something
	result := Result{OK: r.OK(), Unchanged: r.OK() && len(events) == 0 && !quiet, Reason: r.Reason.String(), Field: r.Field}
	out := make([]Event, 0, len(events))
	for _, e := range events {
		out = append(out, tenantsEvent(e))
	}
	if drop, ok := c.(tenants.DropTenant); ok && result.OK && !result.Unchanged {
		out = append(out, m.endClasses(drop)...)
	}
	return result, out
}

// endClasses retires the dropped tenant's classes and withdraws what is in review, so that nothing of this life comes into
// force in a later one. Names keep their purpose and their history. It is the platform that does so; who dropped the tenant
// and why stands in that event of the same entry.
func (m *Machine) endClasses(drop tenants.DropTenant) []Event {
	id, platform := review.TenantID(drop.Tenant), Shown(tenants.ByPlatform())
	var events []Event
	for _, class := range m.Classes(drop.Tenant) {
		for _, v := range class.InReview() { // a class that was never signed cannot be retired
			events = append(events, reviewEvents(m.reviews.Apply(review.Withdraw{Tenant: id, Class: class.Name, Version: v.Number,
				By: review.Actor{ID: platform, Persons: v.Author.Persons}, AtMS: drop.AtMS}))...)
		}
		events = append(events, reviewEvents(m.reviews.Apply(review.Retire{Tenant: id, Class: class.Name,
			By: review.Actor{ID: platform, Persons: persons([]tenants.Person{tenants.PlatformMaker})}, AtMS: drop.AtMS}))...)
	}
	return events
}

func reviewEvents(r review.Result) []Event {
	events := make([]Event, 0, len(r.Events))
	for _, e := range r.Events {
		events = append(events, Event{Kind: "posture_" + string(e.Kind), Tenant: tenants.TenantID(e.Tenant), Class: e.Class,
			Version: e.Version, Digest: e.Digest, By: e.By, Note: e.Note, AtMS: e.AtMS})
	}
	return events
}

// misplaced says why no tenant can stand where put would have it, or nothing.
func (m *Machine) misplaced(put tenants.PutTenant) string {
	switch {
	case m.cluster == SetCluster{}:
		return RefusedNoCluster
	case put.Partition > m.cluster.PartitionCount:
		return RefusedNoPartition
	}
	return ""
}

func refusePut(put tenants.PutTenant, reason string) (Result, []Event) {
	e := Event{Kind: EventRefused, Command: put.Kind().String(), Reason: reason, By: Shown(put.By), AtMS: put.AtMS}
	if tenants.ValidSlug(string(put.Tenant)) { // what is not in its proper form stays out of the audit
		e.Tenant = put.Tenant
	}
	return Result{Reason: reason}, []Event{e}
}

func tenantsEvent(e tenants.Event) Event {
	out := Event{Kind: e.Kind.String(), Tenant: e.Tenant, APIKey: e.Key, KeyName: e.KeyName, Successor: e.Successor,
		Token: e.Token, Reason: e.Reason.String(), Field: e.Field, Actor: e.By, By: Shown(e.By), Note: e.Note, AtMS: e.AtMS}
	if e.Kind == tenants.EventRefused {
		out.Kind, out.Command = EventRefused, e.Refused.String()
	}
	return out
}

// Shown is an actor for people: an address, an API key's id, or "platform".
func Shown(a tenants.Actor) string {
	switch a.Kind {
	case tenants.ActorPerson:
		if a.Person.Email != "" {
			return a.Person.Email
		}
		return a.Person.Subject
	case tenants.ActorAPIKey:
		return string(a.Key)
	case tenants.ActorPlatform:
		return "platform"
	}
	return ""
}
