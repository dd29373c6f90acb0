package main

import (
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

func newAudit() *cobra.Command {
	audit := &cobra.Command{Use: "audit", Short: "Search, export and verify what happened",
		Long: `Search, export and verify what happened to a tenant's locks, classes and API keys.
Every answer comes from one node's copy and says which log entry that copy is complete to. Times are UTC, in and out.`}
	audit.AddCommand(newAuditSearch(), newAuditExport(), newAuditVerify())
	return audit
}

// auditFilters say which events are meant. Names and times go to the node as they are: it judges them.
type auditFilters struct {
	tenant, class, key, prefix, holder, apiKey, text, from, to string
	kinds                                                      []string
	token                                                      uint64
	index                                                      uint64
	cursor                                                     string
}

func (f *auditFilters) flags(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.tenant, "tenant", "", "operators: only this tenant (default: the platform and all tenants)")
	flags.StringVar(&f.class, "class", "", "only this class")
	flags.StringVar(&f.key, "key", "", "only this key, byte for byte")
	flags.StringVar(&f.prefix, "prefix", "", "only keys that begin with this")
	flags.StringVar(&f.holder, "holder", "", "only this holder's label, byte for byte")
	flags.Uint64Var(&f.token, "token", 0, "only this fencing token")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only these kinds of event, separated by commas")
	flags.StringVar(&f.apiKey, "api-key-id", "", "only what the API key of this id did, or what was done to it")
	flags.StringVar(&f.text, "text", "", "only events with this in key, class, holder, person, note or reason")
	flags.StringVar(&f.from, "from", "", "not before this time, as in 2026-06-30T23:00:00Z")
	flags.StringVar(&f.to, "to", "", "before this time")
	flags.Uint64Var(&f.index, "index", 0, "wait until the answering node has this entry of the tenant's log")
	flags.StringVar(&f.cursor, "cursor", "", "go on where an earlier answer ended")
}

// query is the filters as the API takes them.
func (f *auditFilters) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"tenant": f.tenant, "class": f.class, "key": f.key, "prefix": f.prefix,
		"holder": f.holder, "api_key": f.apiKey, "q": f.text, "from": f.from, "to": f.to, "cursor": f.cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, value := range map[string]uint64{"token": f.token, "index": f.index} {
		if value != 0 {
			q.Set(name, strconv.FormatUint(value, 10))
		}
	}
	for _, kind := range f.kinds {
		q.Add("kind", kind)
	}
	return q
}
