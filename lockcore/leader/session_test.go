package leader_test

import (
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

func (w *world) remembered(k *leadertest.Client) bool {
	_, known := w.leading().Machine.Session(k.Tenant, k.Session)
	return known
}

func TestSession_isForgottenAfter10MinutesOfSilence(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	w.Advance(5 * second)
	k.Release(w.a, 1, 0)
	w.Advance(10*time.Minute - 1)
	if !w.remembered(k) {
		t.Fatal("forgotten too early")
	}
	w.Advance(1)
	if w.remembered(k) {
		t.Error("still remembered")
	}
}

func TestSession_isNotForgottenWhileSomethingIsLive(t *testing.T) {
	w := newWorld(t)
	w.command(lockcore.PutClass{Tenant: acme, Class: class("hour", 3_600_000, nil)})
	k := w.holder(w.a, "hour", "k")
	w.Advance(45 * time.Minute)
	if !w.remembered(k) {
		t.Fatal("forgotten with a live lease")
	}
	k.Release(w.a, 1, 0)
	w.Advance(20 * time.Minute)
	if w.remembered(k) {
		t.Error("still remembered 20 minutes after its last lease")
	}
}

func TestSession_isNotForgottenBefore10MinutesAfterAnyRequest(t *testing.T) {
	requests := map[string]func(*world, *leadertest.Client){
		"acquire":   func(w *world, k *leadertest.Client) { k.Acquire(w.a, 1, try("short", "k")) },
		"heartbeat": func(w *world, k *leadertest.Client) { k.Heartbeat(w.a, 1) },
		"release":   func(w *world, k *leadertest.Client) { k.Release(w.a, 1, 0) },
		"end":       func(w *world, k *leadertest.Client) { k.EndSession(w.a) },
	}
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			k := w.holder(w.a, "short", "k")
			k.EndSession(w.a)
			w.Advance(9 * time.Minute)
			request(w, k)
			w.Advance(10*time.Minute - 1)
			if !w.remembered(k) {
				t.Fatal("forgotten too early")
			}
			w.Advance(1)
			if w.remembered(k) {
				t.Error("still remembered")
			}
		})
	}
}

func TestSession_isForgottenUnderANewLeaderToo(t *testing.T) {
	w := newWorld(t)
	k := w.holder(w.a, "short", "k")
	k.Release(w.a, 1, 0)
	w.Advance(9 * time.Minute)
	w.elect(w.b)
	w.Advance(10*time.Minute - 1)
	if !w.remembered(k) {
		t.Fatal("forgotten too early: the new leader cannot know when it was last heard of")
	}
	w.Advance(1)
	if w.remembered(k) {
		t.Error("still remembered")
	}
}

func TestEndSession_releasesAndLeavesEverything(t *testing.T) {
	w := newWorld(t)
	h := w.holder(w.a, "short", "k")
	next, poll := w.waiter(w.a, "short", "k")
	elsewhere := w.holder(w.a, "short", "k2")
	waiting := h.Acquire(w.a, 2, wait("short", "k2"))
	end := h.EndSession(w.a)
	w.Settle()
	if !end.Done || end.Err != nil {
		t.Fatalf("done %v, %v", end.Done, end.Err)
	}
	w.wantStatus(poll, leader.StatusGranted, 0)
	w.wantStatus(waiting, leader.StatusEnded, lockcore.SessionOver)
	w.wantState(next, lockcore.StateHeld, 0)
	w.wantState(elsewhere, lockcore.StateHeld, 0)
	late := h.Acquire(w.a, 3, try("short", "k3"))
	w.Settle()
	w.wantStatus(late, leader.StatusRefused, lockcore.RefusedSessionOver)
}

func TestFailedAcquires_leaveNothingBehind(t *testing.T) {
	w := newWorld(t)
	before, _ := w.a.Machine.Tenant(acme)
	for n := range 500 {
		k := w.client()
		switch n % 3 {
		case 0:
			k.Acquire(w.a, 1, try("no-such-class", "k"))
		case 1:
			k.Acquire(w.a, 1, wait("refusing", "k"))
		default:
			k.Acquire(w.a, 1, try("short", ""))
		}
	}
	w.Settle()
	after, _ := w.a.Machine.Tenant(acme)
	if after != before {
		t.Errorf("left behind: %+v, before %+v", after, before)
	}
}
