package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// inBubble runs a test on virtual time, with a platform whose class "ledger" has leases of 10 s.
func inBubble(t *testing.T, f func(t *testing.T, p *clienttest.Platform)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := clienttest.New(t)
		p.Class("ledger", clienttest.ClassConfig{Lease: 10 * time.Second})
		f(t, p)
	})
}

func newClient(t *testing.T, p *clienttest.Platform, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(p.Endpoints(), p.APIKey(), append(p.Options(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = c.Close(ctx) // its error is the business of tests about it
	})
	return c
}

func acquire(t *testing.T, c *client.Client, key string) *client.Lease {
	t.Helper()
	l, err := c.Acquire(t.Context(), "ledger", key)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestErr_afterASuspendTellsBeforeAnyTimer: the machine slept for three leases; timers, which stood still, have not gone off.
func TestErr_afterASuspendTellsBeforeAnyTimer(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		l := acquire(t, newClient(t, p), "k")
		p.Clock().Suspend(30 * time.Second)
		if err := l.Context().Err(); err == nil {
			t.Error("the context's Err right after the suspend: got nil")
		}
		if err := l.Err(); !errors.Is(err, client.ErrDeadline) {
			t.Errorf("Err right after the suspend: got %v, want ErrDeadline", err)
		}
	})
}

// TestAcquire_ofAKeyThatTheClientHasIsRefusedAtOnce: no hang, no second handle.
func TestAcquire_ofAKeyThatTheClientHasIsRefusedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		c := newClient(t, p)
		first := acquire(t, c, "k")
		if _, err := c.Acquire(t.Context(), "ledger", "k"); !errors.Is(err, client.ErrAlreadyHeld) {
			t.Errorf("second acquire: got %v, want ErrAlreadyHeld", err)
		}
		if err := first.Err(); err != nil {
			t.Errorf("the first lease: got %v, want held", err)
		}
	})
}

// TestAcquire_whoseGrantComesAfterItsDeadlineIsNone: the answer is delayed by more than the lease; it is reported as not held, and
// whoever asks next is granted.
func TestAcquire_whoseGrantComesAfterItsDeadlineIsNone(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		p.Class("short", clienttest.ClassConfig{Lease: time.Second})
		p.DelayAnswers(clienttest.Match{Class: "short"}, 1, 1500*time.Millisecond)
		c := newClient(t, p)
		if _, err := c.Acquire(t.Context(), "short", "k"); !errors.Is(err, client.ErrDeadline) {
			t.Fatalf("acquire: got %v, want ErrDeadline", err)
		}
		l, err := newClient(t, p).Acquire(t.Context(), "short", "k")
		if err != nil || l.Token() < 2 {
			t.Errorf("the next acquire: got %v, %v, want a grant with a higher token", l, err)
		}
	})
}

// TestRelease_leavesAfterTheCallbacksHaveReturned: until the work was told and has stopped, nobody else is granted.
func TestRelease_leavesAfterTheCallbacksHaveReturned(t *testing.T) {
	for name, end := range map[string]func(*client.Client, *client.Lease, context.Context) error{
		"release": func(_ *client.Client, l *client.Lease, ctx context.Context) error { return l.Release(ctx) },
		"close":   func(c *client.Client, _ *client.Lease, ctx context.Context) error { return c.Close(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, p *clienttest.Platform) {
				c := newClient(t, p)
				l := acquire(t, c, "k")
				var stopped, heldThen atomic.Bool
				l.OnLost(func(error) {
					time.Sleep(time.Second) // virtual: the work takes that long to stop
					_, _, held := p.Holder("ledger", "k")
					heldThen.Store(held)
					stopped.Store(true)
				})
				if err := end(c, l, t.Context()); err != nil {
					t.Fatal(err)
				}
				if !stopped.Load() || !heldThen.Load() {
					t.Errorf("when the callback returned: stopped %v, held at the platform %v; want true, true", stopped.Load(), heldThen.Load())
				}
				if _, _, held := p.Holder("ledger", "k"); held {
					t.Error("after the release: got held, want free")
				}
			})
		})
	}
}

// TestClose_releasesEachByItselfAndNamesWhatFailed: one release of ten is refused.
func TestClose_releasesEachByItselfAndNamesWhatFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		c := newClient(t, p)
		for _, k := range strings.Split("a b c d e f g h i j", " ") {
			acquire(t, c, k)
		}
		p.Answer(clienttest.Match{Op: clienttest.Release, Class: "ledger", Key: "e"}, clienttest.Always, wire.NewProblem(wire.CodeForbidden, "of this one"))
		err := c.Close(t.Context())
		if err == nil || !strings.Contains(err.Error(), `"e"`) || strings.Contains(err.Error(), `"a"`) {
			t.Errorf("close: got %v, want an error that names e alone", err)
		}
		for _, k := range strings.Split("a b c d f g h i j", " ") {
			if _, _, held := p.Holder("ledger", k); held {
				t.Errorf("%s after close: got held, want free", k)
			}
		}
	})
}

// TestDo_tellsOfALossThatTheWorkDidNotMind.
func TestDo_tellsOfALossThatTheWorkDidNotMind(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		err := newClient(t, p).Do(t.Context(), "ledger", "k", func(ctx context.Context, _ *client.Lease) error {
			p.Revoke("ledger", "k", "forced")
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, client.ErrRevoked) {
			t.Errorf("Do: got %v, want ErrRevoked", err)
		}
	})
}

// TestCampaign_leadsAgainAfterALoss: hold, lose, campaign again, resign.
func TestCampaign_leadsAgainAfterALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		var tokens []uint64
		done := errors.New("resigned")
		err := newClient(t, p).Campaign(t.Context(), "ledger", "k", func(ctx context.Context, l *client.Lease) error {
			tokens = append(tokens, l.Token())
			if len(tokens) == 2 {
				return done
			}
			p.Expire("ledger", "k")
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, done) || len(tokens) != 2 || tokens[1] <= tokens[0] {
			t.Errorf("campaign: got %v with tokens %v, want %v with two that rise", err, tokens, done)
		}
	})
}

// TestAcquire_thatIsCancelledHoldsNothing: whatever the platform had done by then is withdrawn.
func TestAcquire_thatIsCancelledHoldsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newClient(t, p), newClient(t, p)
		first := acquire(t, a, "k")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := b.Acquire(ctx, "ledger", "k", client.OnQueued(func(client.Place) { cancel() }))
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("acquire: got %v, want context.Canceled", err)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, _, held := p.Holder("ledger", "k"); held || len(p.Queue("ledger", "k")) != 0 {
			t.Error("after the cancelled wait: got a holder or a waiter, want none")
		}
	})
}
