package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/web"
	"github.com/stanchion-locks/stanchion/web/api"
)

// publicTable is the one route below /v1/ that asks for no API key: it is about no tenant.
const publicTable = "/v1/audit/kinds"

// example is a well-formed request for a route.
func example(r web.Route) request {
	in := request{method: r.Method, path: strings.NewReplacer(":lease", leaseOne, ":session", session, ":class", "ledger-close", ":tenant", "acme",
		":id", string(targetKey)).Replace(r.Path)}
	switch {
	case r.Path == "/v1/locks/why":
		in.path += "?class=ledger-close&key=2026-06"
	case r.Path == "/v1/audit/proof":
		in.path += "?log=control&row=0&rows=1"
	case r.Path == "/v1/audit/consistency":
		in.path += "?log=control&from=1&to=2"
	case r.Path == "/v1/locks/force-release":
		in.body = plainForce
	case r.Path == "/v1/guard/reports":
		in.body = plainReport
	case r.Method == http.MethodPut && strings.HasPrefix(r.Path, "/v1/classes/"):
		in.body, in.contentType = classFile, "application/yaml"
	case strings.HasSuffix(r.Path, "/end-overlap"): // takes no body
	case exampleBodies[r.Method+" "+r.Path] != "":
		in.body = exampleBodies[r.Method+" "+r.Path]
	case r.Method == http.MethodPut:
		in.body = plainAcquire
	case r.Method == http.MethodPost:
		in.body = `{"leases":[1]}`
	}
	return in
}

// owned is a partition whose every lease and session belongs to one tenant, whose calls it counts.
func owned(tenant lockcore.TenantID, foreign *int) *locks {
	mine := func(c leader.Caller) error {
		if c.Tenant == tenant {
			return nil
		}
		*foreign++
		return leader.ErrNotFound
	}
	answer := func(id lockcore.LeaseID) leader.Answer {
		return leader.Answer{Status: leader.StatusEnded, Reason: lockcore.Released, Lease: heldLease(id, "ledger-close", "k")}
	}
	return &locks{
		acquire: func(_ context.Context, r leader.Acquire) (leader.Answer, error) { return grantedTo(r), mine(r.Caller) },
		look:    func(_ context.Context, r leader.Look) (leader.Answer, error) { return answer(r.Lease), mine(r.Caller) },
		release: func(_ context.Context, r leader.Release) (leader.Answer, error) {
			return answer(r.Lease), mine(r.Caller)
		},
		endSession: func(_ context.Context, r leader.EndSession) error { return mine(r.Caller) },
		heartbeat: func(_ context.Context, r leader.Heartbeat) (leader.HeartbeatAnswer, error) {
			return leader.HeartbeatAnswer{}, mine(r.Caller)
		},
		list: func(_ context.Context, q api.LockQuery) (api.LockPage, error) {
			if q.Tenant != tenant {
				*foreign++
				return api.LockPage{}, nil
			}
			return heldBy33(q), nil
		},
		command: func(_ context.Context, c lockcore.Command) (lockcore.Result, error) {
			return lockcore.Result{Outcome: lockcore.Done}, mine(leader.Caller{Tenant: lockcore.TenantOf(c)})
		},
	}
}

func TestRoutes_everyOneNamesItsPermission(t *testing.T) {
	routes := leading(t, &locks{}).server.Routes()
	if len(routes) == 0 {
		t.Fatal("no routes")
	}
	for _, r := range routes {
		if r.Permission.IsZero() {
			t.Errorf("%s %s names no permission", r.Method, r.Path)
		}
		if public := r.Path == publicTable || !strings.HasPrefix(r.Path, "/v1/"); public != r.Permission.Public() {
			t.Errorf("%s %s has the permission %s", r.Method, r.Path, r.Permission)
		}
	}
}

func TestRoutes_answerByAPIKey(t *testing.T) {
	foreign := 0
	n, p := inLog(t, owned("acme", &foreign))
	callers := []struct{ name, key string }{{"no key", ""}, {"wrong key", "stn_wrong"}, {"key without scope", unscopedKey},
		{"other tenant's key", foreignKey}, {"narrow key", narrowKey},
		{"administrator's key", adminKey}, {"guard's key", guardKey}, {"operator's key", operatorKey}, {"key", goodKey}}
	var table strings.Builder
	for _, r := range n.server.Routes() {
		for _, caller := range callers {
			p.relog(controlLog(t)) // as if nobody had asked before
			in := example(r)
			in.key = caller.key
			out := n.do(t, in)
			code := ""
			if out.status >= 400 {
				code = " " + string(out.problem(t).Code)
			}
			table.WriteString(strings.Join([]string{r.Method, r.Path, "|", caller.name, "|", http.StatusText(out.status) + code, "\n"}, " "))
		}
	}
	golden(t, "testdata/access.txt", table.String())
	if foreign != 8 {
		t.Errorf("the partition was asked %d times for the other tenant; want once by each of 8 routes", foreign)
	}
}

func TestUnauthorized_looksTheSameForEveryCause(t *testing.T) {
	n := leading(t, &locks{})
	var first string
	for _, key := range []string{"", "stn_wrong", "x", strings.Repeat("x", 4096)} {
		out := n.do(t, request{method: http.MethodGet, path: "/v1/locks", key: key, id: "same"})
		if out.status != 401 || out.header.Get("Www-Authenticate") != "Bearer" {
			t.Errorf("%.20q: %d %v", key, out.status, out.header)
		}
		if first == "" {
			first = string(out.body)
		}
		if string(out.body) != first {
			t.Errorf("%.20q is refused with %s, another with %s", key, out.body, first)
		}
	}
}

func TestAuthorise_saysNotReadyWhereTheKeyMayOnlyBeUnknownYet(t *testing.T) {
	n := start(t, &platform{locks: &locks{}, leader: &self, catchingUp: true}, options{})
	for key, want := range map[string]wire.Code{goodKey: "", "stn_wrong": wire.CodeNotReady, "": wire.CodeNotReady} {
		out := n.do(t, request{method: http.MethodGet, path: "/v1/locks", key: key})
		if want == "" {
			if out.status != 200 {
				t.Errorf("key %q: %d %s; want 200", key, out.status, out.body)
			}
			continue
		}
		if p := out.problem(t); out.status != 503 || p.Code != want || out.header.Get("Retry-After") == "" {
			t.Errorf("key %q: %d %s, Retry-After %q; want 503 %s with one", key, out.status, out.body, out.header.Get("Retry-After"), want)
		}
		if got := out.header.Get("Www-Authenticate"); got != "" {
			t.Errorf("key %q: the answer asks for another key: Www-Authenticate: %s", key, got)
		}
	}
}

func TestAuthorization_schemeIsReadInAnyCase(t *testing.T) {
	n := leading(t, &locks{})
	for header, want := range map[string]int{"Bearer " + goodKey: 200, "bearer " + goodKey: 200, goodKey: 401, "Basic " + goodKey: 401,
		"Bearer  " + goodKey: 401, "Bearer" + goodKey: 401} {
		got := raw(t, n, "GET /v1/locks HTTP/1.1\r\nHost: n1.test\r\nAuthorization: "+header+"\r\n\r\n")
		if got != want {
			t.Errorf("Authorization: %s gives %d; want %d", header, got, want)
		}
	}
}

func TestForeignIDs_answerAsUnknownOnes(t *testing.T) {
	foreign := 0
	n := leading(t, owned("acme", &foreign))
	get := func(key, id string) string {
		out := n.do(t, request{method: http.MethodGet, path: "/v1/leases/" + id, key: key, id: "same"})
		return string(out.body)
	}
	unknown := leading(t, &locks{}).do(t, request{method: http.MethodGet, path: "/v1/leases/" + session + ".9", key: goodKey, id: "same"})
	if got := get(foreignKey, leaseOne); got != string(unknown.body) {
		t.Errorf("a foreign id answers %s, an unknown one %s", got, unknown.body)
	}
}

func TestScope_boundsClasses(t *testing.T) {
	n := leading(t, &locks{})
	for class, allowed := range map[string]bool{"ledger-close": true, "ledger-": true, "ledger": false, "other": false, "x-ledger-close": false} {
		out := n.do(t, request{method: http.MethodPut, path: "/v1/leases/" + leaseOne, key: narrowKey, body: `{"class":"` + class + `","key":"k"}`})
		if allowed != (out.status == 200) {
			t.Errorf("class %s with scope locks:ledger-*: %d", class, out.status)
		}
		if !allowed {
			if p := out.problem(t); p.Code != wire.CodeForbidden || p.Scope != "locks:"+class {
				t.Errorf("class %s: %s; want forbidden naming the scope", class, out.body)
			}
		}
	}
}

func TestLog_holdsNoSecret(t *testing.T) {
	n := leading(t, failing(context.DeadlineExceeded))
	n.do(t, put(leaseOne, plainAcquire))
	n.do(t, request{method: http.MethodGet, path: "/v1/locks?key=secret-name", key: "stn_wrong", id: "chosen.id-1"})
	n.do(t, request{method: http.MethodGet, path: "/nothing/" + session, key: goodKey})
	log := n.log.String()
	for _, secret := range []string{goodKey, "stn_wrong", session, "secret-name", "Bearer", "2026-06"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log tells %q:\n%s", secret, log)
		}
	}
	for _, want := range []string{"tenant=acme", "api_key=good", "route=/v1/leases/:lease", "status=503", "status=401", "request_id=chosen.id-1"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

func TestRequestID_isEchoedOrDrawn(t *testing.T) {
	n := leading(t, &locks{})
	for chosen, echoed := range map[string]bool{"abc-1.Z_9": true, "": false, "a b": false, "ä": false, strings.Repeat("x", 65): false} {
		out := n.do(t, request{method: http.MethodGet, path: "/healthz", id: chosen})
		got := out.header.Get("X-Request-Id")
		if got == "" || (got == chosen) != echoed {
			t.Errorf("request id %q is answered with %q", chosen, got)
		}
	}
}
