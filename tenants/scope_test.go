package tenants_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/tenants"
)

func TestParseScope_takesTheWrittenFormsOnly(t *testing.T) {
	long := strings.Repeat("a", 63)
	good := []string{"locks:*", "locks:ledger-*", "locks:ledger-close", "classes:declare:*", "classes:declare:a", "audit:read",
		"guard:report", "tenant:admin", "platform:operator", "locks:" + long, "locks:" + long[:62] + "*"}
	for _, text := range good {
		s, err := tenants.ParseScope(text)
		if err != nil || s.String() != text {
			t.Errorf("%q: got %q, %v", text, s, err)
		}
	}
	bad := []string{"", "locks", "locks:", "locks:**", "locks:*a", "locks:a*b", "locks:A", "locks: a", "LOCKS:*", "classes:*",
		"classes:declare", "classes:declare:", "audit:read:*", "audit:*", "*", "tenant:admin:", "locks:" + long + "a",
		"locks:" + long + "*", "locks:a_b", "locks:ä", "locks:a\n", " locks:a"}
	for _, text := range bad {
		if s, err := tenants.ParseScope(text); !errors.Is(err, tenants.ErrInvalidScope) {
			t.Errorf("%q: got %q, %v, want ErrInvalidScope", text, s, err)
		}
	}
}

func TestScope_allowsItsVerbOnItsClasses(t *testing.T) {
	for _, c := range []struct {
		scope string
		verb  tenants.Verb
		class string
		want  bool
	}{
		{"locks:ledger-*", tenants.VerbLocks, "ledger-close", true},
		{"locks:ledger-*", tenants.VerbLocks, "ledger-", true},
		{"locks:ledger-*", tenants.VerbLocks, "ledger", false},
		{"locks:ledger-*", tenants.VerbDeclareClasses, "ledger-close", false},
		{"locks:ledger", tenants.VerbLocks, "ledger", true},
		{"locks:ledger", tenants.VerbLocks, "ledger-close", false},
		{"locks:*", tenants.VerbLocks, "anything", true},
		{"locks:*", tenants.VerbLocks, "", false},
		{"classes:declare:*", tenants.VerbLocks, "anything", false},
		{"audit:read", tenants.VerbReadAudit, "", true},
		{"audit:read", tenants.VerbReadAudit, "ledger-close", true},
		{"tenant:admin", tenants.VerbLocks, "ledger-close", false},
		{"tenant:admin", tenants.VerbReadAudit, "", false},
		{"platform:operator", tenants.VerbAdministerTenant, "", false},
		{"platform:operator", tenants.VerbLocks, "ledger-close", false},
	} {
		if got := scopes(t, c.scope).Allows(c.verb, c.class); got != c.want {
			t.Errorf("%s allows %s on %q: got %v, want %v", c.scope, c.verb, c.class, got, c.want)
		}
	}
}

func TestScope_coversWhatIsNoWider(t *testing.T) {
	for _, c := range []struct {
		scope, other string
		want         bool
	}{
		{"locks:*", "locks:ledger-*", true},
		{"locks:*", "locks:*", true},
		{"locks:ledger-*", "locks:*", false},
		{"locks:ledger-*", "locks:ledger-close", true},
		{"locks:ledger-*", "locks:ledger-close-*", true},
		{"locks:ledger-*", "locks:ledg*", false},
		{"locks:ledger-*", "locks:ledger", false},
		{"locks:ledger", "locks:ledger", true},
		{"locks:ledger", "locks:ledger*", false},
		{"locks:*", "classes:declare:a", false},
		{"tenant:admin", "locks:a", false},
		{"tenant:admin", "tenant:admin", true},
		{"tenant:admin", "platform:operator", false},
		{"platform:operator", "locks:*", true},
		{"platform:operator", "tenant:admin", true},
	} {
		if got := scopes(t, c.scope).Covers(scopes(t, c.other)); got != c.want {
			t.Errorf("%s covers %s: got %v, want %v", c.scope, c.other, got, c.want)
		}
	}
}

// What is covered allows nothing more: checked over all short patterns and class names.
func TestScope_coveringImpliesAllowing(t *testing.T) {
	var names []string
	for _, a := range []string{"a", "b"} {
		names = append(names, a)
		for _, b := range []string{"a", "b"} {
			names = append(names, a+b, a+b+"a")
		}
	}
	patterns := append([]string{"*"}, names...)
	for _, n := range names {
		patterns = append(patterns, n+"*")
	}
	for _, p := range patterns {
		for _, q := range patterns {
			wide, narrow := scopes(t, "locks:"+p), scopes(t, "locks:"+q)
			for _, n := range names {
				if wide.Covers(narrow) && narrow.Allows(tenants.VerbLocks, n) && !wide.Allows(tenants.VerbLocks, n) {
					t.Errorf("%s covers %s, which allows %s that it does not", p, q, n)
				}
			}
		}
	}
}

func TestScope_isTextInJSON(t *testing.T) {
	b, err := json.Marshal(scopes(t, "locks:ledger-*", "audit:read"))
	if err != nil || string(b) != `["audit:read","locks:ledger-*"]` {
		t.Fatalf("got %s, %v", b, err)
	}
	var back tenants.Scopes
	if err := json.Unmarshal([]byte(`["locks:a"]`), &back); err != nil || back[0].String() != "locks:a" {
		t.Errorf("got %v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`["locks"]`), &back); !errors.Is(err, tenants.ErrInvalidScope) {
		t.Errorf("got %v, want ErrInvalidScope", err)
	}
	if _, err := json.Marshal(tenants.Scope{Verb: "locks"}); !errors.Is(err, tenants.ErrInvalidScope) {
		t.Errorf("got %v, want ErrInvalidScope", err)
	}
}

func FuzzParseScope(f *testing.F) {
	for _, s := range []string{"locks:ledger-*", "classes:declare:*", "audit:read", "locks:", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := tenants.ParseScope(text)
		switch {
		case err != nil && !errors.Is(err, tenants.ErrInvalidScope):
			t.Errorf("got %v, want ErrInvalidScope", err)
		case err == nil && (s.String() != text || !s.Covers(s)):
			t.Errorf("%q is accepted as %q", text, s)
		}
	})
}
