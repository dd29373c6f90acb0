package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// auditExport are the flags of `stanchion audit export`.
type auditExport struct {
	client  clientOptions
	filters auditFilters
	out     string
	output  string
	limit   int
}

const exportLimitMax = 1_000_000

func newAuditExport() *cobra.Command {
	e := new(auditExport)
	export := &cobra.Command{
		Use:   "export --out FILE",
		Short: "Write matching events with their proofs into a file",
		Long: `Write matching events, oldest first, into FILE: one JSON object on each line, with what proves that it is a row of its
log, and a last line with the roots that the proofs lead to. 'stanchion audit verify --export FILE' checks it offline.
FILE appears when it is whole, and is not overwritten; until then what has come is in FILE.part.
Exits 0 when everything that matches is in FILE, 1 on errors, also when an export is full: then FILE is whole as far as it
goes, and the cursor to go on from is printed. 2 means a wrong command line.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return e.run(c.Context(), c.OutOrStdout()) },
	}
	e.client.flags(export, false)
	outputFlag(export, &e.output)
	e.filters.flags(export)
	export.Flags().StringVar(&e.out, "out", "", "file to write (required)")
	export.Flags().IntVar(&e.limit, "limit", exportLimitMax, "at most so many events, 1 to 1000000")
	_ = export.MarkFlagRequired("out")
	return export
}

func (e *auditExport) run(ctx context.Context, out io.Writer) error {
	if _, err := os.Lstat(e.out); err == nil {
		return fmt.Errorf("%w: %s is there already", errUsage, e.out)
	}
	client, err := e.client.client()
	if err != nil {
		return err
	}
	query := e.filters.query()
	query.Set("order", "asc")
	query.Set("format", "ndjson")
	query.Set("proofs", "true")
	query.Set("limit", strconv.Itoa(e.limit))
	res, err := client.send(ctx, apiRequest{method: http.MethodGet, path: auditPath, query: query})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := e.write(res.Body); err != nil {
		return err
	}
	return e.report(out)
}

// write puts a whole export into the file, and one that is not whole beside it.
func (e *auditExport) write(from io.Reader) error {
	part := e.out + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // it names people
	if err != nil {
		return err
	}
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 1<<20)
	if _, err := io.Copy(buffered, from); err != nil {
		return fmt.Errorf("the export broke off, see %s: %w", part, errors.Join(err, buffered.Flush()))
	}
	if err := errors.Join(buffered.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", part, err)
	}
	if _, err := readExport(part, nil); err != nil {
		return fmt.Errorf("the export came damaged, see %s: %w", part, err)
	}
	if err := os.Rename(part, e.out); err != nil {
		return fmt.Errorf("name the whole export: %w", err)
	}
	return syncFolder(filepath.Dir(e.out))
}

// syncFolder makes a new name in the folder last.
func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// exported is what an export has.
type exported struct {
	File   string `json:"file"`
	Events uint64 `json:"events"`
	auditStanding
}

// auditStanding is what a file's rows are worth: the roots that prove them, and what is not among them.
type auditStanding struct {
	Checkpoints   []wire.AuditCheckpoint `json:"checkpoints"`
	Gaps          []wire.AuditGap        `json:"gaps"`
	DroppedBefore *wire.TimeMS           `json:"dropped_before,omitempty"` // earlier events are past the tenant's retention
	NextCursor    string                 `json:"next_cursor,omitempty"`    // the export was full: from where to go on
}

func standingOf(t wire.AuditTrailer) auditStanding {
	return auditStanding{Checkpoints: append([]wire.AuditCheckpoint{}, t.Checkpoints...), Gaps: append([]wire.AuditGap{}, t.Gaps...),
		DroppedBefore: t.DroppedBefore, NextCursor: t.NextCursor}
}

// report says what the file has. One that is not everything is a failure.
func (e *auditExport) report(out io.Writer) error {
	t, err := readExport(e.out, nil)
	if err != nil {
		return err
	}
	if e.output == "json" {
		err = printJSON(out, exported{File: e.out, Events: t.Rows, auditStanding: standingOf(t)})
	} else {
		err = printExport(out, e.out, t)
	}
	if err == nil && t.NextCursor != "" {
		err = exitError(exitFailed)
	}
	return err
}

func printExport(out io.Writer, file string, t wire.AuditTrailer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d events, whole.\n", file, t.Rows)
	printCheckpoints(&b, t.Checkpoints)
	printMissing(&b, t)
	if t.NextCursor != "" {
		fmt.Fprintf(&b, "There is more: export again into another file with --cursor %s\n", visible(t.NextCursor))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printMissing says what an export does not know.
func printMissing(out io.Writer, t wire.AuditTrailer) {
	for _, g := range t.Gaps {
		fmt.Fprintln(out, gapText(g))
	}
	if t.DroppedBefore != nil {
		fmt.Fprintf(out, "Events before %s are past the tenant's retention: they are not in it.\n", t.DroppedBefore)
	}
}

func printCheckpoints(out io.Writer, all []wire.AuditCheckpoint) {
	for _, c := range all {
		fmt.Fprintf(out, "  %s: %d rows, root %s\n", visible(c.Log), c.Rows, visible(c.Root))
	}
}
