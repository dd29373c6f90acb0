package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// locksOptions say which locks to list.
type locksOptions struct {
	client             clientOptions
	class, key, prefix string
	limit              int
	all                bool
}

func newLocks() *cobra.Command {
	var o locksOptions
	locks := &cobra.Command{
		Use:   "locks",
		Short: "List the locks that are held, waited for, or in their lock delay",
		Long: `List the locks that are held, waited for, or in their lock delay, in order of class and key.
Names that hold anything that a terminal might act on, or that cannot be seen, are shown in quotes and escaped;
--output json gives them as they are. Takes an API key with a scope "locks:…", or with "tenant:admin".`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := o.validate()
			if err != nil {
				return err
			}
			list, err := o.list(c.Context(), api)
			if err != nil {
				return err
			}
			if o.client.json() {
				return printJSON(c.OutOrStdout(), list)
			}
			return o.print(c.OutOrStdout(), c.ErrOrStderr(), list)
		},
	}
	o.client.flags(locks, true)
	locks.Flags().StringVar(&o.class, "class", "", "only this class")
	locks.Flags().StringVar(&o.key, "key", "", "only this key")
	locks.Flags().StringVar(&o.prefix, "prefix", "", "only keys that begin so")
	locks.Flags().IntVar(&o.limit, "limit", 100, "at most so many locks")
	locks.Flags().BoolVar(&o.all, "all", false, "all of them, page by page")
	locks.MarkFlagsMutuallyExclusive("key", "prefix")
	locks.MarkFlagsMutuallyExclusive("limit", "all")
	locks.AddCommand(newForceRelease())
	return locks
}

func (o locksOptions) validate() (*apiClient, error) {
	if o.limit < 1 {
		return nil, fmt.Errorf("%w: --limit %d is not at least 1", errUsage, o.limit)
	}
	return o.client.client()
}

// list gathers pages until there are as many locks as wanted, or no more.
func (o locksOptions) list(ctx context.Context, api *apiClient) (wire.LockList, error) {
	list := wire.LockList{Locks: []wire.Lock{}}
	query := o.query()
	err := readPages(ctx, api, locksPath, query, func(page wire.LockList) (string, error) {
		list.Locks = append(list.Locks, page.Locks...)
		list.NextCursor, list.CompleteTo = page.NextCursor, page.CompleteTo
		if o.all {
			return page.NextCursor, nil
		}
		wanted := o.limit - len(list.Locks)
		if wanted <= 0 {
			return "", nil
		}
		query.Set("limit", strconv.Itoa(min(wanted, listPageMax)))
		return page.NextCursor, nil
	})
	if err != nil {
		return wire.LockList{}, err
	}
	return list, nil
}

const locksPath = "/v1/locks"

// query is the first page's.
func (o locksOptions) query() url.Values {
	limit := listPageMax
	if !o.all {
		limit = min(limit, o.limit)
	}
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, value := range map[string]string{"class": o.class, "key": o.key, "prefix": o.prefix} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// locks reads one page of locks.
func (c *apiClient) locks(ctx context.Context, query url.Values) (wire.LockList, error) {
	var page wire.LockList
	_, err := c.call(ctx, apiRequest{method: http.MethodGet, path: locksPath, query: query}, &page)
	return page, err
}

// print writes the table, and on notes whether there is more.
func (o locksOptions) print(out, notes io.Writer, list wire.LockList) error {
	t := newTable(out, "CLASS", "KEY", "HOLDER", "API KEY", "SINCE", "HEARTBEAT", "TOKEN", "WAITERS", "STATE")
	now := time.Now()
	for _, l := range list.Locks {
		t.row(lockRow(l, now)...)
	}
	if err := t.end(); err != nil {
		return err
	}
	if list.NextCursor != "" {
		fmt.Fprintf(notes, "There are more than these %d: give a larger --limit, or --all.\n", len(list.Locks))
	}
	return nil
}

// lockRow is a lock's cells.
func lockRow(l wire.Lock, now time.Time) []any {
	row := []any{l.Class, quoted(l.Key), "-", "-", "-", "-", l.HighestToken, l.WaitersTotal, "waited for"}
	if l.Delay != nil {
		row[8] = "lock delay of " + l.Delay.Length.String()
	}
	h := l.Holder
	if h == nil {
		return row
	}
	row[2], row[3], row[4] = quoted(h.Label), quoted(h.APIKey), shownTime(h.Since)
	if h.LastHeartbeat != nil {
		row[5] = ago(now.Sub(*h.LastHeartbeat))
	}
	row[6], row[8] = h.Token, "held"
	if h.Ending != "" {
		row[8] = escaped("ending: " + wire.Shown(h.Ending))
	}
	return row
}

// ago is an age as a table shows it; clocks that differ make none negative.
func ago(d time.Duration) string {
	d = max(d, 0)
	if d < time.Minute {
		return wire.Duration(d.Round(100*time.Millisecond)).String() + " ago"
	}
	return d.Round(time.Second).String() + " ago"
}

// forceOptions say which hold to end.
type forceOptions struct {
	client   clientOptions
	token    uint64
	reason   string
	now, yes bool
}

func newForceRelease() *cobra.Command {
	var o forceOptions
	force := &cobra.Command{
		Use:   "force-release CLASS KEY --token N --reason TEXT",
		Short: "End somebody's hold",
		Long: `End the hold that has the given token, and no other: look at it first. The holder is told at its next heartbeat, and
the key is granted again after its release, or when its lease runs out. With --now it is granted at once, which is outside
the promise of mutual exclusion. Neither stops a holder that is paused: only a guard at the resource refuses it.

Asks before it does so, unless --yes is given; without a terminal it does nothing without --yes. Takes an API key with the
scope "tenant:admin". Put -- before a key that begins with a hyphen.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), args[0], args[1], terminalOf(c))
		},
	}
	o.client.flags(force, true)
	force.Flags().Uint64Var(&o.token, "token", 0, "the hold's fencing token, as the list of locks shows it (required)")
	force.Flags().StringVar(&o.reason, "reason", "", "why, for the audit (required)")
	force.Flags().BoolVar(&o.now, "now", false, "do not wait for the holder's release or its lease's end")
	force.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	_ = force.MarkFlagRequired("token")
	_ = force.MarkFlagRequired("reason")
	return force
}

// terminal is where a command speaks with a person.
type terminal struct {
	in      io.Reader
	out     io.Writer // answers
	prompts io.Writer // questions
	person  bool      // somebody is there to answer them
}

// terminalOf is the command's own. Somebody is there if standard input is a character device that is not the null device.
func terminalOf(c *cobra.Command) terminal {
	t := terminal{in: c.InOrStdin(), out: c.OutOrStdout(), prompts: c.ErrOrStderr()}
	if f, ok := t.in.(*os.File); ok {
		in, err := f.Stat()
		null, errNull := os.Stat(os.DevNull)
		t.person = err == nil && in.Mode()&os.ModeCharDevice != 0 && (errNull != nil || !os.SameFile(in, null))
	}
	return t
}

func (o forceOptions) run(ctx context.Context, class, key string, t terminal) error {
	switch {
	case o.token == 0:
		return fmt.Errorf("%w: --token is to be the hold's token, as stanchion locks shows it", errUsage)
	case o.reason == "":
		return fmt.Errorf("%w: --reason is to say why", errUsage)
	case !o.yes && !t.person:
		return fmt.Errorf("%w: nobody is there to ask, as standard input is no terminal; give --yes to end the hold unasked", errUsage)
	}
	api, err := o.client.client()
	if err != nil {
		return err
	}
	if !o.yes {
		if err := o.ask(ctx, api, class, key, t); err != nil {
			return err
		}
	}
	var answer wire.ForceRelease
	_, err = api.call(ctx, apiRequest{method: http.MethodPost, path: locksPath + "/force-release",
		body: wire.ForceReleaseRequest{Class: class, Key: key, Token: o.token, Reason: o.reason, Now: o.now}}, &answer)
	switch {
	case err != nil:
		return err // it does not say that nothing was done: the hold may be over by a first call whose answer was lost
	case o.client.json():
		return printJSON(t.out, answer)
	}
	_, err = fmt.Fprintf(t.out, "The hold of %s/%s with token %d: %s. %s\n", answer.Class, wire.Shown(answer.Key), answer.Token,
		answer.State, answer.What)
	return err
}

// errNotEnded says that the hold was left as it was.
var errNotEnded = errors.New("nothing was done")

// ask shows whose hold it is and has a person say yes.
func (o forceOptions) ask(ctx context.Context, api *apiClient, class, key string, t terminal) error {
	page, err := api.locks(ctx, url.Values{"class": {class}, "key": {key}})
	if err != nil {
		return fmt.Errorf("look at the lock: %w", err)
	}
	if len(page.Locks) == 0 || page.Locks[0].Holder == nil {
		return fmt.Errorf("%w: nobody holds %s/%s", errNotEnded, class, wire.Shown(key))
	}
	h := page.Locks[0].Holder
	if h.Token != o.token {
		return fmt.Errorf("%w: %s/%s is held by %s with token %d, not %d", errNotEnded, class, wire.Shown(key),
			wire.Shown(h.Label), h.Token, o.token)
	}
	how := "the key is granted again after its release, or when its lease runs out"
	if o.now {
		how = "the key is granted again AT ONCE, while it may still be at work"
	}
	fmt.Fprintf(t.prompts, "%s/%s is held by %s (API key %s) with token %d since %s.\nEnd this hold? %s. Type yes: ",
		class, wire.Shown(key), wire.Shown(h.Label), wire.Shown(h.APIKey), h.Token, h.Since.UTC().Format(time.RFC3339), sentence(how))
	const answerBytesMax = 100
	said, err := bufio.NewReader(io.LimitReader(t.in, answerBytesMax)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(said) != "yes" {
		return errNotEnded
	}
	return nil
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
