package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// auditVerify are the flags of `stanchion audit verify`.
type auditVerify struct {
	client clientOptions
	file   string
	export string
	row    string
	output string
	now    bool
}

func newAuditVerify() *cobra.Command {
	v := new(auditVerify)
	verify := &cobra.Command{
		Use:   "verify",
		Short: "Check a node's audit file, or an export, against its own hashes and against today's logs",
		Long: `Check what was kept:
  --file audit.db              a node's whole file, or a copy of it, offline: every row's content, the whole tree
  --export FILE                an export, offline: every row's content, and its place under the export's own roots
  --export FILE --row POSITION one row of it, and what it says
  --export FILE --now          and the running cluster: its logs begin with the rows that FILE saw, unchanged
Exits 0 when all is whole, 1 when it is not, with what and where; 2 means a wrong command line.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return v.run(c.Context(), c.OutOrStdout()) },
	}
	v.client.flags(verify, false)
	outputFlag(verify, &v.output)
	verify.Flags().StringVar(&v.file, "file", "", "a node's audit.db")
	verify.Flags().StringVar(&v.export, "export", "", "a file written by 'stanchion audit export'")
	verify.Flags().StringVar(&v.row, "row", "", "with --export: only the row at this position, as in partition-1/123/0")
	verify.Flags().BoolVar(&v.now, "now", false, "with --export: and ask the cluster whether its logs still begin like that")
	return verify
}

func (v *auditVerify) run(ctx context.Context, out io.Writer) error {
	if err := v.check(); err != nil {
		return err
	}
	report := newAuditReport(cmp.Or(v.file, v.export))
	if err := v.verify(ctx, report); err != nil {
		return err
	}
	return report.print(out, v.output == "json")
}

func (v *auditVerify) check() error {
	switch {
	case (v.file == "") == (v.export == ""):
		return fmt.Errorf("%w: give --file or --export", errUsage)
	case v.file != "" && (v.row != "" || v.now):
		return fmt.Errorf("%w: --row and --now go with --export", errUsage)
	case v.row != "" && v.now:
		return fmt.Errorf("%w: --row and --now are two questions: ask one", errUsage)
	}
	return nil
}

func (v *auditVerify) verify(ctx context.Context, report *auditReport) error {
	switch {
	case v.file != "":
		return verifyAuditFile(ctx, report, v.file)
	case v.row != "":
		return verifyRow(report, v.export, v.row)
	case !v.now:
		return verifyExport(report, v.export)
	}
	client, err := v.client.client()
	if err != nil {
		return err
	}
	if err := verifyExport(report, v.export); err != nil || !report.Whole {
		return err
	}
	return verifyNow(ctx, client, report, v.export)
}

// findingsMax bounds what one run prints: after so many there is no need for more.
const findingsMax = 20

var errEnoughFindings = errors.New("enough found")

// verifyExport checks every row of an export and the export itself.
func verifyExport(report *auditReport, file string) error {
	t, err := readExport(file, nil) // the roots stand at its end
	if err != nil {
		return report.exportFault(file, err)
	}
	check := newRowChecks(t.Checkpoints)
	var findings []string
	_, err = readExport(file, func(line int, e wire.AuditEvent) error {
		if fault := check.row(e); fault != nil {
			findings = append(findings, fmt.Sprintf("line %d: %s: %v", line, e.Position, fault))
		}
		if len(findings) >= findingsMax {
			return errEnoughFindings
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errEnoughFindings):
		return report.exportFault(file, err)
	case len(findings) > 0:
		report.notWhole(file, findings...)
		return nil
	}
	standing := standingOf(t)
	report.Rows, report.Export = t.Rows, &standing
	report.say("%s: whole: %d rows, each with its content and its place under these roots:\n", file, t.Rows)
	printCheckpoints(&report.text, t.Checkpoints)
	printMissing(&report.text, t)
	if t.NextCursor != "" {
		report.say("The export was full: what matched beyond its last row is not in it.\n")
	}
	return nil
}

// exportFault says that a file is damaged; what kept it from being read is an error of another kind.
func (r *auditReport) exportFault(file string, err error) error {
	if isFileError(err) {
		return err
	}
	r.notWhole(file, err.Error())
	return nil
}

// verifyRow checks one row of an export, and tells what it says.
func verifyRow(report *auditReport, file, position string) error {
	if _, ok := wire.ParseAuditPosition(position); !ok {
		return fmt.Errorf("%w: --row %s is no position like partition-1/123/0", errUsage, visible(position))
	}
	t, err := readExport(file, nil)
	if err != nil {
		return report.exportFault(file, err)
	}
	check := newRowChecks(t.Checkpoints)
	var found *wire.AuditEvent
	var fault error
	if _, err := readExport(file, func(_ int, e wire.AuditEvent) error {
		if e.Position == position && found == nil {
			found, fault = &e, check.row(e)
		}
		return nil
	}); err != nil {
		return report.exportFault(file, err)
	}
	switch {
	case found == nil:
		report.notWhole(file, position+": is not in it")
		return nil
	case fault != nil:
		report.notWhole(file, position+": "+fault.Error())
		return nil
	}
	if err := printEvents(&report.text, []wire.AuditEvent{*found}, true); err != nil {
		return err
	}
	root := check.checkpoints[logOf(position)]
	report.Event = found
	report.say("%s is row %d of the %d under root %s of %s.\n", position, *found.Row, root.Rows, visible(root.Root), visible(root.Log))
	return nil
}
