package clienttest_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/wire"
)

func mustFail(t *testing.T, what string, got said, want error) {
	t.Helper()
	if !errors.Is(got.err, want) {
		t.Fatalf("%s: got %s, want %v", what, got, want)
	}
}

func TestPause_hangsUntilResumed(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		p.Node(1).Pause()
		hanging := a.later(1, "k", "", "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		mustFail(t, "given up", a.acquireIn(ctx, 2, "l", "", ""), context.DeadlineExceeded)
		must(t, "other node", a.at(p.Node(2)).acquire(3, "m", "", ""), "200 granted")
		p.Node(1).Resume()
		must(t, "resumed", <-hanging, "200 granted")
		_, _, held := p.Holder("ledger", "l")
		mustEqual(t, "what was given up is held", held, false)
	})
}

func TestPause_keepsAnswersBack(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		hanging := b.later(1, "k", "", "")
		p.Node(1).Pause()
		must(t, "release", a.at(p.Node(2)).release(1, ""), "200 ended")
		pass(time.Second)
		mustEqual(t, "answers before the end of the pause", len(hanging), 0)
		p.Node(1).Resume()
		got := must(t, "answer", <-hanging, "200 granted")
		mustEqual(t, "use_within", got.lease.UseWithin.Std(), 4255*time.Millisecond) // of the window; the pause is not added
	})
}

func TestCut_refusesAndBreaksConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		hanging := b.later(1, "k", "", "")
		p.Node(1).Cut()
		mustFail(t, "what hangs", <-hanging, syscall.ECONNRESET)
		mustFail(t, "what comes", a.beat(1), syscall.ECONNREFUSED)
		mustEqual(t, "heartbeats seen", len(p.Requests(clienttest.Match{Op: clienttest.Heartbeat})), 0)
		pass(time.Second)
		mustEqual(t, "queue", len(p.Queue("ledger", "k")), 0)
		p.Node(1).Restore()
		mustEqual(t, "held", len(a.beat(1).beat.Held), 1)
	})
}

func TestLoseAnswers_carriesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		f := p.LoseAnswers(clienttest.Match{Op: clienttest.Acquire}, 1)
		mustFail(t, "acquire", a.acquire(1, "k", "", ""), syscall.ECONNRESET)
		got := must(t, "again", a.acquire(1, "k", "", ""), "200 granted")
		mustEqual(t, "token", got.lease.Token, 1)
		mustEqual(t, "met", f.Met(), 1)
		all := p.Requests(clienttest.Match{Op: clienttest.Acquire})
		mustEqual(t, "status of what was lost", all[0].Status, 0)
		mustEqual(t, "status of what arrived", all[1].Status, 200)
	})
}

func TestDropRequests_doesNotCarryOut(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		f := p.DropRequests(clienttest.Match{Node: "node1"}, clienttest.Always)
		for range 3 {
			mustFail(t, "acquire", a.acquire(1, "k", "", ""), syscall.ECONNRESET)
		}
		_, _, held := p.Holder("ledger", "k")
		mustEqual(t, "held", held, false)
		must(t, "other node", a.at(p.Node(2)).look(1), "404 not_found")
		f.Stop()
		must(t, "stopped", a.acquire(1, "k", "", ""), "200 granted")
	})
}

func TestDelayRequests_arrivesAfterItsClientGaveUp(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		p.DelayRequests(clienttest.Match{Op: clienttest.Acquire}, 2, 3*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		mustFail(t, "acquire", a.acquireIn(ctx, 1, "given-up", "", ""), context.DeadlineExceeded)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		mustFail(t, "acquire", a.acquireIn(ctx, 2, "withdrawn", "", ""), context.DeadlineExceeded)
		must(t, "withdraw", a.release(2, ""), "200 ended")
		pass(3 * time.Second)
		_, _, held := p.Holder("ledger", "given-up")
		mustEqual(t, "what was given up is held", held, true)
		_, _, held = p.Holder("ledger", "withdrawn")
		mustEqual(t, "what was withdrawn is held", held, false)
	})
}

func TestDelayAnswers_promiseCountsFromBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		p.DelayAnswers(clienttest.Match{Op: clienttest.Acquire, Key: "k"}, 1, 3*time.Second)
		began := time.Now()
		got := must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		mustEqual(t, "after", time.Since(began), 3*time.Second)
		mustEqual(t, "use_within", got.lease.UseWithin.Std(), 9700*time.Millisecond)
		pass(7 * time.Second)
		_, _, held := p.Holder("ledger", "k")
		mustEqual(t, "held after 10 s", held, false)
	})
}

func TestRepeatRequests_copyArrivesLater(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		p.RepeatRequests(clienttest.Match{Op: clienttest.Acquire}, 1, 0)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		mustEqual(t, "grants", a.look(1).lease.Token, 1)

		p.RepeatRequests(clienttest.Match{Op: clienttest.Heartbeat}, 1, 8*time.Second)
		mustEqual(t, "held", len(a.beat(1).beat.Held), 1)
		pass(17 * time.Second)
		must(t, "the copy has renewed", a.look(1), "200 granted")

		p.RepeatRequests(clienttest.Match{Op: clienttest.Release}, 1, time.Second)
		must(t, "release", a.release(1, ""), "200 ended")
		must(t, "next", b.acquire(1, "k", "", ""), "200 granted")
		pass(time.Second)
		must(t, "the copy has ended nothing", b.look(1), "200 granted")
	})
}

func TestRepeatRequests_copyDoesNotHang(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		p.RepeatRequests(clienttest.Match{Op: clienttest.Acquire}, 1, 0)
		began := time.Now()
		must(t, "whose copy takes its place", b.acquire(1, "k", "", ""), "202 queued")
		mustEqual(t, "after", time.Since(began), 0)
		pass(7500 * time.Millisecond) // three polls
		mustEqual(t, "queue", len(p.Queue("ledger", "k")), 0)
	})
}

func TestAnswer_givesTheProblemAndCarriesOutNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		p.Answer(clienttest.Match{Op: clienttest.Acquire, Class: "ledger"}, 2, wire.NewProblem(wire.CodeOverloaded, "busy"))
		for range 2 {
			got := must(t, "acquire", a.acquire(1, "k", "", ""), "429 overloaded")
			mustEqual(t, "detail", got.problem.Detail, "busy")
			mustEqual(t, "Retry-After", got.header.Get("Retry-After"), "1")
		}
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		mustEqual(t, "code in the record", p.Requests(clienttest.Match{})[0].Code, wire.CodeOverloaded)
	})
}

func TestMatch_byWhatALeaseIsOf(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		must(t, "acquire", a.acquire(2, "l", "", ""), "200 granted")
		f := p.DropRequests(clienttest.Match{Op: clienttest.Heartbeat, Class: "ledger", Key: "l"}, clienttest.Always)
		must(t, "heartbeat of the other", a.beat(1), "200")
		mustFail(t, "heartbeat of both", a.beat(1, 2), syscall.ECONNRESET)
		f.Stop()
		p.DropRequests(clienttest.Match{Lease: a.id(1)}, clienttest.Always)
		mustFail(t, "look", a.look(1), syscall.ECONNRESET)
		must(t, "look at the other", a.look(2), "200 granted")
	})
}

func TestLead_letsLeasesRunAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		got := must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		mustEqual(t, "leader", got.header.Get("Stanchion-Leader"), "node1 http://node1.test")
		hanging := b.later(1, "k", "", "")
		pass(2 * time.Second)
		p.Node(2).Lead()
		mustEqual(t, "leader", p.Leader().Name(), "node2")
		got = must(t, "what hangs", <-hanging, "503 not_leader")
		mustEqual(t, "leader", got.header.Get("Stanchion-Leader"), "node2 http://node2.test")
		got = must(t, "look", a.look(1), "200 granted")
		mustEqual(t, "use_within", got.lease.UseWithin.Std(), 9700*time.Millisecond)
		mustEqual(t, "epoch of the grant", got.lease.Epoch, 1)
		must(t, "place", b.acquire(1, "k", "", "0s"), "202 queued")
		must(t, "other key", b.acquire(2, "l", "", ""), "200 granted")
		mustEqual(t, "epoch", b.look(2).lease.Epoch, 2)
	})
}

func TestLoseQuorum_decidesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		hanging := b.later(1, "k", "", "")
		p.LoseQuorum()
		must(t, "what hangs", <-hanging, "503 no_quorum")
		must(t, "heartbeat", a.at(p.Node(3)).beat(1), "503 no_quorum")
		pass(time.Hour)
		id, _, _ := p.Holder("ledger", "k")
		mustEqual(t, "holder", id, a.id(1))
		p.RestoreQuorum()
		mustEqual(t, "position", b.acquire(1, "k", "", "0s").lease.Position, 1)
		mustEqual(t, "held", len(a.beat(1).beat.Held), 1)
	})
}

func TestRevoke_waitsForTheReleaseOrTheEndOfTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		mustEqual(t, "revoked", p.Revoke("ledger", "k", clienttest.ReasonForced), false)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		must(t, "acquire", a.acquire(2, "l", "", ""), "200 granted")
		mustEqual(t, "revoked", p.Revoke("ledger", "k", clienttest.ReasonMaxHold), true)
		mustEqual(t, "revoked", p.Revoke("ledger", "l", clienttest.ReasonForced), true)
		want := wire.Lost{LeaseID: a.id(1), Code: wire.CodeRevoked, Reason: "max_hold", Ending: true, Token: 1}
		mustEqual(t, "lost", a.beat(1).beat.Lost[0], want)
		must(t, "look", a.look(1), "200 ending")
		must(t, "acquire again", a.acquire(1, "k", "", ""), "409 revoked")
		must(t, "queue", b.acquire(1, "k", "", "0s"), "202 queued")
		must(t, "release", a.release(1, ""), "200 ended")
		must(t, "next", b.acquire(1, "k", "", ""), "200 granted")
		pass(9 * time.Second)
		a.beat(2) // which renews nothing
		pass(time.Second)
		lost := a.beat(2).beat.Lost[0]
		mustEqual(t, "lost", lost, wire.Lost{LeaseID: a.id(2), Code: wire.CodeRevoked, Reason: "forced", Token: 2})
	})
}

func TestExpire_grantsToTheNextAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		hanging := b.later(1, "k", "", "")
		mustEqual(t, "expired", p.Expire("ledger", "k"), true)
		must(t, "next", <-hanging, "200 granted")
		mustEqual(t, "lost", a.beat(1).beat.Lost[0], wire.Lost{LeaseID: a.id(1), Code: wire.CodeEnded, Reason: "expired", Token: 1})
	})
}

func TestEndAndForgetSession(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		for _, s := range []*asker{a, b} {
			must(t, "acquire", s.acquire(1, s.session, "", ""), "200 granted")
		}
		mustEqual(t, "ended", p.EndSession(a.id(1)), true)
		mustEqual(t, "lost", a.beat(1).beat.Lost[0].Code, wire.CodeSessionEnded)
		mustEqual(t, "forgotten", p.ForgetSession(b.session), true)
		must(t, "heartbeat", b.beat(1), "404 not_found")
		mustEqual(t, "forgotten again", p.ForgetSession(b.session), false)
		_, _, held := p.Holder("ledger", b.session)
		mustEqual(t, "held", held, false)
	})
}

func TestFaults_whileRequestsAreUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		stop := time.Now().Add(time.Minute)
		for n := range 8 {
			a := newAsker(t, p, n+1).at(p.Node(n%3 + 1))
			go func() {
				for i := 1; time.Now().Before(stop); i++ {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					a.acquireIn(ctx, i, "k", "", "")
					a.ask(ctx, "POST", "/v1/sessions/"+a.session+"/heartbeat", `{"leases":[1]}`)
					a.ask(ctx, "DELETE", "/v1/leases/"+a.id(i), "")
					<-ctx.Done()
					cancel()
				}
			}()
		}
		for time.Now().Before(stop) {
			for _, breakIt := range []func(){
				p.Node(2).Pause, p.Node(1).Cut, p.LoseQuorum, p.Node(3).Lead, p.Node(2).Resume, p.RestoreQuorum, p.Node(1).Restore,
				func() { p.Expire("ledger", "k") },
				func() { p.Revoke("ledger", "k", clienttest.ReasonForced) },
				func() { p.LoseAnswers(clienttest.Match{}, 2) },
				func() { p.RepeatRequests(clienttest.Match{}, 2, time.Second) },
				func() { p.DelayAnswers(clienttest.Match{Op: clienttest.Release}, 1, time.Second) },
			} {
				breakIt()
				pass(70 * time.Millisecond)
			}
		}
		pass(time.Minute)
		p.Heal()
		var token uint64
		for n := range 8 {
			a := newAsker(t, p, n+100)
			got := must(t, "afterwards", a.acquire(1, string(rune('a'+n)), "", ""), "200 granted")
			if got.lease.Token <= token {
				t.Fatalf("token %d after %d", got.lease.Token, token)
			}
			token = got.lease.Token
		}
		synctest.Wait()
		mustEqual(t, "queue", len(p.Queue("ledger", "k")), 0)
	})
}
