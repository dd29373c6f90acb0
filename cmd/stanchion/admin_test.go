package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/review"
)

// A signature is the word of an owner who has just signed in. The operator's socket gets around that in a development
// cluster alone, and such a node is on loopback alone.
func TestAdmin_takesNoReviewOutsideDevelopment(t *testing.T) {
	now := time.Now().UnixMilli()
	entry, err := control.Entry{Review: review.Sign{Tenant: "acme", Class: "ledger-close", Version: 1,
		Digest: review.DigestOf(nil), Signer: devOwner, SignerGroups: []review.Group{"ledger-owners"},
		ClaimsVersion: review.ClaimsTableVersion, AuthTimeMS: now, AtMS: now}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/control", bytes.NewReader(entry))
	newAdmin(nil, false, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "signed by their owners") {
		t.Errorf("got %d %s; want it refused", w.Code, w.Body)
	}
}

func TestConfig_onLoopback(t *testing.T) {
	for _, c := range []struct {
		listen, peer string
		want         bool
	}{
		{"localhost:8420", "127.0.0.1:9000", true},
		{"[::1]:8420", "localhost:9000", true},
		{"0.0.0.0:8420", "127.0.0.1:9000", false},
		{"localhost:8420", "10.0.0.1:9000", false},
		{":8420", "127.0.0.1:9000", false},
	} {
		config := nodeConfig{Listen: c.listen, Nodes: []memberFile{{ID: "n1", Peer: c.peer}}}
		if got := config.onLoopback(); got != c.want {
			t.Errorf("listen %s, peer %s: got %v, want %v", c.listen, c.peer, got, c.want)
		}
	}
}
