package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// verifyAuditFile checks a node's whole file.
func verifyAuditFile(ctx context.Context, out io.Writer, file string) error {
	reports, err := audit.VerifyFile(ctx, file)
	if err != nil {
		return err
	}
	if len(reports) == 0 {
		fmt.Fprintf(out, "%s: no log has begun in it\n", file)
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
		printReport(out, name, r)
	}
	if len(findings) > 0 {
		return notWhole(out, file, findings...)
	}
	fmt.Fprintf(out, "%s: whole\n", file)
	return nil
}

func printReport(out io.Writer, name string, r audit.LogReport) {
	fmt.Fprintf(out, "%s of incarnation %d: %d events, of %d of them the content was hashed again", name, r.Incarnation, r.Rows, r.Recomputed)
	for _, part := range []struct {
		n    uint64
		what string
	}{{r.Erased, "without their personal text"}, {r.Dropped, "past their retention"}, {r.Unnumbered, "waiting for a gap to be filled"}} {
		if part.n > 0 {
			fmt.Fprintf(out, ", %d %s", part.n, part.what)
		}
	}
	fmt.Fprintf(out, "; %d rows, root %s\n", r.Leaves, hex.EncodeToString(r.Root[:]))
	for _, g := range r.Gaps {
		fmt.Fprintf(out, "  %s\n", gapText(wire.AuditGap{Log: name, From: g.From, To: g.To, Why: g.Why, Recoverable: !g.Unrecoverable}))
	}
}
