package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/web/api"
)

func decode(t *testing.T, out reply, into any) {
	t.Helper()
	if err := json.Unmarshal(out.body, into); err != nil {
		t.Fatalf("%d %.200s: %v", out.status, out.body, err)
	}
}

func TestLocks_showHolderAndLine(t *testing.T) {
	id, _ := lockcore.ParseLeaseID(leaseOne)
	held, waits := heldLease(id, "ledger-close", "2026-06"), heldLease(id, "ledger-close", "2026-06")
	waits.Holder, waits.APIKey = "host-b:2", "gone"
	n := leading(t, &locks{list: func(_ context.Context, q api.LockQuery) (api.LockPage, error) {
		return api.LockPage{Index: 77, Locks: []api.LockState{{
			Lock:    lockcore.Lock{Class: "ledger-close", Key: "2026-06", Holder: held, Waiters: 12},
			Waiting: []*lockcore.Lease{waits}, LastHeartbeat: time.UnixMilli(1_782_860_405_000),
		}}}, nil
	}})
	out := n.do(t, request{method: http.MethodGet, path: "/v1/locks", key: goodKey})
	want := `{"locks":[{"class":"ledger-close","key":"2026-06","holder":{"holder":"host-a:1","api_key":"ledger service",` +
		`"since":"2026-06-30T23:00:00.125Z","last_heartbeat":"2026-06-30T23:00:05Z","token":33,"epoch":7,"posture_version":3},` +
		`"waiters":[{"position":1,"holder":"host-b:2","api_key":"","since":"2026-06-30T23:00:00.125Z"}],"waiters_total":12,` +
		`"highest_token":33}],"complete_to":77}` + "\n"
	if out.status != 200 || string(out.body) != want {
		t.Errorf("%d %s\nwant 200 %s", out.status, out.body, want)
	}
}

func TestLocks_queryIsHandedOver(t *testing.T) {
	var asked api.LockQuery
	n := leading(t, &locks{list: func(_ context.Context, q api.LockQuery) (api.LockPage, error) {
		asked = q
		return api.LockPage{Next: api.LockPosition{Class: "ledger-b", Key: "k/9"}}, nil
	}})
	get := func(query string) wire.LockList {
		var page wire.LockList
		decode(t, n.do(t, request{method: http.MethodGet, path: "/v1/locks" + query, key: narrowKey}), &page)
		return page
	}
	page := get("?class=ledger-close&prefix=2026%2D&limit=7")
	if asked.Tenant != "acme" || asked.Class != "ledger-close" || asked.Prefix != "2026-" || asked.Limit != 7 || asked.WaitersMax != 10 {
		t.Errorf("the partition was asked %+v", asked)
	}
	if !asked.Allows("ledger-close") || asked.Allows("other") {
		t.Error("the scopes do not bound the classes listed")
	}
	get("?cursor=" + page.NextCursor)
	if want := (api.LockPosition{Class: "ledger-b", Key: "k/9"}); asked.From != want || asked.Limit != 100 {
		t.Errorf("the next page begins at %+v with limit %d; want %+v and 100", asked.From, asked.Limit, want)
	}
	get("?key=a")
	if asked.Key != "a" || asked.WaitersMax != 1000 {
		t.Errorf("one key shows %d waiters; want 1000", asked.WaitersMax)
	}
}
