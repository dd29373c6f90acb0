package platform_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/tenants"
)

func onlyTheRightReleaseSucceeds(t *testing.T, c *calm) {
	api := c.client(t, classShort, classLong)
	stranger := newClient(t, c.cluster, c.createKey(t, c.tenant))
	held, expired := newID(), newID()
	granted := api.take(t, held, classLong, "k")
	api.take(t, expired, classShort, "k")
	eventually(t, "a lease runs out", func() bool { return api.look(t, expired).lease.State == wire.StateEnded })
	successor := api.take(t, newID(), classShort, "k")

	for _, test := range []struct {
		what   string
		by     *client
		path   string
		status int
		code   wire.Code
		reason string
	}{
		{"by another owner", stranger, held, 404, wire.CodeNotFound, ""},
		{"with another token", api, fmt.Sprintf("%s?token=%d", held, granted.lease.Token+1), 409, wire.CodeStaleToken, "stale_token"},
		{"of an id never seen, with a token", api, newID() + "?token=1", 404, wire.CodeNotFound, ""},
		{"after the expiry", api, expired, 200, "", "expired"},
		{"with the right token", api, fmt.Sprintf("%s?token=%d", held, granted.lease.Token), 200, "", "released"},
		{"a second time", api, held, 200, "", "released"},
	} {
		r := test.by.release(t, test.path)
		reason := r.lease.Reason
		if r.status >= 400 {
			reason = r.problem.Reason
		}
		if r.status != test.status || r.code() != test.code || reason != test.reason {
			t.Errorf("release %s is answered %s; want %d %s %s", test.what, r, test.status, test.code, test.reason)
		}
		lock := api.lock(t, classLong, "k")
		if holds := lock != nil && lock.Holder != nil && lock.Holder.Token == granted.lease.Token; holds != (test.reason != "released") {
			t.Errorf("after a release %s the lock is %+v", test.what, lock)
		}
	}
	if successor.lease.Token <= granted.lease.Token {
		t.Errorf("the successor's token %d is not above %d", successor.lease.Token, granted.lease.Token)
	}
}

func failingAcquiresLeaveNothing(t *testing.T, c *calm) {
	const tries, sessions = 100, 20
	api := c.clientWithin(t, tenants.Quotas{Keys: 2, Leases: 2, Sessions: sessions}, classMiddle)
	waiting, holder := newSession(), newSession()
	api.take(t, holder+".1", classMiddle, "a")
	api.take(t, holder+".2", classMiddle, "b")
	before := c.state(t)
	for i := range tries {
		if r := api.acquire(t, newID(), acquire{class: "nowhere", key: "k"}); r.code() != wire.CodeClassNotInForce {
			t.Fatalf("acquire under an unknown class is answered %s", r)
		}
		if r := api.acquire(t, newID(), acquire{class: classMiddle, key: "c"}); r.code() != wire.CodeQuotaExceeded {
			t.Fatalf("acquire over the quota is answered %s", r)
		}
		if after := c.state(t); after.Sessions != before.Sessions || after.Keys != before.Keys {
			t.Fatalf("after acquires that failed the tenant is %+v; want it as before, %+v", after, before)
		}
		id := fmt.Sprintf("%s.%d", waiting, i+1)
		if r := api.acquire(t, id, acquire{class: classMiddle, key: "a", wait: "1m"}); r.status != http.StatusAccepted {
			t.Fatalf("acquire of a held key is answered %s", r)
		}
		api.release(t, id)
		if i == 0 {
			before.Sessions++ // the one that waits
		}
	}
	after := c.state(t)
	if after.Waiting != 0 || after.Sessions != before.Sessions || after.Keys != before.Keys {
		t.Errorf("after failed and cancelled acquires the tenant is %+v; want 2 sessions, 2 keys and no waiter", after)
	}
	for _, key := range []string{holder, waiting} {
		api.ask(t, http.MethodDelete, "/v1/sessions/"+key, "")
	}
	if after := c.state(t); after.Keys != 0 || after.Occupied != 0 {
		t.Errorf("after the ends of both sessions the tenant is %+v; want no key", after)
	}
}

func durationsOutOfRangeAreRefused(t *testing.T, c *calm) {
	api := c.client(t, classMiddle)
	for _, wait := range []string{`"1125899906842624ms"`, `"9007199254740992ms"`, `"4611686018427387904ms"`, `"9223372036854775807ms"`,
		`86400000000000`, `24.5`, `"24"`, `-1`, `0`, `null`, `""`, `1e99`, `"-1s"`, `"25h"`} {
		id := newID()
		r := api.ask(t, http.MethodPut, "/v1/leases/"+id, fmt.Sprintf(`{"class":%q,"key":"k","wait":%s}`, classMiddle, wait))
		if r.status != http.StatusBadRequest || r.problem.Field != "wait" {
			t.Errorf("wait %s is answered %s; want 400 naming the field", wait, r)
		}
		if r := api.look(t, id); r.status != http.StatusNotFound {
			t.Errorf("wait %s: the id is known: %s", wait, r)
		}
	}
	if s := c.state(t); s.Keys != 0 || s.Sessions != 0 {
		t.Errorf("after bad requests the tenant is %+v; want it empty", s)
	}
}

func lockDelayFollowsAnExpiry(t *testing.T, c *calm) {
	api := c.client(t, classDelayed)
	released, expired, waiter := newID(), newID(), newID()
	api.take(t, released, classDelayed, "k")
	api.release(t, released)
	token := api.take(t, expired, classDelayed, "k").lease.Token // at once after a release
	queue := acquire{class: classDelayed, key: "k", wait: "1m", poll: "250ms"}
	delayed := false
	eventually(t, "the waiter is granted", func() bool {
		lock := api.lock(t, classDelayed, "k")
		if lock.Delay != nil {
			delayed = true
			if lock.Holder != nil || lock.Delay.Token != token {
				t.Errorf("in its delay the lock is %+v; want it without a holder, after token %d", lock, token)
			}
		}
		return api.acquire(t, waiter, queue).granted()
	})
	if !delayed {
		t.Error("after the expiry the key was granted without its lock delay")
	}
}
