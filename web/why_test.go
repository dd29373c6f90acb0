package web_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/web/api"
)

func askWhy(key string) request {
	return request{method: http.MethodGet, path: "/v1/locks/why?class=ledger-close&key=2026-06", key: key}
}

// knownLock is what a leader knows of a lock that is held and waited for.
func knownLock(q api.FactsQuery) api.Facts {
	id, _ := lockcore.ParseLeaseID(leaseOne)
	holder, waiter := heldLease(id, q.Class, q.Key), heldLease(id, q.Class, q.Key)
	holder.LeaseMS, holder.HeartbeatMS = 10_000, 5_000
	waiter.Holder, waiter.WaitMS, waiter.APIKey = "host-b:2", 30_000, "gone"
	return api.Facts{At: time.UnixMilli(1_782_860_410_125), Index: 77, Epoch: 7, SinceContact: 1200 * time.Millisecond, Node: "n1", Leader: "n1",
		Ready: true, Tenant: lockcore.TenantState{ID: q.Tenant, Keys: 1, Occupied: 1, Waiting: 1, Sessions: 2,
			Quotas: lockcore.Quotas{Keys: 10, Leases: 10, Waiters: 10, Sessions: 10}},
		Class: &lockcore.Class{Name: q.Class, Version: 3, Purpose: lockcore.PurposeCorrectness, Enforcement: lockcore.EnforcementFenced,
			QuorumLoss: lockcore.QuorumLossClosed, LeaseMS: 10_000, HeartbeatMS: 5_000, MaxWaitMS: 30_000, MaxWaiters: 1000},
		Guard: lockcore.Guard{AtMS: 1_782_860_400_000, Checks: 12, Rejections: 1},
		Lock:  lockcore.Lock{Class: q.Class, Key: q.Key, Holder: holder, Waiters: 1}, Waiting: []*lockcore.Lease{waiter},
		Voters: []wire.VoterSeen{{Node: "n1", Answered: true}, {Node: "n2", Answered: true}, {Node: "n3"}}}
}

func TestWhy_tellsAllThatIsKnown(t *testing.T) {
	var asked api.FactsQuery
	n := start(t, &platform{locks: &locks{}, leader: &self, facts: func(q api.FactsQuery) api.Facts {
		asked = q
		return knownLock(q)
	}}, options{})
	out := n.do(t, askWhy(narrowKey))
	want := `{"class":"ledger-close","key":"2026-06","stale":false,"index":77,"as_of":"2026-06-30T23:00:10.125Z","findings":[` +
		`{"code":"held","text":"The key is held by host-a:1 (API key \"ledger service\") with token 33 for 10s; heartbeats come, the last 1.2s ago: ` +
		`it works, or it hangs.","next":"Ask its team, or force-release it with token 33 and a reason."},` +
		`{"code":"queue","text":"1 waits in line; the first, host-b:2, for 10s.","next":"Wait long enough, and keep polling: the line is first come, ` +
		`first served, and who stops polling leaves it."}],` +
		`"posture":{"state":"in_force","version":3,"purpose":"correctness","enforcement":"fenced","quorum_loss":"closed","lease":"10s","heartbeat":"5s",` +
		`"wait_mode":"queue","max_wait":"30s","max_waiters":1000,"guard_report":{"last":"2026-06-30T23:00:00Z","checks":12,"rejections":1}},` +
		`"holder":{"holder":"host-a:1","api_key":"ledger service","since":"2026-06-30T23:00:00.125Z","token":33,"epoch":7,"posture_version":3,` +
		`"lease":"10s","heartbeat":"5s","heartbeat_age":"1.2s","expires_within":"9.8s"},` +
		`"waiters":[{"position":1,"holder":"host-b:2","api_key":"","since":"2026-06-30T23:00:00.125Z","waited":"10s","max_wait":"30s"}],"waiters_total":1,` +
		`"quotas":[{"quota":"keys","in_use":1,"limit":10},{"quota":"leases","in_use":1,"limit":10},{"quota":"waiters","in_use":1,"limit":10},` +
		`{"quota":"sessions","in_use":2,"limit":10}],"partition":{"node":"n1","leader":"n1","ready":true,"quorum":true,"epoch":7,` +
		`"voters":[{"node":"n1","answered":true},{"node":"n2","answered":true},{"node":"n3","answered":false}]}}` + "\n"
	if out.status != 200 || string(out.body) != want {
		t.Errorf("%d %s\nwant 200 %s", out.status, out.body, want)
	}
	if wanted := (api.FactsQuery{Tenant: "acme", Class: "ledger-close", Key: "2026-06", WaitersMax: 100}); asked != wanted {
		t.Errorf("the node was asked %+v; want %+v", asked, wanted)
	}
}

func TestWhy_isAnsweredByTheLeader(t *testing.T) {
	front, leads := pair(t, &locks{})
	leads.facts = func(q api.FactsQuery) api.Facts { return api.Facts{Node: "n2", Leader: "n2", SinceContact: -1} }
	var why wire.Why
	decode(t, front.do(t, askWhy(goodKey)), &why)
	if why.Partition.Node != "n2" || why.Stale {
		t.Errorf("%+v; want it answered by n2", why)
	}
}

// Whatever becomes of the leader, somebody answers.
func TestWhy_isAnsweredWithoutALeader(t *testing.T) {
	stale := func(api.FactsQuery) api.Facts {
		return api.Facts{Node: "n1", Stale: true, SinceContact: -1, Index: 5}
	}
	unreachable := dialer(t, "127.0.0.1:1")
	for name, p := range map[string]*platform{
		"nobody leads":                  {facts: stale},
		"the leader cannot be reached":  {facts: stale, leader: &second, forward: unreachable},
		"this node leads, and is alone": {facts: stale, leader: &self, locks: &locks{}},
	} {
		for _, peer := range []bool{false, true} {
			var why wire.Why
			out := start(t, p, options{peer: peer}).do(t, askWhy(goodKey))
			if out.status != 200 {
				t.Errorf("%s: %d %s; want 200", name, out.status, out.body)
				continue
			}
			decode(t, out, &why)
			if !why.Stale || why.Index != 5 || why.Findings[0].Code != wire.FindingNoQuorum {
				t.Errorf("%s: %s; want it stale, at entry 5, for want of a quorum", name, out.body)
			}
		}
	}
}

func TestWhy_isReadStrictly(t *testing.T) {
	n := leading(t, &locks{})
	for path, field := range map[string]string{
		"": "class", "?class=c": "key", "?key=k": "class", "?class=C&key=k": "class", "?class=c&key=": "key", "?class=c&key=%00": "key",
		"?class=c&key=k&tenant=globex": "tenant", "?class=c&class=d&key=k": "class",
	} {
		out := n.do(t, request{method: http.MethodGet, path: "/v1/locks/why" + path, key: goodKey})
		if p := out.problem(t); p.Code != wire.CodeInvalidRequest || p.Field != field {
			t.Errorf("%s: %s; want invalid_request of %q", path, out.body, field)
		}
	}
	out := n.do(t, request{method: http.MethodGet, path: "/v1/locks/why?class=other&key=k", key: narrowKey})
	if p := out.problem(t); p.Code != wire.CodeForbidden || p.Scope != "locks:other" {
		t.Errorf("%s; want forbidden naming the scope", out.body)
	}
}
