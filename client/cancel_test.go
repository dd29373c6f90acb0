package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
)

const (
	cancelRaces  = 1_000
	cancelSpan   = 2 * time.Millisecond   // how far a cancellation is from the release, either way
	cancelStep   = 20 * time.Microsecond  // between offsets; each comes several times
	cancelFlight = 700 * time.Microsecond // how long a request is on its way, and an answer
	roundTrip    = 2 * cancelFlight
)

// asked is how an Acquire ended.
type asked struct {
	lease *client.Lease
	err   error
}

// TestAcquire_cancelledAroundAReleaseHoldsOrIsGone: a waiter is cancelled while the holder's release, the grant or the answer about it is on
// its way. It has the lease and was told so, or one release round trip later nothing of it is left.
func TestAcquire_cancelledAroundAReleaseHoldsOrIsGone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		p.DelayRequests(clienttest.Match{}, clienttest.Always, cancelFlight)
		p.DelayAnswers(clienttest.Match{}, clienttest.Always, cancelFlight)
		a, b := newClient(t, p), newClient(t, p)
		held := 0
		for i := range cancelRaces {
			steps := int(2 * cancelSpan / cancelStep)
			offset := time.Duration(i%steps)*cancelStep - cancelSpan
			if cancelRace(t, p, a, b, fmt.Sprintf("key-%d", i), offset) {
				held++
			}
		}
		if held < cancelRaces/10 || held > cancelRaces*9/10 {
			t.Errorf("races that ended with the waiter holding: got %d of %d, want many of both kinds", held, cancelRaces)
		}
	})
}

// cancelRace has a hold a key and b wait for it, cancels b's wait at an offset from a's release, and reports whether b held the key.
func cancelRace(t *testing.T, p *clienttest.Platform, a, b *client.Client, key string, offset time.Duration) bool {
	t.Helper()
	first := acquire(t, a, key)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan asked, 1)
	go func() {
		l, err := b.Acquire(ctx, "ledger", key)
		ended <- asked{l, err}
	}()
	time.Sleep(5 * roundTrip) // b's request hangs by then
	if got := p.Queue("ledger", key); len(got) != 1 {
		t.Fatalf("%s: got %d in line, want 1", key, len(got))
	}
	time.AfterFunc(cancelSpan+offset, cancel)
	time.Sleep(cancelSpan)
	if err := first.Release(t.Context()); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	got := <-ended
	if got.err == nil {
		<-ctx.Done() // which came too late, and ends no hold
		time.Sleep(roundTrip)
		wantHeldAndFreed(t, p, key, got.lease)
		return true
	}
	if !errors.Is(got.err, context.Canceled) {
		t.Errorf("%s, cancelled %v after the release: got %v, want context.Canceled", key, offset, got.err)
	}
	time.Sleep(roundTrip)
	wantNobody(t, p, key)
	return false
}

// wantHeldAndFreed checks that the lease is the one that the platform means, and releases it.
func wantHeldAndFreed(t *testing.T, p *clienttest.Platform, key string, l *client.Lease) {
	t.Helper()
	id, token, _ := p.Holder("ledger", key)
	if err := l.Err(); err != nil || id != l.ID() || token != l.Token() {
		t.Errorf("%s: acquired %s with token %d, %v; the platform has %q with %d", key, l.ID(), l.Token(), err, id, token)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("%s: release: %v", key, err)
	}
	wantNobody(t, p, key)
}

// wantNobody checks that nobody holds a key or waits for it.
func wantNobody(t *testing.T, p *clienttest.Platform, key string) {
	t.Helper()
	id, _, held := p.Holder("ledger", key)
	if waiters := p.Queue("ledger", key); held || len(waiters) != 0 {
		t.Errorf("%s: held by %q, waiters %v; want nobody", key, id, waiters)
	}
}
