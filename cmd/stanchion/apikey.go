package main

import (
	"cmp"
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

func newAPIKey() *cobra.Command {
	key := &cobra.Command{
		Use:   "api-key",
		Short: "API keys: make, rotate and end them",
		Long: `API keys of one's own tenant, for an API key of scope tenant:admin. An operator, with platform:operator, names a tenant
with --tenant, or deals with the platform's own without it. Any API key may show and rotate itself, under the name "self".`,
	}
	key.AddCommand(newAPIKeyCreate(), newAPIKeyList(), newAPIKeyShow(), newAPIKeyRotate(), newAPIKeyRevoke(), newAPIKeyEndOverlap())
	return key
}

// keyOptions are the flags of all commands about API keys.
type keyOptions struct {
	clientOptions
	tenant string
}

func (o *keyOptions) flags(c *cobra.Command) {
	o.clientOptions.flags(c, true)
	c.Flags().StringVar(&o.tenant, "tenant", "", "for operators: the tenant whose API keys are meant")
}

// path is the address of the API keys, or of one.
func (o *keyOptions) path(parts ...string) string {
	path := "/v1"
	if o.tenant != "" {
		path = tenantPath(o.tenant)
	}
	for _, part := range append([]string{"api-keys"}, parts...) {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// life is a duration as people give it for an API key: "90d", or any that the API takes.
type life string

func (l life) duration() (wire.Duration, error) {
	const dayHours, daysMax = 24, 10_000
	if days, ok := strings.CutSuffix(string(l), "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > daysMax || strconv.Itoa(n) != days {
			return 0, fmt.Errorf("%q is no number of days such as 90d", l)
		}
		return wire.Duration(time.Duration(n) * dayHours * time.Hour), nil
	}
	d, err := wire.ParseDuration(string(l))
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration such as 90d, 720h or 30m", l)
	}
	return d, nil
}

func durationFlag(name, value string) (wire.Duration, error) {
	d, err := life(value).duration()
	if err != nil {
		return 0, fmt.Errorf("%w: --%s: %w", errUsage, name, err)
	}
	return d, nil
}

func newAPIKeyCreate() *cobra.Command {
	var o keyOptions
	var name, expires, to string
	var scopes []string
	create := &cobra.Command{
		Use:   "create --name NAME --scope SCOPE… --expires-in 90d",
		Short: "Make an API key and print it, this once",
		Long: `Make an API key. Standard output gets the key alone, so that it can be piped; with --to it goes to a new file that only its
owner can read. What is known of it goes to standard error; with --output json everything goes to standard output.

Scopes: locks:PATTERN, classes:declare:PATTERN, audit:read, guard:report, tenant:admin; a pattern is a class name, or its
beginning and a star. An operator's own has platform:operator alone.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case name == "":
				return fmt.Errorf("%w: name it with --name: for what, for whom", errUsage)
			case len(scopes) == 0:
				return fmt.Errorf("%w: give at least one --scope, such as --scope 'locks:ledger-*'", errUsage)
			}
			d, err := durationFlag("expires-in", expires)
			if err != nil {
				return err
			}
			return o.make(c, apiRequest{method: http.MethodPost, path: o.path(), once: true,
				body: wire.APIKeyRequest{Name: name, Scopes: scopes, ExpiresIn: d}}, to)
		},
	}
	create.Flags().StringVar(&name, "name", "", "what it is for, for people (required)")
	create.Flags().StringArrayVar(&scopes, "scope", nil, "what it may do; may be given more than once (required)")
	create.Flags().StringVar(&expires, "expires-in", "90d", "how long it works, such as 90d or 720h; at most 366d")
	create.Flags().StringVar(&to, "to", "", "new file for the key, instead of standard output")
	o.flags(create)
	return create
}

func newAPIKeyRotate() *cobra.Command {
	var o keyOptions
	var expires, overlap, to string
	rotate := &cobra.Command{
		Use:   "rotate ID|self --overlap 24h",
		Short: "Make an API key's successor and print it, this once",
		Long: `Make an API key's successor, with the same name, scopes and sessions. Both work until the overlap ends: give the new one
to the program, then end the overlap with 'stanchion api-key end-overlap ID', or let it run out.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			request := wire.RotationRequest{}
			if expires != "" {
				d, err := durationFlag("expires-in", expires)
				if err != nil {
					return err
				}
				request.ExpiresIn = &d
			}
			both, err := durationFlag("overlap", overlap)
			if err != nil {
				return err
			}
			request.Overlap = &both
			return o.make(c, apiRequest{method: http.MethodPost, path: o.path(args[0], "rotate"), once: true, body: request}, to)
		},
	}
	rotate.Flags().StringVar(&expires, "expires-in", "", "how long the new one works, such as 90d or 720h; at most 366d, and of one that rotates itself at most what it was given (default: what the old one was given)")
	rotate.Flags().StringVar(&overlap, "overlap", "24h", "how long the old one works on; at most 30d")
	rotate.Flags().StringVar(&to, "to", "", "new file for the key, instead of standard output")
	o.flags(rotate)
	return rotate
}

// make makes an API key and hands it out. The file is made first: an API key that cannot be kept is not to be made.
func (o *keyOptions) make(c *cobra.Command, r apiRequest, to string) (err error) {
	client, err := o.client()
	if err != nil {
		return err
	}
	var file *os.File
	kept := false // once the file has the API key it stays, whatever else fails
	if to != "" {
		if file, err = os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return fmt.Errorf("make the file for the API key: %w; choose one that is not there yet", err)
		}
		defer func() {
			if err = errors.Join(err, file.Close()); err != nil && !kept {
				_ = os.Remove(to)
			}
		}()
	}
	var made wire.APIKeyMade
	if _, err := client.call(c.Context(), r, &made); err != nil {
		if outcomeUnknown(err) {
			return fmt.Errorf("%w; it may have been made: look with 'stanchion api-key list', and revoke one whose secret nobody has", err)
		}
		return err
	}
	if file != nil {
		if _, err := fmt.Fprintln(file, made.Secret); err != nil {
			return fmt.Errorf("write the API key: %w; revoke %s, which nobody can use now", err, made.ID)
		}
		made.Secret, kept = "", true
	}
	return o.handOut(c, made)
}

// handOut prints what was made, and its secret unless a file has that.
func (o *keyOptions) handOut(c *cobra.Command, made wire.APIKeyMade) error {
	if o.json() {
		return printJSON(c.OutOrStdout(), made)
	}
	if made.Secret != "" {
		if _, err := fmt.Fprintln(c.OutOrStdout(), made.Secret); err != nil {
			return fmt.Errorf("print the API key: %w; revoke %s, which nobody can use now", err, made.ID)
		}
	}
	if len(made.NotYetOn) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "not known yet on %s; a node that cannot be reached learns of it when it is back\n",
			strings.Join(made.NotYetOn, ", "))
	}
	return printKey(c.ErrOrStderr(), made.APIKey)
}

func newAPIKeyShow() *cobra.Command {
	var o keyOptions
	show := &cobra.Command{
		Use:   "show ID|self",
		Short: "What an API key is and may do",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			var key wire.APIKey
			if _, err := client.call(c.Context(), apiRequest{method: http.MethodGet, path: o.path(args[0])}, &key); err != nil {
				return err
			}
			if o.json() {
				return printJSON(c.OutOrStdout(), key)
			}
			return printKey(c.OutOrStdout(), key)
		},
	}
	o.flags(show)
	return show
}

func newAPIKeyRevoke() *cobra.Command {
	var o keyOptions
	var reason string
	revoke := &cobra.Command{
		Use:   "revoke ID --reason TEXT",
		Short: "End an API key at once, on every node that has applied it",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return fmt.Errorf("%w: say why with --reason; it goes into the audit", errUsage)
			}
			return o.end(c, apiRequest{method: http.MethodPost, path: o.path(args[0], "revoke"), body: wire.ReasonRequest{Reason: reason}})
		},
	}
	revoke.Flags().StringVar(&reason, "reason", "", "why, for the audit (required)")
	o.flags(revoke)
	return revoke
}

func newAPIKeyEndOverlap() *cobra.Command {
	var o keyOptions
	end := &cobra.Command{
		Use:   "end-overlap ID",
		Short: "End a rotated API key before its overlap is over",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.end(c, apiRequest{method: http.MethodPost, path: o.path(args[0], "end-overlap")})
		},
	}
	o.flags(end)
	return end
}

// end ends an API key and says on which nodes it has ended.
func (o *keyOptions) end(c *cobra.Command, r apiRequest) error {
	client, err := o.client()
	if err != nil {
		return err
	}
	var ended wire.APIKeyEnded
	if _, err := client.call(c.Context(), r, &ended); err != nil {
		return err
	}
	if o.json() {
		return printJSON(c.OutOrStdout(), ended)
	}
	fmt.Fprintf(c.OutOrStdout(), "%s %s is %s on %s\n", ended.ID, wire.Shown(ended.Name), ended.State, strings.Join(ended.AppliedOn, ", "))
	if len(ended.NotYetOn) > 0 {
		fmt.Fprintf(c.OutOrStdout(), "not yet on %s: behind, or not to be reached; until it has caught up such a node may still take it\n",
			strings.Join(ended.NotYetOn, ", "))
	}
	return nil
}

func newAPIKeyList() *cobra.Command {
	var o keyOptions
	list := &cobra.Command{
		Use:   "list",
		Short: "API keys in the order in which they were made, ended ones for 30 days and more",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			all, err := allKeys(c.Context(), client, o.path())
			switch {
			case err != nil:
				return err
			case o.json():
				return printJSON(c.OutOrStdout(), all)
			}
			return printKeys(c.OutOrStdout(), all.APIKeys)
		},
	}
	o.flags(list)
	return list
}

func allKeys(ctx context.Context, api *apiClient, path string) (wire.APIKeyList, error) {
	all := wire.APIKeyList{APIKeys: []wire.APIKey{}}
	err := readPages(ctx, api, path, url.Values{"limit": {strconv.Itoa(listPageMax)}}, func(page wire.APIKeyList) (string, error) {
		all.APIKeys, all.CompleteTo = append(all.APIKeys, page.APIKeys...), page.CompleteTo
		return page.NextCursor, nil
	})
	return all, err
}

func printKeys(out io.Writer, keys []wire.APIKey) error {
	t := newTable(out, "ID", "NAME", "STATE", "EXPIRES", "LAST USED", "SCOPES")
	for _, k := range keys {
		t.row(k.ID, k.Name, k.State, shownTime(k.ExpiresAt), shownUse(k.LastUsedAt), strings.Join(k.Scopes, " "))
	}
	return t.end()
}

func shownUse(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return shownTime(*t)
}

func printKey(out io.Writer, k wire.APIKey) error {
	rows := [][2]string{{"api key", k.ID}, {"name", k.Name}, {"of", cmp.Or(k.Tenant, "the platform's operators")}, {"state", string(k.State)},
		{"expires", shownTime(k.ExpiresAt)}, {"last used", shownUse(k.LastUsedAt)}, {"created", shownTime(k.CreatedAt) + " by " + k.CreatedBy}}
	if k.Successor != "" {
		rows = append(rows, [2]string{"successor", k.Successor})
	}
	if k.OverlapEndsAt != nil {
		rows = append(rows, [2]string{"overlap ends", shownTime(*k.OverlapEndsAt)})
	}
	for _, sentence := range k.May {
		rows = append(rows, [2]string{"may", sentence})
	}
	return printRows(out, rows)
}
