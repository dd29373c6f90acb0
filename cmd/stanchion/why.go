package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

func newWhy() *cobra.Command {
	var o clientOptions
	why := &cobra.Command{
		Use:   "why CLASS KEY",
		Short: "Say why somebody does not get a lock, and what to do",
		Long: `Say why somebody does not get a lock, and what to do: the causes, the most decisive first, and what they were drawn from.
Works without a quorum as well: then any node answers what it knows, and says so. Takes an API key with a scope "locks:…"
for the class, or with "tenant:admin". Put -- before a key that begins with a hyphen.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := o.client()
			if err != nil {
				return err
			}
			var w wire.Why
			_, err = api.call(c.Context(), apiRequest{method: http.MethodGet, path: "/v1/locks/why",
				query: url.Values{"class": {args[0]}, "key": {args[1]}}}, &w)
			switch {
			case err != nil:
				return err
			case o.json():
				return printJSON(c.OutOrStdout(), w)
			}
			return printWhy(c.OutOrStdout(), w)
		},
	}
	o.flags(why, true)
	return why
}

// printWhy writes the answer for people.
func printWhy(out io.Writer, w wire.Why) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s\n\n", w.Class, wire.Shown(w.Key))
	for i, f := range w.Findings {
		fmt.Fprintf(&b, "%d. %s [%s]\n   %s\n", i+1, printable(f.Text), f.Code, printable(f.Next))
	}
	b.WriteString("\n")
	t := newTable(&b)
	for _, row := range whyRows(w) {
		t.row(escaped(row[0]), escaped(row[1])) // what is somebody else's in it was quoted
	}
	if err := t.end(); err != nil {
		return err
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printable is text of a node's own, which quotes what it repeats; should it not, nothing of it acts on a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, text)
}

func whyRows(w wire.Why) [][2]string {
	p := w.Posture
	rows := [][2]string{{"class", string(p.State) + postureWords(p)}}
	for _, open := range p.InReview {
		rows = append(rows, [2]string{"in review", fmt.Sprintf("version %d, %s", open.Version, reviewWords(open))})
	}
	if p.Guard != nil {
		rows = append(rows, [2]string{"guard", fmt.Sprintf("%d checks, %d refused; last report %s", p.Guard.Checks, p.Guard.Rejections,
			p.Guard.Last.UTC().Format(time.RFC3339))})
	}
	rows = append(rows, holderRows(w)...)
	for _, waiter := range w.Waiters {
		limit := "without limit"
		if waiter.MaxWait != nil {
			limit = "at most " + waiter.MaxWait.String()
		}
		rows = append(rows, [2]string{fmt.Sprintf("waiter %d", waiter.Position), fmt.Sprintf("%s (API key %s), for %s, %s",
			wire.Shown(waiter.Label), wire.Shown(waiter.APIKey), waiter.Waited, limit)})
	}
	if more := w.Waiting - len(w.Waiters); more > 0 {
		rows = append(rows, [2]string{"", fmt.Sprintf("and %d more", more)})
	}
	if w.Delay != nil {
		rows = append(rows, [2]string{"lock delay", fmt.Sprintf("%s after token %d, over within %s", w.Delay.Length,
			w.Delay.Token, w.Delay.EndsWithin)})
	}
	for _, q := range w.Quotas {
		rows = append(rows, [2]string{"quota of " + q.Quota, fmt.Sprintf("%d of %d", q.InUse, q.Limit)})
	}
	return append(rows, partitionRows(w)...)
}

func postureWords(p wire.WhyClass) string {
	if p.Version == 0 {
		return ""
	}
	words := fmt.Sprintf(", version %d: %s, %s, quorum loss %s; lease %s, heartbeat %s", p.Version, p.Purpose, p.Enforcement,
		p.QuorumLoss, p.Lease, p.Heartbeat)
	if p.LockDelay > 0 {
		words += ", lock delay " + p.LockDelay.String()
	}
	if p.MaxHold > 0 {
		words += ", max hold " + p.MaxHold.String()
	}
	switch {
	case p.WaitMode != "queue":
		return words + "; does not queue"
	case p.MaxWait == 0:
		return words + fmt.Sprintf("; queues without limit, at most %d", p.MaxWaiters)
	}
	return words + fmt.Sprintf("; queues for at most %s, at most %d", p.MaxWait, p.MaxWaiters)
}

func reviewWords(r wire.InReview) string {
	if r.Stale {
		return "on a base that has been replaced: to be declared again"
	}
	shown := make([]string, 0, len(r.Missing))
	for _, g := range r.Missing {
		shown = append(shown, wire.Shown(g))
	}
	return "awaits the signature of " + strings.Join(shown, " and ")
}

func holderRows(w wire.Why) [][2]string {
	h := w.Holder
	if h == nil {
		return [][2]string{{"holder", "nobody"}}
	}
	rows := [][2]string{
		{"holder", fmt.Sprintf("%s (API key %s), token %d, since %s", wire.Shown(h.Label), wire.Shown(h.APIKey), h.Token,
			h.Since.UTC().Format(time.RFC3339))},
		{"lease", fmt.Sprintf("%s, granted under version %d in epoch %d", h.Lease, h.PostureVersion, h.Epoch)},
	}
	if h.HeartbeatAge != nil {
		rows = append(rows, [2]string{"heartbeat", fmt.Sprintf("%s ago, due every %s", h.HeartbeatAge, h.Heartbeat)})
	}
	if h.ExpiresWithin != nil {
		rows = append(rows, [2]string{"expires", "within " + h.ExpiresWithin.String() + ", unless it is heard of again"})
	}
	if h.Ending != "" {
		rows = append(rows, [2]string{"ending", wire.Shown(h.Ending)})
	}
	return rows
}

func partitionRows(w wire.Why) [][2]string {
	p := w.Partition
	leader := "no leader known"
	if p.Leader != "" {
		leader = "led by " + p.Leader
	}
	quorum := "confirmed by a majority"
	if !p.Quorum {
		quorum = "NOT confirmed by a majority"
	}
	voters := make([]string, 0, len(p.Voters))
	for _, v := range p.Voters {
		state := "answers"
		if !v.Answered {
			state = "does not answer"
		}
		voters = append(voters, v.Node+" "+state)
	}
	return [][2]string{
		{"partition", fmt.Sprintf("%s, epoch %d; answered by %s, %s, up to log entry %d", leader, p.Epoch, p.Node, quorum, w.Index)},
		{"voters", strings.Join(voters, ", ")},
	}
}
