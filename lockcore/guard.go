package lockcore

import (
	"encoding/binary"
	"fmt"
)

// ReportersMax bounds the reporters whose last sequence a tenant remembers. Of one more, the one that has been idle for
// longest is forgotten, and a late copy of its reports would count again.
const ReportersMax = 1024

// Guard is what the guards of one class have told so far.
type Guard struct {
	AtMS       int64  `cbor:"1,keyasint,omitempty"` // leader's wall clock at the last report of a check, for people
	Checks     uint64 `cbor:"2,keyasint,omitempty"` // at most CountMax, where it stays
	Rejections uint64 `cbor:"3,keyasint,omitempty"` // at most CountMax, where it stays
}

// reporter is one run of a guard that has reported.
type reporter struct {
	ID       ReporterID `cbor:"1,keyasint"`
	Sequence uint64     `cbor:"2,keyasint"` // of its last report
	Index    uint64     `cbor:"3,keyasint"` // of the entry with that report
}

// idleRow orders reporters by how long they have been idle. Those of one entry are ordered by their ids, so that every
// replica forgets the same one.
func (r *reporter) idleRow() string {
	return string(binary.BigEndian.AppendUint64(nil, r.Index)) + string(r.ID[:])
}

// reportGuard counts what a guard tells, once. Suspended and dropped tenants are heard as well: it is evidence, and takes
// nothing from anybody.
func (m *Machine) reportGuard(t *tenant, c ReportGuard) Result {
	if !c.valid() {
		return refuse(RefusedInvalid)
	}
	if _, known := t.class(c.Class); !known {
		return refuse(RefusedUnknown)
	}
	if last, known := t.reporters.Get(string(c.Reporter[:])); known && c.Sequence <= last.Sequence {
		return Result{Outcome: Done}
	}
	t.remember(&reporter{ID: c.Reporter, Sequence: c.Sequence, Index: m.index})
	m.countGuard(t, c)
	return Result{Outcome: Done}
}

func (c ReportGuard) valid() bool {
	if c.Reporter == (ReporterID{}) || c.Sequence < 1 || c.Sequence > SequenceMax || c.Checks > CountMax ||
		len(c.Rejections) > RejectionsMax || !ValidKey(string(c.Key)) || !validText(c.APIKey, 64) {
		return false
	}
	for _, r := range c.Rejections {
		if r.Token >= r.Highest || r.Highest > CountMax || r.Count < 1 || r.Count > CountMax || !within(r.AtMS, 0, CountMax) {
			return false
		}
	}
	return true
}

// remember notes a reporter's last report, in the place of the idlest when there are as many as may be.
func (t *tenant) remember(r *reporter) {
	if old, known := t.reporters.Get(string(r.ID[:])); known {
		t.idle.Delete(old.idleRow())
	} else if t.reporters.Len() >= ReportersMax {
		_, idlest, _ := t.idle.PopMin()
		t.reporters.Delete(string(idlest[:]))
	}
	t.putReporter(r)
}

func (t *tenant) putReporter(r *reporter) {
	t.reporters.Set(string(r.ID[:]), r)
	t.idle.Set(r.idleRow(), r.ID)
}

// countGuard adds a report to what is known of the class's guards, and tells it.
func (m *Machine) countGuard(t *tenant, c ReportGuard) {
	if c.Checks == 0 && len(c.Rejections) == 0 {
		return // it lives, and has had nothing to check
	}
	var g Guard
	if old, known := t.guards.Get(string(c.Class)); known {
		g = *old
	}
	g.AtMS, g.Checks = m.wallMS, min(g.Checks+c.Checks, CountMax)
	e := Event{Tenant: t.ID, Class: c.Class, Key: c.Key, APIKey: c.APIKey}
	if c.Checks > 0 {
		e.Kind, e.Count = EventGuardReported, c.Checks
		m.emit(e)
	}
	for _, r := range c.Rejections {
		g.Rejections = min(g.Rejections+r.Count, CountMax)
		e.Kind, e.Token, e.Count, e.Highest, e.SeenMS = EventFenced, r.Token, r.Count, r.Highest, r.AtMS
		m.emit(e)
	}
	t.guards.Set(string(c.Class), &g)
}

// checkGuards looks for guards of classes that are unknown, and for reporters that cannot have reported.
func (t *tenant) checkGuards(m *Machine) error {
	var err error
	t.guards.Scan(func(class string, g *Guard) bool {
		if _, known := t.class(ClassName(class)); !known {
			err = fmt.Errorf("a guard of class %q, which is unknown", class)
		} else if g.Checks > CountMax || g.Rejections > CountMax {
			err = fmt.Errorf("a guard of class %q counts %d checks, %d rejections", class, g.Checks, g.Rejections)
		}
		return err == nil
	})
	t.reporters.Scan(func(_ string, r *reporter) bool {
		if r.Index > m.index || r.Sequence < 1 || r.Sequence > SequenceMax {
			err = fmt.Errorf("a reporter's report %d at entry %d of %d", r.Sequence, r.Index, m.index)
		}
		return err == nil
	})
	if n := t.reporters.Len(); err == nil && (n > ReportersMax || n != t.idle.Len()) {
		err = fmt.Errorf("%d reporters, %d of them in order", n, t.idle.Len())
	}
	return err
}
