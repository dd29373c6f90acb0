package web_test

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/web/api"
)

func TestAcquire_answersAGrant(t *testing.T) {
	var asked leader.Acquire
	n := leading(t, &locks{acquire: func(_ context.Context, r leader.Acquire) (leader.Answer, error) {
		asked = r
		return grantedTo(r), nil
	}})
	out := n.do(t, put(leaseOne, `{"class":"ledger-close","key":"2026-06","wait":"30s","poll":"2s","holder":"host-a:1"}`))
	want := `{"lease_id":"` + leaseOne + `","state":"granted","class":"ledger-close","key":"2026-06","token":33,"epoch":7,` +
		`"claim":{"id":"exclusion-at-resource","text":"once a newer token has entered the resource, no older one is accepted."},` +
		`"posture_version":3,"protected":true,"use_within":"9.7s","contact_within":"5s","holder":"host-a:1","index":1042}` + "\n"
	if out.status != http.StatusOK || string(out.body) != want {
		t.Errorf("%d %s\nwant 200 %s", out.status, out.body, want)
	}
	if got := out.header.Get("Stanchion-Leader"); got != "n1 http://n1.test" {
		t.Errorf("leader is told as %q", got)
	}
	if got := out.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type is %q", got)
	}
	id, _ := lockcore.ParseLeaseID(leaseOne)
	wanted := leader.Acquire{Caller: leader.Caller{Tenant: "acme", Owner: "first", APIKey: "good"}, Lease: id,
		Class: "ledger-close", Key: "2026-06", Wait: 30 * time.Second, Poll: 2 * time.Second, Holder: "host-a:1"}
	if asked != wanted {
		t.Errorf("the partition was asked %+v\nwant %+v", asked, wanted)
	}
}

func TestAcquire_answersAPlaceInLine(t *testing.T) {
	n := leading(t, &locks{acquire: func(_ context.Context, r leader.Acquire) (leader.Answer, error) {
		return leader.Answer{Status: leader.StatusQueued, Position: 2, Lease: heldLease(r.Lease, r.Class, r.Key),
			ContactWithin: 2500 * time.Millisecond, Index: 5}, nil
	}})
	out := n.do(t, put(leaseOne, plainAcquire))
	if l := out.lease(t); out.status != http.StatusAccepted || l.State != wire.StateQueued || l.Position != 2 || l.Token != 0 {
		t.Errorf("%d %s; want 202, queued at 2, no token", out.status, out.body)
	}
}

func TestAcquire_hasADeadlineOfItsOwn(t *testing.T) {
	var left time.Duration
	n := leading(t, &locks{acquire: func(ctx context.Context, r leader.Acquire) (leader.Answer, error) {
		if deadline, ok := ctx.Deadline(); ok {
			left = time.Until(deadline)
		}
		return leader.Answer{}, context.DeadlineExceeded
	}})
	out := n.do(t, put(leaseOne, `{"class":"c","key":"k","poll":"2s"}`))
	if left <= 0 || left > api.AnswerMax {
		t.Errorf("an acquire was given %v; want at most %v", left, api.AnswerMax)
	}
	if p := out.problem(t); p.Code != wire.CodeOutcomeUnknown || p.Retry != wire.RetrySameID {
		t.Errorf("an acquire past its deadline is %s, %s; want outcome_unknown, same_id", p.Code, p.Retry)
	}
}

func TestAcquire_tellsThePartitionThatTheClientIsGone(t *testing.T) {
	entered, left := make(chan struct{}), make(chan error, 1)
	n := leading(t, &locks{acquire: func(ctx context.Context, _ leader.Acquire) (leader.Answer, error) {
		close(entered)
		<-ctx.Done()
		left <- ctx.Err()
		return leader.Answer{}, ctx.Err()
	}})
	ctx, hangUp := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := n.try(ctx, put(leaseOne, `{"class":"c","key":"k","poll":"10s"}`))
		answered <- err
	}()
	receive(t, entered, "the acquire")
	hangUp()
	if err := receive(t, left, "the end of the acquire"); err != context.Canceled {
		t.Errorf("the acquire ended with %v; want context.Canceled", err)
	}
	receive(t, answered, "the client")
}

func TestLook_showsEveryState(t *testing.T) {
	ended := func(r lockcore.Reason) leader.Answer {
		return leader.Answer{Status: leader.StatusEnded, Reason: r, Index: 9}
	}
	for _, test := range []struct {
		answer leader.Answer
		status int
		state  wire.State
		reason string
	}{
		{leader.Answer{Status: leader.StatusGranted, UseWithin: time.Second}, 200, wire.StateGranted, ""},
		{leader.Answer{Status: leader.StatusQueued, Position: 1}, 200, wire.StateQueued, ""},
		{leader.Answer{Status: leader.StatusEnding, Reason: lockcore.MaxHold}, 200, wire.StateEnding, "max_hold"},
		{ended(lockcore.Expired), 200, wire.StateEnded, "expired"},
		{ended(lockcore.RefusedHeld), 200, wire.StateEnded, "held"},
	} {
		n := leading(t, &locks{look: func(_ context.Context, r leader.Look) (leader.Answer, error) {
			a := test.answer
			a.Lease = heldLease(r.Lease, "ledger-close", "k")
			return a, nil
		}})
		out := n.do(t, request{method: http.MethodGet, path: "/v1/leases/" + leaseOne, key: goodKey})
		if l := out.lease(t); out.status != test.status || l.State != test.state || l.Reason != test.reason {
			t.Errorf("%d %s; want %d %s %s", out.status, out.body, test.status, test.state, test.reason)
		}
	}
}

func TestRelease_handsTheTokenOver(t *testing.T) {
	for query, want := range map[string]lockcore.Token{"": 0, "?token=33": 33, "?token=9007199254740991": 1<<53 - 1} {
		var asked leader.Release
		n := leading(t, &locks{release: func(_ context.Context, r leader.Release) (leader.Answer, error) {
			asked = r
			return leader.Answer{Status: leader.StatusEnded, Reason: lockcore.Released, Lease: heldLease(r.Lease, "c", "k")}, nil
		}})
		out := n.do(t, request{method: http.MethodDelete, path: "/v1/leases/" + leaseOne + query, key: goodKey})
		if l := out.lease(t); out.status != 200 || l.State != wire.StateEnded || l.Reason != "released" || l.Token != 33 {
			t.Errorf("%d %s; want 200, ended, released, token 33", out.status, out.body)
		}
		if asked.Token != want || asked.Owner != "first" || asked.Lease.String() != leaseOne {
			t.Errorf("the partition was asked %+v; want token %d", asked, want)
		}
	}
}

func TestHeartbeat_answersHeldAndLost(t *testing.T) {
	n := leading(t, &locks{heartbeat: func(_ context.Context, r leader.Heartbeat) (leader.HeartbeatAnswer, error) {
		if r.Session.String() != session || len(r.Sequences) != 3 || r.Owner != "first" {
			t.Errorf("the partition was asked %+v", r)
		}
		lease := func(n uint64) lockcore.LeaseID { return lockcore.LeaseID{Session: r.Session, Sequence: n} }
		return leader.HeartbeatAnswer{Index: 8,
			Held: []leader.Answer{{Status: leader.StatusGranted, Lease: heldLease(lease(1), "c", "k"), UseWithin: 9700 * time.Millisecond,
				ContactWithin: 5 * time.Second}},
			Lost: []leader.Lost{{Lease: lease(2), Reason: lockcore.Forced, Ending: true, Token: 4}, {Lease: lease(4), Reason: lockcore.RefusedUnknown}},
		}, nil
	}})
	out := n.do(t, request{method: http.MethodPost, path: "/v1/sessions/" + session + "/heartbeat", key: goodKey, body: `{"leases":[1,2,4]}`})
	want := `{"session":"` + session + `","held":[{"lease_id":"` + session + `.1","token":33,"use_within":"9.7s","contact_within":"5s"}],` +
		`"lost":[{"lease_id":"` + session + `.2","code":"revoked","reason":"forced","ending":true,"token":4},` +
		`{"lease_id":"` + session + `.4","code":"not_found","reason":"unknown","ending":false,"token":0}],"index":8}` + "\n"
	if out.status != 200 || string(out.body) != want {
		t.Errorf("%d %s\nwant 200 %s", out.status, out.body, want)
	}
}

func TestEndSession_saysThatItHasEnded(t *testing.T) {
	n := leading(t, &locks{endSession: func(_ context.Context, r leader.EndSession) error {
		if r.Session.String() != session || r.Owner != "first" {
			t.Errorf("the partition was asked %+v", r)
		}
		return nil
	}})
	out := n.do(t, request{method: http.MethodDelete, path: "/v1/sessions/" + session, key: goodKey})
	if want := `{"session":"` + session + `","state":"ended"}` + "\n"; out.status != 200 || string(out.body) != want {
		t.Errorf("%d %s\nwant 200 %s", out.status, out.body, want)
	}
}

// awkwardKeys look like paths, escapes, separators or each other, and are all different.
var awkwardKeys = []string{
	"/v9/", "%2Fv9%2F", "%252Fv9%252F", "a/b", "a%2Fb", "a%2fb", "a+b", "a b", "a%20b", "..", "../..", "%2e%2e", ".", ";", "a;b=c", "&",
	"a&key=b", "=", "?", "#", "\"", `\`, `\u0041`, "<script>", "🔒", "e\u0301", "\u00e9", "مفتاح", "\u202eabc", "\ufeff", "null", "0", "-",
	strings.Repeat("k", 512),
}

func TestKeys_comeBackByteForByte(t *testing.T) {
	n := leading(t, &locks{
		list: func(_ context.Context, q api.LockQuery) (api.LockPage, error) {
			state := func(key lockcore.Key) api.LockState {
				return api.LockState{Lock: lockcore.Lock{Class: "c", Key: key, Waiters: 1, DelayToken: 32, DelayMS: 1500}}
			}
			return api.LockPage{Index: 1, Locks: []api.LockState{state(q.Key)}, Next: api.LockPosition{Class: "c", Key: q.Key}}, nil
		},
	})
	cursors := map[string]bool{}
	for i, key := range awkwardKeys {
		body := string(wire.Lease{LeaseID: "x", Key: key}.AppendJSON(nil)) // only for its quoting
		quoted := body[strings.Index(body, `"key":`)+len(`"key":`) : strings.LastIndex(body, `,"index"`)]
		out := n.do(t, put(session+"."+strconv.Itoa(i+1), `{"class":"c","poll":"0s","key":`+quoted+`}`))
		if l := out.lease(t); l.Key != key {
			t.Errorf("key %q comes back as %q", key, l.Key)
		}
		for _, escaped := range []string{url.QueryEscape(key), strings.ReplaceAll(url.QueryEscape(key), "+", "%20")} {
			out = n.do(t, request{method: http.MethodGet, path: "/v1/locks?class=c&key=" + escaped, key: goodKey})
			var page wire.LockList
			decode(t, out, &page)
			if len(page.Locks) != 1 || page.Locks[0].Key != key {
				t.Errorf("key %q is listed as %+v", key, page.Locks)
			}
			cursors[page.NextCursor] = true
		}
	}
	if len(cursors) != len(awkwardKeys) {
		t.Errorf("%d keys have %d cursors", len(awkwardKeys), len(cursors))
	}
}
