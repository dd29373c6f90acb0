package clienttest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/wire"
)

func TestAcquire_sameIDIsTheSameGrant(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		first := must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		pass(time.Second)
		again := must(t, "again", a.at(p.Node(2)).acquire(1, "k", "", ""), "200 granted")
		mustEqual(t, "token", again.lease.Token, first.lease.Token)
		mustEqual(t, "use_within", first.lease.UseWithin.Std(), 9700*time.Millisecond) // 10 s less 1 % and 200 ms
		mustEqual(t, "use_within after 1 s", again.lease.UseWithin.Std(), 8710*time.Millisecond)
		mustEqual(t, "contact_within", first.lease.ContactWithin.Std(), 5*time.Second)
		mustEqual(t, "protected", first.lease.Protected, true)
		mustEqual(t, "claim", first.lease.Claim.ID, "ordered-grants-efficiency")
	})
}

func TestAcquire_tokensRiseOverAllLocks(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		for n := 1; n <= 3; n++ {
			got := must(t, "acquire", a.acquire(n, fmt.Sprint(n), "", ""), "200 granted")
			mustEqual(t, "token", got.lease.Token, uint64(n))
		}
	})
}

func TestAcquire_refusals(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		p.Class("ledger", clienttest.ClassConfig{MaxWaiters: 1, MaxWait: time.Minute})
		a, b, c := newAsker(t, p, 1), newAsker(t, p, 2), newAsker(t, p, 3)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		must(t, "second id", a.acquire(2, "k", "", "0s"), "409 already_held")
		must(t, "other key", a.acquire(1, "other", "", ""), "409 id_conflict")
		must(t, "without waiting", b.acquire(1, "k", "0s", ""), "409 held")
		must(t, "longer than max_wait", b.acquire(2, "k", "2m", ""), "400 invalid_request")
		must(t, "without end", b.acquire(2, "k", "unlimited", ""), "400 invalid_request")
		must(t, "queue", b.acquire(2, "k", "", "0s"), "202 queued")
		must(t, "full queue", c.acquire(1, "k", "", "0s"), "409 queue_full")

		must(t, "release", a.release(1, ""), "200 ended")
		must(t, "copy of what was refused", b.acquire(1, "k", "0s", ""), "409 held")
		must(t, "look at what was refused", b.look(1), "409 held")
		must(t, "copy of what was refused", c.acquire(1, "k", "", "0s"), "409 queue_full")
	})
}

func TestAcquire_classNotInForceDoesNotUseTheIDUp(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		body := `{"class":"new","key":"k"}`
		got := must(t, "unknown class", a.ask(t.Context(), http.MethodPut, "/v1/leases/"+a.id(1), body), "409 class_not_in_force")
		mustEqual(t, "Retry-After", got.header.Get("Retry-After"), "1")
		p.Class("new", clienttest.ClassConfig{NoQueue: true})
		must(t, "declared", a.ask(t.Context(), http.MethodPut, "/v1/leases/"+a.id(1), body), "200 granted")
		b := newAsker(t, p, 2)
		must(t, "does not queue", b.ask(t.Context(), http.MethodPut, "/v1/leases/"+b.id(1), body), "409 held")
	})
}

func TestRelease_isIdempotentAndRefusesStaleToken(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		must(t, "wrong token", a.release(1, "?token=7"), "409 stale_token")
		must(t, "token that is none", a.release(1, "?token=0"), "400 invalid_request")
		for range 2 {
			got := must(t, "release", a.release(1, "?token=1"), "200 ended")
			mustEqual(t, "reason", got.lease.Reason, "released")
			mustEqual(t, "token", got.lease.Token, 1)
		}
		must(t, "acquire after release", a.acquire(1, "k", "", ""), "409 ended")
	})
}

func TestRelease_burnsAnUnseenID(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		must(t, "unseen with token", a.release(1, "?token=1"), "404 not_found")
		got := must(t, "release", a.release(1, ""), "200 ended")
		mustEqual(t, "reason", got.lease.Reason, "burned")
		must(t, "late acquire", a.acquire(1, "k", "", ""), "409 ended")
	})
}

func TestHeartbeat_renewsWhatItNamesAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		must(t, "acquire", a.acquire(1, "named", "", ""), "200 granted")
		must(t, "acquire", a.acquire(2, "unnamed", "", ""), "200 granted")
		pass(9 * time.Second)
		got := must(t, "heartbeat", a.beat(1, 7), "200")
		mustEqual(t, "held", len(got.beat.Held), 1)
		mustEqual(t, "use_within", got.beat.Held[0].UseWithin.Std(), 9700*time.Millisecond)
		mustEqual(t, "lost", got.beat.Lost[0], wire.Lost{LeaseID: a.id(7), Code: wire.CodeNotFound, Reason: "unknown"})
		pass(time.Second)
		_, _, held := p.Holder("ledger", "unnamed")
		mustEqual(t, "unnamed is held", held, false)
		_, _, held = p.Holder("ledger", "named")
		mustEqual(t, "named is held", held, true)
		b := newAsker(t, p, 2)
		must(t, "queue", b.acquire(1, "named", "", "0s"), "202 queued")
		waits := wire.Lost{LeaseID: b.id(1), Code: wire.CodeNotFound, Reason: "not_held"}
		mustEqual(t, "a waiter has no lease", b.beat(1).beat.Lost[0], waits)
		lost := a.beat(2).beat.Lost[0]
		mustEqual(t, "lost", lost, wire.Lost{LeaseID: a.id(2), Code: wire.CodeEnded, Reason: "expired", Token: 2})
	})
}

func TestExpiry_notBeforeTheLeaseIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		pass(10*time.Second - time.Nanosecond)
		must(t, "look before", a.look(1), "200 granted")
		pass(time.Nanosecond)
		got := must(t, "look after", a.look(1), "200 ended")
		mustEqual(t, "reason", got.lease.Reason, "expired")
	})
}

func TestLook_renewsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		must(t, "unseen", a.look(1), "404 not_found")
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		pass(6 * time.Second)
		must(t, "look", a.look(1), "200 granted")
		pass(4 * time.Second)
		must(t, "look", a.look(1), "200 ended")
	})
}

func TestSession_belongsToItsAPIKeyAndItsSuccessors(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")

		stranger := *a
		stranger.apiKey = p.NewAPIKey("stranger")
		must(t, "acquire", stranger.acquire(1, "k", "", ""), "404 not_found")
		must(t, "heartbeat", stranger.beat(1), "404 not_found")
		must(t, "look", stranger.look(1), "404 not_found")
		must(t, "release", stranger.release(1, ""), "404 not_found")
		must(t, "end", stranger.endSession(), "404 not_found")

		successor := *a
		successor.apiKey = p.RotateAPIKey(a.apiKey)
		p.RevokeAPIKey(a.apiKey)
		must(t, "the old key", a.beat(1), "401 unauthorized")
		mustEqual(t, "held", len(successor.beat(1).beat.Held), 1)
	})
}

func TestSession_endedIsGrantedNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		must(t, "queue", b.acquire(1, "k", "", "0s"), "202 queued")
		must(t, "end", a.endSession(), "200")
		must(t, "acquire", a.acquire(2, "other", "", ""), "409 session_ended")
		mustEqual(t, "lost", a.beat(1).beat.Lost[0].Code, wire.CodeSessionEnded)
		id, token, _ := p.Holder("ledger", "k")
		mustEqual(t, "next holder", id, b.id(1))
		mustEqual(t, "its token", token, 2)

		must(t, "look at what it never asked for", a.look(9), "200 ended")
		must(t, "release of it", a.release(9, ""), "200 ended")
		mustEqual(t, "heartbeat for it", a.beat(9).beat.Lost[0].Code, wire.CodeSessionEnded)

		unseen := newAsker(t, p, 3)
		must(t, "end before the beginning", unseen.endSession(), "200")
		must(t, "acquire", unseen.acquire(1, "other", "", ""), "409 session_ended")
	})
}

func TestSession_oldNumbersAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		must(t, "acquire", a.acquire(1, "live", "", ""), "200 granted")
		for n := 2; n <= 2200; n++ {
			a.release(n, "")
		}
		must(t, "an old one that lives", a.acquire(1, "live", "", ""), "200 granted")
		must(t, "an old one that is over", a.acquire(2, "k", "", ""), "409 too_old")
		must(t, "a young one that is over", a.acquire(2199, "k", "", ""), "409 ended")
		mustEqual(t, "lost", a.beat(2).beat.Lost[0].Code, wire.CodeTooOld)
		must(t, "release", a.release(2, ""), "409 too_old")
	})
}

func TestListLocks_showsHolderAndLine(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		began := time.Now().UTC()
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		must(t, "queue", b.acquire(1, "k", "", "0s"), "202 queued")
		must(t, "acquire", a.acquire(2, "l", "", ""), "200 granted")
		pass(time.Second)
		a.beat(1)
		list := a.ask(t.Context(), http.MethodGet, "/v1/locks?class=ledger&key=k", "").list
		mustEqual(t, "locks", len(list.Locks), 1)
		l := list.Locks[0]
		mustEqual(t, "holder", l.Holder.Label, "worker-1")
		mustEqual(t, "API key", l.Holder.APIKey, "clienttest")
		mustEqual(t, "token", l.Holder.Token, 1)
		mustEqual(t, "since", l.Holder.Since, began)
		mustEqual(t, "last heartbeat", *l.Holder.LastHeartbeat, began.Add(time.Second))
		mustEqual(t, "waiters", fmt.Sprint(l.WaitersTotal, " ", l.Waiters[0].Label), "1 worker-2")
		mustEqual(t, "all", len(a.ask(t.Context(), http.MethodGet, "/v1/locks", "").list.Locks), 2)
		mustEqual(t, "first", len(a.ask(t.Context(), http.MethodGet, "/v1/locks?limit=1", "").list.Locks), 1)
		mustEqual(t, "free", len(a.ask(t.Context(), http.MethodGet, "/v1/locks?key=free", "").list.Locks), 0)
		must(t, "unknown parameter", a.ask(t.Context(), http.MethodGet, "/v1/locks?clas=ledger", ""), "400 invalid_request")
	})
}

func TestRequest_malformedIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		lease, beat := "/v1/leases/"+a.id(1), "/v1/sessions/"+a.session+"/heartbeat"
		for _, c := range []struct{ method, path, body, want string }{
			{"PUT", lease, `{"class":"ledger","key":"k","colour":"red"}`, "400 invalid_request"},
			{"PUT", lease, `{"class":"ledger"}`, "400 invalid_request"},
			{"PUT", lease, `{"class":"Ledger","key":"k"}`, "400 invalid_request"},
			{"PUT", lease, `{"class":"led_ger","key":"k"}`, "400 invalid_request"},
			{"PUT", lease, `{"class":"ledger","key":"k\n"}`, "400 invalid_request"},
			{"PUT", lease, `{"class":"ledger","key":"k","wait":3}`, "400 invalid_request"},
			{"PUT", lease, `{"class":"ledger","key":"k","poll":"11s"}`, "400 invalid_request"},
			{"PUT", lease, `{"class":"ledger","key":"k"}{}`, "400 invalid_request"},
			{"PUT", lease, ``, "415 unsupported_media_type"},
			{"PUT", "/v1/leases/" + a.session + ".0", `{"class":"ledger","key":"k"}`, "400 invalid_request"},
			{"PUT", "/v1/leases/1", `{"class":"ledger","key":"k"}`, "400 invalid_request"},
			{"PATCH", lease, ``, "405 method_not_allowed"},
			{"DELETE", lease + "?tokens=1", ``, "400 invalid_request"},
			{"POST", beat, `{"leases":[1,1]}`, "400 invalid_request"},
			{"POST", beat, `{}`, "400 invalid_request"},
			{"GET", "/v1/classes", ``, "404 not_found"},
		} {
			must(t, c.method+" "+c.path+" "+c.body, a.ask(t.Context(), c.method, c.path, c.body), c.want)
		}
		wrong := *a
		wrong.apiKey = "stn_wrong"
		got := must(t, "wrong API key", wrong.acquire(1, "k", "", ""), "401 unauthorized")
		mustEqual(t, "challenge", got.header.Get("WWW-Authenticate"), "Bearer")
		mustEqual(t, "leader", got.header.Get("Stanchion-Leader"), "")
		must(t, "the id is as it was", a.acquire(1, "k", "", ""), "200 granted")
	})
}
