package web_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web/api"
)

const (
	newTenant  = `{"tenant":"stock","owner_groups":["stock-owners"],"quotas":{"leases":2000}}`
	newKey     = `{"name":"night job","scopes":["locks:ledger-*"],"expires_in":"2160h"}`
	rotation   = `{"expires_in":"2160h","overlap":"24h"}`
	anyReason  = `{"reason":"because"}`
	acmeKeys   = "/v1/tenants/acme/api-keys"
	ofTarget   = "/v1/api-keys/" + string(targetKey)
	unknownKey = "/v1/api-keys/Unknown001"
)

// exampleBodies are the bodies of well-formed requests about tenants and API keys.
var exampleBodies = map[string]string{
	"POST /v1/tenants": newTenant, "PATCH /v1/tenants/:tenant": `{"quotas":{"requests_per_second":2000}}`,
	"DELETE /v1/tenants/:tenant": anyReason, "POST /v1/tenants/:tenant/suspend": anyReason, "POST /v1/tenants/:tenant/resume": anyReason,
	"POST /v1/tenants/:tenant/api-keys": newKey, "POST /v1/tenants/:tenant/api-keys/:id/rotate": rotation,
	"POST /v1/tenants/:tenant/api-keys/:id/revoke": anyReason, "POST /v1/api-keys": newKey, "POST /v1/api-keys/self/rotate": `{"overlap":"1h"}`,
	"POST /v1/api-keys/:id/rotate": rotation, "POST /v1/api-keys/:id/revoke": anyReason,
}

// ask makes a call with an API key and a body.
func (n *node) ask(t *testing.T, key, method, path, body string) reply {
	t.Helper()
	return n.do(t, request{method: method, path: path, key: key, body: body, id: "same"})
}

// as reads a reply, which must have the status, as JSON.
func as[A any](t *testing.T, out reply, status int) (answer A) {
	t.Helper()
	if out.status != status {
		t.Fatalf("got %d %s, want %d", out.status, out.body, status)
	}
	if err := json.Unmarshal(out.body, &answer); err != nil {
		t.Fatalf("%s: %v", out.body, err)
	}
	return answer
}

func wantProblem(t *testing.T, what string, out reply, code wire.Code, field string) {
	t.Helper()
	if p := out.problem(t); p.Code != code || p.Field != field {
		t.Errorf("%s: got %d %s %s, want %s %s", what, out.status, p.Code, p.Field, code, field)
	}
}

func TestTenants_liveThroughTheAPI(t *testing.T) {
	n, p := inLog(t, &locks{})
	made := as[wire.Tenant](t, n.ask(t, operatorKey, "POST", "/v1/tenants", newTenant), 201)
	if made.State != wire.TenantLive || made.Quotas.Leases != 2000 || made.Quotas.Keys != 100_000 || made.Partition == 0 {
		t.Errorf("made: got %+v, want it live, placed, with the default quotas that were not named", made)
	}
	if again := as[wire.Tenant](t, n.ask(t, operatorKey, "POST", "/v1/tenants", newTenant), 200); again.Partition != made.Partition {
		t.Errorf("made again: got %+v, want it where it stands", again)
	}
	wantProblem(t, "other contents", n.ask(t, operatorKey, "POST", "/v1/tenants", `{"tenant":"stock","owner_groups":["others"]}`),
		wire.CodeTenantExists, "")
	changed := as[wire.Tenant](t, n.ask(t, operatorKey, "PATCH", "/v1/tenants/stock", `{"quotas":{"keys":7}}`), 200)
	if changed.Quotas.Keys != 7 || changed.Quotas.Leases != 2000 || !slices.Equal(changed.OwnerGroups, []string{"stock-owners"}) {
		t.Errorf("changed: got %+v, want one quota changed and nothing else", changed)
	}
	for path, want := range map[string]wire.TenantState{"/suspend": wire.TenantSuspended} {
		if got := as[wire.Tenant](t, n.ask(t, operatorKey, "POST", "/v1/tenants/stock"+path, anyReason), 200); got.State != want {
			t.Errorf("%s: got %s, want %s", path, got.State, want)
		}
	}
	if got := as[wire.Tenant](t, n.ask(t, operatorKey, "POST", "/v1/tenants/stock/resume", ""), 200); got.State != wire.TenantLive {
		t.Errorf("resumed without a reason: got %s, want live", got.State)
	}
	if got := as[wire.Tenant](t, n.ask(t, operatorKey, "DELETE", "/v1/tenants/stock", anyReason), 200); got.State != wire.TenantEnding {
		t.Errorf("dropped: got %s, want ending", got.State)
	}
	wantProblem(t, "made again while ending", n.ask(t, operatorKey, "POST", "/v1/tenants", newTenant), wire.CodeTenantEnding, "")
	wantProblem(t, "changed while ending", n.ask(t, operatorKey, "PATCH", "/v1/tenants/stock", `{}`), wire.CodeTenantDropped, "")
	admitTenants(t, p.control, tenants.RecordFinalToken{Tenant: "stock", Token: 41, AtMS: 1})
	successor := as[wire.Tenant](t, n.ask(t, operatorKey, "POST", "/v1/tenants", newTenant), 201)
	if successor.State != wire.TenantLive || successor.EarlierLives != 1 || successor.TokenBase != 42 {
		t.Errorf("made again: got %+v, want a second life above token 41", successor)
	}
}

func TestGetTenant_saysWhatItUses(t *testing.T) {
	n, _ := inLog(t, &locks{})
	got := as[wire.Tenant](t, n.ask(t, operatorKey, "GET", "/v1/tenants/acme", ""), 200)
	if got.Use == nil || got.Use.LastToken != 33 || got.Partition != 1 {
		t.Errorf("got %+v, want what the partition carries of it", got)
	}
}

func TestLists_ofTenantsAndAPIKeysArePaged(t *testing.T) {
	n, _ := inLog(t, &locks{})
	var slugs []string
	for next, path := "", "/v1/tenants?limit=1"; ; path = "/v1/tenants?limit=1&cursor=" + next {
		page := as[wire.TenantList](t, n.ask(t, operatorKey, "GET", path, ""), 200)
		if len(page.Tenants) != 1 || page.CompleteTo == 0 {
			t.Fatalf("got %+v, want one tenant", page)
		}
		slugs = append(slugs, page.Tenants[0].Tenant)
		if next = page.NextCursor; next == "" {
			break
		}
	}
	if !slices.Equal(slugs, []string{"acme", "globex"}) {
		t.Errorf("got %v, want each tenant once", slugs)
	}
	whole := as[wire.APIKeyList](t, n.ask(t, adminKey, "GET", "/v1/api-keys", ""), 200)
	var paged []wire.APIKey
	for next := ""; ; {
		page := as[wire.APIKeyList](t, n.ask(t, operatorKey, "GET", acmeKeys+"?limit=2"+next, ""), 200)
		paged = append(paged, page.APIKeys...)
		if page.NextCursor == "" {
			break
		}
		next = "&cursor=" + page.NextCursor
	}
	if fmt.Sprint(ids(paged)) != fmt.Sprint(ids(whole.APIKeys)) || len(paged) != 6 {
		t.Errorf("got %v by pages, %v at once, want the tenant's 6 in the same order", ids(paged), ids(whole.APIKeys))
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?cursor=%21", "?cursor=" + url.QueryEscape("YQ"), "?x=1"} {
		for _, path := range []string{"/v1/tenants", acmeKeys} {
			if out := n.ask(t, operatorKey, "GET", path+query, ""); out.status != 400 && query != "?cursor=YQ" {
				t.Errorf("%s: got %d, want 400", path+query, out.status)
			}
		}
	}
}

func ids(keys []wire.APIKey) (list []string) {
	for _, k := range keys {
		list = append(list, k.ID)
	}
	return list
}

func TestAPIKeys_liveThroughTheAPI(t *testing.T) {
	n, _ := inLog(t, &locks{})
	made := as[wire.APIKeyMade](t, n.ask(t, goodKey, "POST", "/v1/api-keys", newKey), 201)
	if made.Tenant != "acme" || made.State != wire.KeyActive || made.CreatedBy != string(idsInLog[goodKey]) || len(made.May) != 1 ||
		!slices.Equal(made.AppliedOn, []string{"n1", "n2"}) || !slices.Equal(made.NotYetOn, []string{"n3"}) {
		t.Errorf("made: got %+v", made)
	}
	if _, err := tenants.ParseCredential(made.Secret); err != nil {
		t.Errorf("made: got %q, want a whole API key", made.Secret)
	}
	self := n.ask(t, made.Secret, "GET", "/v1/api-keys/self", "")
	if got := as[wire.APIKey](t, self, 200); got.ID != made.ID || strings.Contains(string(self.body), "api_key") {
		t.Errorf("the new API key sees %s, want itself without the secret", self.body)
	}
	if out := n.ask(t, made.Secret, "GET", "/v1/locks", ""); out.status != 200 {
		t.Errorf("the new API key: got %d, want it to work at once", out.status)
	}
	next := as[wire.APIKeyMade](t, n.ask(t, made.Secret, "POST", "/v1/api-keys/self/rotate", `{"expires_in":"24h"}`), 201)
	if next.Lineage != made.ID || next.Replaces == nil || next.Replaces.State != wire.KeyOverlapping || next.Replaces.OverlapEndsAt == nil {
		t.Errorf("rotated: got %+v, want a successor beside the old one", next)
	}
	wantProblem(t, "rotated twice", n.ask(t, made.Secret, "POST", "/v1/api-keys/self/rotate", rotation), wire.CodeAPIKeyRotated, "")
	wantProblem(t, "no overlap", n.ask(t, adminKey, "POST", "/v1/api-keys/"+next.ID+"/end-overlap", ""), wire.CodeNoOverlap, "")
	ended := as[wire.APIKeyEnded](t, n.ask(t, adminKey, "POST", "/v1/api-keys/"+made.ID+"/end-overlap", ""), 200)
	if ended.State != wire.KeyRotatedOut || ended.EndedAt == nil || len(ended.AppliedOn) != 2 {
		t.Errorf("overlap ended: got %+v", ended)
	}
	if out := n.ask(t, made.Secret, "GET", "/v1/locks", ""); out.status != 401 {
		t.Errorf("the old API key after its overlap: got %d, want 401", out.status)
	}
	if got := as[wire.APIKeyEnded](t, n.ask(t, adminKey, "POST", "/v1/api-keys/"+next.ID+"/revoke", anyReason), 200); got.State != wire.KeyRevoked {
		t.Errorf("revoked: got %+v", got)
	}
	if out := n.ask(t, next.Secret, "GET", "/v1/locks", ""); out.status != 401 {
		t.Errorf("the revoked API key: got %d, want 401", out.status)
	}
	wantProblem(t, "rotate what is revoked", n.ask(t, goodKey, "POST", "/v1/api-keys/"+next.ID+"/rotate", rotation), wire.CodeAPIKeyEnded, "")
}

func TestCreateAPIKey_makesNoneWiderThanItsMaker(t *testing.T) {
	n, _ := inLog(t, &locks{})
	wantProblem(t, "by an administrator without the scope", n.ask(t, adminKey, "POST", "/v1/api-keys", newKey), wire.CodeWiderScope, "")
	wantProblem(t, "the operator's scope for a tenant", n.ask(t, operatorKey, "POST", acmeKeys,
		`{"name":"x","scopes":["platform:operator"],"expires_in":"1h"}`), wire.CodeInvalidRequest, "scopes")
	wantProblem(t, "a tenant's scope for an operator", n.ask(t, operatorKey, "POST", "/v1/api-keys", newKey), wire.CodeInvalidRequest, "scopes")
	own := as[wire.APIKeyMade](t, n.ask(t, operatorKey, "POST", "/v1/api-keys", `{"name":"x","scopes":["platform:operator"],"expires_in":"1h"}`), 201)
	if own.Tenant != "" {
		t.Errorf("the operator's own: got tenant %q, want none", own.Tenant)
	}
	as[wire.APIKeyMade](t, n.ask(t, operatorKey, "POST", acmeKeys, newKey), 201)
}

func TestTenantsAndAPIKeys_refuseWhatIsNotWellFormed(t *testing.T) {
	n, _ := inLog(t, &locks{})
	for _, c := range []struct{ path, body, field string }{
		{"/v1/tenants", `{"owner_groups":["a"]}`, "tenant"}, {"/v1/tenants", `{"tenant":"Stock","owner_groups":["a"]}`, "tenant"},
		{"/v1/tenants", `{"tenant":"stock"}`, "owner_groups"}, {"/v1/tenants", `{"tenant":"stock","owner_groups":[]}`, "owner_groups"},
		{"/v1/tenants", `{"tenant":"stock","owner_groups":["a\n"]}`, "owner_groups"},
		{"/v1/tenants", `{"tenant":"stock","owner_groups":["a"],"quotas":{"keys":0}}`, "quotas.keys"},
		{"/v1/tenants", `{"tenant":"stock","owner_groups":["a"],"quotas":{"keys":100000001}}`, "quotas.keys"},
		{"/v1/tenants", `{"tenant":"stock","owner_groups":["a"],"quotas":{"locks":1}}`, "locks"},
		{"/v1/tenants", `{"tenant":"stock","owner_groups":["a"],"quotas":7}`, "quotas"},
		{"/v1/tenants", `{"tenant":"stock","owner_groups":["a"],"tenant":"stock"}`, "tenant"},
		{"/v1/tenants", `{"tenant":"stock","owner_groups":["a"],"partition":1}`, "partition"},
		{"/v1/tenants/acme/suspend", `{}`, "reason"}, {"/v1/tenants/acme/suspend", `{"reason":""}`, "reason"},
		{acmeKeys, `{"scopes":["audit:read"],"expires_in":"1h"}`, "name"}, {acmeKeys, `{"name":"x","expires_in":"1h"}`, "scopes"},
		{acmeKeys, `{"name":"x","scopes":["locks"],"expires_in":"1h"}`, "scopes"}, {acmeKeys, `{"name":"x","scopes":[],"expires_in":"1h"}`, "scopes"},
		{acmeKeys, `{"name":"x","scopes":["audit:read"]}`, "expires_in"}, {acmeKeys, `{"name":"x","scopes":["audit:read"],"expires_in":3600}`, "expires_in"},
		{acmeKeys, `{"name":"x","scopes":["audit:read"],"expires_in":"8785h"}`, "expires_in"},
		{acmeKeys, `{"name":"x","scopes":["audit:read"],"expires_in":"unlimited"}`, "expires_in"},
		{acmeKeys + "/" + string(targetKey) + "/rotate", `{"expires_in":"1h","overlap":"721h"}`, "overlap"},
		{acmeKeys + "/" + string(targetKey) + "/rotate", `{"expires_in":"0s"}`, "expires_in"},
		{acmeKeys + "/" + string(targetKey) + "/revoke", `{}`, "reason"},
	} {
		wantProblem(t, c.path+" "+c.body, n.ask(t, operatorKey, "POST", c.path, c.body), wire.CodeInvalidRequest, c.field)
	}
}

// What belongs to another tenant, or to nobody, or cannot be an id, answers the same.
func TestForeignAPIKeysAndTenants_answerAsUnknownOnes(t *testing.T) {
	n, _ := inLog(t, &locks{})
	bodies := map[string]string{"": "", "/rotate": rotation, "/revoke": anyReason, "/end-overlap": ""}
	for call, body := range bodies {
		method := "POST"
		if call == "" {
			method = "GET"
		}
		want := n.ask(t, goodKey, method, unknownKey+call, body)
		if want.status != 404 {
			t.Errorf("%s of an unknown API key: got %d, want 404", call, want.status)
		}
		for name, out := range map[string]reply{
			"another tenant's":       n.ask(t, foreignKey, method, ofTarget+call, body),
			"the platform's":         n.ask(t, goodKey, method, "/v1/api-keys/"+string(idsInLog[operatorKey])+call, body),
			"no id":                  n.ask(t, goodKey, method, "/v1/api-keys/x"+call, body),
			"a tenant's, of another": n.ask(t, operatorKey, method, "/v1/tenants/globex/api-keys/"+string(targetKey)+call, body),
			"of no tenant":           n.ask(t, operatorKey, method, "/v1/tenants/nobody/api-keys/"+string(targetKey)+call, body),
			"of what is no slug":     n.ask(t, operatorKey, method, "/v1/tenants/No%20Body/api-keys/"+string(targetKey)+call, body),
			"of no tenant at all":    n.ask(t, operatorKey, method, ofTarget+call, body),
		} {
			if out.status != want.status || string(out.body) != string(want.body) {
				t.Errorf("%s of %s API key: got %d %s, want %d %s", call, name, out.status, out.body, want.status, want.body)
			}
		}
	}
	want := n.ask(t, operatorKey, "GET", "/v1/tenants/nobody", "")
	for _, path := range []string{"/v1/tenants/No", "/v1/tenants/nobody/api-keys", "/v1/tenants/a%2Fb"} {
		if out := n.ask(t, operatorKey, "GET", path, ""); out.status != 404 || string(out.body) != string(want.body) {
			t.Errorf("%s: got %d %s, want as %s", path, out.status, out.body, want.body)
		}
	}
}

// What goes to the leader of the control group goes there from any node, and is answered as that node answers.
func TestForward_goesToTheLeaderOfTheControlGroup(t *testing.T) {
	behindPlatform := &platform{locks: &locks{}, leader: &self, control: controlLog(t),
		controlLeader: &api.LeaderRef{NodeID: "n2", URL: "http://n2.test", Self: true}}
	behind := start(t, behindPlatform, options{peer: true})
	u, err := url.Parse(behind.base)
	if err != nil {
		t.Fatal(err)
	}
	front := start(t, &platform{locks: &locks{}, leader: &self, control: controlLog(t), controlLeader: &second, forward: dialer(t, u.Host)}, options{})
	direct, directPlatform := inLog(t, &locks{})
	for _, r := range front.server.Routes() {
		if !r.Permission.AtControlLeader() {
			continue
		}
		for _, key := range []string{goodKey, operatorKey} {
			behindPlatform.relog(controlLog(t))
			directPlatform.relog(controlLog(t))
			in := example(r)
			in.key, in.id = key, "same"
			if want, got := direct.do(t, in), front.do(t, in); got.status != want.status {
				t.Errorf("%s %s passed on: %d %s, asked directly: %d %s", r.Method, r.Path, got.status, got.body, want.status, want.body)
			}
		}
	}
	lost := start(t, &platform{locks: &locks{}, leader: &self, control: controlLog(t), controlLeader: &second}, options{peer: true})
	out := lost.ask(t, operatorKey, http.MethodGet, "/v1/tenants", "")
	if p := out.problem(t); p.Code != wire.CodeNotLeader || p.Leader == nil || p.Leader.Node != "n2" {
		t.Errorf("passed on to a node that does not lead: got %d %s, want not_leader naming n2", out.status, out.body)
	}
}

// Whatever is wrong with an API key, the answer is the same to the byte.
func TestUnauthorized_looksTheSameWhateverBecameOfTheKey(t *testing.T) {
	n, p := inLog(t, &locks{})
	fresh := func(path string) wire.APIKeyMade {
		return as[wire.APIKeyMade](t, n.ask(t, operatorKey, "POST", path, newKey), 201)
	}
	revoked, rotated, dropped, short := fresh(acmeKeys), fresh(acmeKeys), fresh("/v1/tenants/globex/api-keys"), fresh(acmeKeys)
	unknown := fresh(acmeKeys).Secret
	n.ask(t, operatorKey, "POST", acmeKeys+"/"+revoked.ID+"/revoke", anyReason)
	n.ask(t, operatorKey, "POST", acmeKeys+"/"+rotated.ID+"/rotate", `{"expires_in":"1h","overlap":"0s"}`)
	n.ask(t, operatorKey, "DELETE", "/v1/tenants/globex", anyReason)
	wrong := short.Secret[:15] + unknown[15:]
	want := n.ask(t, "", "GET", "/v1/locks", "")
	expired := tenants.CreateAPIKey{Tenant: "acme", Name: "old", Scopes: tenants.Scopes{{Verb: tenants.VerbLocks, Classes: "*"}},
		By: tenants.ByPlatform(), AtMS: 1, ExpiresMS: 2}
	credential := drawn(t)
	expired.Key, expired.Hash = credential.ID(), credential.Hash()
	admit(t, p.control, control.Entry{Tenants: expired})
	for name, key := range map[string]string{"malformed": "stn_x", "unknown": drawn(t).Reveal(), "wrong secret": wrong,
		"expired": credential.Reveal(), "revoked": revoked.Secret, "rotated out": rotated.Secret, "of a dropped tenant": dropped.Secret} {
		for _, path := range []string{"/v1/locks", "/v1/api-keys", "/v1/tenants", "/v1/api-keys/self"} {
			out := n.ask(t, key, "GET", path, "")
			if out.status != 401 || string(out.body) != string(want.body) || headers(out) != headers(want) {
				t.Errorf("%s at %s: got %d %s %s, want %d %s %s", name, path, out.status, headers(out), out.body, want.status, headers(want), want.body)
			}
		}
	}
}

func drawn(t *testing.T) tenants.Credential {
	t.Helper()
	c, err := tenants.GenerateCredential(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func headers(out reply) string {
	h := out.header.Clone()
	h.Del("Date")
	return fmt.Sprint(h)
}
