package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/review"
)

// exitDiffers is the exit code for a file that says something else than what is signed.
const exitDiffers = 4

func newClassDiff() *cobra.Command {
	var o clientOptions
	diff := &cobra.Command{
		Use:   "diff FILES…",
		Short: "What class files would change, field by field, and what that means",
		Long: `What class files would change in what was signed last, field by field, and what that means when things break.
Exits 0 when nothing would change, 4 when something would, 1 when a file is refused.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			return diffClasses(c.Context(), o, c.OutOrStdout(), c.InOrStdin(), files)
		},
	}
	o.flags(diff, true)
	return diff
}

// difference is how one file stands against what was signed last.
type difference struct {
	File        string           `json:"file"`
	Class       string           `json:"class"`
	Version     uint64           `json:"version"` // signed last; 0: none
	State       wire.ClassState  `json:"state"`
	Same        bool             `json:"same"`
	Changes     []review.Change  `json:"changes"`      // none where nothing was signed yet
	Claim       []string         `json:"claim"`        // what the class guarantees, where nothing was signed yet
	NewWarnings []review.Finding `json:"new_warnings"` // of the file, and not of what was signed last
}

func diffClasses(ctx context.Context, o clientOptions, out io.Writer, in io.Reader, files []string) error {
	api, err := o.client()
	if err != nil {
		return err
	}
	inputs, err := readClassInputs(in, files)
	if err != nil {
		return err
	}
	if found := findingsOf(inputs); found.Err() != nil {
		return errors.Join(printFindings(out, found, o.output), exitError(exitFailed))
	}
	all := []difference{}
	for _, input := range inputs {
		d, err := differ(ctx, api, input)
		if err != nil {
			return fmt.Errorf("compare %s: %w", input.name, err)
		}
		all = append(all, d)
	}
	if err := printDifferences(out, all, o.json()); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(d difference) bool { return !d.Same }) {
		return exitError(exitDiffers)
	}
	return nil
}

// differ holds a file against what was signed last.
func differ(ctx context.Context, api *apiClient, in classInput) (difference, error) {
	now := in.file.Posture()
	d := difference{File: in.name, Class: string(in.file.Class), Changes: []review.Change{}, Claim: []string{},
		NewWarnings: []review.Finding{}}
	c, err := getClass(ctx, api, d.Class)
	if p, decided := errors.AsType[*wire.Problem](err); decided && p.Code == wire.CodeNotFound {
		c, err = wire.Class{State: wire.ClassUnknown}, nil
	}
	if err != nil {
		return d, err
	}
	d.Version, d.State = c.SignedVersion, c.State
	if c.SignedVersion == 0 {
		d.Claim, d.NewWarnings = claimLines(now), append(d.NewWarnings, in.found.Warnings()...)
		return d, nil
	}
	old, err := review.ParseStatement(c.Posture)
	if err != nil {
		return d, err
	}
	d.Changes = append(d.Changes, review.Changes(old, now)...)
	d.Same = len(d.Changes) == 0 && c.State != wire.ClassRetired
	d.NewWarnings = append(d.NewWarnings, newWarnings(old, in)...)
	return d, nil
}

// newWarnings are the file's that the posture signed last does not have.
func newWarnings(old review.Posture, in classInput) review.Findings {
	before := review.WarningRules(old, review.Options{})
	return slices.DeleteFunc(in.found.Warnings(), func(f review.Finding) bool { return slices.Contains(before, f.Rule) })
}

// claimLines are the guarantees of a posture, in the words of their table.
func claimLines(p review.Posture) []string {
	c := review.ClaimFor(p.Purpose, p.Enforcement)
	return []string{"the claim: " + c.Sentence, "holder pauses: " + c.HolderPauses, "renewal fails: " + c.RenewalFails,
		"quorum lost: " + c.QuorumLost, "after recovery: " + c.AfterRecovery}
}

func printDifferences(out io.Writer, all []difference, asJSON bool) error {
	if asJSON {
		return printJSON(out, map[string]any{"files": all})
	}
	for _, d := range all {
		for _, line := range d.lines() {
			if _, err := fmt.Fprintln(out, visible(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lines tell a difference to people.
func (d difference) lines() []string {
	var lines []string
	switch head := d.File + ": " + d.Class + ": "; {
	case d.Same:
		return append(lines, fmt.Sprintf("%sthe same as version %d", head, d.Version))
	case d.Version == 0:
		lines = append(lines, head+"no version was signed yet, so that all of it is new")
	case d.State == wire.ClassRetired:
		lines = append(lines, fmt.Sprintf("%sretired with version %d; this would bring it back", head, d.Version))
	default:
		lines = append(lines, fmt.Sprintf("%sdiffers from version %d", head, d.Version))
	}
	for _, text := range d.Claim {
		lines = append(lines, "  "+text)
	}
	for _, c := range d.Changes {
		lines = append(lines, fmt.Sprintf("  %s: %s → %s", c.Field, orNone(c.Old), orNone(c.New)))
		for _, m := range c.Meaning {
			lines = append(lines, "    "+m)
		}
	}
	for _, f := range d.NewWarnings {
		lines = append(lines, fmt.Sprintf("  to be ticked by who signs: %s: %s; %s", f.Rule, f.Message, f.Remedy))
	}
	return lines
}

// orNone stands for a field that is not in the file.
func orNone(text string) string {
	if text == "" {
		return "(none)"
	}
	return text
}
