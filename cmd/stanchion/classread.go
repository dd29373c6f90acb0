package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

func newClassList() *cobra.Command {
	var o clientOptions
	list := &cobra.Command{
		Use:   "list",
		Short: "The tenant's classes, and where each stands",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := o.client()
			if err != nil {
				return err
			}
			classes, err := allClasses(c.Context(), api)
			switch {
			case err != nil:
				return fmt.Errorf("list classes: %w", err)
			case o.json():
				return printJSON(c.OutOrStdout(), wire.ClassList{Classes: classes})
			}
			return printClasses(c.OutOrStdout(), classes)
		},
	}
	o.flags(list, true)
	return list
}

// allClasses reads page after page: a tenant has a bounded number of classes.
func allClasses(ctx context.Context, api *apiClient) ([]wire.Class, error) {
	all := []wire.Class{}
	err := readPages(ctx, api, "/v1/classes", url.Values{"limit": {strconv.Itoa(listPageMax)}}, func(page wire.ClassList) (string, error) {
		all = append(all, page.Classes...)
		return page.NextCursor, nil
	})
	return all, err
}

func printClasses(out io.Writer, classes []wire.Class) error {
	t := newTable(out, "CLASS", "STATE", "PURPOSE", "OWNER", "IN FORCE", "IN REVIEW")
	for _, c := range classes {
		t.row(c.Class, c.State, orDash(c.Purpose), orDash(c.Owner), versionOrDash(c.InForceVersion), orDash(versions(c.InReview)))
	}
	return t.end()
}

func newClassShow() *cobra.Command {
	var o clientOptions
	var version uint64
	show := &cobra.Command{
		Use:   "show CLASS",
		Short: "A class, or one version of it with its signatures",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := o.client()
			if err != nil {
				return err
			}
			if version != 0 {
				return showVersion(c.Context(), api, c.OutOrStdout(), args[0], version, o.json())
			}
			return showClass(c.Context(), api, c.OutOrStdout(), args[0], o.json())
		},
	}
	o.flags(show, true)
	show.Flags().Uint64Var(&version, "version", 0, "show this version; by default the class")
	return show
}

func showClass(ctx context.Context, api *apiClient, out io.Writer, class string, asJSON bool) error {
	c, err := getClass(ctx, api, class)
	switch {
	case err != nil:
		return fmt.Errorf("look at class %s: %w", class, err)
	case asJSON:
		return printJSON(out, c)
	}
	rows := [][2]string{{"class", c.Class}, {"state", string(c.State)}, {"purpose", orDash(c.Purpose)}, {"owner", orDash(c.Owner)},
		{"in force", versionOrDash(c.InForceVersion)}, {"signed last", versionOrDash(c.SignedVersion)},
		{"in review", orDash(versions(c.InReview))}}
	if c.Claim != nil {
		rows = append(rows, [2]string{"claim", c.Claim.Text})
	}
	for _, n := range c.Nodes {
		said := versionOrDash(n.InForceVersion)
		if !n.Answered {
			said = "does not answer"
		}
		rows = append(rows, [2]string{"in force on " + n.Node, said})
	}
	return printRows(out, rows)
}

func showVersion(ctx context.Context, api *apiClient, out io.Writer, class string, number uint64, asJSON bool) error {
	v, err := getVersion(ctx, api, class, number, 0)
	switch {
	case err != nil:
		return err
	case asJSON:
		return printJSON(out, v)
	}
	state := string(v.State)
	if v.Stale {
		state += ", on a base that was replaced"
	}
	rows := [][2]string{{"class", v.Class}, {"version", strconv.FormatUint(v.Version, 10)}, {"state", state}, {"digest", v.Digest},
		{"replaces", versionOrDash(v.BaseVersion)}, {"declared by", declarer(v)}, {"declared at", v.DeclaredAt.Format(time.RFC3339)},
		{"source", orDash(strings.Join(strings.Fields(v.Source.Repo+" "+v.Source.Commit+" "+v.Source.URL), " "))},
		{"warnings", orDash(strings.Join(v.Warnings, ", "))}}
	for _, s := range v.Signatures {
		said := fmt.Sprintf("%s for %s at %s", s.Signer, signers(s.Groups), s.SignedAt.Format(time.RFC3339))
		rows = append(rows, [2]string{"signed by", said})
	}
	if len(v.MissingSignatures) > 0 && v.State == wire.VersionInReview {
		rows = append(rows, [2]string{"to be signed by", signers(v.MissingSignatures)})
	}
	if len(v.ConflictsWith) > 0 {
		rows = append(rows, [2]string{"conflicts with", "version " + versions(v.ConflictsWith)})
	}
	if v.Decision != nil {
		rows = append(rows, [2]string{"decision", decisionOf(v.Version, v.State, v.Decision)})
	}
	if err := printRows(out, rows); err != nil {
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(v.File) {
		b.WriteString(visible(strings.TrimRight(line, "\r\n")) + "\n")
	}
	_, err = fmt.Fprintf(out, "\n%s", b.String())
	return err
}

func declarer(v wire.ClassVersion) string {
	if v.APIKey != "" {
		return fmt.Sprintf("API key %s (%s)", v.APIKey, v.DeclaredBy)
	}
	return v.DeclaredBy
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func versionOrDash(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}

func versions(numbers []uint64) string {
	texts := make([]string, 0, len(numbers))
	for _, n := range numbers {
		texts = append(texts, strconv.FormatUint(n, 10))
	}
	return strings.Join(texts, ", ")
}

func newClassRetire() *cobra.Command {
	var o clientOptions
	var reason string
	retire := &cobra.Command{
		Use:   "retire CLASS",
		Short: "End a class: it grants nothing any more, and what is held under it is ended",
		Long: `End a class: it grants nothing any more, and what is held or waited for under it is ended as by a force-release.
The name keeps its purpose; a later version that is signed brings the class back.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return fmt.Errorf("%w: --reason is missing: say, for those who look at it later, why the class ends", errUsage)
			}
			api, err := o.client()
			if err != nil {
				return err
			}
			var r wire.ClassRetirement
			_, err = api.call(c.Context(), apiRequest{method: http.MethodDelete, path: classPath(args[0]),
				body: wire.RetireClassRequest{Reason: reason}}, &r)
			switch {
			case err != nil:
				return fmt.Errorf("retire class %s: %w", args[0], err)
			case o.json():
				return printJSON(c.OutOrStdout(), r)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: retired with version %d\n", r.Class, r.Version)
			return err
		},
	}
	o.flags(retire, true)
	retire.Flags().StringVar(&reason, "reason", "", "why, for people (required)")
	return retire
}
