package audit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/lockcore"
)

// lockKinds says for every kind of the core what it is here; empty: nothing.
var lockKinds = map[string]string{
	"epoch_advanced": "epoch_advanced", "tenant_put": "", "tenant_dropped": "tenant_dropped", "tenant_gone": "tenant_gone",
	"class_in_force": "class_in_force", "class_retired": "class_retired", "queued": "queued", "granted": "granted",
	"promoted": "promoted", "refused": "refused", "left": "left", "ending": "ending", "ended": "ended",
	"delay_started": "delay_started", "delay_ended": "delay_ended", "burned": "burned", "session_ended": "",
	"session_forgotten": "", "level_raised": "", "guard_reported": "guard_reported", "fenced": "fenced",
}

func TestFromLock_decidesEveryKind(t *testing.T) {
	n := 0
	for kind := lockcore.EventKind(1); kind.String() != "unknown"; kind++ {
		n++
		want, decided := lockKinds[kind.String()]
		if !decided {
			t.Errorf("%s: the core has a kind that the audit has not decided on", kind)
		}
		got, ok := audit.FromLock(lockcore.Event{Kind: kind})
		if ok != (want != "") || got.Kind != want {
			t.Errorf("%s: got %q, %v, want %q", kind, got.Kind, ok, want)
		}
		if ok && !audit.ValidKind(got.Kind) {
			t.Errorf("%s: got kind %q, which is not in the table", kind, got.Kind)
		}
	}
	if n == 0 {
		t.Error("the core has no kinds")
	}
}

func TestFromLock_namesEnds(t *testing.T) {
	for _, reason := range lockcore.Reasons() {
		want := map[lockcore.Reason]string{lockcore.Released: "released", lockcore.Expired: "expired", lockcore.Forced: "forced"}[reason]
		if want == "" {
			want = "ended"
		}
		got, _ := audit.FromLock(lockcore.Event{Kind: lockcore.EventEnded, Reason: reason})
		if got.Kind != want || got.Reason != reason.String() {
			t.Errorf("ended, %s: got %q for %q, want %q", reason, got.Kind, got.Reason, want)
		}
		if want = "left"; reason == lockcore.WaitTimeout {
			want = "timed_out"
		}
		if got, _ = audit.FromLock(lockcore.Event{Kind: lockcore.EventLeft, Reason: reason}); got.Kind != want {
			t.Errorf("left, %s: got %q, want %q", reason, got.Kind, want)
		}
	}
}

func TestFromLock_keepsWhatTheEventSays(t *testing.T) {
	lease := lockcore.LeaseID{Session: lockcore.SessionID{1, 2, 3}, Sequence: 12}
	got, ok := audit.FromLock(lockcore.Event{Kind: lockcore.EventEnding, Reason: lockcore.Forced, Tenant: acme, Class: "ledger",
		Key: "k", Lease: lease, Token: 5, Epoch: 6, Version: 7, Holder: "h", APIKey: "ak", By: "b", Note: "n", AtMS: 8})
	want := audit.Event{Kind: "ending", Reason: "forced", Tenant: acme, Class: "ledger", Key: "k", Request: audit.RequestName(lease),
		Token: 5, Epoch: 6, Version: 7, Holder: "h", APIKey: "ak", By: "b", Note: "n", AtMS: 8}
	if !ok || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got, _ = audit.FromLock(lockcore.Event{Kind: lockcore.EventFenced, Token: 31, Count: 4, Highest: 33})
	if want = (audit.Event{Kind: "fenced", Token: 31, Count: 4, Detail: "highest=33"}); got != want {
		t.Errorf("fenced: got %+v, want %+v", got, want)
	}
	if got, _ = audit.FromLock(lockcore.Event{Kind: lockcore.EventClassInForce, Note: "digest"}); got.Detail != "digest" || got.Note != "" {
		t.Errorf("class in force: got detail %q, note %q, want the digest as detail", got.Detail, got.Note)
	}
}

func TestRequestName_doesNotGiveTheSessionAway(t *testing.T) {
	lease := lockcore.LeaseID{Session: lockcore.SessionID{0xab, 0xcd}, Sequence: 12}
	got := audit.RequestName(lease)
	sum := sha256.Sum256([]byte("abcd0000000000000000000000000000"))
	if want := hex.EncodeToString(sum[:])[:16] + ".12"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if other := audit.RequestName(lockcore.LeaseID{Session: lockcore.SessionID{0xab, 0xce}, Sequence: 12}); other == got {
		t.Errorf("another session: got %q as well", other)
	}
	if got := audit.RequestName(lockcore.LeaseID{}); got != "" {
		t.Errorf("no lease: got %q, want none", got)
	}
}

func TestKinds_sayWhatTheyMean(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range audit.Kinds() {
		if seen[k.Name] || !audit.ValidKind(k.Name) || !strings.HasSuffix(k.Meaning, ".") || strings.ToLower(k.Name) != k.Name {
			t.Errorf("kind %+v: got it twice, not valid, or without a sentence", k)
		}
		seen[k.Name] = true
	}
	if audit.ValidKind("heartbeat") || audit.ValidKind("") {
		t.Error("heartbeats are no events")
	}
}
