package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/web/api"
)

var description = sync.OnceValues(func() (*openapi3.T, error) {
	openapi3filter.RegisterBodyDecoder("application/schema+json", openapi3filter.RegisteredBodyDecoder("application/json"))
	return openapi3.NewLoader().LoadFromData(api.OpenAPI)
})

func TestOpenAPI_isValid(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
}

func TestOpenAPI_describesEveryRouteAndNoOther(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	var described, registered []string
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			described = append(described, method+" "+path)
			public := op.Security != nil && len(*op.Security) == 0
			if want := path == publicTable || !strings.HasPrefix(path, "/v1/"); public != want {
				t.Errorf("%s %s is described as public: %v", method, path, public)
			}
		}
	}
	for _, r := range leading(t, &locks{}).server.Routes() {
		registered = append(registered, r.Method+" "+templated(r.Path))
	}
	slices.Sort(described)
	slices.Sort(registered)
	if !slices.Equal(described, registered) {
		t.Errorf("described\n%s\nregistered\n%s", strings.Join(described, "\n"), strings.Join(registered, "\n"))
	}
}

func TestOpenAPI_listsEveryProblemCode(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, code := range doc.Components.Schemas["Code"].Value.Enum {
		listed[code.(string)] = true
	}
	want := map[string]bool{}
	for _, k := range wire.Problems() {
		want[string(k.Code)] = true
	}
	if !maps.Equal(listed, want) {
		t.Errorf("described codes %v; the table has %v", slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(want)))
	}
}

func TestOpenAPI_itsExamplesAreTaken(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	n := leading(t, &locks{
		heartbeat: func(context.Context, leader.Heartbeat) (leader.HeartbeatAnswer, error) {
			return leader.HeartbeatAnswer{}, nil
		},
		list: func(_ context.Context, q api.LockQuery) (api.LockPage, error) { return heldBy33(q), nil },
		command: func(context.Context, lockcore.Command) (lockcore.Result, error) {
			return lockcore.Result{Outcome: lockcore.Done}, nil
		},
	})
	classes := newClassWorld(t)
	classes.signed(classFile)
	orphaned := newOrphanedClass(t)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}
			example := op.RequestBody.Value.Content["application/json"].Example
			if example == nil {
				t.Errorf("%s %s has no example", method, path)
				continue
			}
			body, err := json.Marshal(example)
			if err != nil {
				t.Fatal(err)
			}
			address := strings.NewReplacer("{lease}", leaseOne, "{session}", session).Replace(path)
			n, key := n, goodKey
			if strings.HasPrefix(path, "/v1/classes") {
				address, n, key = strings.Replace(address, "{class}", "ledger-close", 1), classes.node, classes.declares
			}
			if strings.HasPrefix(path, "/v1/tenants") || strings.HasPrefix(path, "/v1/api-keys") {
				address = strings.NewReplacer("{tenant}", "acme", "{id}", string(targetKey)).Replace(address)
				n, _ = inLog(t, &locks{})
				if strings.HasPrefix(path, "/v1/tenants") {
					key = operatorKey
				}
			}
			if strings.HasSuffix(path, "/transfer-owner") {
				address = strings.NewReplacer("{tenant}", "acme", "{class}", "ledger-close").Replace(address)
				n, key = orphaned.node, orphaned.operates
			}
			if out := n.do(t, request{method: method, path: address, key: key, body: string(body)}); out.status >= 300 {
				t.Errorf("%s %s answers its example %s with %d %s", method, path, body, out.status, out.body)
			}
		}
	}
}

// templated writes a route's parameters as the description does.
func templated(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

// pattern finds the described path that an address belongs to.
func pattern(doc *openapi3.T, address string) (string, map[string]string) {
	if doc.Paths.Value(address) != nil {
		return address, nil // goes before a path that would take a part of it for a parameter
	}
	parts := strings.Split(address, "/")
	for path := range doc.Paths.Map() {
		want, params := strings.Split(path, "/"), map[string]string{}
		fits := len(want) == len(parts)
		for i := 0; fits && i < len(parts); i++ {
			if strings.HasPrefix(want[i], "{") {
				params[strings.Trim(want[i], "{}")] = parts[i]
				continue
			}
			fits = want[i] == parts[i]
		}
		if fits {
			return path, params
		}
	}
	return "", nil
}

// checkDescribed holds an answer against the API's description. An address that is not described answers a problem.
func checkDescribed(t *testing.T, in request, out reply) {
	t.Helper()
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(in.path)
	if err != nil {
		t.Fatal(err)
	}
	path, params := pattern(doc, u.EscapedPath())
	item := doc.Paths.Value(path)
	if path == "" || item.GetOperation(in.method) == nil {
		out.problem(t)
		return
	}
	r, err := http.NewRequestWithContext(t.Context(), in.method, "http://any.test"+in.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	checked := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params,
			Route: &routers.Route{Spec: doc, Path: path, PathItem: item, Method: in.method, Operation: item.GetOperation(in.method)}},
		Status: out.status, Header: out.header, Body: io.NopCloser(bytes.NewReader(out.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateResponse(t.Context(), checked); err != nil {
		t.Errorf("%s %s answers %d %.300s\nnot as described: %v", in.method, in.path, out.status, out.body, err)
	}
}
