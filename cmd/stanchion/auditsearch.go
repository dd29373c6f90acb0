package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

const auditPath = "/v1/audit"

// auditSearch are the flags of `stanchion audit search`.
type auditSearch struct {
	client  clientOptions
	filters auditFilters
	order   string
	output  string
	limit   int
	all     bool
}

func newAuditSearch() *cobra.Command {
	s := new(auditSearch)
	search := &cobra.Command{
		Use:   "search",
		Short: "Events that match, newest first",
		Long: `Events that match, newest first unless --order says otherwise. Times are UTC.
The table shows what people look for; ndjson, csv and json have every field. What the answering node's copy is complete
to, and what it misses, is said on standard error with the table, and in the answer itself otherwise.
With --all every event that matches is shown, not only the first page; an answer in ndjson or csv ends at a million events
with a cursor to go on from.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	s.client.flags(search, false)
	s.filters.flags(search)
	choiceFlag(search, &s.order, "order", "desc, or asc: oldest first", "desc", "asc")
	outputFlag(search, &s.output, "ndjson", "csv")
	search.Flags().IntVar(&s.limit, "limit", 100, "events of a page, 1 to 1000")
	search.Flags().BoolVar(&s.all, "all", false, "every event, not only the first page")
	return search
}

func (s *auditSearch) run(ctx context.Context, out, notes io.Writer) error {
	query := s.filters.query()
	query.Set("order", s.order)
	if !s.all || s.output == "table" {
		query.Set("limit", strconv.Itoa(s.limit))
	}
	request := apiRequest{method: http.MethodGet, path: auditPath, query: query}
	if s.output == "json" && s.all {
		return fmt.Errorf("%w: --all is not for --output json, which is one page: take ndjson", errUsage)
	}
	client, err := s.client.client()
	if err != nil {
		return err
	}
	if s.output == "table" {
		return s.table(ctx, client, query, out, notes)
	}
	query.Set("format", s.output)
	return passThrough(ctx, client, request, s.output, out)
}

// passThrough prints an answer as it comes. One that was cut off is an error.
func passThrough(ctx context.Context, client *apiClient, request apiRequest, output string, out io.Writer) error {
	res, err := client.send(ctx, request)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	end := &lastLine{}
	if _, err := io.Copy(io.MultiWriter(out, end), res.Body); err != nil {
		return fmt.Errorf("the answer broke off: %w", err)
	}
	if output == "json" || end.has(`{"trailer":`) || end.has("trailer,") {
		return nil
	}
	return errors.New("the answer broke off: it has no trailer")
}

// lastLine keeps the beginning of the last line that was written to it.
type lastLine struct {
	line []byte
	over bool
}

const lastLineKept = 64

func (l *lastLine) Write(p []byte) (int, error) {
	for _, b := range p {
		if l.over {
			l.line, l.over = l.line[:0], false
		}
		l.over = b == '\n'
		if len(l.line) < lastLineKept {
			l.line = append(l.line, b)
		}
	}
	return len(p), nil
}

func (l *lastLine) has(prefix string) bool {
	return l.over && strings.HasPrefix(string(l.line), prefix)
}

// table prints pages for people.
func (s *auditSearch) table(ctx context.Context, client *apiClient, query url.Values, out, notes io.Writer) error {
	first := true
	return readPages(ctx, client, auditPath, query, func(page wire.AuditPage) (string, error) {
		if err := printEvents(out, page.Events, first); err != nil {
			return "", err
		}
		first = false
		if page.NextCursor == "" || !s.all && len(page.Events) > 0 {
			return "", printStanding(notes, page)
		}
		query.Del("index")
		return page.NextCursor, nil
	})
}

func printEvents(out io.Writer, events []wire.AuditEvent, heading bool) error {
	var headings []string
	if heading {
		headings = []string{"AT (UTC)", "KIND", "TENANT", "CLASS", "KEY", "TOKEN", "HOLDER", "WHAT ELSE", "POSITION"}
	}
	t := newTable(out, headings...)
	for _, e := range events {
		token := ""
		if e.Token != 0 {
			token = strconv.FormatUint(e.Token, 10)
		}
		t.row(strings.TrimSuffix(strings.Replace(e.At.String(), "T", " ", 1), "Z"), e.Kind, e.Tenant, e.Class, escaped(shown(e.Key)), token,
			escaped(shown(e.Holder)), escaped(whatElse(e)), e.Position)
	}
	return t.end()
}

// shown is foreign text in a table; no text stays none.
func shown(text string) string {
	if text == "" {
		return ""
	}
	return wire.Shown(text)
}

// whatElse is the rest of an event in a few words.
func whatElse(e wire.AuditEvent) string {
	var facts []string
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, name+value)
		}
	}
	if e.Reason != e.Kind { // an end by expiry is of the kind expired, and for that reason
		add("", visible(e.Reason))
	}
	if e.Unprotected {
		add("", "unprotected")
	}
	if e.Count != 0 {
		add("count ", strconv.FormatUint(e.Count, 10))
	}
	if e.Version != 0 {
		add("version ", strconv.FormatUint(e.Version, 10))
	}
	add("by ", shown(e.By))
	add("note: ", shown(e.Note))
	add("", visible(e.Detail))
	add("API key ", visible(e.APIKey))
	if e.Erased {
		add("", "content erased")
	}
	return strings.Join(facts, ", ")
}

// printStanding says what an answer is worth.
func printStanding(notes io.Writer, page wire.AuditPage) error {
	var b strings.Builder
	b.WriteString("Complete to entry")
	for i, log := range slices.Sorted(maps.Keys(page.CompleteTo)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %d of %s", page.CompleteTo[log], visible(log))
	}
	b.WriteString(".\n")
	for _, g := range page.Gaps {
		fmt.Fprintf(&b, "%s\n", gapText(g))
	}
	if page.DroppedBefore != nil {
		fmt.Fprintf(&b, "Events before %s are past the tenant's retention.\n", page.DroppedBefore)
	}
	if page.NextCursor != "" {
		fmt.Fprintf(&b, "There is more: --all, or --cursor %s\n", visible(page.NextCursor))
	}
	_, err := io.WriteString(notes, b.String())
	return err
}

// gapText says what an answer does not know.
func gapText(g wire.AuditGap) string {
	fate := "lost: no node has them"
	if g.Recoverable {
		fate = "another node may have them; ask again later"
	}
	return fmt.Sprintf("MISSING here: entries %d to %d of %s (%s; %s).", g.From, g.To, visible(g.Log), visible(g.Why), fate)
}
