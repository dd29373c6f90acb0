package web_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web/api"
)

// authenticateByControl accepts the API keys that the control log knows.
func (p *platform) authenticateByControl(presented string) (tenants.Principal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.control == nil {
		return tenants.Principal{}, tenants.ErrUnauthorized
	}
	return p.control.Authenticate(presented, time.Now().UnixMilli())
}

func (p *platform) InForce(t lockcore.TenantID, c lockcore.ClassName) uint64 {
	if p.inForce == nil {
		return 0
	}
	return p.inForce(t, c)
}

func (p *platform) InForceOnNodes(_ context.Context, t lockcore.TenantID, c lockcore.ClassName) []api.ClassOnNode {
	return []api.ClassOnNode{{Node: "n1", Version: p.InForce(t, c), Answered: true}, {Node: "n2"}}
}

const classFile = `format: 1
class: ledger-close
resource: postgres:ledger
owner: group:ledger-owners
purpose: correctness
enforcement: fenced
quorum_loss: closed
guard: column fence
`

// classWorld is a node that leads the control group of a cluster with two tenants, and the API keys of one.
type classWorld struct {
	*node
	t        *testing.T
	p        *platform
	inForce  atomic.Uint64 // of every class
	declares string        // API key with classes:declare:ledger-*
	uses     string        // API key with locks:ledger-close
	audits   string        // API key with audit:read
	foreign  string        // API key of another tenant, with everything
	operates string        // an operator's API key
}

func newClassWorld(t *testing.T) *classWorld {
	t.Helper()
	w := &classWorld{t: t, p: &platform{locks: &locks{}, leader: &self, control: control.New()}}
	w.p.inForce = func(lockcore.TenantID, lockcore.ClassName) uint64 { return w.inForce.Load() }
	w.mustControl(control.Entry{Cluster: &control.SetCluster{ClusterID: "0b9aa3f2-1111-4222-8333-444455556666", PartitionCount: 1, CreatedMS: 1}})
	for _, id := range []tenants.TenantID{"acme", "globex"} {
		w.mustControl(control.Entry{Tenants: tenants.PutTenant{Tenant: id, OwnerGroups: []tenants.Group{"ledger-owners", "finance"},
			Quotas: tenants.QuotasDefault(), Partition: 1, By: tenants.ByPlatform(), AtMS: 1}})
	}
	w.declares = w.key(1, "acme", "classes:declare:ledger-*")
	w.uses = w.key(2, "acme", "locks:ledger-close")
	w.audits = w.key(3, "acme", "audit:read")
	w.foreign = w.key(4, "globex", "classes:declare:*", "locks:*", "audit:read")
	w.operates = w.key(5, tenants.Platform, "platform:operator")
	w.node = start(t, w.p, options{})
	return w
}

func (w *classWorld) mustControl(e control.Entry) control.Result {
	w.t.Helper()
	r, err := w.p.Control(w.t.Context(), e)
	if err != nil || !r.OK {
		w.t.Fatalf("%+v: %+v, %v", e, r, err)
	}
	return r
}

// key makes the n-th API key of a fixed row.
func (w *classWorld) key(n int, tenant tenants.TenantID, scopes ...string) string {
	w.t.Helper()
	var randomness []byte
	for i := range 8 {
		sum := sha256.Sum256(fmt.Appendf(nil, "class key %d/%d", n, i))
		randomness = append(randomness, sum[:]...)
	}
	c, err := tenants.GenerateCredential(bytes.NewReader(randomness))
	if err != nil {
		w.t.Fatal(err)
	}
	parsed, err := tenants.ParseScopes(scopes...)
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	w.mustControl(control.Entry{Tenants: tenants.CreateAPIKey{Tenant: tenant, Key: c.ID(), Hash: c.Hash(), Name: fmt.Sprintf("key %d", n),
		Scopes: parsed, ExpiresMS: now + 3_600_000, AtMS: now,
		By: tenants.ByPerson(tenants.Person{Issuer: "https://idp.test", Subject: "admin", Email: "admin@dev.test"})}})
	return c.Reveal()
}

func (w *classWorld) put(query, file string) reply {
	w.t.Helper()
	return w.do(w.t, request{method: http.MethodPut, path: "/v1/classes/ledger-close" + query, key: w.declares, body: file,
		contentType: "application/yaml", id: "fixed"})
}

func (w *classWorld) get(path string) reply {
	w.t.Helper()
	return w.do(w.t, request{method: http.MethodGet, path: path, key: w.declares, id: "fixed"})
}

// sign signs a version as its owner.
func (w *classWorld) sign(number uint64) {
	w.t.Helper()
	w.p.mu.Lock()
	class, _ := w.p.control.Class("acme", "ledger-close")
	w.p.mu.Unlock()
	v, _ := class.Version(number)
	now := time.Now().UnixMilli()
	w.mustControl(control.Entry{Review: review.Sign{Tenant: "acme", Class: "ledger-close", Version: number, Digest: v.Digest,
		Signer:       review.Person{Issuer: "https://idp.test", Subject: "owner", Email: "owner@dev.test"},
		SignerGroups: []review.Group{"ledger-owners", "finance"}, Ticked: v.Warnings, ClaimsVersion: 1, AuthTimeMS: now, AtMS: now}})
}

func (w *classWorld) signed(file string) uint64 {
	w.t.Helper()
	var d wire.ClassDeclaration
	out := w.put("", file)
	if decode(w.t, out, &d); out.status != http.StatusCreated {
		w.t.Fatalf("declare: %d %s", out.status, out.body)
	}
	w.sign(d.Version)
	w.inForce.Store(d.Version)
	return d.Version
}

var anyTime = regexp.MustCompile(`"20\d\d-[0-9T:.-]+Z"`)

// tell adds an answer to a golden text, with its times taken out.
func tell(b *strings.Builder, name string, out reply) {
	fmt.Fprintf(b, "%s\n%d %s", name, out.status, anyTime.ReplaceAll(out.body, []byte(`"TIME"`)))
	if l := out.header.Get("Location"); l != "" {
		b.WriteString("Location: " + l + "\n")
	}
}

func TestClasses_areAnsweredAsPublished(t *testing.T) {
	w := newClassWorld(t)
	var told strings.Builder
	put := func(name, query, file string) { t.Helper(); tell(&told, name, w.put(query, file)) }
	get := func(name, path string) { t.Helper(); tell(&told, name, w.get(path)) }
	warned := strings.Replace(classFile, "enforcement: fenced", "enforcement: advisory", 1)

	get("no such class", "/v1/classes/ledger-close")
	put("a dry run of a new class", "?dry_run=true", classFile)
	put("a new class", "?source_repo=acme%2Fledger&source_commit=0123abcd&source_url=https%3A%2F%2Fgit.test%2F1", classFile)
	put("the same again", "", "# spelled otherwise\n"+classFile)
	put("a rival on the same base", "", warned)
	get("never signed", "/v1/classes/ledger-close")
	tell(&told, "retired without a signature", w.do(t, request{method: http.MethodDelete, path: "/v1/classes/ledger-close", key: w.declares, id: "fixed"}))
	w.sign(1)
	get("signed", "/v1/classes/ledger-close?version=1")
	w.inForce.Store(1)
	get("in force", "/v1/classes/ledger-close")
	get("in force, the version", "/v1/classes/ledger-close?version=1&poll=10s")
	get("stale", "/v1/classes/ledger-close?version=2")
	put("unchanged and in force", "", classFile)
	put("errors", "", strings.Replace(warned, "owner: group:ledger-owners", "owner: somebody", 1)+"lease: 7\nlock: 3s\n")
	put("a base that was replaced", "?base=", classFile+"lease: 20s\n")
	put("a changed purpose", "", strings.Replace(classFile, "correctness", "efficiency", 1))
	put("an unknown owner group", "", strings.Replace(classFile, "ledger-owners", "strangers", 1))
	put("a change of owner", "", strings.Replace(classFile, "ledger-owners", "finance", 1))
	put("a dry run of what is in review", "?dry_run=true", strings.Replace(classFile, "ledger-owners", "finance", 1))
	put("another class than the address", "", strings.Replace(classFile, "ledger-close", "ledger-open", 1))
	get("all classes", "/v1/classes")
	get("all versions, the first page", "/v1/classes/ledger-close/versions?limit=2")
	tell(&told, "retired", w.do(t, request{method: http.MethodDelete, path: "/v1/classes/ledger-close", key: w.declares, body: `{"reason":"moved <away>"}`, id: "fixed"}))
	w.inForce.Store(0)
	tell(&told, "retired again", w.do(t, request{method: http.MethodDelete, path: "/v1/classes/ledger-close", key: w.declares, id: "fixed"}))
	get("retired, the version", "/v1/classes/ledger-close?version=1")
	get("retired, the class", "/v1/classes/ledger-close")
	put("the purpose of a retired name", "?dry_run=true", strings.Replace(classFile, "correctness", "efficiency", 1))
	put("brought back", "", classFile)
	golden(t, "testdata/classes.txt", told.String())
}

func TestDeclareClass_dryRunChangesNothing(t *testing.T) {
	w := newClassWorld(t)
	w.signed(classFile)
	before := w.p.control.Hash()
	for name, file := range map[string]string{"good": classFile + "lease: 20s\n", "same": classFile, "bad": "format: 1\n"} {
		w.put("?dry_run=true", file)
		if w.p.control.Hash() != before {
			t.Errorf("%s: a dry run changed the state", name)
		}
	}
}

func TestDeclareClass_authorIsWhoAnswersForTheKey(t *testing.T) {
	w := newClassWorld(t)
	w.put("", classFile)
	class, _ := w.p.control.Class("acme", "ledger-close")
	author := class.Versions[0].Author
	if author.Lineage == "" || len(author.Persons) != 1 || author.Persons[0].Email != "admin@dev.test" {
		t.Errorf("author %+v; want the key, and who made it", author)
	}
	now := time.Now().UnixMilli()
	r, err := w.p.Control(t.Context(), control.Entry{Review: review.Sign{Tenant: "acme", Class: "ledger-close", Version: 1,
		Digest: class.Versions[0].Digest, Signer: author.Persons[0], SignerGroups: []review.Group{"ledger-owners"}, ClaimsVersion: 1,
		AuthTimeMS: now, AtMS: now}})
	if err != nil || r.Reason != string(review.RefusedAuthor) {
		t.Errorf("signed by who made the key: %+v, %v; want it refused", r, err)
	}
}

func TestDeclareClass_takesYAMLAndJSON(t *testing.T) {
	file, err := json.Marshal(map[string]any{"format": 1, "class": "ledger-close", "resource": "postgres:ledger",
		"owner": "group:ledger-owners", "purpose": "correctness", "enforcement": "fenced", "quorum_loss": "closed", "guard": "column fence"})
	if err != nil {
		t.Fatal(err)
	}
	w := newClassWorld(t)
	var first wire.ClassDeclaration
	for i, c := range []struct {
		contentType, body string
		want              int
	}{
		{"application/json", string(file), 201}, {"application/yaml", classFile, 200}, {"text/yaml; charset=UTF-8", classFile, 200},
		{"application/json; charset=utf-8", string(file), 200}, {"application/yaml", string(file), 200},
		{"application/json", classFile, 400}, {"text/plain", classFile, 415}, {"text/yaml; charset=latin1", classFile, 415},
		{"application/yaml", classFile + "# " + strings.Repeat("x", review.FileBytesMax-len(classFile)-2), 200}, // the most there may be
		{"application/yaml", classFile + "# " + strings.Repeat("x", review.FileBytesMax-len(classFile)-1), 413},
	} {
		out := w.do(t, request{method: http.MethodPut, path: "/v1/classes/ledger-close", key: w.declares, body: c.body, contentType: c.contentType})
		if out.status != c.want {
			t.Errorf("%s %.30q: %d %.200s; want %d", c.contentType, c.body, out.status, out.body, c.want)
		}
		var d wire.ClassDeclaration
		if out.status < 300 {
			decode(t, out, &d)
		}
		if i == 0 {
			first = d
		}
		if out.status < 300 && d.Digest != first.Digest {
			t.Errorf("%s: digest %s; want %s", c.contentType, d.Digest, first.Digest)
		}
	}
}

func TestClasses_areForTheScopesThatTakeThemIn(t *testing.T) {
	w := newClassWorld(t)
	w.signed(classFile)
	for _, c := range []struct {
		name, method, path, key string
		want                    int
	}{
		{"another class", http.MethodPut, "/v1/classes/stock-count", w.declares, 403},
		{"who only uses it", http.MethodPut, "/v1/classes/ledger-close", w.uses, 403},
		{"who only uses it", http.MethodDelete, "/v1/classes/ledger-close", w.uses, 403},
		{"who only audits", http.MethodDelete, "/v1/classes/ledger-close", w.audits, 403},
		{"who uses it", http.MethodGet, "/v1/classes/ledger-close", w.uses, 200},
		{"who uses another", http.MethodGet, "/v1/classes/ledger-open", w.uses, 403},
		{"who audits", http.MethodGet, "/v1/classes/ledger-close?version=1", w.audits, 200},
		{"who audits", http.MethodGet, "/v1/classes/ledger-close/versions", w.audits, 200},
		{"another tenant", http.MethodGet, "/v1/classes/ledger-close", w.foreign, 404},
		{"another tenant", http.MethodGet, "/v1/classes/ledger-close?version=1", w.foreign, 404},
		{"another tenant", http.MethodGet, "/v1/classes/ledger-close/versions", w.foreign, 404},
		{"another tenant", http.MethodDelete, "/v1/classes/ledger-close", w.foreign, 404},
	} {
		in := request{method: c.method, path: c.path, key: c.key}
		if c.method == http.MethodPut {
			in.body, in.contentType = classFile, "application/yaml"
		}
		if out := w.do(t, in); out.status != c.want {
			t.Errorf("%s %s by %s: %d %s; want %d", c.method, c.path, c.name, out.status, out.body, c.want)
		}
	}
	for key, want := range map[string]int{w.declares: 1, w.uses: 1, w.audits: 1, w.foreign: 0} {
		var list wire.ClassList
		decode(t, w.do(t, request{method: http.MethodGet, path: "/v1/classes", key: key}), &list)
		if len(list.Classes) != want {
			t.Errorf("%d classes are listed; want %d", len(list.Classes), want)
		}
	}
}

func TestClasses_comeInPages(t *testing.T) {
	w := newClassWorld(t)
	for i := range 5 {
		name := fmt.Sprintf("ledger-%d", i)
		out := w.do(t, request{method: http.MethodPut, path: "/v1/classes/" + name, key: w.declares,
			body: strings.Replace(classFile, "ledger-close", name, 1), contentType: "application/yaml"})
		if out.status != 201 {
			t.Fatalf("declare: %d %s", out.status, out.body)
		}
		w.put("", classFile+fmt.Sprintf("lease: %ds\n", 10+i))
	}
	var names []string
	for path := "/v1/classes?limit=2"; path != ""; {
		var list wire.ClassList
		decode(t, w.get(path), &list)
		for _, c := range list.Classes {
			names = append(names, c.Class)
		}
		if path = ""; list.NextCursor != "" {
			path = "/v1/classes?limit=2&cursor=" + url.QueryEscape(list.NextCursor)
		}
	}
	if got, want := strings.Join(names, " "), "ledger-0 ledger-1 ledger-2 ledger-3 ledger-4 ledger-close"; got != want {
		t.Errorf("listed %s; want %s", got, want)
	}
	var numbers []string
	for path := "/v1/classes/ledger-close/versions?limit=2"; path != ""; {
		var list wire.ClassVersionList
		decode(t, w.get(path), &list)
		for _, v := range list.Versions {
			numbers = append(numbers, fmt.Sprint(v.Version))
		}
		if path = ""; list.NextCursor != "" {
			path = "/v1/classes/ledger-close/versions?limit=2&cursor=" + url.QueryEscape(list.NextCursor)
		}
	}
	if got, want := strings.Join(numbers, " "), "5 4 3 2 1"; got != want {
		t.Errorf("listed versions %s; want %s", got, want)
	}
}

func TestClasses_refuseWhatIsNotWellFormed(t *testing.T) {
	w := newClassWorld(t)
	w.signed(classFile)
	for field, in := range map[string][]request{
		"class":         {{method: http.MethodGet, path: "/v1/classes/Ledger"}, {method: http.MethodPut, path: "/v1/classes/ledger_x", body: classFile}},
		"dry_run":       {{method: http.MethodPut, path: "/v1/classes/ledger-close?dry_run=1", body: classFile}},
		"base":          {{method: http.MethodPut, path: "/v1/classes/ledger-close?base=abc", body: classFile}},
		"source_url":    {{method: http.MethodPut, path: "/v1/classes/ledger-close?source_url=javascript:alert(1)", body: classFile}},
		"source_repo":   {{method: http.MethodPut, path: "/v1/classes/ledger-close?source_repo=" + strings.Repeat("x", 513), body: classFile}},
		"source_commit": {{method: http.MethodPut, path: "/v1/classes/ledger-close?source_commit=%20", body: classFile}},
		"nothing":       {{method: http.MethodGet, path: "/v1/classes?nothing=1"}, {method: http.MethodDelete, path: "/v1/classes/ledger-close?nothing=1"}},
		"version":       {{method: http.MethodGet, path: "/v1/classes/ledger-close?version=0"}, {method: http.MethodGet, path: "/v1/classes/ledger-close?version=01"}},
		"poll": {{method: http.MethodGet, path: "/v1/classes/ledger-close?poll=1s"}, {method: http.MethodGet, path: "/v1/classes/ledger-close?version=1&poll=11s"},
			{method: http.MethodGet, path: "/v1/classes/ledger-close?version=1&poll=unlimited"}},
		"limit":  {{method: http.MethodGet, path: "/v1/classes?limit=1001"}, {method: http.MethodGet, path: "/v1/classes/ledger-close/versions?limit=0"}},
		"cursor": {{method: http.MethodGet, path: "/v1/classes?cursor=!"}, {method: http.MethodGet, path: "/v1/classes/ledger-close/versions?cursor=YWJj"}},
		"reason": {{method: http.MethodDelete, path: "/v1/classes/ledger-close", body: `{"reason":""}`, contentType: "application/json"},
			{method: http.MethodDelete, path: "/v1/classes/ledger-close", body: `{"reason":"` + strings.Repeat("x", 2001) + `"}`, contentType: "application/json"}},
	} {
		for _, r := range in {
			if r.key = w.declares; r.method == http.MethodPut {
				r.contentType = "application/yaml"
			}
			if out := w.do(t, r); out.status != 400 || out.problem(t).Field != field {
				t.Errorf("%s %.80s: %d %s; want 400 for %s", r.method, r.path, out.status, out.body, field)
			}
		}
	}
}

func TestPosture_arrivesInTheBytesThatWereSigned(t *testing.T) {
	w := newClassWorld(t)
	w.signed(classFile + "description: \"a < b & c > d\"\n")
	var c wire.Class
	decode(t, w.get("/v1/classes/ledger-close"), &c)
	if got := review.DigestOf(c.Posture); string(got) != c.Base {
		t.Errorf("digest of the posture sent is %s; want %s: %s", got, c.Base, c.Posture)
	}
}

func TestClasses_goToTheLeaderOfTheControlGroup(t *testing.T) {
	w := newClassWorld(t)
	w.p.mu.Lock()
	w.p.controlLeader = &api.LeaderRef{NodeID: "n2", URL: "http://n2.test"}
	w.p.mu.Unlock()
	passed := make(chan string, 8)
	w.p.forward = tripper(func(r *http.Request) (*http.Response, error) {
		passed <- r.Method + " " + r.URL.Host + r.URL.RequestURI() + " " + r.Header.Get("Content-Type")
		return &http.Response{StatusCode: 201, Header: http.Header{"Location": {"/there"}, "Content-Type": {"application/json"}},
			Body: http.NoBody, Request: r}, nil
	})
	for _, in := range []request{
		{method: http.MethodPut, path: "/v1/classes/ledger-close?dry_run=true", body: classFile, contentType: "application/yaml"},
		{method: http.MethodGet, path: "/v1/classes/ledger-close?version=1&poll=1s"}, {method: http.MethodGet, path: "/v1/classes"},
		{method: http.MethodGet, path: "/v1/classes/ledger-close/versions"}, {method: http.MethodDelete, path: "/v1/classes/ledger-close"},
	} {
		in.key = w.declares
		out, err := w.try(t.Context(), in)
		if err != nil || out.status != 201 || out.header.Get("Location") != "/there" {
			t.Errorf("%s %s: %d %v %v; want the leader's answer", in.method, in.path, out.status, out.header, err)
		}
		want := in.method + " n2" + in.path + " " + in.contentType
		if got := receive(t, passed, "the request"); got != want {
			t.Errorf("passed on %q; want %q", got, want)
		}
	}
}
