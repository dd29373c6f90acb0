package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// apiWith runs an API that answers every call the same, and remembers the last one.
func apiWith(t *testing.T, status int, answer any) (last *http.Request, body *string) {
	t.Helper()
	last, body = new(http.Request), new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		*last, *body = *r, string(raw)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	t.Setenv("STANCHION_ENDPOINTS", s.URL)
	t.Setenv("STANCHION_API_KEY", "stn_test")
	return last, body
}

// command runs a command line and returns what it printed.
func command(t *testing.T, args ...string) (out, notes string, err error) {
	t.Helper()
	root := newRoot()
	var stdout, stderr bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestAPIKeyCreate_printsTheKeyAloneOnceOrIntoAPrivateFile(t *testing.T) {
	made := wire.APIKeyMade{APIKey: wire.APIKey{ID: "aaaaaaaaaa", Name: "job"}, Secret: "stn_secret", Spread: wire.Spread{NotYetOn: []string{"n3"}}}
	last, body := apiWith(t, http.StatusCreated, made)
	args := []string{"api-key", "create", "--tenant", "acme", "--name", "job", "--scope", "audit:read", "--scope", "locks:*", "--expires-in", "90d"}
	out, notes, err := command(t, args...)
	if err != nil || out != "stn_secret\n" || strings.Contains(notes, "stn_secret") || !strings.Contains(notes, "not known yet on n3") {
		t.Errorf("got %q, notes %q, %v, want the key alone on standard output", out, notes, err)
	}
	if last.Method != http.MethodPost || last.URL.Path != "/v1/tenants/acme/api-keys" || last.Header.Get("Authorization") != "Bearer stn_test" {
		t.Errorf("got %s %s", last.Method, last.URL.Path)
	}
	if want := `{"name":"job","scopes":["audit:read","locks:*"],"expires_in":"7776000s"}`; *body != want {
		t.Errorf("got body %s, want %s", *body, want)
	}
	file := filepath.Join(t.TempDir(), "new.key")
	for _, output := range []string{"table", "json"} {
		_ = os.Remove(file)
		out, notes, err = command(t, append(args, "--to", file, "--output", output)...)
		kept, readErr := os.ReadFile(file)
		info, statErr := os.Stat(file)
		if err != nil || readErr != nil || statErr != nil || string(kept) != "stn_secret\n" || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %q, %v %v %v, want the key in a file for its owner alone", output, kept, err, readErr, statErr)
		}
		if strings.Contains(out+notes, "stn_secret") {
			t.Errorf("%s: the key is printed besides: %q %q", output, out, notes)
		}
	}
}

// brokenPipe is an output that nobody reads any more.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAPIKeyCreate_keepsTheFileWhenNobodyReadsTheRest(t *testing.T) {
	apiWith(t, http.StatusCreated, wire.APIKeyMade{APIKey: wire.APIKey{ID: "aaaaaaaaaa"}, Secret: "stn_secret"})
	for _, output := range []string{"table", "json"} {
		file := filepath.Join(t.TempDir(), "new.key")
		root := newRoot()
		root.SetArgs([]string{"api-key", "create", "--name", "job", "--scope", "audit:read", "--to", file, "--output", output})
		root.SetOut(brokenPipe{})
		root.SetErr(brokenPipe{})
		err := root.ExecuteContext(t.Context())
		if kept, readErr := os.ReadFile(file); err == nil || readErr != nil || string(kept) != "stn_secret\n" {
			t.Errorf("%s: got %v, file %q, %v; want an error, and the API key in its file", output, err, kept, readErr)
		}
	}
}

func TestAPIKeyAndTenant_showOddNamesHarmlessly(t *testing.T) {
	for name := range oddNames {
		key := wire.APIKey{ID: "aaaaaaaaaa", Name: name, CreatedBy: name}
		tenant := wire.Tenant{Tenant: "acme", OwnerGroups: []string{name}}
		for line, answer := range map[string]any{
			"api-key show self": key, "api-key list": wire.APIKeyList{APIKeys: []wire.APIKey{key}},
			"api-key end-overlap aaaaaaaaaa": wire.APIKeyEnded{APIKey: key},
			"tenant show acme":               tenant, "tenant list": wire.TenantList{Tenants: []wire.Tenant{tenant}},
		} {
			apiWith(t, http.StatusOK, answer)
			out, _, err := command(t, strings.Fields(line)...)
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
			for _, r := range out {
				if r != '\n' && !unicode.IsPrint(r) && r != '\ufe0f' {
					t.Errorf("%s prints %q of %q", line, r, name)
				}
			}
		}
	}
}

// An answer that never comes leaves open whether there is a key, as one that says so does.
func TestAPIKeyRotate_saysThatItMayHaveBeenDoneWhenTheAnswerIsLost(t *testing.T) {
	var asked atomic.Int32
	o := fakeAPI(t, func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	})
	_, _, err := command(t, "api-key", "rotate", "self", "--endpoints", o.endpoints)
	if err == nil || !strings.Contains(err.Error(), "may have been made") || asked.Load() != 1 {
		t.Errorf("got %v after %d requests; want one, and that a key may have been made", err, asked.Load())
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	client := apiClient{endpoints: []string{closed.URL}, http: http.DefaultClient}
	_, err = client.attempt(t.Context(), closed.URL, apiRequest{method: http.MethodPost}, nil, "")
	if err == nil || outcomeUnknown(err) {
		t.Errorf("where nobody listens: %v is told as an unknown outcome", err)
	}
}

// A proxy that sends plain HTTP to HTTPS would have a DELETE repeated as a GET, which answers as if all were well.
func TestCall_takesNoRedirectForSuccess(t *testing.T) {
	var gone []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/there") {
			http.Redirect(w, r, "/there"+r.URL.Path, http.StatusMovedPermanently)
			return
		}
		gone = append(gone, r.Method+" "+r.URL.Path)
		answerJSON(t, w, http.StatusOK, wire.Tenant{Tenant: "acme", State: wire.TenantLive})
	}))
	t.Cleanup(s.Close)
	t.Setenv("STANCHION_ENDPOINTS", s.URL)
	t.Setenv("STANCHION_API_KEY", "stn_test")
	for _, line := range []string{"tenant drop acme --reason closed", "class retire ledger-close --reason moved", "api-key create --name n --scope audit:read",
		"tenant show acme"} {
		out, _, err := command(t, strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), "/there/v1/") || out != "" || len(gone) > 0 {
			t.Errorf("%s: got %q, %v, passed on %v; want an error that names the other address", line, out, err, gone)
		}
		gone = nil
	}
}

// A node that stops in the middle of its answer does not keep a command for ever.
func TestCall_isNotHeldByAnAnswerThatDoesNotEnd(t *testing.T) {
	o := fakeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"tenant":`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	client, err := o.client()
	if err != nil {
		t.Fatal(err)
	}
	client.answerTime = 50 * time.Millisecond
	var answer wire.Tenant
	if _, err := client.call(t.Context(), apiRequest{method: http.MethodGet, path: "/v1/tenants/acme"}, &answer); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v; want that the time is over", err)
	}
}

func TestAPIKeyCreate_leavesNoFileWhenNoneWasMade(t *testing.T) {
	apiWith(t, http.StatusForbidden, wire.NewProblem(wire.CodeWiderScope, ""))
	file := filepath.Join(t.TempDir(), "new.key")
	_, _, err := command(t, "api-key", "create", "--name", "job", "--scope", "audit:read", "--to", file)
	if err == nil || !strings.Contains(err.Error(), "wider_scope") {
		t.Fatalf("got %v, want the problem", err)
	}
	if got := explain(err, newRoot(), true).Remedy; !strings.Contains(got, "use a wider one") {
		t.Errorf("what to do is %q, want what the problem says", got)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a file was left behind: %v", err)
	}
}

func TestTenant_asksWhatItIsToldTo(t *testing.T) {
	last, body := apiWith(t, http.StatusOK, wire.Tenant{Tenant: "stock", State: wire.TenantEnding, OwnerGroups: []string{"owners"}})
	for _, c := range []struct{ line, method, path, body string }{
		{"tenant create stock --owner-group owners --quota-leases 7", "POST", "/v1/tenants",
			`{"tenant":"stock","owner_groups":["owners"],"quotas":{"leases":7}}`},
		{"tenant show stock", "GET", "/v1/tenants/stock", ""},
		{"tenant update stock --quota-requests-per-second 5", "PATCH", "/v1/tenants/stock", `{"quotas":{"requests_per_second":5}}`},
		{"tenant suspend stock --reason unpaid", "POST", "/v1/tenants/stock/suspend", `{"reason":"unpaid"}`},
		{"tenant resume stock", "POST", "/v1/tenants/stock/resume", ""},
		{"tenant drop stock --reason closed", "DELETE", "/v1/tenants/stock", `{"reason":"closed"}`},
		{"api-key revoke aaaaaaaaaa --reason leaked", "POST", "/v1/api-keys/aaaaaaaaaa/revoke", `{"reason":"leaked"}`},
		{"api-key end-overlap aaaaaaaaaa --tenant stock", "POST", "/v1/tenants/stock/api-keys/aaaaaaaaaa/end-overlap", ""},
		{"api-key show self", "GET", "/v1/api-keys/self", ""},
	} {
		out, _, err := command(t, strings.Fields(c.line)...)
		if err != nil || out == "" || last.Method != c.method || last.URL.Path != c.path || *body != c.body {
			t.Errorf("%s: got %s %s %s, %v, want %s %s %s", c.line, last.Method, last.URL.Path, *body, err, c.method, c.path, c.body)
		}
	}
}
