package lockcore

import "strings"

// see makes the lease's sequence known to its session, which it begins if need be, and forgets the ends that fall out of
// the session's window. Live requests are never forgotten.
func (t *tenant) see(id LeaseID, owner OwnerID) {
	s := Session{ID: id.Session, Owner: owner}
	if old := t.session(id.Session); old != nil {
		s = *old
	}
	if id.Sequence > s.High {
		t.forgetEnds(id.Session, s.High, id.Sequence)
		s.High = id.Sequence
	}
	t.sessions.Set(string(id.Session[:]), &s)
}

// forgetEnds drops remembered ends that a rise of the highest sequence, from one to another, leaves below the window.
// What ended below it already was not kept (see putLease), so the scan passes a window's rows at most.
func (t *tenant) forgetEnds(session SessionID, from, to uint64) {
	if to <= Window {
		return
	}
	var gone []string
	first := LeaseID{Session: session, Sequence: max(from, Window) - Window}.row()
	limit := LeaseID{Session: session, Sequence: to - Window}.row()
	t.leases.Ascend(first, func(row string, l *Lease) bool {
		if row > limit {
			return false
		}
		if l.State == StateEnded {
			gone = append(gone, row)
		}
		return true
	})
	for _, row := range gone {
		t.leases.Delete(row)
	}
}

func (m *Machine) endSession(t *tenant, c EndSession) Result {
	if c.Session.isZero() || c.Owner == "" {
		return refuse(RefusedInvalid)
	}
	s := t.session(c.Session)
	switch {
	case s == nil && t.sessions.Len() >= t.quotas.Sessions:
		return refuse(RefusedQuotaSessions)
	case s == nil:
		s = &Session{ID: c.Session, Owner: c.Owner}
	case s.Owner != c.Owner:
		return refuse(RefusedForeign)
	case s.Ended:
		return Result{Outcome: Done}
	}
	over := *s
	over.Ended = true
	t.sessions.Set(string(c.Session[:]), &over)
	m.endLeases(t, c.Session)
	m.emit(Event{Kind: EventSessionEnded, Tenant: t.ID, Lease: LeaseID{Session: c.Session}})
	return Result{Outcome: Done}
}

// endLeases ends what the session waits for first, so that nothing it releases is handed to itself, then what it holds.
func (m *Machine) endLeases(t *tenant, session SessionID) {
	live := t.liveOf(session)
	for _, l := range live {
		if l.State == StateWaiting {
			m.depart(t, l, SessionOver)
		}
	}
	for _, l := range live {
		if l.State == StateHeld {
			m.end(t, l, SessionOver)
		}
	}
}

func (t *tenant) liveOf(session SessionID) []*Lease {
	var live []*Lease
	for _, l := range t.leasesOf(session) {
		if l.State != StateEnded {
			live = append(live, l)
		}
	}
	return live
}

func (t *tenant) leasesOf(session SessionID) []*Lease {
	var all []*Lease
	prefix := string(session[:])
	t.leases.Ascend(prefix, func(row string, l *Lease) bool {
		if !strings.HasPrefix(row, prefix) {
			return false
		}
		all = append(all, l)
		return true
	})
	return all
}

func (m *Machine) forgetSession(t *tenant, c ForgetSession) Result {
	s := t.session(c.Session)
	switch {
	case s == nil:
		return refuse(RefusedUnknown)
	case s.Live > 0:
		return refuse(RefusedBusy)
	}
	for _, l := range t.leasesOf(c.Session) {
		t.leases.Delete(l.ID.row())
	}
	t.sessions.Delete(string(c.Session[:]))
	m.emit(Event{Kind: EventSessionForgotten, Tenant: t.ID, Lease: LeaseID{Session: c.Session}})
	return Result{Outcome: Done}
}
