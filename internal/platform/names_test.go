package platform_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// oddKeys are names that something between a client and the state might take for others.
var oddKeys = []string{
	"/v9/", "%2Fv9%2F", "%252Fv9%252F", "a/b", "a%2Fb", "a%2fb", "a%252Fb", "a+b", "a b", "a%20b", ".", "..", "../..", "%2e%2e", "%2E%2E",
	";", "a;b", "a;b=c", "@:#?%&", "a&key=b", "a=b", "\u00e9t\u00e9", "e\u0301te\u0301", "\u212b", "\u00c5", "A", "a", " a", "a ",
	"\U0001f512", "\U0001f512\ufe0f", "\u0645\u0641\u062a\u0627\u062d", "\u202eabc", "\u05de\u05e4\u05ea\u05d7", "\"quoted\"", `back\slash`,
	"<b>", "null", "0", "%", "%zz", "\u2028", "ﬁ", "fi", "ı", "i",
}

func keysAreKeptByteForByte(t *testing.T, c *calm) {
	api := c.client(t, classLong)
	tokens := map[string]uint64{}
	for _, key := range oddKeys {
		r := api.take(t, newID(), classLong, key)
		if r.lease.Key != key {
			t.Errorf("key %q is granted as %q", key, r.lease.Key)
		}
		tokens[key] = r.lease.Token
	}
	for _, key := range oddKeys {
		for _, query := range []string{url.QueryEscape(key), percent(key)} {
			list := api.rawLocks(t, "class="+classLong+"&key="+query)
			if len(list) != 1 || list[0].Key != key || list[0].Holder == nil || list[0].Holder.Token != tokens[key] {
				t.Errorf("asked for key %q as %s, the list is %+v; want that key with token %d", key, query, list, tokens[key])
			}
		}
		for _, l := range api.locks(t, url.Values{"class": {classLong}, "prefix": {key}, "limit": {"1000"}}) {
			if len(l.Key) < len(key) || l.Key[:len(key)] != key {
				t.Errorf("among the keys that begin with %q is %q", key, l.Key)
			}
		}
	}
	var listed []string
	for _, l := range api.locks(t, url.Values{"class": {classLong}, "limit": {"1000"}}) {
		listed = append(listed, l.Key)
	}
	if want := slices.Sorted(slices.Values(oddKeys)); !slices.Equal(listed, want) {
		t.Errorf("the list of all keys is %q; want %q", listed, want)
	}
}

// percent escapes every byte.
func percent(s string) string {
	var out []byte
	for i := range len(s) {
		out = fmt.Appendf(out, "%%%02x", s[i])
	}
	return string(out)
}

// rawLocks lists locks by a query as it stands.
func (c *client) rawLocks(t testing.TB, query string) []wire.Lock {
	t.Helper()
	return c.lockList(t, c.ask(t, http.MethodGet, "/v1/locks?"+query, ""))
}
