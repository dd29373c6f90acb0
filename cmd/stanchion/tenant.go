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

func newTenant() *cobra.Command {
	tenant := &cobra.Command{
		Use:   "tenant",
		Short: "Tenants of the platform, for its operators",
		Long:  "Tenants of the platform. All of these commands need an operator's API key, of scope platform:operator.",
	}
	tenant.AddCommand(newTenantCreate(), newTenantList(), newTenantShow(), newTenantUpdate(),
		newTenantReason("suspend", "Take no new leases of a tenant; what it holds goes on, and its API keys work", http.MethodPost, "/suspend", true),
		newTenantReason("resume", "End a tenant's suspension", http.MethodPost, "/resume", false),
		newTenantReason("drop", "Drop a tenant: its API keys end at once, its leases as a force-release ends them", http.MethodDelete, "", true))
	return tenant
}

// tenantFlags are the flags that say what a tenant is.
type tenantFlags struct {
	groups []string
	quotas wire.Quotas
}

func (f *tenantFlags) flags(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.groups, "owner-group", nil, "group whose people sign the tenant's classes; may be given more than once")
	for _, q := range []struct {
		name, use string
		value     *int
	}{
		{"keys", "lock keys at once", &f.quotas.Keys}, {"leases", "leases at once", &f.quotas.Leases},
		{"waiters", "waiting requests at once", &f.quotas.Waiters}, {"sessions", "sessions at once", &f.quotas.Sessions},
		{"requests-per-second", "requests per second, over all nodes", &f.quotas.RequestsPerSecond},
		{"audit-retention-days", "days for which the audit keeps its bodies", &f.quotas.AuditRetentionDays},
	} {
		c.Flags().IntVar(q.value, "quota-"+q.name, 0, "quota: "+q.use+" (default: as the platform has it, or as it was)")
	}
}

// request is the body; a quota that was given is at least 1, so that a zero that was given is told apart from none.
func (f *tenantFlags) request(c *cobra.Command, slug string) (wire.TenantRequest, error) {
	r := wire.TenantRequest{Tenant: slug, OwnerGroups: f.groups}
	if f.quotas != (wire.Quotas{}) {
		r.Quotas = &f.quotas
	}
	for name, value := range map[string]int{"keys": f.quotas.Keys, "leases": f.quotas.Leases, "waiters": f.quotas.Waiters,
		"sessions": f.quotas.Sessions, "requests-per-second": f.quotas.RequestsPerSecond, "audit-retention-days": f.quotas.AuditRetentionDays} {
		if c.Flags().Changed("quota-"+name) && value < 1 {
			return r, fmt.Errorf("%w: --quota-%s %d is not 1 or more", errUsage, name, value)
		}
	}
	return r, nil
}

func newTenantCreate() *cobra.Command {
	var o clientOptions
	var f tenantFlags
	create := &cobra.Command{
		Use:   "create TENANT --owner-group GROUP…",
		Short: "Make a tenant, or make a dropped one again",
		Long: `Make a tenant. Its partition is chosen for it. The same again changes nothing.
A dropped tenant can be made again when its state is "dropped": without API keys, with its classes retired, and with
fencing tokens above all that were ever issued under its name.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			body, err := f.request(c, args[0])
			switch {
			case err != nil:
				return err
			case len(f.groups) == 0:
				return fmt.Errorf("%w: name at least one --owner-group: nobody else can put the tenant's classes in force", errUsage)
			}
			return o.tenant(c, apiRequest{method: http.MethodPost, path: "/v1/tenants", body: body})
		},
	}
	f.flags(create)
	o.flags(create, true)
	return create
}

func newTenantUpdate() *cobra.Command {
	var o clientOptions
	var f tenantFlags
	update := &cobra.Command{
		Use:   "update TENANT",
		Short: "Change a tenant's owner groups or quotas; what is not named stays",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			body, err := f.request(c, "")
			switch {
			case err != nil:
				return err
			case body.Quotas == nil && len(f.groups) == 0:
				return fmt.Errorf("%w: nothing to change: give --owner-group (all of them) or a --quota-…", errUsage)
			}
			return o.tenant(c, apiRequest{method: http.MethodPatch, path: tenantPath(args[0]), body: body})
		},
	}
	f.flags(update)
	o.flags(update, true)
	return update
}

func newTenantShow() *cobra.Command {
	var o clientOptions
	show := &cobra.Command{
		Use:   "show TENANT",
		Short: "A tenant, its quotas and what it uses of them",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.tenant(c, apiRequest{method: http.MethodGet, path: tenantPath(args[0])})
		},
	}
	o.flags(show, true)
	return show
}

func newTenantReason(name, short, method, path string, needed bool) *cobra.Command {
	var o clientOptions
	var reason string
	change := &cobra.Command{
		Use:   name + " TENANT --reason TEXT",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r := apiRequest{method: method, path: tenantPath(args[0]) + path}
			if reason != "" {
				r.body = wire.ReasonRequest{Reason: reason}
			} else if needed {
				return fmt.Errorf("%w: say why with --reason; it goes into the audit", errUsage)
			}
			return o.tenant(c, r)
		},
	}
	change.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	o.flags(change, true)
	return change
}

func tenantPath(slug string) string { return "/v1/tenants/" + url.PathEscape(slug) }

// tenant makes a call that a tenant answers, and prints that.
func (o *clientOptions) tenant(c *cobra.Command, r apiRequest) error {
	client, err := o.client()
	if err != nil {
		return err
	}
	var t wire.Tenant
	if _, err := client.call(c.Context(), r, &t); err != nil {
		return err
	}
	if o.json() {
		return printJSON(c.OutOrStdout(), t)
	}
	return printTenant(c.OutOrStdout(), t)
}

func printTenant(out io.Writer, t wire.Tenant) error {
	use := func(f func(wire.TenantUse) int) string {
		if t.Use == nil {
			return "-"
		}
		return strconv.Itoa(f(*t.Use))
	}
	rows := [][2]string{{"tenant", t.Tenant}, {"state", string(t.State)}, {"owner groups", strings.Join(t.OwnerGroups, ", ")},
		{"partition", strconv.Itoa(int(t.Partition))}, {"token base", strconv.FormatUint(t.TokenBase, 10)}}
	if t.EarlierLives > 0 {
		rows = append(rows, [2]string{"made again", fmt.Sprintf("%d times", t.EarlierLives)})
	}
	rows = append(rows, [2]string{"created", shownTime(t.CreatedAt)}, [2]string{"changed", shownTime(t.ChangedAt)})
	if err := printRows(out, rows); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	w := newTable(out, "QUOTA", "IN USE", "LIMIT")
	w.row("keys", use(func(u wire.TenantUse) int { return u.Keys }), t.Quotas.Keys)
	w.row("leases", use(func(u wire.TenantUse) int { return u.Leases }), t.Quotas.Leases)
	w.row("waiters", use(func(u wire.TenantUse) int { return u.Waiters }), t.Quotas.Waiters)
	w.row("sessions", use(func(u wire.TenantUse) int { return u.Sessions }), t.Quotas.Sessions)
	w.row("requests per second", "-", t.Quotas.RequestsPerSecond)
	w.row("audit retention, days", "-", t.Quotas.AuditRetentionDays)
	return w.end()
}

func shownTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func newTenantList() *cobra.Command {
	var o clientOptions
	list := &cobra.Command{
		Use:   "list",
		Short: "All tenants by name, dropped ones included",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			all, err := allTenants(c.Context(), client)
			switch {
			case err != nil:
				return err
			case o.json():
				return printJSON(c.OutOrStdout(), all)
			}
			return printTenants(c.OutOrStdout(), all.Tenants)
		},
	}
	o.flags(list, true)
	return list
}

func allTenants(ctx context.Context, api *apiClient) (wire.TenantList, error) {
	all := wire.TenantList{Tenants: []wire.Tenant{}}
	err := readPages(ctx, api, "/v1/tenants", url.Values{"limit": {strconv.Itoa(listPageMax)}}, func(page wire.TenantList) (string, error) {
		all.Tenants, all.CompleteTo = append(all.Tenants, page.Tenants...), page.CompleteTo
		return page.NextCursor, nil
	})
	return all, err
}

func printTenants(out io.Writer, all []wire.Tenant) error {
	w := newTable(out, "TENANT", "STATE", "PARTITION", "REQUESTS/S", "OWNER GROUPS", "CREATED")
	for _, t := range all {
		w.row(t.Tenant, t.State, t.Partition, t.Quotas.RequestsPerSecond, strings.Join(t.OwnerGroups, ", "), shownTime(t.CreatedAt))
	}
	return w.end()
}
