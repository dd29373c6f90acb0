package clienttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// newClient makes a client that is closed before the platform ends.
func newClient(t *testing.T, p *clienttest.Platform, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(p.Endpoints(), p.APIKey(), append(p.Options(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func mustAcquire(t *testing.T, c *client.Client, key string) *client.Lease {
	t.Helper()
	l, err := c.Acquire(t.Context(), "ledger", key)
	if err != nil {
		t.Fatalf("acquire %s: %v", key, err)
	}
	return l
}

func mustBeLost(t *testing.T, l *client.Lease, want error) {
	t.Helper()
	<-l.Context().Done()
	if got := context.Cause(l.Context()); !errors.Is(got, want) {
		t.Fatalf("cause: got %v, want %v", got, want)
	}
}

func TestSDK_holdsAndHandsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a, b := newClient(t, p), newClient(t, p)
		first := mustAcquire(t, a, "k")
		granted := make(chan *client.Lease, 1)
		go func() {
			l, err := b.Acquire(t.Context(), "ledger", "k")
			if err != nil {
				t.Error(err)
			}
			granted <- l
		}()
		pass(time.Hour)
		if err := first.Err(); err != nil {
			t.Fatalf("after an hour of heartbeats: %v", err)
		}
		mustEqual(t, "in line", len(p.Queue("ledger", "k")), 1)
		if err := first.Release(t.Context()); err != nil {
			t.Fatalf("release: %v", err)
		}
		second := <-granted
		mustEqual(t, "token", second.Token(), first.Token()+1)
		pass(time.Hour)
		if err := second.Err(); err != nil {
			t.Fatalf("after another hour: %v", err)
		}
		leads, err := a.Leader(t.Context(), "ledger", "k")
		if err != nil || leads.Token != second.Token() {
			t.Fatalf("leader: got %+v, %v, want token %d", leads, err, second.Token())
		}
	})
}

func TestSDK_learnsOfEachLoss(t *testing.T) {
	type platform = clienttest.Platform
	for name, c := range map[string]struct {
		lose func(p *platform, l *client.Lease)
		want error
	}{
		"revoked":        {func(p *platform, _ *client.Lease) { p.Revoke("ledger", "k", clienttest.ReasonForced) }, client.ErrRevoked},
		"expired":        {func(p *platform, _ *client.Lease) { p.Expire("ledger", "k") }, client.ErrExpired},
		"session ended":  {func(p *platform, l *client.Lease) { p.EndSession(l.ID()) }, client.ErrExpired},
		"cut off":        {func(p *platform, _ *client.Lease) { cutAll(p) }, client.ErrDeadline},
		"machine slept":  {func(p *platform, _ *client.Lease) { p.Clock().Suspend(time.Minute) }, client.ErrDeadline},
		"wall clock ran": {func(p *platform, _ *client.Lease) { p.Clock().Step(clienttest.Wall, time.Minute) }, client.ErrDeadline},
		"no quorum":      {func(p *platform, _ *client.Lease) { p.LoseQuorum() }, client.ErrDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, p *clienttest.Platform) {
				l := mustAcquire(t, newClient(t, p), "k")
				t.Cleanup(p.Heal)
				c.lose(p, l)
				mustBeLost(t, l, c.want)
			})
		})
	}
}

func cutAll(p *clienttest.Platform) {
	for n := range p.Endpoints() {
		p.Node(n + 1).Cut()
	}
}

func TestSDK_getsThroughFaults(t *testing.T) {
	for name, fail := range map[string]func(p *clienttest.Platform){
		"lost answers":      func(p *clienttest.Platform) { p.LoseAnswers(clienttest.Match{}, 4) },
		"lost requests":     func(p *clienttest.Platform) { p.DropRequests(clienttest.Match{}, 4) },
		"repeated requests": func(p *clienttest.Platform) { p.RepeatRequests(clienttest.Match{}, clienttest.Always, time.Second) },
		"late answers":      func(p *clienttest.Platform) { p.DelayAnswers(clienttest.Match{}, clienttest.Always, time.Second) },
		"late requests":     func(p *clienttest.Platform) { p.DelayRequests(clienttest.Match{}, clienttest.Always, time.Second) },
		"one node hangs":    func(p *clienttest.Platform) { p.Node(1).Pause() },
		"one node is gone":  func(p *clienttest.Platform) { p.Node(1).Cut() },
		"another leader":    func(p *clienttest.Platform) { p.Node(3).Lead() },
		"overload": func(p *clienttest.Platform) {
			p.Answer(clienttest.Match{}, 3, wire.NewProblem(wire.CodeOverloaded, ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, p *clienttest.Platform) {
				c := newClient(t, p)
				fail(p)
				l := mustAcquire(t, c, "k")
				fail(p)
				pass(time.Minute)
				if err := l.Err(); err != nil {
					t.Fatalf("held for a minute: %v", err)
				}
				mustEqual(t, "token", l.Token(), 1)
				if err := l.Release(t.Context()); err != nil {
					t.Fatalf("release: %v", err)
				}
				_, _, held := p.Holder("ledger", "k")
				mustEqual(t, "held after the release", held, false)
				synctest.Wait()
			})
		})
	}
}
