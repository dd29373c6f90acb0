package lockcore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/lockcoretest"
)

func TestReportGuard_rules(t *testing.T) {
	const first = "report-guard acme jobs k g1 sequence=7 checks=5\n"
	many := func(n int) string {
		return "report-guard acme jobs k g1" + strings.Repeat(" 1<2*1@0", n)
	}
	checkRules(t, []rule{
		{"a first report, of any number", "", first, "done", false},
		{"the same again", first, first, "done", true},
		{"the same number with other counts", first, "report-guard acme jobs k g1 sequence=7 checks=9 1<2*1@0", "done", true},
		{"a number before", first, "report-guard acme jobs k g1 sequence=6 checks=5", "done", true},
		{"the next number", first, "report-guard acme jobs k g1 sequence=8 checks=5", "done", false},
		{"a number after a gap", first, "report-guard acme jobs k g1 sequence=99 checks=5", "done", false},
		{"another reporter", first, "report-guard acme jobs k g2 sequence=7 checks=5", "done", false},
		{"another key of the same reporter", first, "report-guard acme jobs k2 g1 sequence=7 checks=5", "done", true},
		{"nothing checked", first, "report-guard acme jobs k g1 sequence=8", "done", false},
		{"of a retired class", "retire-class acme jobs", first, "done", false},
		{"of a suspended tenant", "put-tenant acme suspended", first, "done", false},
		{"of a tenant being dropped", "acquire acme s1.1 jobs k\ndrop-tenant acme", first, "done", false},
		{"of a class never heard of", "", "report-guard acme nothing k g1", "refused unknown", true},
		{"of a tenant never heard of", "", "report-guard birch jobs k g1", "refused unknown", true},
		{"no reporter", "", "report-guard acme jobs k g0", "refused invalid", true},
		{"no number", "", "report-guard acme jobs k g1 sequence=0", "refused invalid", true},
		{"the last number", "", "report-guard acme jobs k g1 sequence=9007199254740991", "done", false},
		{"a number beyond", "", "report-guard acme jobs k g1 sequence=9007199254740992", "refused invalid", true},
		{"as many checks as JSON carries", "", "report-guard acme jobs k g1 checks=9007199254740991", "done", false},
		{"one more", "", "report-guard acme jobs k g1 checks=9007199254740992", "refused invalid", true},
		{"no key", "", `report-guard acme jobs "" g1`, "refused invalid", true},
		{"the longest API key", "", "report-guard acme jobs k g1 api-key=" + strings.Repeat("a", 64), "done", false},
		{"a longer one", "", "report-guard acme jobs k g1 api-key=" + strings.Repeat("a", 65), "refused invalid", true},
		{"as many rejections as may be", "", many(lockcore.RejectionsMax), "done", false},
		{"one more of them", "", many(lockcore.RejectionsMax + 1), "refused invalid", true},
		{"a rejection of no token", "", "report-guard acme jobs k g1 0<1*1@0", "done", false},
		{"a rejection of the highest token", "", "report-guard acme jobs k g1 2<2*1@0", "refused invalid", true},
		{"a rejection of one above", "", "report-guard acme jobs k g1 3<2*1@0", "refused invalid", true},
		{"a token beyond JSON", "", "report-guard acme jobs k g1 1<9007199254740992*1@0", "refused invalid", true},
		{"a rejection that never was", "", "report-guard acme jobs k g1 1<2*0@0", "refused invalid", true},
		{"more rejections than JSON carries", "", "report-guard acme jobs k g1 1<2*9007199254740992@0", "refused invalid", true},
		{"a moment before 1970", "", "report-guard acme jobs k g1 1<2*1@-1", "refused invalid", true},
		{"a moment beyond JSON", "", "report-guard acme jobs k g1 1<2*1@9007199254740992", "refused invalid", true},
		{"one bad rejection among good ones", "", "report-guard acme jobs k g1 checks=5 1<2*1@0 2<2*1@0", "refused invalid", true},
	})
}

// TestGuard_outlivesVersionsOfItsClass: totals go on over versions, a retirement and what comes back, and end with the
// tenant.
func TestGuard_outlivesVersionsOfItsClass(t *testing.T) {
	p := lockcoretest.NewPlayer()
	play(t, p, stage)
	want := func(line string, checks, rejections uint64) {
		t.Helper()
		play(t, p, line)
		g, known := p.Machine.Guard("acme", "jobs")
		if !known || g.Checks != checks || g.Rejections != rejections {
			t.Errorf("after %q: got %+v (%t), want %d checks, %d rejections", line, g, known, checks, rejections)
		}
	}
	if g, known := p.Machine.Guard("acme", "jobs"); known {
		t.Errorf("before any report: got %+v", g)
	}
	want("report-guard acme jobs k g1 checks=5 1<2*3@0 1<3*4@0", 5, 7)
	want("put-class acme jobs version=2", 5, 7)
	want("report-guard acme jobs other g2 checks=2", 7, 7)
	want("retire-class acme jobs version=2", 7, 7)
	want("report-guard acme jobs k g1 sequence=2 checks=1", 8, 7)
	want("put-class acme jobs version=3", 8, 7)
	want("report-guard acme jobs k g1 sequence=3 checks=9007199254740991 1<2*9007199254740991@0", lockcore.CountMax, lockcore.CountMax)
	if g, known := p.Machine.Guard("acme", "long"); known {
		t.Errorf("of another class: got %+v", g)
	}
	play(t, p, "drop-tenant acme revision=1\nput-tenant acme revision=2\nput-class acme jobs")
	if g, known := p.Machine.Guard("acme", "jobs"); known {
		t.Errorf("of the slug's next tenant: got %+v", g)
	}
}

// TestReportGuard_tellsEachCheckAndRejection: what the audit gets, times included.
func TestReportGuard_tellsEachCheckAndRejection(t *testing.T) {
	const wall, seen = 1_700_000_000_123, 1_699_999_999_000
	m := loaded(t, 0)
	report := lockcore.ReportGuard{Tenant: "acme", Class: "jobs", Key: "k", Reporter: lockcoretest.ReporterNumber(1), Sequence: 1,
		Checks: 9, APIKey: "key7", Rejections: []lockcore.Rejection{{Token: 3, Highest: 5, Count: 2, AtMS: seen}, {Highest: 5, Count: 1}}}
	entry := func(wallMS int64) []byte {
		return encode(t, lockcore.Entry{Epoch: 1, WallMS: wallMS, Commands: []lockcore.Command{report}})
	}
	results, events := m.Apply(m.Index()+1, entry(wall))
	said := lockcore.Event{Tenant: "acme", Class: "jobs", Key: "k", APIKey: "key7", AtMS: wall}
	checked, fenced, fencedNone := said, said, said
	checked.Kind, checked.Count = lockcore.EventGuardReported, 9
	fenced.Kind, fenced.Token, fenced.Count, fenced.Highest, fenced.SeenMS = lockcore.EventFenced, 3, 2, 5, seen
	fencedNone.Kind, fencedNone.Count, fencedNone.Highest = lockcore.EventFenced, 1, 5
	want := []lockcore.Event{checked, fenced, fencedNone}
	if fmt.Sprint(events) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", events, want)
	}
	again, events := m.Apply(m.Index()+1, entry(wall+1))
	if len(events) != 0 || again[0] != results[0] || again[0] != (lockcore.Result{Outcome: lockcore.Done}) {
		t.Errorf("repeated: got %v and %v, want the first answer and no event", again, events)
	}
	report.Sequence, report.Checks, report.Rejections = 2, 0, nil
	if _, events := m.Apply(m.Index()+1, entry(wall+2)); len(events) != 0 {
		t.Errorf("nothing checked: got %v, want no event", events)
	}
	if g, _ := m.Guard("acme", "jobs"); g != (lockcore.Guard{AtMS: wall, Checks: 9, Rejections: 3}) {
		t.Errorf("got %+v, want one check's moment and count, 9, and 3 rejections", g)
	}
}

// TestReportGuard_forgetsTheIdlestReporter: with as many reporters as are remembered, one more makes the one forgotten that
// has been idle for longest by the log, and of those of one entry the first by id. The model and the machine agree on it.
func TestReportGuard_forgetsTheIdlestReporter(t *testing.T) {
	trial := lockcoretest.NewTrial(0)
	index := uint64(0)
	apply := func(commands ...lockcore.Command) (fresh int) {
		t.Helper()
		index++
		e := lockcore.Entry{Epoch: min(lockcore.Epoch(index-1), 1), WallMS: int64(index), Commands: commands}
		events, err := trial.Apply(index, e)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Kind == lockcore.EventGuardReported {
				fresh++
			}
		}
		return fresh
	}
	report := func(reporter uint16, sequence uint64) lockcore.Command {
		return lockcore.ReportGuard{Tenant: "acme", Class: "jobs", Key: "k", Reporter: lockcoretest.ReporterNumber(reporter),
			Sequence: sequence, Checks: 1}
	}
	apply(lockcore.AdvanceEpoch{Node: "n1"})
	for _, line := range []string{"put-tenant acme", "put-class acme jobs"} {
		c, err := lockcoretest.ParseCommand(line)
		if err != nil {
			t.Fatal(err)
		}
		apply(c)
	}
	for n := uint16(1); n <= lockcore.ReportersMax; n += 4 { // four to an entry, the highest id first
		apply(report(n+3, 1), report(n+2, 1), report(n+1, 1), report(n, 1))
	}
	apply(report(1, 2))                                     // not idle any more: the next in line is 2
	apply(report(1, 2))                                     // a repetition
	apply(report(lockcore.ReportersMax+1, 1))               // takes the place of 2
	if got := apply(report(3, 1), report(1, 2)); got != 0 { // remembered still
		t.Errorf("%d reports counted again, want none", got)
	}
	if got := apply(report(2, 1)); got != 1 { // takes the place of 3
		t.Errorf("a forgotten reporter's report counted %d times, want 1", got)
	}
	if got := apply(report(4, 1), report(3, 1), report(4, 1)); got != 2 { // 3 takes the place of 4, and 4 that of 5
		t.Errorf("reports of one that is remembered, of one forgotten, and of the first again: %d counted, want 2", got)
	}
}
