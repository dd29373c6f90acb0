package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

func TestAPIKeyCreate_leavesNoFileWhenNoneWasMade(t *testing.T) {
	apiWith(t, http.StatusForbidden, wire.NewProblem(wire.CodeWiderScope, ""))
	file := filepath.Join(t.TempDir(), "new.key")
	_, _, err := command(t, "api-key", "create", "--name", "job", "--scope", "audit:read", "--to", file)
	if err == nil || !strings.Contains(err.Error(), "wider_scope") || !strings.Contains(err.Error(), "use a wider one") {
		t.Errorf("got %v, want the problem and what to do about it", err)
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
