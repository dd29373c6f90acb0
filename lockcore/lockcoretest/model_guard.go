package lockcoretest

import (
	"bytes"
	"fmt"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// modelReporter is what a guard's reporter said last.
type modelReporter struct{ sequence, index uint64 }

func (m *Model) reportGuard(index uint64, t *modelTenant, c lockcore.ReportGuard) lockcore.Result {
	const most = 1<<53 - 1
	inRange := c.Reporter != lockcore.ReporterID{} && c.Sequence >= 1 && c.Sequence <= most && c.Checks <= most &&
		len(c.Rejections) <= 64 && c.Key != "" && plain(string(c.Key), 512) && plain(c.APIKey, 64)
	refusals := uint64(0)
	for _, r := range c.Rejections {
		inRange = inRange && r.Token < r.Highest && r.Highest <= most && r.Count >= 1 && r.Count <= most && r.AtMS >= 0 && r.AtMS <= most
		refusals = min(refusals+min(r.Count, most), most)
	}
	if !inRange {
		return refused(lockcore.RefusedInvalid)
	}
	if t.classes[c.Class] == nil {
		return refused(lockcore.RefusedUnknown)
	}
	if c.Sequence <= t.reporters[c.Reporter].sequence {
		return done()
	}
	t.reporters[c.Reporter] = modelReporter{c.Sequence, index}
	if len(t.reporters) > 1024 {
		delete(t.reporters, t.idlest(c.Reporter))
	}
	if c.Checks > 0 || refusals > 0 {
		g := t.guards[c.Class]
		t.guards[c.Class] = lockcore.Guard{AtMS: m.wallMS, Checks: min(g.Checks+c.Checks, most),
			Rejections: min(g.Rejections+refusals, most)}
	}
	return done()
}

// idlest is the reporter, other than the given one, that has been idle for longest: of those of one entry the first by id.
func (t *modelTenant) idlest(but lockcore.ReporterID) (first lockcore.ReporterID) {
	for id, r := range t.reporters {
		f, known := t.reporters[first]
		if id != but && (!known || r.index < f.index || r.index == f.index && bytes.Compare(id[:], first[:]) < 0) {
			first = id
		}
	}
	return first
}

// CompareGuard checks what is kept of a class's guards.
func (m *Model) CompareGuard(machine *lockcore.Machine, id lockcore.TenantID, class lockcore.ClassName) error {
	got, known := machine.Guard(id, class)
	var want lockcore.Guard
	reported := false
	if t := m.tenants[id]; t != nil {
		want, reported = t.guards[class]
	}
	if known != reported || got != want {
		return fmt.Errorf("%w: guards of %s/%s: %+v (%t), want %+v (%t)", ErrModel, id, class, got, known, want, reported)
	}
	return nil
}
