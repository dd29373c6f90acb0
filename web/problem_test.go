package web_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/web/api"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the difference")

// refusing is a partition that refuses every acquire for a reason.
func refusing(r lockcore.Reason) *locks {
	return &locks{acquire: func(context.Context, leader.Acquire) (leader.Answer, error) {
		return leader.Answer{Status: leader.StatusRefused, Reason: r, Index: 9}, nil
	}}
}

// over is a partition where every lease asked for has ended, or is ending, for a reason.
func over(s leader.Status, r lockcore.Reason) *locks {
	return &locks{acquire: func(_ context.Context, q leader.Acquire) (leader.Answer, error) {
		return leader.Answer{Status: s, Reason: r, Lease: heldLease(q.Lease, q.Class, q.Key), Index: 9}, nil
	}}
}

// failing is a partition that fails every acquire.
func failing(err error) *locks {
	return &locks{acquire: func(context.Context, leader.Acquire) (leader.Answer, error) { return leader.Answer{}, err }}
}

// provocations lead to a problem each; between them they lead to every one that a request can meet.
var provocations = []struct {
	name  string
	locks *locks
	in    request
}{
	{"class without a version in force", refusing(lockcore.RefusedNotInForce), put(leaseOne, plainAcquire)},
	{"retired class", refusing(lockcore.RefusedRetired), put(leaseOne, plainAcquire)},
	{"key held by another", refusing(lockcore.RefusedHeld), put(leaseOne, plainAcquire)},
	{"key held by another, asked again", over(leader.StatusEnded, lockcore.RefusedHeld), put(leaseOne, plainAcquire)},
	{"key held by oneself", refusing(lockcore.RefusedAlreadyHeld), put(leaseOne, plainAcquire)},
	{"full queue", refusing(lockcore.RefusedQueueFull), put(leaseOne, plainAcquire)},
	{"waited long enough", over(leader.StatusEnded, lockcore.WaitTimeout), put(leaseOne, plainAcquire)},
	{"lease released", over(leader.StatusEnded, lockcore.Released), put(leaseOne, plainAcquire)},
	{"lease expired", over(leader.StatusEnded, lockcore.Expired), put(leaseOne, plainAcquire)},
	{"lease being forced", over(leader.StatusEnding, lockcore.Forced), put(leaseOne, plainAcquire)},
	{"lease held too long", over(leader.StatusEnded, lockcore.MaxHold), put(leaseOne, plainAcquire)},
	{"session ended", refusing(lockcore.RefusedSessionOver), put(leaseOne, plainAcquire)},
	{"id used for another key", refusing(lockcore.RefusedIDConflict), put(leaseOne, plainAcquire)},
	{"id below the window", refusing(lockcore.RefusedTooOld), put(leaseOne, plainAcquire)},
	{"wait over the class's limit", refusing(lockcore.RefusedWait), put(leaseOne, plainAcquire)},
	{"quota of keys", refusing(lockcore.RefusedQuotaKeys), put(leaseOne, plainAcquire)},
	{"tenant suspended", refusing(lockcore.RefusedSuspended), put(leaseOne, plainAcquire)},
	{"tenant being dropped", refusing(lockcore.RefusedDropped), put(leaseOne, plainAcquire)},
	{"token of another lease", &locks{release: func(context.Context, leader.Release) (leader.Answer, error) {
		return leader.Answer{Status: leader.StatusRefused, Reason: lockcore.RefusedStaleToken, Index: 9}, nil
	}}, request{method: http.MethodDelete, path: "/v1/leases/" + leaseOne + "?token=7", key: goodKey}},

	{"end of a hold that has another token", holding(34, nil), forceWith(plainForce)},
	{"end of a hold that nobody has", &locks{}, forceWith(plainForce)},

	{"no quorum", failing(leader.ErrNoQuorum), put(leaseOne, plainAcquire)},
	{"not the leader", failing(leader.ErrNotLeader), put(leaseOne, plainAcquire)},
	{"unknown outcome", failing(leader.ErrUnknownOutcome), put(leaseOne, plainAcquire)},
	{"too many commands", failing(leader.ErrOverloaded), put(leaseOne, plainAcquire)},
	{"somebody else's session", failing(leader.ErrNotFound), put(leaseOne, plainAcquire)},
	{"unexplained error", failing(errors.New("secret detail of a broken disk")), put(leaseOne, plainAcquire)},
	{"panic", &locks{acquire: func(context.Context, leader.Acquire) (leader.Answer, error) { panic("secret detail") }},
		put(leaseOne, plainAcquire)},

	{"no API key", nil, request{method: http.MethodPut, path: "/v1/leases/" + leaseOne, body: plainAcquire}},
	{"class outside the scope", nil, request{method: http.MethodPut, path: "/v1/leases/" + leaseOne, key: narrowKey,
		body: `{"class":"other","key":"k"}`}},
	{"no scope for locks", nil, request{method: http.MethodGet, path: "/v1/locks", key: unscopedKey}},
	{"unknown address", nil, request{method: http.MethodGet, path: "/v1/nothing", key: goodKey}},
	{"wrong method", nil, request{method: http.MethodPatch, path: "/v1/leases/" + leaseOne, key: goodKey}},
	{"not JSON", nil, request{method: http.MethodPut, path: "/v1/leases/" + leaseOne, key: goodKey, body: plainAcquire,
		contentType: "text/plain"}},
	{"large body", nil, put(leaseOne, `{"class":"c","key":"`+strings.Repeat("k", 17<<10)+`"}`)},
	{"bad field", nil, put(leaseOne, `{"class":"c","key":"k","wait":24.5}`)},
	{"bad id", nil, put("x", plainAcquire)},
}

var drawnSeconds = regexp.MustCompile(`^[1-9]$`)

func TestProblems_areAnsweredAsPublished(t *testing.T) {
	met := map[wire.Code]bool{}
	var got strings.Builder
	for i, test := range provocations {
		if test.locks == nil {
			test.locks = &locks{}
		}
		n := leading(t, test.locks)
		test.in.id = fmt.Sprintf("request-%d", i)
		out := n.do(t, test.in)
		p := out.problem(t)
		met[p.Code] = true
		if strings.Contains(string(out.body), "secret detail") {
			t.Errorf("%s: the answer tells what belongs into the log: %s", test.name, out.body)
		}
		kind, _ := wire.KindOf(p.Code)
		if after := out.header.Get("Retry-After"); (kind.RetryAfterSecsMax > 0) != drawnSeconds.MatchString(after) {
			t.Errorf("%s: Retry-After is %q", test.name, after)
		}
		fmt.Fprintf(&got, "%s\n%d %s", test.name, out.status, out.body)
	}
	golden(t, "testdata/problems.txt", got.String())

	elsewhere := []wire.Code{
		wire.CodeStaleBase, wire.CodePurposeFixed, wire.CodeUnknownOwnerGroup, wire.CodeOwnerGroupStays, wire.CodeNeverSigned, // of classes
		wire.CodeStopping, wire.CodeNotReady, wire.CodeRequestTimeout, // see the tests of the server
		wire.CodeRateLimited, // see the tests of limits
		wire.CodeAuditBehind, // see the tests of whole nodes
		wire.CodeTenantExists, wire.CodeTenantEnding, wire.CodeTooMany, wire.CodeAPIKeyEnded, wire.CodeAPIKeyRotated,
		wire.CodeNoOverlap, wire.CodeWiderScope, // see the tests of tenants and API keys
	}
	for _, k := range wire.Problems() {
		if met[k.Code] == slices.Contains(elsewhere, k.Code) {
			t.Errorf("problem %s was met: %v", k.Code, met[k.Code])
		}
	}
}

// golden holds a text against the one that is kept.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs\n got:\n%s\nwant:\n%s", file, got, want)
	}
}

func TestMethodNotAllowed_namesTheMethods(t *testing.T) {
	out := leading(t, &locks{}).do(t, request{method: http.MethodPatch, path: "/v1/leases/" + leaseOne})
	if got := out.header.Get("Allow"); !strings.Contains(got, "PUT") || !strings.Contains(got, "DELETE") {
		t.Errorf("Allow is %q", got)
	}
}

func TestNotLeader_namesTheNewLeader(t *testing.T) {
	p := &platform{leader: &self}
	p.locks = &locks{acquire: func(context.Context, leader.Acquire) (leader.Answer, error) {
		p.leads(&api.LeaderRef{NodeID: "n2", URL: "http://n2.test"})
		return leader.Answer{}, leader.ErrNotLeader
	}}
	out := start(t, p, options{}).do(t, put(leaseOne, plainAcquire))
	got := out.problem(t)
	if got.Code != wire.CodeNotLeader || got.Leader == nil || *got.Leader != (wire.Leader{Node: "n2", URL: "http://n2.test"}) {
		t.Errorf("%s; want not_leader naming n2", out.body)
	}
	if header := out.header.Get("Stanchion-Leader"); header != "n2 http://n2.test" {
		t.Errorf("the header names %q", header)
	}
}

func TestAcquire_withoutAKnownLeaderIsNoQuorum(t *testing.T) {
	out := start(t, &platform{locks: &locks{}}, options{}).do(t, put(leaseOne, plainAcquire))
	if p := out.problem(t); p.Code != wire.CodeNoQuorum || p.Retry != wire.RetrySameID {
		t.Errorf("%s; want no_quorum, same_id", out.body)
	}
}
