package platform_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

// TestForcedEnds runs the rules about holds that are ended from outside, and about what people are told of them, beside each
// other on one cluster, each with a tenant of its own.
func TestForcedEnds(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for i, rule := range []struct {
		name string
		test func(*testing.T, *calm)
	}{
		{"a forced hold ends with its release", forcedHoldEndsWithItsRelease},
		{"a forced hold ends with its lease, whatever its holder sends", forcedHoldEndsWithItsLease},
		{"a hold forced now is over at once", holdForcedNowIsOver},
		{"only the hold named is ended", onlyTheHoldNamedIsEnded},
		{"another tenant's holds cannot be ended", foreignHoldsAreSafe},
		{"odd keys are ended exactly", oddKeysAreEndedExactly},
		{"a hold older than its class allows is ended", oldHoldIsEnded},
		{"a guard's report counts once", guardReportCountsOnce},
		{"the leader says why", leaderSaysWhy},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			rule.test(t, &calm{cluster: c, tenant: tenants.TenantID(fmt.Sprintf("forced-%d", i)), partition: 1 + i%partitions})
		})
	}
}

// clientWith is a further client of the tenant, whose API key has the given scopes.
func (c *cluster) clientWith(t testing.TB, tenant tenants.TenantID, scopes ...string) *client {
	t.Helper()
	credential, err := tenants.GenerateCredential(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := tenants.ParseScopes(scopes...)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c.control(t, control.Entry{Tenants: tenants.CreateAPIKey{Tenant: tenant, Key: credential.ID(), Hash: credential.Hash(), Name: "on call",
		Scopes: parsed, ExpiresMS: now.Add(time.Hour).UnixMilli(), By: tenants.ByPlatform(), AtMS: now.UnixMilli()}})
	eventually(t, "the nodes know the API key", func() bool {
		for _, n := range c.nodes {
			if n.platform != nil {
				if _, err := n.platform.Authenticate(credential.Reveal()); err != nil {
					return false
				}
			}
		}
		return true
	})
	return newClient(t, c, credential.Reveal())
}

// force asks to end a hold.
func (c *client) force(t testing.TB, f wire.ForceReleaseRequest) reply {
	t.Helper()
	if f.Reason == "" {
		f.Reason = "the host is lost"
	}
	body, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return c.ask(t, http.MethodPost, "/v1/locks/force-release", string(body))
}

// forced reads the answer to a force-release that was carried out.
func (r reply) forced(t testing.TB) wire.ForceRelease {
	t.Helper()
	var f wire.ForceRelease
	if err := json.Unmarshal(r.body, &f); err != nil || r.status != http.StatusOK {
		t.Fatalf("force-release: %v: %s", err, r)
	}
	return f
}

// endNow ends a hold at once. Where an answer was lost on the way, its repetition says that nobody holds the key; what the lock
// is like then, the test looks at.
func (c *client) endNow(t testing.TB, f wire.ForceReleaseRequest) wire.ForceRelease {
	t.Helper()
	f.Now = true
	r := c.force(t, f)
	if r.code() == wire.CodeNotHeld {
		return wire.ForceRelease{Class: f.Class, Key: f.Key, Token: f.Token, State: wire.StateEnded, Now: true}
	}
	return r.forced(t)
}

// lost awaits nothing: the very next heartbeat says that the lease is lost.
func (c *client) lost(t testing.TB, session string) wire.Lost {
	t.Helper()
	beat := c.heartbeat(t, session, 1)
	if len(beat.Lost) != 1 || len(beat.Held) != 0 {
		t.Fatalf("the holder's heartbeat is answered %+v; want its lease lost", beat)
	}
	return beat.Lost[0]
}

func forcedHoldEndsWithItsRelease(t *testing.T, c *calm) {
	api, admin := c.client(t, classLong), c.clientWith(t, c.tenant, "tenant:admin")
	session, waiter := newSession(), newID()
	token := api.take(t, session+".1", classLong, "k").lease.Token
	queue := acquire{class: classLong, key: "k", wait: "5m"}
	if r := api.acquire(t, waiter, queue); r.lease.State != wire.StateQueued {
		t.Fatalf("behind a holder the request is answered %s", r)
	}
	for range 2 { // the second changes nothing, and says the same
		f := admin.force(t, wire.ForceReleaseRequest{Class: classLong, Key: "k", Token: token}).forced(t)
		if f.State != wire.StateEnding || f.Token != token || f.Now || f.What == "" {
			t.Errorf("force-release is answered %+v; want the hold with token %d ending", f, token)
		}
	}
	if lost := api.lost(t, session); lost.Code != wire.CodeRevoked || lost.Reason != "forced" || !lost.Ending || lost.Token != token {
		t.Errorf("the holder is told %+v; want revoked, forced, ending", lost)
	}
	if lock := api.lock(t, classLong, "k"); lock == nil || lock.Holder == nil || lock.Holder.Token != token || lock.Holder.Ending != "forced" {
		t.Errorf("the lock is %+v; want it held with token %d, ending", lock, token)
	}
	if r := api.acquire(t, waiter, queue); r.lease.State != wire.StateQueued {
		t.Errorf("before the release the waiter is answered %s; want it queued", r)
	}
	if r := api.release(t, session+".1"); r.lease.State != wire.StateEnded {
		t.Fatalf("the release is answered %s", r)
	}
	if r := api.acquire(t, waiter, queue); !r.granted() || r.lease.Token <= token {
		t.Errorf("after the release the waiter is answered %s; want a grant with a token above %d", r, token)
	}
}

func forcedHoldEndsWithItsLease(t *testing.T, c *calm) {
	api, admin := c.client(t, classMiddle), c.clientWith(t, c.tenant, "tenant:admin")
	session, successor := newSession(), newID()
	token := api.take(t, session+".1", classMiddle, "k").lease.Token
	admin.force(t, wire.ForceReleaseRequest{Class: classMiddle, Key: "k", Token: token}).forced(t)
	var granted reply
	eventually(t, "the successor is granted", func() bool {
		lost := api.lost(t, session) // a holder that goes on does not keep it
		if lost.Code != wire.CodeRevoked || lost.Reason != "forced" {
			t.Fatalf("the holder is told %+v; want revoked, forced", lost)
		}
		granted = api.acquire(t, successor, acquire{class: classMiddle, key: "k", wait: "1m", poll: "100ms"})
		return granted.granted()
	})
	if granted.lease.Token <= token {
		t.Errorf("the successor's token %d is not above %d", granted.lease.Token, token)
	}
	if old := api.look(t, session+".1"); old.lease.State != wire.StateEnded || old.lease.Reason != "forced" {
		t.Errorf("with the successor granted, the forced lease is %s; want it ended, forced", old)
	}
}

func holdForcedNowIsOver(t *testing.T, c *calm) {
	api, admin := c.client(t, classLong), c.clientWith(t, c.tenant, "tenant:admin")
	session := newSession()
	token := api.take(t, session+".1", classLong, "k").lease.Token
	if f := admin.endNow(t, wire.ForceReleaseRequest{Class: classLong, Key: "k", Token: token}); f.State != wire.StateEnded || !f.Now {
		t.Errorf("force-release now is answered %+v; want it ended", f)
	}
	if lock := api.lock(t, classLong, "k"); lock != nil {
		t.Errorf("after force-release now the lock is %+v; want it free", lock)
	}
	if next := api.take(t, newID(), classLong, "k"); next.lease.Token <= token {
		t.Errorf("the successor's token %d is not above %d", next.lease.Token, token)
	}
	if lost := api.lost(t, session); lost.Code != wire.CodeRevoked || lost.Reason != "forced" || lost.Ending {
		t.Errorf("the holder is told %+v; want revoked, forced, over", lost)
	}

	const slow = "slow" // its lock delay follows the end, and its lease outlives the test's own pauses
	c.putInForce(t, c.tenant, classFile(slow, "lease: 30s\nlock_delay: 1s"))
	delayed := newSession()
	token = api.take(t, delayed+".1", slow, "k").lease.Token
	ending := wire.ForceReleaseRequest{Class: slow, Key: "k", Token: token}
	if f := admin.force(t, ending).forced(t); f.State != wire.StateEnding {
		t.Errorf("force-release is answered %+v; want it ending", f)
	}
	if f := admin.endNow(t, ending); f.State != wire.StateEnded {
		t.Errorf("force-release now of a hold that is ending is answered %+v; want it ended", f)
	}
	eventually(t, "the lock delay is over", func() bool {
		r := api.acquire(t, newID(), acquire{class: slow, key: "k"})
		return r.granted() && r.lease.Token > token
	})
}

func onlyTheHoldNamedIsEnded(t *testing.T, c *calm) {
	api, admin := c.client(t, classLong), c.clientWith(t, c.tenant, "tenant:admin")
	first, session := newID(), newSession()
	before := api.take(t, first, classLong, "k").lease.Token
	api.release(t, first)
	granted := api.take(t, session+".1", classLong, "k")
	token := granted.lease.Token
	for _, test := range []struct {
		what string
		by   *client
		wire.ForceReleaseRequest
		status int
		code   wire.Code
	}{
		{"with the token of an earlier hold", admin, wire.ForceReleaseRequest{Class: classLong, Key: "k", Token: before}, 409, wire.CodeStaleToken},
		{"with a token to come", admin, wire.ForceReleaseRequest{Class: classLong, Key: "k", Token: token + 1, Now: true}, 409, wire.CodeStaleToken},
		{"of a key that nobody holds", admin, wire.ForceReleaseRequest{Class: classLong, Key: "other", Token: token}, 409, wire.CodeNotHeld},
		{"of a longer key", admin, wire.ForceReleaseRequest{Class: classLong, Key: "k0", Token: token}, 409, wire.CodeNotHeld},
		{"under a class that is not there", admin, wire.ForceReleaseRequest{Class: "nowhere", Key: "k", Token: token}, 409, wire.CodeNotHeld},
		{"without a token", admin, wire.ForceReleaseRequest{Class: classLong, Key: "k"}, 400, wire.CodeInvalidRequest},
		{"by somebody who takes locks", api, wire.ForceReleaseRequest{Class: classLong, Key: "k", Token: token}, 403, wire.CodeForbidden},
	} {
		if r := test.by.force(t, test.ForceReleaseRequest); r.status != test.status || r.code() != test.code {
			t.Errorf("force-release %s is answered %s; want %d %s", test.what, r, test.status, test.code)
		}
		c.untouched(t, api, session, granted)
	}
}

func foreignHoldsAreSafe(t *testing.T, c *calm) {
	api := c.client(t, classLong)
	session := newSession()
	granted := api.take(t, session+".1", classLong, "k")
	foreign := &calm{cluster: c.cluster, tenant: c.tenant + "-foreign", partition: c.partition} // in the very same partition
	foreign.client(t, classLong)
	outsider := foreign.clientWith(t, foreign.tenant, "tenant:admin", "guard:report")
	about := func(key string) string {
		return outsider.force(t, wire.ForceReleaseRequest{Class: classLong, Key: key, Token: granted.lease.Token, Now: true}).saying("-")
	}
	if theirs, nobodys := about("k"), about("l"); theirs != nobodys {
		t.Errorf("another tenant's hold is answered\n%s\none that is not there\n%s", theirs, nobodys)
	}
	if why := outsider.why(t, classLong, "k"); why.Holder != nil || why.Findings[0].Code != wire.FindingFree {
		t.Errorf("another tenant's hold is shown as %+v", why)
	}
	c.untouched(t, api, session, granted)
}

// spokenKeys are names that a page, a terminal or an address might take for something else.
var spokenKeys = []string{"@", ":", "#", "?", "%", "&", "@:#?%&", "a@b", "a%40b", "a:b", "a#b", "a?b", "a&b", "ü", "u\u0308", "été", "e\u0301te\u0301",
	"🔒", "🔒\ufe0f", "👩\u200d🔧", "مفتاح", "מפתח", "\u202eabc", "abc\u202e", "\u2066abc\u2069", "a b", "a", "b", "%", "%25"}

func oddKeysAreEndedExactly(t *testing.T, c *calm) {
	api, admin := c.client(t, classLong), c.clientWith(t, c.tenant, "tenant:admin")
	tokens := map[string]uint64{}
	for _, key := range spokenKeys {
		if _, twice := tokens[key]; !twice {
			tokens[key] = api.take(t, newID(), classLong, key).lease.Token
		}
	}
	for _, key := range spokenKeys {
		if tokens[key] == 0 {
			continue // there twice
		}
		if why := api.why(t, classLong, key); why.Key != key || why.Holder == nil || why.Holder.Token != tokens[key] {
			t.Errorf("asked why of %q, the answer is %+v", key, why)
		}
		f := admin.endNow(t, wire.ForceReleaseRequest{Class: classLong, Key: key, Token: tokens[key]})
		if f.Key != key {
			t.Errorf("the end of %q is answered for %q", key, f.Key)
		}
		delete(tokens, key)
		left := map[string]uint64{}
		for _, l := range admin.locks(t, url.Values{"class": {classLong}, "limit": {"1000"}}) {
			left[l.Key] = l.Holder.Token
		}
		if !maps.Equal(left, tokens) {
			t.Errorf("after the end of %q the locks are %v; want %v", key, left, tokens)
		}
	}
}

func oldHoldIsEnded(t *testing.T, c *calm) {
	const class = "hold-limited"
	api := c.client(t)
	c.putInForce(t, c.tenant, classFile(class, "lease: 10s\nmax_hold: 1s"))
	session := newSession()
	token := api.take(t, session+".1", class, "k").lease.Token
	eventually(t, "the holder is told", func() bool {
		beat := api.heartbeat(t, session, 1)
		return len(beat.Lost) == 1 && beat.Lost[0].Code == wire.CodeRevoked && beat.Lost[0].Reason == "max_hold" && beat.Lost[0].Ending
	})
	if r := api.acquire(t, newID(), acquire{class: class, key: "k"}); r.code() != wire.CodeHeld {
		t.Errorf("before the release a try is answered %s; want held", r)
	}
	api.release(t, session+".1")
	if next := api.take(t, newID(), class, "k"); next.lease.Token <= token {
		t.Errorf("the successor's token %d is not above %d", next.lease.Token, token)
	}
}

func guardReportCountsOnce(t *testing.T, c *calm) {
	api := c.client(t, classLong)
	guard := c.clientWith(t, c.tenant, "guard:report")
	report := func(by *client, id, class string) reply {
		return by.ask(t, http.MethodPost, "/v1/guard/reports", fmt.Sprintf(`{"report_id":%q,"class":%q,"key":"k","checks":12,`+
			`"rejections":[{"token":1,"highest":2,"at":"2026-06-30T23:00:00Z","count":3}]}`, id, class))
	}
	session := newSession()
	for _, id := range []string{session + ".1", session + ".1", session + ".3", session + ".2", newID()} {
		if r := report(guard, id, classLong); r.status != http.StatusNoContent {
			t.Errorf("report %s is answered %s; want 204", id, r)
		}
	}
	var got lockcore.Guard
	c.leads(t).platform.ViewPartition(c.partition, func(m *lockcore.Machine) { got, _ = m.Guard(lockcore.TenantID(c.tenant), classLong) })
	if got.Checks != 36 || got.Rejections != 9 {
		t.Errorf("three reports of 12 checks and 3 rejections count as %+v", got)
	}
	if state := api.why(t, classLong, "k").Posture.Guard; state == nil || state.Checks != 36 || state.Rejections != 9 {
		t.Errorf("why tells of the guard %+v", state)
	}
	if r := report(guard, newID(), "nowhere"); r.code() != wire.CodeNotFound {
		t.Errorf("a report of an unknown class is answered %s; want not_found", r)
	}
	if r := report(api, newID(), classLong); r.code() != wire.CodeForbidden {
		t.Errorf("a report by a holder's API key is answered %s; want forbidden", r)
	}
}

// why asks any node about a lock.
func (c *client) why(t testing.TB, class, key string) wire.Why {
	t.Helper()
	return c.whyAt(t, c.cluster.nodes, class, key)
}

func (c *client) whyAt(t testing.TB, nodes []*testNode, class, key string) wire.Why {
	t.Helper()
	r := c.askAt(t, nodes, http.MethodGet, "/v1/locks/why?"+url.Values{"class": {class}, "key": {key}}.Encode(), "")
	var w wire.Why
	if err := json.Unmarshal(r.body, &w); err != nil || r.status != http.StatusOK {
		t.Fatalf("why: %v: %s", err, r)
	}
	return w
}

func codes(w wire.Why) []wire.FindingCode {
	var all []wire.FindingCode
	for _, f := range w.Findings {
		all = append(all, f.Code)
	}
	return all
}

func leaderSaysWhy(t *testing.T, c *calm) {
	api, admin := c.client(t, classLong, classRefuse), c.clientWith(t, c.tenant, "tenant:admin")
	_, declared := c.declare(t, c.tenant, classFile("unsigned", "lease: 10s"))
	session := newSession()
	token := api.take(t, session+".1", classLong, "k").lease.Token
	api.acquire(t, newID(), acquire{class: classLong, key: "k", wait: "5m"})
	api.take(t, newID(), classRefuse, "k")
	for _, n := range c.nodes {
		for _, test := range []struct {
			class, key string
			want       []wire.FindingCode
		}{
			{classLong, "k", []wire.FindingCode{wire.FindingHeld, wire.FindingQueue}},
			{classLong, "free", []wire.FindingCode{wire.FindingFree}},
			{classRefuse, "k", []wire.FindingCode{wire.FindingHeld, wire.FindingDoesNotQueue}},
			{string(declared.Class), "k", []wire.FindingCode{wire.FindingAwaitingSignature}},
			{"nowhere", "k", []wire.FindingCode{wire.FindingClassUnknown}},
		} {
			w := admin.whyAt(t, []*testNode{n}, test.class, test.key)
			if got := codes(w); !slices.Equal(got, test.want) {
				t.Errorf("through %s, %s/%s is explained by %v; want %v", n.id, test.class, test.key, got, test.want)
			}
			if p := w.Partition; w.Stale || !p.Quorum || !p.Ready || p.Node != p.Leader || len(p.Voters) != nodeCount {
				t.Errorf("through %s the partition is %+v; want its leader to answer, with a quorum", n.id, p)
			}
		}
	}
	w := admin.why(t, classLong, "k")
	h := w.Holder
	if h == nil || h.Token != token || h.Label != "test" || h.HeartbeatAge == nil || h.ExpiresWithin == nil || h.ExpiresWithin.Std() > 40*time.Second {
		t.Errorf("the holder is %+v; want it with token %d, and its lease bounded", h, token)
	}
	if w.Waiting != 1 || len(w.Waiters) != 1 || w.Waiters[0].Position != 1 {
		t.Errorf("the line is %+v of %d; want one", w.Waiters, w.Waiting)
	}
	admin.force(t, wire.ForceReleaseRequest{Class: classLong, Key: "k", Token: token}).forced(t)
	if got := admin.why(t, classLong, "k"); got.Findings[0].Code != wire.FindingEnding || got.Holder.Ending != "forced" {
		t.Errorf("a hold that is being ended is explained by %+v", got.Findings)
	}
}

func TestWhy_isAnsweredByTheLastNode(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	api, _ := c.furnish(t, classLong)
	token := api.take(t, newID(), classLong, "k").lease.Token
	c.awaitEqual(t)
	last := c.others(c.leader(t, acmePartition))[0]
	for _, n := range c.others(last) {
		n.stop(t)
	}
	var w wire.Why
	eventually(t, "the last node knows of no leader", func() bool {
		w = api.whyAt(t, []*testNode{last}, classLong, "k")
		return w.Stale && w.Partition.Leader == ""
	})
	if got := codes(w); len(got) != 2 || got[0] != wire.FindingNoQuorum || got[1] != wire.FindingHeld {
		t.Errorf("the last node finds %v; want no_quorum, then held", got)
	}
	if w.Holder == nil || w.Holder.Token != token || w.Holder.HeartbeatAge != nil || w.Index == 0 {
		t.Errorf("the last node says of the holder %+v at entry %d; want token %d, and no word of its heartbeats", w.Holder, w.Index, token)
	}
	for _, v := range w.Partition.Voters {
		if v.Answered != (v.Node == string(last.id)) {
			t.Errorf("the last node says of voter %s that it answered: %v", v.Node, v.Answered)
		}
	}
	if len(w.Partition.Voters) != nodeCount || w.Partition.Quorum {
		t.Errorf("the partition is %+v; want three voters and no quorum", w.Partition)
	}
}
