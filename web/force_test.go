package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/web/api"
)

const plainForce = `{"class":"ledger-close","key":"2026-06","token":33,"reason":"host-a was lost"}`

func forceWith(body string) request {
	return request{method: http.MethodPost, path: "/v1/locks/force-release", key: goodKey, body: body}
}

// heldBy33 is a page with the key asked for, held with token 33; asked for no key, it is empty.
func heldBy33(q api.LockQuery) api.LockPage {
	if q.Key == "" {
		return api.LockPage{Index: 9}
	}
	id, _ := lockcore.ParseLeaseID(leaseOne)
	return api.LockPage{Index: 9, Locks: []api.LockState{{Lock: lockcore.Lock{Class: q.Class, Key: q.Key, Holder: heldLease(id, q.Class, q.Key)}}}}
}

// holding is a partition where every key is held with a token, and which keeps the command that it is given, if there is a
// place for it, and does it.
func holding(token lockcore.Token, given *lockcore.MarkEnding) *locks {
	return &locks{
		list: func(_ context.Context, q api.LockQuery) (api.LockPage, error) {
			page := heldBy33(q)
			page.Locks[0].Holder.Token = token
			return page, nil
		},
		command: func(_ context.Context, c lockcore.Command) (lockcore.Result, error) {
			if given == nil {
				return lockcore.Result{}, errors.New("no command was expected")
			}
			*given = c.(lockcore.MarkEnding)
			if given.Now {
				return lockcore.Result{Outcome: lockcore.Ended, Reason: lockcore.Forced, Token: token}, nil
			}
			return lockcore.Result{Outcome: lockcore.Done}, nil
		},
	}
}

func TestForceRelease_endsTheHoldNamed(t *testing.T) {
	var given lockcore.MarkEnding
	n := leading(t, holding(33, &given))
	out := n.do(t, forceWith(plainForce))
	want := `{"class":"ledger-close","key":"2026-06","token":33,"state":"ending","now":false,"what":"The holder is told at its next heartbeat. ` +
		`The key is granted again when the holder has released it, or when its lease has run out. A holder that is paused or cut off is not ` +
		`stopped by this: the guard refuses it once a newer token has entered the resource."}` + "\n"
	if out.status != 200 || string(out.body) != want {
		t.Errorf("%d %s\nwant 200 %s", out.status, out.body, want)
	}
	id, _ := lockcore.ParseLeaseID(leaseOne)
	asked := lockcore.MarkEnding{Tenant: "acme", Lease: id, Token: 33, Cause: lockcore.Forced, By: "good", Note: "host-a was lost"}
	if given != asked {
		t.Errorf("the partition was given %+v; want %+v", given, asked)
	}
	out = n.do(t, forceWith(`{"class":"ledger-close","key":"2026-06","token":33,"reason":"r","now":true}`))
	if !strings.Contains(string(out.body), `"state":"ended","now":true,"what":"The hold is over`) || !given.Now {
		t.Errorf("%d %s, command %+v; want it ended at once", out.status, out.body, given)
	}
}

func TestForceRelease_saysWhatGoesOn(t *testing.T) {
	for _, test := range []struct {
		change    func(*lockcore.Lease)
		now, want string
	}{
		{func(*lockcore.Lease) {}, "false", "or when its lease has run out. A holder"},
		{func(l *lockcore.Lease) { l.LockDelayMS = 2500 }, "false", "or when its lease has run out and the lock delay of 2.5s has passed."},
		{func(l *lockcore.Lease) { l.LockDelayMS = 2500 }, "true", "is granted to whoever is next once the lock delay of 2.5s has passed, though"},
		{func(*lockcore.Lease) {}, "true", "is granted to whoever is next, though the holder may be at work still"},
		{func(l *lockcore.Lease) { l.Enforcement = lockcore.EnforcementAdvisory }, "false", "no guard is declared that would refuse it."},
	} {
		l := holding(33, new(lockcore.MarkEnding))
		l.list = func(_ context.Context, q api.LockQuery) (api.LockPage, error) {
			page := heldBy33(q)
			test.change(page.Locks[0].Holder)
			return page, nil
		}
		out := leading(t, l).do(t, forceWith(`{"class":"c","key":"k","token":33,"reason":"r","now":`+test.now+`}`))
		if out.status != 200 || !strings.Contains(string(out.body), test.want) {
			t.Errorf("%d %s; want it to say %q", out.status, out.body, test.want)
		}
	}
}

func TestForceRelease_nothingSilentlySucceeds(t *testing.T) {
	refused := func(r lockcore.Reason) *locks {
		l := holding(33, nil)
		l.command = func(context.Context, lockcore.Command) (lockcore.Result, error) {
			return lockcore.Result{Outcome: lockcore.Refused, Reason: r}, nil
		}
		return l
	}
	failed := func(err error) *locks {
		l := holding(33, nil)
		l.command = func(context.Context, lockcore.Command) (lockcore.Result, error) { return lockcore.Result{}, err }
		return l
	}
	delayed := &locks{list: func(_ context.Context, q api.LockQuery) (api.LockPage, error) {
		return api.LockPage{Locks: []api.LockState{{Lock: lockcore.Lock{Class: q.Class, Key: q.Key, DelayToken: 33, DelayMS: 1}}}}, nil
	}}
	for name, test := range map[string]struct {
		locks  *locks
		status int
		code   wire.Code
		detail string
	}{
		"nobody holds it":           {&locks{}, 409, wire.CodeNotHeld, "Nobody holds the key."},
		"it is in its lock delay":   {delayed, 409, wire.CodeNotHeld, "after the hold with token 33, which is over"},
		"somebody else holds it":    {holding(34, nil), 409, wire.CodeStaleToken, "held by host-a:1 with token 34, not 33"},
		"an earlier hold is live":   {holding(32, nil), 409, wire.CodeStaleToken, "held by host-a:1 with token 32, not 33"},
		"it ended meanwhile":        {refused(lockcore.RefusedEnded), 409, wire.CodeNotHeld, "Nobody holds the key."},
		"it is forgotten meanwhile": {refused(lockcore.RefusedUnknown), 409, wire.CodeNotHeld, "Nobody holds the key."},
		"it is being ended already": {refused(lockcore.RefusedEnding), 200, "", ""},
		"another leadership":        {refused(lockcore.RefusedStaleEpoch), 503, wire.CodeNotLeader, ""},
		"the core takes it not":     {refused(lockcore.RefusedInvalid), 500, wire.CodeInternal, ""},
		"outcome unknown":           {failed(leader.ErrUnknownOutcome), 503, wire.CodeOutcomeUnknown, ""},
		"too many commands":         {failed(leader.ErrOverloaded), 429, wire.CodeOverloaded, ""},
		"no quorum": {&locks{list: func(context.Context, api.LockQuery) (api.LockPage, error) {
			return api.LockPage{}, leader.ErrNoQuorum
		}}, 503, wire.CodeNoQuorum, ""},
	} {
		out := leading(t, test.locks).do(t, forceWith(plainForce))
		if out.status != test.status {
			t.Errorf("%s: %d %s; want %d", name, out.status, out.body, test.status)
			continue
		}
		if test.status == 200 {
			continue
		}
		if p := out.problem(t); p.Code != test.code || !strings.Contains(p.Detail, test.detail) {
			t.Errorf("%s: %s; want %s, %q", name, out.body, test.code, test.detail)
		}
	}
}

func TestForceRelease_isReadStrictly(t *testing.T) {
	n := leading(t, holding(33, nil))
	long := strings.Repeat("x", 1025)
	for body, field := range map[string]string{
		`{"key":"k","token":33,"reason":"r"}`:                                    "class",
		`{"class":"c","token":33,"reason":"r"}`:                                  "key",
		`{"class":"c","key":"k","reason":"r"}`:                                   "token",
		`{"class":"c","key":"k","token":33}`:                                     "reason",
		`{"class":"C","key":"k","token":33,"reason":"r"}`:                        "class",
		`{"class":"c","key":"","token":33,"reason":"r"}`:                         "key",
		`{"class":"c","key":"k","token":0,"reason":"r"}`:                         "token",
		`{"class":"c","key":"k","token":"33","reason":"r"}`:                      "token",
		`{"class":"c","key":"k","token":9007199254740992,"reason":"r"}`:          "token",
		`{"class":"c","key":"k","token":33,"reason":""}`:                         "reason",
		`{"class":"c","key":"k","token":33,"reason":"a\u0000b"}`:                 "reason",
		`{"class":"c","key":"k","token":33,"reason":"` + long + `"}`:             "reason",
		`{"class":"c","key":"k","token":33,"reason":"r","now":1}`:                "now",
		`{"class":"c","key":"k","token":33,"reason":"r","force":true}`:           "force",
		`{"class":"c","key":"k","token":33,"reason":"r","tenant":"globex"}`:      "tenant",
		`{"class":"c","key":"k","token":33,"token":34,"reason":"r"}`:             "token",
		`{"class":"c","key":"k","token":33,"reason":"r","lease_id":"` + leaseOne: "lease_id",
	} {
		out := n.do(t, forceWith(body))
		if p := out.problem(t); p.Code != wire.CodeInvalidRequest || p.Field != field {
			t.Errorf("%.80s: %s; want invalid_request of %q", body, out.body, field)
		}
	}
	var given lockcore.MarkEnding
	for _, reason := range []string{"x", strings.Repeat("é", 512), strings.Repeat("x", 1024)} {
		out := leading(t, holding(33, &given)).do(t, forceWith(`{"class":"c","key":"k","token":33,"reason":"`+reason+`"}`))
		if out.status != 200 || given.Note != reason {
			t.Errorf("a reason of %d bytes: %d %.200s", len(reason), out.status, out.body)
		}
	}
}

func TestForceRelease_needsAnAdministrator(t *testing.T) {
	for key, want := range map[string]int{goodKey: 200, adminKey: 200, narrowKey: 403, unscopedKey: 403, guardKey: 403} {
		in := forceWith(plainForce)
		in.key = key
		out := leading(t, holding(33, new(lockcore.MarkEnding))).do(t, in)
		if out.status != want {
			t.Errorf("key %s: %d %s; want %d", key, out.status, out.body, want)
		}
		if want == 403 {
			if p := out.problem(t); p.Scope != "tenant:admin" {
				t.Errorf("key %s: %s; want it to name tenant:admin", key, out.body)
			}
		}
	}
}

// An administrator looks before ending a hold, so its key may list and ask why, but take nothing.
func TestAdministrator_looksAtEveryClassAndTakesNone(t *testing.T) {
	var asked api.LockQuery
	n := leading(t, &locks{list: func(_ context.Context, q api.LockQuery) (api.LockPage, error) {
		asked = q
		return api.LockPage{}, nil
	}})
	for path, want := range map[string]int{"/v1/locks?class=other": 200, "/v1/locks/why?class=other&key=k": 200, "/v1/leases/" + leaseOne: 403} {
		if out := n.do(t, request{method: http.MethodGet, path: path, key: adminKey}); out.status != want {
			t.Errorf("GET %s: %d %s; want %d", path, out.status, out.body, want)
		}
	}
	if !asked.Allows("anything") {
		t.Error("an administrator's list leaves classes out")
	}
	in := put(leaseOne, plainAcquire)
	in.key = adminKey
	if out := n.do(t, in); out.status != 403 {
		t.Errorf("an acquire with an administrator's key: %d %s; want 403", out.status, out.body)
	}
}

func TestForceRelease_namesKeysByteForByte(t *testing.T) {
	for i, key := range awkwardKeys {
		var looked lockcore.Key
		var given lockcore.MarkEnding
		l := holding(33, &given)
		list := l.list
		l.list = func(ctx context.Context, q api.LockQuery) (api.LockPage, error) {
			looked = q.Key
			return list(ctx, q)
		}
		body := string(wire.Lease{LeaseID: "x", Key: key}.AppendJSON(nil)) // only for its quoting
		quoted := body[strings.Index(body, `"key":`)+len(`"key":`) : strings.LastIndex(body, `,"index"`)]
		out := leading(t, l).do(t, forceWith(`{"class":"c","token":33,"reason":"`+strconv.Itoa(i)+`","key":`+quoted+`}`))
		var answer wire.ForceRelease
		decode(t, out, &answer)
		if out.status != 200 || string(looked) != key || answer.Key != key || given.Note != strconv.Itoa(i) {
			t.Errorf("key %q: looked at %q, answered %q", key, looked, answer.Key)
		}
		var asked api.FactsQuery
		p := &platform{locks: l, leader: &self, facts: func(q api.FactsQuery) api.Facts { asked = q; return api.Facts{} }}
		out = start(t, p, options{}).do(t, request{method: http.MethodGet, path: "/v1/locks/why?class=c&key=" + url.QueryEscape(key), key: goodKey})
		var why wire.Why
		decode(t, out, &why)
		if string(asked.Key) != key || why.Key != key {
			t.Errorf("key %q: asked why of %q, answered %q", key, asked.Key, why.Key)
		}
	}
}

// A partition that pages past the key asked for must not have another lock ended.
func TestForceRelease_endsNoOtherLock(t *testing.T) {
	l := holding(33, nil)
	l.list = func(_ context.Context, q api.LockQuery) (api.LockPage, error) {
		q.Key += "0"
		return heldBy33(q), nil
	}
	if p := leading(t, l).do(t, forceWith(plainForce)).problem(t); p.Code != wire.CodeNotHeld {
		t.Errorf("%+v; want not_held", p)
	}
}
