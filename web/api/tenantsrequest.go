package api

import (
	"fmt"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	// tenantBodyBytesMax leaves room for as many owner groups as a tenant may have, each as long as it may be.
	tenantBodyBytesMax = 64 << 10
	apiKeyBodyBytesMax = 16 << 10
)

var (
	tenantFields = []string{"tenant", "owner_groups", "quotas"}
	quotaFields  = []string{"keys", "leases", "waiters", "sessions", "requests_per_second", "audit_retention_days"}
	noteFields   = []string{"reason"}
	apiKeyFields = []string{"name", "scopes", "expires_in"}
	rotateFields = []string{"expires_in", "overlap"}
)

const (
	slugRule    = "must be 1 to 63 lower-case letters, digits and hyphens"
	groupsRule  = "must be a list of 1 to 64 groups, each of 1 to 255 bytes without control characters"
	quotasRule  = "must be an object of quotas"
	noteRule    = "must say why, in 1 to 1024 bytes without control characters"
	nameRule    = "must be 1 to 128 bytes without control characters"
	expiryRule  = `must be a duration such as "12h" or "2160h", of 1s to 8784h (366 days); a key that rotates itself is given no longer a life than it had`
	overlapRule = `must be a duration such as "10m" or "24h", from 0s to 720h (30 days)`
	scopesRule  = "must be a list of 1 to 32 scopes, such as locks:ledger-*, classes:declare:*, audit:read, guard:report, tenant:admin"
)

const (
	expiryMin      = time.Second
	expiryMax      = time.Duration(tenants.ExpiryMSMax) * time.Millisecond
	overlapMax     = time.Duration(tenants.OverlapMSMax) * time.Millisecond
	overlapDefault = 24 * time.Hour
)

// quotaRules say what each quota may be.
var quotaRules = map[string]string{
	"keys": "must be a whole number from 1 to 100000000", "leases": "must be a whole number from 1 to 100000000",
	"waiters": "must be a whole number from 1 to 100000000", "sessions": "must be a whole number from 1 to 100000000",
	"requests_per_second":  "must be a whole number from 1 to 1000000",
	"audit_retention_days": "must be a whole number from 1 to 3650",
}

// ruleByField is how the API calls a field that the rules of tenants found out of its range, and what it should be.
var ruleByField = func() map[string]badRequest {
	rules := map[string]badRequest{"tenant": {"tenant", slugRule}, "owner_groups": {"owner_groups", groupsRule},
		"note": {"reason", noteRule}, "name": {"name", nameRule}, "scopes": {"scopes", scopesRule},
		"expires": {"expires_in", expiryRule}, "overlap_ends": {"overlap", overlapRule}}
	for name, rule := range quotaRules {
		rules["quotas."+name] = badRequest{"quotas." + name, rule}
	}
	return rules
}()

// tenantRequest is what a body says of a tenant. A quota that is zero was not named.
type tenantRequest struct {
	tenant tenants.TenantID
	groups []tenants.Group
	quotas tenants.Quotas
}

func decodeNewTenant(body []byte) (tenantRequest, error) {
	req, err := decodeTenant(body, tenantFields)
	switch {
	case err != nil:
		return tenantRequest{}, err
	case req.tenant == "":
		return tenantRequest{}, &badRequest{"tenant", "is missing; it " + slugRule}
	case req.groups == nil:
		return tenantRequest{}, &badRequest{"owner_groups", "is missing; it " + groupsRule}
	}
	return req, nil
}

func decodeTenantChange(body []byte) (tenantRequest, error) {
	return decodeTenant(body, tenantFields[1:])
}

func decodeTenant(body []byte, fields []string) (tenantRequest, error) {
	var req tenantRequest
	s := scanner{data: body}
	err := s.object(fields, func(field int) error {
		switch name := fields[field]; name {
		case "tenant":
			text, err := s.text()
			req.tenant = tenants.TenantID(text)
			return unless(err == nil && tenants.ValidSlug(text), name, slugRule)
		case "owner_groups":
			groups, ok := s.texts(tenants.OwnerGroupsMax)
			for _, g := range groups {
				req.groups = append(req.groups, tenants.Group(g))
			}
			return unless(ok && len(groups) > 0, name, groupsRule)
		default:
			return s.quotas(&req.quotas)
		}
	})
	return req, err
}

// quotas reads an object of quotas.
func (s *scanner) quotas(q *tenants.Quotas) error {
	places := [...]*int{&q.Keys, &q.Leases, &q.Waiters, &q.Sessions, &q.RequestsPerSecond, &q.AuditRetentionDays}
	if s.space(); s.at >= len(s.data) || s.data[s.at] != '{' {
		return &badRequest{"quotas", quotasRule}
	}
	return s.fields(quotaFields, func(field int) error {
		n, ok := s.whole()
		*places[field] = int(min(n, 1<<31-1)) // past every range, and refused as such
		return unless(ok, "quotas."+quotaFields[field], quotaRules[quotaFields[field]])
	})
}

// texts reads a list of at most so many strings.
func (s *scanner) texts(most int) ([]string, bool) {
	if !s.take('[') {
		return nil, false
	}
	list := []string{}
	if s.take(']') {
		return list, true
	}
	for len(list) < most {
		text, err := s.text()
		if err != nil {
			return nil, false
		}
		list = append(list, text)
		if s.take(']') {
			return list, true
		}
		if !s.take(',') {
			return nil, false
		}
	}
	return nil, false
}

// readNote reads the body of a call that asks why. Where no reason is needed there need be no body. What it returns is the
// caller's own.
func readNote(c echo.Context, needed bool) (note string, body []byte, err error) {
	if !needed && c.Request().ContentLength == 0 {
		return "", nil, nil
	}
	buf, err := readJSON(c, bodyBytesMax)
	if err != nil {
		return "", nil, err
	}
	defer buf.release()
	s := scanner{data: buf.b}
	err = s.object(noteFields, func(int) error {
		note, err = s.text()
		return unless(err == nil && note != "" && len(note) <= tenants.NoteBytesMax, "reason", noteRule)
	})
	if err == nil && needed && note == "" {
		err = &badRequest{"reason", "is missing; it " + noteRule}
	}
	return note, append([]byte(nil), buf.b...), err
}

// apiKeyRequest is what a body says of an API key that is to be made.
type apiKeyRequest struct {
	name    string
	scopes  tenants.Scopes
	life    time.Duration
	overlap time.Duration // of a rotation
}

func decodeNewAPIKey(body []byte) (apiKeyRequest, error) {
	req, err := decodeAPIKey(body, apiKeyFields)
	switch {
	case err != nil:
		return apiKeyRequest{}, err
	case req.name == "":
		return apiKeyRequest{}, &badRequest{"name", "is missing; it " + nameRule}
	case req.scopes == nil:
		return apiKeyRequest{}, &badRequest{"scopes", "is missing; it " + scopesRule}
	}
	return req, nil
}

func decodeRotation(body []byte) (apiKeyRequest, error) { return decodeAPIKey(body, rotateFields) }

func decodeAPIKey(body []byte, fields []string) (apiKeyRequest, error) {
	req := apiKeyRequest{overlap: overlapDefault}
	s := scanner{data: body}
	err := s.object(fields, func(field int) error {
		switch name := fields[field]; name {
		case "name":
			text, err := s.text()
			req.name = text
			return unless(err == nil && text != "" && len(text) <= tenants.NameBytesMax, name, nameRule)
		case "scopes":
			return s.scopes(&req.scopes)
		case "expires_in":
			d, err := s.duration()
			req.life = d.Std()
			return unless(err == nil && expiryMin <= req.life && req.life <= expiryMax, name, expiryRule)
		default:
			d, err := s.duration()
			req.overlap = d.Std()
			return unless(err == nil && 0 <= req.overlap && req.overlap <= overlapMax, name, overlapRule)
		}
	})
	if err == nil && req.life == 0 && slices.Contains(fields, "scopes") { // a successor lives as long as the old one was given
		err = &badRequest{"expires_in", "is missing; it " + expiryRule}
	}
	return req, err
}

func (s *scanner) scopes(scopes *tenants.Scopes) error {
	list, ok := s.texts(tenants.ScopesMax)
	if !ok || len(list) == 0 {
		return &badRequest{"scopes", scopesRule}
	}
	parsed, err := tenants.ParseScopes(list...)
	if err != nil {
		return &badRequest{"scopes", fmt.Sprintf("has an %s; it %s", err, scopesRule)}
	}
	*scopes = parsed
	return nil
}
