package api

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

// What is kept follows from the requests of the last seconds, not from all tenants that ever asked.
func TestLimits_forgetTenantsThatHaveTheirQuotaBack(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := NewLimits(func() time.Time { return now })
	quota := func() int { return 5 }
	ask := func(tenant string) bool { return l.take(tenants.TenantID(tenant), bucketOther, quota) }
	for i := range limitsKept {
		ask(fmt.Sprintf("early-%d", i))
	}
	for range burstMin {
		ask("busy")
	}
	now = now.Add(time.Second) // the early ones are full again, the busy one is not
	ask("late")
	kept := 0
	l.tenants.Range(func(any, any) bool { kept++; return true })
	if kept != 2 || int(l.kept.Load()) != kept {
		t.Errorf("got %d kept, %d counted, want the busy tenant and the late one", kept, l.kept.Load())
	}
	passed := 0
	for ask("busy") {
		passed++
	}
	if passed != 5 {
		t.Errorf("got %d more of the busy tenant, want the 5 of one second", passed)
	}
}

func BenchmarkLimits(b *testing.B) {
	l := NewLimits(nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.take("acme", bucketOther, func() int { return 1_000_000 })
		}
	})
}

// TestHold_slowsWhoeverMindsNoRefusal: an answer over the quota comes a moment later, but never so many of one tenant that
// they weigh, and at once when the client is gone or the node stops.
func TestHold_slowsWhoeverMindsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping, stop := context.WithCancelCause(context.Background())
		defer stop(nil)
		a := &API{holdBack: holdBackDefault, held: inFlight{max: heldMax}, stopping: stopping}
		took := func(ctx context.Context, tenant lockcore.TenantID) time.Duration {
			began := time.Now()
			a.hold(ctx, tenant)
			return time.Since(began)
		}
		waited := map[time.Duration]bool{}
		for range 20 {
			got := took(t.Context(), "acme")
			if got < holdBackDefault/2 || got >= holdBackDefault*3/2 {
				t.Errorf("a refusal is held back for %v; want about %v", got, holdBackDefault)
			}
			waited[got] = true
		}
		if len(waited) < 2 {
			t.Errorf("refusals are all held back for as long: %v", waited)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if got := took(gone, "acme"); got != 0 {
			t.Errorf("for a client that is gone, a refusal is held back for %v", got)
		}
		var all sync.WaitGroup
		for range heldMax {
			all.Go(func() { a.hold(t.Context(), "acme") })
		}
		synctest.Wait()
		if got := took(t.Context(), "acme"); got != 0 {
			t.Errorf("beside %d others, a refusal is held back for %v; want it given at once", heldMax, got)
		}
		if got := took(t.Context(), "globex"); got < holdBackDefault/2 {
			t.Errorf("another tenant's refusal is held back for %v; want about %v", got, holdBackDefault)
		}
		all.Wait()
		stop(errStopping)
		if got := took(t.Context(), "acme"); got != 0 {
			t.Errorf("when the node stops, a refusal is held back for %v", got)
		}
	})
}
