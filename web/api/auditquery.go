package api

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	// An export is a stream and may be long, but not endless: its trailer says where to go on.
	exportRowsMax = 1_000_000

	searchTextBytesMax = 512
	apiKeyIDBytesMax   = 64
	auditCursorMax     = 12 << 10 // it has a position for each log; a request has no room for more
)

// wholeMax bounds numbers in a query: up to here JSON carries them exactly.
const wholeMax = 1<<53 - 1

const (
	searchHolderRule = "must be 1 to 128 bytes of UTF-8 without control characters"
	searchTokenRule  = "must be a whole number from 1 to 2^53-1"
	searchAPIKeyRule = "must be the id of an API key: 1 to 64 letters, digits, dots, hyphens and underscores"
	searchTextRule   = "must be 1 to 512 bytes of UTF-8"
	searchTimeRule   = "must be a time of RFC 3339 such as 2026-06-30T23:00:00Z or 2026-07-01T01:00:00.125+02:00 (in an address, write + as %2B)"
	searchToRule     = "must be later than `from`: `from` is included, `to` is not"
	searchOrderRule  = "must be asc or desc"
	searchFormRule   = "must be json, ndjson or csv"
	searchProofsRule = "must be true or false, and true only with format=ndjson"
	searchCursorRule = "must be the next_cursor of an earlier page of the same search"
	searchIndexRule  = "must be a log index: a whole number from 1 to 2^53-1"
	searchTenantRule = "must be a tenant's slug"
	indexTenantRule  = "is an index in the log of a tenant's partition: name the tenant with `tenant`"
	exportLimitRule  = "must be a whole number from 1 to 1000000, or for JSON to 1000"
)

var auditParameters = []string{"tenant", "class", "key", "prefix", "holder", "token", "kind", "api_key", "q", "from", "to", "order",
	"limit", "cursor", "index", "format", "proofs"}

// auditSearch is what a request asks of the audit.
type auditSearch struct {
	audit.Query
	format auditFormat
	proofs bool
	rows   int    // at most so many events: a page's, or an export's
	index  uint64 // of the tenant's partition, to be reached first; 0: none
	log    audit.Log
}

// searchOf reads the query.
func (a *API) searchOf(c echo.Context, p tenants.Principal) (auditSearch, error) {
	params, err := auditParams(c)
	if err != nil {
		return auditSearch{}, err
	}
	s := auditSearch{}
	for _, read := range []func(url.Values) error{s.readNames, s.readNumbers, s.readTimes, s.readKinds} {
		if err := read(params); err != nil {
			return auditSearch{}, err
		}
	}
	if err := s.readForm(params, c.Request().Header.Get("Accept")); err != nil {
		return auditSearch{}, err
	}
	if err := a.readTenant(&s, params, p); err != nil {
		return auditSearch{}, err
	}
	s.Logs = a.platform.Audit().Logs(tenants.TenantID(s.Tenant))
	return s, nil
}

// auditParams reads the query strictly: each parameter is known and there once, kinds apart.
func auditParams(c echo.Context) (url.Values, error) {
	q, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, &badRequest{"", "the query is not well formed; percent-encode ; and % in values"}
	}
	for name, values := range q {
		switch {
		case !slices.Contains(auditParameters, name):
			return nil, &badRequest{clip(strings.ToValidUTF8(name, "\ufffd")), unknownParameter(auditParameters)}
		case len(values) > 1 && name != "kind":
			return nil, &badRequest{name, "is given twice"}
		}
	}
	return q, nil
}

// readTenant says whose events are searched: the caller's own tenant's; an operator names a tenant, or searches them all.
func (a *API) readTenant(s *auditSearch, params url.Values, p tenants.Principal) error {
	tenant, named := tenants.TenantID(params.Get("tenant")), params.Has("tenant")
	operator := p.Tenant == tenants.Platform && p.Scopes.Allows(tenants.VerbOperatePlatform, "")
	switch {
	case named && !tenants.ValidSlug(string(tenant)):
		return &badRequest{"tenant", searchTenantRule}
	case operator && !named && s.index != 0:
		return &badRequest{"index", indexTenantRule}
	case operator && !named:
		s.AllTenants = true
		return nil
	case !operator && (p.Tenant == tenants.Platform || named && tenant != p.Tenant):
		return forbidden(tenants.Scope{Verb: tenants.VerbOperatePlatform})
	case !operator:
		tenant = p.Tenant
	}
	s.Tenant = string(tenant)
	var partition tenants.PartitionID
	known := false
	a.platform.ViewControl(func(m *control.Machine) {
		var t tenants.Tenant
		t, known = m.Tenant(tenant)
		partition = t.Partition
	})
	switch {
	case operator && !known:
		return wire.NewProblem(wire.CodeNotFound, "This node knows no tenant of that name.")
	case s.index != 0 && !known:
		return behindAt("control", "this node has not learned of the tenant yet")
	}
	s.log = audit.Log(partition)
	return nil
}

func (s *auditSearch) readNames(params url.Values) error {
	s.Class, s.Key, s.KeyPrefix = params.Get("class"), params.Get("key"), params.Get("prefix")
	s.Holder, s.APIKey, s.Text = params.Get("holder"), params.Get("api_key"), params.Get("q")
	switch {
	case params.Has("class") && !lockcore.ValidName(s.Class):
		return &badRequest{"class", classRule}
	case params.Has("key") && !lockcore.ValidKey(s.Key):
		return &badRequest{"key", keyRule}
	case params.Has("prefix") && (!validPrefix(s.KeyPrefix) || s.Key != ""):
		return &badRequest{"prefix", prefixRule}
	case params.Has("holder") && (s.Holder == "" || !validHolder(s.Holder)):
		return &badRequest{"holder", searchHolderRule}
	case params.Has("api_key") && (s.APIKey == "" || len(s.APIKey) > apiKeyIDBytesMax || !plain(s.APIKey)):
		return &badRequest{"api_key", searchAPIKeyRule}
	case params.Has("q") && (s.Text == "" || len(s.Text) > searchTextBytesMax || !utf8.ValidString(s.Text)):
		return &badRequest{"q", searchTextRule}
	}
	return nil
}

func (s *auditSearch) readNumbers(params url.Values) error {
	if err := wholeParam(params, "token", &s.Token, searchTokenRule); err != nil {
		return err
	}
	return wholeParam(params, "index", &s.index, searchIndexRule)
}

// wholeParam reads a parameter that is a number from 1, if it is there.
func wholeParam(params url.Values, name string, to *uint64, rule string) error {
	if !params.Has(name) {
		return nil
	}
	n, ok := whole(params.Get(name), 1, wholeMax)
	*to = n
	return unless(ok, name, rule)
}

// whole reads a number in its one spelling.
func whole(text string, least, most uint64) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && least <= n && n <= most && strconv.FormatUint(n, 10) == text
}

func (s *auditSearch) readTimes(params url.Values) error {
	if err := timeParam(params, "from", &s.From); err != nil {
		return err
	}
	if err := timeParam(params, "to", &s.To); err != nil {
		return err
	}
	return unless(!params.Has("from") || !params.Has("to") || s.From.Before(s.To), "to", searchToRule)
}

// timeParam reads a parameter that is a moment, if it is there.
func timeParam(params url.Values, name string, to *time.Time) error {
	if !params.Has(name) {
		return nil
	}
	at, err := time.Parse(time.RFC3339, params.Get(name))
	*to = at.UTC() // one moment, one spelling: cursors are bound to what was asked
	return unless(err == nil, name, searchTimeRule)
}

// readKinds takes kinds that are given one by one or in lists with commas.
func (s *auditSearch) readKinds(params url.Values) error {
	for _, list := range params["kind"] {
		for kind := range strings.SplitSeq(list, ",") {
			if !audit.ValidKind(kind) {
				return &badRequest{"kind", unknownKind(kind)}
			}
			if !slices.Contains(s.Kinds, kind) {
				s.Kinds = append(s.Kinds, kind)
			}
		}
	}
	slices.Sort(s.Kinds)
	return nil
}

func unknownKind(kind string) string {
	var names []string
	for _, k := range audit.Kinds() {
		names = append(names, k.Name)
	}
	return "names " + strconv.Quote(clip(strings.ToValidUTF8(kind, "\ufffd"))) + ", which is no kind of event; there are " +
		strings.Join(names, ", ")
}

// readForm reads in which form the answer is wanted, in which order, where it begins and how long it may be.
func (s *auditSearch) readForm(params url.Values, accept string) error {
	var ok bool
	if s.format, ok = auditFormatOf(params, accept); !ok {
		return &badRequest{"format", searchFormRule}
	}
	s.proofs = params.Get("proofs") == "true"
	switch order := params.Get("order"); {
	case params.Has("order") && order != "asc" && order != "desc":
		return &badRequest{"order", searchOrderRule}
	case params.Has("proofs") && params.Get("proofs") != "false" && (!s.proofs || s.format != formatNDJSON):
		return &badRequest{"proofs", searchProofsRule}
	case params.Has("cursor") && (params.Get("cursor") == "" || len(params.Get("cursor")) > auditCursorMax):
		return &badRequest{"cursor", searchCursorRule}
	case order == "asc":
		s.Order = audit.Ascending
	default:
		s.Order = audit.Descending
	}
	s.Cursor = params.Get("cursor")
	return s.readLimit(params)
}

func (s *auditSearch) readLimit(params url.Values) error {
	most, rule := limitMax, limitRule
	s.rows = limitDefault
	if s.format != formatJSON {
		most, rule, s.rows = exportRowsMax, exportLimitRule, exportRowsMax
	}
	if params.Has("limit") {
		n, ok := whole(params.Get("limit"), 1, uint64(most))
		if !ok {
			return &badRequest{"limit", rule}
		}
		s.rows = int(n)
	}
	return nil
}
