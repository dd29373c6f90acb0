package main

import (
	"context"
	"encoding/hex"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// verifyAuditFile checks a node's whole file.
func verifyAuditFile(ctx context.Context, report *auditReport, file string) error {
	reports, err := audit.VerifyFile(ctx, file)
	if err != nil {
		return err
	}
	if len(reports) == 0 {
		report.say("%s: no log has begun in it\n", file)
		return nil
	}
	var findings []string
	for _, r := range reports {
		name := wire.AuditLogName(uint32(r.Log))
		for _, problem := range r.Problems {
			findings = append(findings, name+": "+problem)
		}
		if len(r.Problems) == audit.ProblemsMax {
			findings = append(findings, name+": and perhaps more; no more than these are listed")
		}
		report.addLog(name, r)
	}
	if len(findings) > 0 {
		report.notWhole(file, findings...)
		return nil
	}
	report.say("%s: whole\n", file)
	return nil
}

// addLog adds what was found about one log.
func (r *auditReport) addLog(name string, found audit.LogReport) {
	log := auditFileLog{Log: name, Incarnation: found.Incarnation, Events: found.Rows, Recomputed: found.Recomputed, Erased: found.Erased,
		Dropped: found.Dropped, Unnumbered: found.Unnumbered, Rows: found.Leaves, Root: hex.EncodeToString(found.Root[:]), Gaps: []wire.AuditGap{}}
	r.say("%s of incarnation %d: %d events, of %d of them the content was hashed again", name, log.Incarnation, log.Events, log.Recomputed)
	for _, part := range []struct {
		n    uint64
		what string
	}{{log.Erased, "without their personal text"}, {log.Dropped, "past their retention"}, {log.Unnumbered, "waiting for a gap to be filled"}} {
		if part.n > 0 {
			r.say(", %d %s", part.n, part.what)
		}
	}
	r.say("; %d rows, root %s\n", log.Rows, log.Root)
	for _, g := range found.Gaps {
		gap := wire.AuditGap{Log: name, From: g.From, To: g.To, Why: g.Why, Recoverable: !g.Unrecoverable}
		log.Gaps = append(log.Gaps, gap)
		r.say("  %s\n", gapText(gap))
	}
	r.Logs = append(r.Logs, log)
}
