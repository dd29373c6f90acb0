package audit

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
)

// Export writes every row of a log, and every gap given up, as one JSON object a line, in order of position, and reports what
// it wrote; its root is that of the Merkle log up to there. It reads in pages, so that the store goes on beside it; rows that
// arrive meanwhile may be part of it or not.
func (s *Store) Export(ctx context.Context, log Log, w io.Writer) (LogReport, error) {
	t := &tally{report: LogReport{Incarnation: s.incarnation, Log: log}}
	out := bufio.NewWriter(w)
	encode := json.NewEncoder(out)
	encode.SetEscapeHTML(false)
	var next uint64 = 1
	for more := true; more; {
		rows, through, err := s.exportPage(ctx, log, next)
		if err != nil {
			return t.report, fmt.Errorf("export log %d: %w", log, err)
		}
		for i := range rows {
			if err := encode.Encode(&rows[i]); err != nil {
				return t.report, fmt.Errorf("export log %d: %w", log, err)
			}
			t.add(&rows[i])
		}
		more, next = through > 0, through+1
	}
	if err := out.Flush(); err != nil {
		return t.report, fmt.Errorf("export log %d: %w", log, err)
	}
	return t.finish(), nil
}

// exportPage reads whole entries from an index on, with the gaps given up among them, and how far they go; 0: to the end.
func (s *Store) exportPage(ctx context.Context, log Log, from uint64) (rows []Record, through uint64, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		gaps, err := readGaps(ctx, tx, s.incarnation, log)
		if err != nil {
			return err
		}
		in := span{from, numberMax}
		rows, in.to, err = wholeEntries(ctx, tx, s.incarnation, log, in, walkStep)
		if err != nil {
			return err
		}
		if in.to < numberMax {
			through = in.to
		}
		for _, r := range lostRecords(s.incarnation, log, gaps) {
			if in.has(r.Index) {
				rows = insertInOrder(rows, r)
			}
		}
		return nil
	})
	return rows, through, err
}

// insertInOrder puts the record of a gap among rows, none of which it covers.
func insertInOrder(rows []Record, gap Record) []Record {
	i := 0
	for i < len(rows) && rows[i].Index < gap.Index {
		i++
	}
	return append(rows[:i:i], append([]Record{gap}, rows[i:]...)...)
}

// recordLineMax bounds a line of an export.
const recordLineMax = 1 << 20

// VerifyExport reads records, one JSON object a line, in order of position, and recomputes them: every hash, and for each log
// that is there from leaf 0 on without a hole, the Merkle log and its root. Compare that with RootAt, or lead it to today's
// with ProvePrefix. An error means that a line is no record; what is wrong with records is in the reports.
func VerifyExport(r io.Reader) ([]LogReport, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, recordLineMax)
	v := exportCheck{logs: map[Log]*exportTally{}}
	for n := 1; lines.Scan(); n++ {
		var record Record
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return v.finish(), fmt.Errorf("verify export, line %d: %w", n, err)
		}
		v.add(&record)
	}
	if err := lines.Err(); err != nil {
		return v.finish(), fmt.Errorf("verify export: %w", err)
	}
	return v.finish(), nil
}

// exportCheck verifies the logs of an export side by side.
type exportCheck struct {
	order []Log
	logs  map[Log]*exportTally
}

type exportTally struct {
	tally
	last    place
	partial bool // a filtered export: leaves are missing in between, and there is no root
}

func (v *exportCheck) add(r *Record) {
	t, ok := v.logs[r.Log]
	if !ok {
		t = &exportTally{tally: tally{report: LogReport{Incarnation: r.Incarnation, Log: r.Log}}}
		v.logs[r.Log] = t
		v.order = append(v.order, r.Log)
	}
	if r.Incarnation != t.report.Incarnation {
		t.report.problem("log %d, entry %d, event %d: it is of incarnation %d", r.Log, r.Index, r.Ordinal, r.Incarnation)
	}
	at := r.place()
	if at.index < t.last.index || (t.last.index > 0 && at.index == t.last.index && at.ordinal <= t.last.ordinal) {
		t.report.problem("log %d, entry %d, event %d: it comes after entry %d, event %d",
			r.Log, r.Index, r.Ordinal, t.last.index, t.last.ordinal)
	}
	t.last = at
	if r.Leaf != nil && *r.Leaf > t.report.Leaves { // leaves that were not asked for
		t.partial = true
	}
	if !t.partial {
		t.tally.add(r)
		return
	}
	unnumbered := *r
	unnumbered.Leaf = nil
	t.tally.add(&unnumbered)
}

func (v *exportCheck) finish() []LogReport {
	var reports []LogReport
	for _, log := range v.order {
		t := v.logs[log]
		if t.partial {
			t.report.Leaves, t.report.Unnumbered, t.peaks = 0, 0, nil
		}
		report := t.tally.finish()
		report.RootKnown = report.RootKnown && !t.partial
		reports = append(reports, report)
	}
	return reports
}
