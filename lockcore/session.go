package lockcore

import "strings"

// border is the sequence at and below which the session remembers no ends, and takes no request that it does not know.
func (s *Session) border() uint64 { return max(s.High-min(s.High, Window), s.Floor) }

// Forgot reports whether a sequence that the machine finds no lease for is too old to be told from one never seen: it lies
// below the window, or not above the floor.
func (s *Session) Forgot(sequence uint64) bool { return sequence <= s.border() }

// see makes the lease's sequence known to its session, which it begins if need be, and forgets the ends that fall out of
// the session's window. Live requests are never forgotten.
func (t *tenant) see(id LeaseID, owner OwnerID) {
	s := Session{ID: id.Session, Owner: owner}
	if old := t.session(id.Session); old != nil {
		s = *old
	}
	if id.Sequence > s.High {
		from := s.border()
		s.High = id.Sequence
		t.forgetEnds(&s, from)
	}
	t.sessions.Set(string(id.Session[:]), &s)
}

// forgetEnds drops the remembered ends that a rise of the session's border left at or below it. What ended at or below
// the old one was not kept (see putLease), so the scan passes each sequence once in the session's life.
func (t *tenant) forgetEnds(s *Session, from uint64) {
	to := s.border()
	if to == from {
		return
	}
	var gone []string
	limit := LeaseID{Session: s.ID, Sequence: to}.row()
	t.leases.Ascend(LeaseID{Session: s.ID, Sequence: from + 1}.row(), func(row string, l *Lease) bool {
		if row > limit {
			return false
		}
		if l.State == StateEnded {
			gone = append(gone, row)
		}
		return true
	})
	t.deleteEnds(s, gone)
}

// shedEnds brings the tenant's ends back into their quota at the cost of the session that just put one: its oldest by
// sequence are forgotten, be that one among them or not, and its floor rises to the last of them, so that none of them is
// ever carried out again. Other sessions keep theirs. As above, no sequence is passed twice.
func (t *tenant) shedEnds(s *Session) {
	excess := min(t.ends-t.quotas.Ends, s.Ends)
	if excess <= 0 {
		return
	}
	var gone []string
	floor := s.Floor
	t.leases.Ascend(LeaseID{Session: s.ID, Sequence: s.border() + 1}.row(), func(row string, l *Lease) bool {
		if l.State == StateEnded {
			gone, floor = append(gone, row), l.ID.Sequence
		}
		return len(gone) < excess
	})
	t.deleteEnds(s, gone)
	s.Floor = floor
}

func (t *tenant) deleteEnds(s *Session, rows []string) {
	for _, row := range rows {
		t.leases.Delete(row)
	}
	s.Ends -= len(rows)
	t.ends -= len(rows)
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
	t.ends -= s.Ends
	t.sessions.Delete(string(c.Session[:]))
	m.emit(Event{Kind: EventSessionForgotten, Tenant: t.ID, Lease: LeaseID{Session: c.Session}})
	return Result{Outcome: Done}
}
