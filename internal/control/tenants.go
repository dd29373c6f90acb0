package control

import "github.com/stanchion-locks/stanchion/tenants"

func (m *Machine) tenantsCommand(c tenants.Command) (Result, []Event) {
	if put, ok := c.(tenants.PutTenant); ok {
		if reason := m.misplaced(put); reason != "" {
			return refusePut(put, reason)
		}
	}
	r, events := m.tenants.Apply(c)
	result := Result{OK: r.OK(), Unchanged: r.OK() && len(events) == 0, Reason: r.Reason.String(), Field: r.Field}
	out := make([]Event, 0, len(events))
	for _, e := range events {
		out = append(out, tenantsEvent(e))
	}
	return result, out
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
	e := Event{Kind: EventRefused, Command: put.Kind().String(), Reason: reason, By: shown(put.By), AtMS: put.AtMS}
	if tenants.ValidSlug(string(put.Tenant)) { // what is not in its proper form stays out of the audit
		e.Tenant = put.Tenant
	}
	return Result{Reason: reason}, []Event{e}
}

func tenantsEvent(e tenants.Event) Event {
	out := Event{Kind: e.Kind.String(), Tenant: e.Tenant, APIKey: e.Key, KeyName: e.KeyName, Successor: e.Successor,
		Token: e.Token, Reason: e.Reason.String(), Field: e.Field, Actor: e.By, By: shown(e.By), Note: e.Note, AtMS: e.AtMS}
	if e.Kind == tenants.EventRefused {
		out.Kind, out.Command = EventRefused, e.Refused.String()
	}
	return out
}

// shown is the actor for people.
func shown(a tenants.Actor) string {
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
