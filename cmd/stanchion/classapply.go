package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/review"
)

// exitAwaiting is the exit code for a version that waits for a signature.
const exitAwaiting = 3

// settleTime is how long an apply without --wait gives the partition to follow a signature that is there already.
const settleTime = 10 * time.Second

// classApply is `stanchion class apply`.
type classApply struct {
	options clientOptions
	output  string
	dryRun  bool
	wait    time.Duration
	source  review.Source

	api *apiClient
	in  io.Reader
	out io.Writer
}

func newClassApply() *cobra.Command {
	var a classApply
	apply := &cobra.Command{
		Use:   "apply FILES…",
		Short: "Declare class files, and say what is still to be signed",
		Long: `Declare class files. All of them are checked first; when one is refused, none is declared.
A file that says what is in force, or in review, makes no new version.

Exits 0 when everything is in force, 3 when something waits for a signature, 1 when something was refused, rejected or
withdrawn, 2 on a wrong command line. With --dry-run nothing is changed, and it exits 0 when nothing would be refused.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			a.in, a.out = c.InOrStdin(), c.OutOrStdout()
			return a.run(c.Context(), files)
		},
	}
	a.options.flags(apply, false)
	outputFlag(apply, &a.output, "annotations")
	f := apply.Flags()
	f.BoolVar(&a.dryRun, "dry-run", false, "say what would become of the files, and change nothing")
	f.DurationVar(&a.wait, "wait", 0, "wait so long for everything to be signed and in force")
	f.StringVar(&a.source.Repo, "source-repo", "", "for the reviewer: the repository that the files come from")
	f.StringVar(&a.source.Commit, "source-commit", "", "for the reviewer: the commit")
	f.StringVar(&a.source.URL, "source-url", "", "for the reviewer: where to look at the change, http or https")
	return apply
}

// classInput is a class file on its way to a cluster.
type classInput struct {
	name  string
	data  []byte
	file  review.ClassFile
	found review.Findings
}

// applied is what became of one file.
type applied struct {
	File     string                 `json:"file"`
	Class    string                 `json:"class"`
	Declared *wire.ClassDeclaration `json:"declared,omitempty"`
	Decision *wire.ClassDecision    `json:"decision,omitempty"` // of a rejected or withdrawn version
	Stale    bool                   `json:"stale,omitempty"`    // another version was signed while it waited
	Refused  *wire.Problem          `json:"refused,omitempty"`
}

func (a *classApply) run(ctx context.Context, files []string) error {
	if err := a.check(); err != nil {
		return err
	}
	inputs, err := readClassInputs(a.in, files)
	if err != nil {
		return err
	}
	if refused := findingsOf(inputs); refused.Err() != nil {
		return errors.Join(printFindings(a.out, refused, a.output), exitError(exitFailed))
	}
	if a.api, err = a.options.client(); err != nil {
		return err
	}
	var all []applied
	for _, in := range inputs {
		one, err := a.declare(ctx, in)
		if err != nil {
			return errors.Join(a.print(all), fmt.Errorf("declare %s: %w", in.name, err))
		}
		all = append(all, one)
	}
	if err := a.await(ctx, all); err != nil {
		return errors.Join(a.print(all), err)
	}
	if err := a.print(all); err != nil {
		return err
	}
	return a.exit(all)
}

func (a *classApply) check() error {
	if field, why := a.source.Problem(); field != "" {
		return fmt.Errorf("%w: --source-%s %s", errUsage, field, why)
	}
	if a.wait < 0 || a.dryRun && a.wait > 0 {
		return fmt.Errorf("%w: --wait is a time from now on, and a dry run waits for nothing", errUsage)
	}
	return nil
}

// readClassInputs reads all files. Two of one class are a mistake: the second would only compete with the first.
func readClassInputs(in io.Reader, files []string) ([]classInput, error) {
	var inputs []classInput
	from := map[review.ClassName]string{}
	for _, name := range files {
		data, err := readClassFile(name, in)
		if err != nil {
			return nil, err
		}
		file, found := review.Parse(name, data, review.Options{})
		if other, twice := from[file.Class]; twice && file.Class != "" {
			return nil, fmt.Errorf("%w: %s and %s are of one class, %s", errUsage, other, name, file.Class)
		}
		from[file.Class] = name
		inputs = append(inputs, classInput{name: name, data: data, file: file, found: found})
	}
	return inputs, nil
}

func findingsOf(inputs []classInput) review.Findings {
	var all review.Findings
	for _, in := range inputs {
		all = append(all, in.found...)
	}
	all.Sort()
	return all
}

func (a *classApply) declare(ctx context.Context, in classInput) (applied, error) {
	one := applied{File: in.name, Class: string(in.file.Class)}
	q := url.Values{}
	if a.dryRun {
		q.Set("dry_run", "true")
	}
	source := map[string]string{"source_repo": a.source.Repo, "source_commit": a.source.Commit, "source_url": a.source.URL}
	for name, value := range source {
		if value != "" {
			q.Set(name, value)
		}
	}
	d := new(wire.ClassDeclaration)
	_, err := a.api.call(ctx, apiRequest{method: http.MethodPut, path: classPath(one.Class), query: q, body: in.data,
		contentType: fileTypeOf(in.data)}, d)
	if p, decided := errors.AsType[*wire.Problem](err); decided && p.Status < http.StatusInternalServerError {
		rename(p.Findings, in.name)
		one.Refused = p
		return one, nil
	}
	rename(d.Warnings, in.name)
	one.Declared = d
	return one, err
}

func classPath(class string) string { return "/v1/classes/" + url.PathEscape(class) }

// fileTypeOf is how a class file is sent. One that is JSON is read as JSON, whatever its name.
func fileTypeOf(data []byte) string {
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && text[0] == '{' && json.Valid(data) {
		return "application/json"
	}
	return "application/yaml"
}

// rename gives findings the file's own name, which the server does not know.
func rename(found []wire.FileFinding, name string) {
	for i := range found {
		found[i].File = name
	}
}

// await waits for what is not in force yet, all files together for as long as was asked for.
func (a *classApply) await(ctx context.Context, all []applied) error {
	if a.dryRun {
		return nil
	}
	until := time.Now().Add(a.wait)
	for i := range all {
		d := all[i].Declared
		if d == nil || !d.State.Undecided() || d.State == wire.VersionInReview && a.wait == 0 {
			continue
		}
		late := until
		if d.State == wire.VersionSigned && a.wait == 0 {
			late = time.Now().Add(settleTime)
		}
		v, err := awaitVersion(ctx, a.api, d.Class, d.Version, late)
		if err != nil {
			return err
		}
		d.State, d.MissingSignatures, all[i].Decision, all[i].Stale = v.State, v.MissingSignatures, v.Decision, v.Stale
		if v.State == wire.VersionInForce {
			d.InForceVersion = v.Version
		}
	}
	return nil
}

func (a *classApply) print(all []applied) error {
	if a.output == "json" {
		return printJSON(a.out, map[string]any{"files": append([]applied{}, all...)})
	}
	for _, one := range all {
		if err := a.printFindings(one); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.out, visible(one.String())); err != nil {
			return err
		}
	}
	return nil
}

// printFindings shows what the cluster found in one file.
func (a *classApply) printFindings(one applied) error {
	found := []wire.FileFinding{}
	switch {
	case one.Refused != nil:
		found = one.Refused.Findings
	case one.Declared != nil:
		found = one.Declared.Warnings
	}
	var findings review.Findings
	for _, f := range found {
		findings = append(findings, review.Finding{File: f.File, Line: f.Line, Column: f.Column, Rule: review.RuleID(f.Rule),
			Severity: review.Severity(f.Severity), Message: f.Message, Remedy: f.Remedy})
	}
	return printFindings(a.out, findings, a.output)
}

// String says in one line what became of a file.
func (one applied) String() string {
	head := one.File + ": " + one.Class + ": "
	switch d := one.Declared; {
	case one.Refused != nil:
		return head + "refused: " + one.Refused.Error() + " " + one.Refused.Remedy
	case one.Stale:
		return head + staleWords(d.Version)
	case d.State == wire.VersionInForce && d.Unchanged:
		return fmt.Sprintf("%sunchanged, version %d is in force", head, d.Version)
	case d.DryRun && !d.Unchanged:
		return fmt.Sprintf("%swould be version %d; to be signed by %s", head, d.Version, signers(d.MissingSignatures))
	case d.State == wire.VersionInReview:
		return fmt.Sprintf("%s%s; to be signed by %s%s", head, made(d), signers(d.MissingSignatures), at(d.ReviewURL))
	case d.State == wire.VersionSigned:
		return fmt.Sprintf("%s%s; signed, not in force yet", head, made(d))
	case d.State == wire.VersionInForce:
		return fmt.Sprintf("%s%s; in force", head, made(d))
	}
	return head + decisionOf(one.Declared.Version, one.Declared.State, one.Decision)
}

func made(d *wire.ClassDeclaration) string {
	if d.Unchanged {
		return fmt.Sprintf("unchanged, version %d", d.Version)
	}
	return fmt.Sprintf("declared version %d", d.Version)
}

func signers(groups []string) string { return strings.Join(groups, " and ") }

func at(address string) string {
	if address == "" {
		return ""
	}
	return ": " + address
}

func staleWords(version uint64) string {
	return fmt.Sprintf("version %d cannot be signed any more: its base was replaced; declare it again", version)
}

// decisionOf says how a version ended.
func decisionOf(version uint64, state wire.VersionState, d *wire.ClassDecision) string {
	said := fmt.Sprintf("version %d is %s", version, state)
	if d == nil {
		return said
	}
	if said += " by " + d.By; d.Reason != "" {
		said += ": " + d.Reason
	}
	return said
}

// exit is the exit code for all files together.
func (a *classApply) exit(all []applied) error {
	code := 0
	for _, one := range all {
		switch d := one.Declared; {
		case d == nil, one.Stale, !d.State.Undecided() && d.State != wire.VersionInForce:
			return exitError(exitFailed)
		case d.State.Undecided() && !a.dryRun:
			code = exitAwaiting
		}
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}
