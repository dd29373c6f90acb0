package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// sighting is one thing that an observer was told.
type sighting struct {
	now client.Leadership
	err error
}

// observe has a client observe the key until the test ends or stop is called, and gives what it is told, and when it has ended.
func observe(t *testing.T, c *client.Client, key string) (told <-chan sighting, ended <-chan struct{}, stop context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	all, over := make(chan sighting, 100), make(chan struct{})
	go func() {
		defer close(over)
		for now, err := range c.Observe(ctx, "ledger", key) {
			all <- sighting{now, err}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-over
	})
	return all, over, stop
}

// lookEvery is the longest pause between two looks.
const lookEvery = 1500 * time.Millisecond

// wantTokens checks what an observer was told up to now, after a pause in which it has looked at least once.
func wantTokens(t *testing.T, told <-chan sighting, want ...uint64) []sighting {
	t.Helper()
	time.Sleep(lookEvery) // virtual
	synctest.Wait()
	var all []sighting
	var got []uint64
	for len(told) > 0 {
		s := <-told
		if s.err != nil {
			t.Errorf("an observer was told %v, want no error", s.err)
		}
		all, got = append(all, s), append(got, s.now.Token)
	}
	if !slices.Equal(got, want) {
		t.Errorf("tokens that an observer was told: got %v, want %v", got, want)
	}
	return all
}

// TestObserve_tellsWhoLeadsAndEachChangeOnceAndInOrder: nobody, a leader, the next in line, nobody.
func TestObserve_tellsWhoLeadsAndEachChangeOnceAndInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		told, _, _ := observe(t, newClient(t, p), "k")
		wantTokens(t, told, 0)
		first, second := campaign(t, p, "k"), campaign(t, p, "k")
		all := wantTokens(t, told, 1)
		if len(all) == 1 && (all[0].now.Holder == "" || all[0].now.APIKey != "clienttest" || all[0].now.Since.IsZero()) {
			t.Errorf("who leads: got %+v, want its label, its API key and since when", all[0].now)
		}
		time.Sleep(time.Minute) // virtual: nothing changes
		wantTokens(t, told)
		close(first)
		wantTokens(t, told, 2)
		close(second)
		wantTokens(t, told, 0)
	})
}

// TestObserve_tellsAtOnceWhoLeadsAlready.
func TestObserve_tellsAtOnceWhoLeadsAlready(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		acquire(t, newClient(t, p), "k")
		began := time.Now()
		for now, err := range newClient(t, p).Observe(t.Context(), "ledger", "k") {
			if err != nil || now.Token != 1 || time.Since(began) != 0 {
				t.Errorf("the first sighting, after %v: got %+v, %v, want token 1 at once", time.Since(began), now, err)
			}
			break
		}
	})
}

// campaign has a client of its own campaign for a key; it resigns when the channel that it returns is closed.
func campaign(t *testing.T, p *clienttest.Platform, key string) (resign chan struct{}) {
	t.Helper()
	c, done := newClient(t, p), make(chan error, 1)
	resign = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- c.Campaign(ctx, "ledger", key, func(ctx context.Context, _ *client.Lease) error {
			select {
			case <-resign:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("campaign: got %v, want that it resigned", err)
		}
	})
	synctest.Wait()
	return resign
}

// TestObserve_tellsOfALookThatFailedAndThenWhoLeadsAgain: the network is cut and comes back; meanwhile nobody else has led.
func TestObserve_tellsOfALookThatFailedAndThenWhoLeadsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		p.Class("ledger", clienttest.ClassConfig{Lease: 10 * time.Minute})
		acquire(t, newClient(t, p), "k")
		told, _, _ := observe(t, newClient(t, p), "k")
		wantTokens(t, told, 1)
		for n := range p.Endpoints() {
			p.Node(n + 1).Cut()
		}
		cut := time.Now()
		s := <-told
		if s.err == nil || !strings.Contains(s.err.Error(), "refused") || s.now != (client.Leadership{}) {
			t.Errorf("the first sighting without a network: got %+v, %v, want an error that says why", s.now, s.err)
		}
		if took := time.Since(cut); took > lookEvery+10*time.Second {
			t.Errorf("it was told after %v, want after a look's 10s at most", took)
		}
		p.Heal()
		wantTokens(t, told, 1)
	})
}

// TestObserve_goesAroundANodeThatHangs: no error, and the change is told.
func TestObserve_goesAroundANodeThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		told, _, _ := observe(t, newClient(t, p), "k")
		wantTokens(t, told, 0)
		p.Node(1).Pause()
		defer p.Heal()
		time.Sleep(10 * time.Second) // virtual: it finds another node
		acquire(t, newClient(t, p), "k")
		time.Sleep(10 * time.Second)
		wantTokens(t, told, 1)
	})
}

// TestObserve_tellsOfARefusal: an API key that may not look.
func TestObserve_tellsOfARefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		p.Answer(clienttest.Match{Op: clienttest.ListLocks}, 1, wire.NewProblem(wire.CodeForbidden, ""))
		told, _, _ := observe(t, newClient(t, p), "k")
		problem, refused := errors.AsType[*wire.Problem]((<-told).err)
		if !refused || problem.Code != wire.CodeForbidden {
			t.Errorf("the first sighting: got %v, want the problem forbidden", problem)
		}
		wantTokens(t, told, 0)
	})
}

// TestObserve_endsWithItsContext: at once, without a word, while it pauses and while it looks.
func TestObserve_endsWithItsContext(t *testing.T) {
	for name, hang := range map[string]bool{"between looks": false, "while it looks": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, p *clienttest.Platform) {
				c := newClient(t, p)
				told, ended, stop := observe(t, c, "k")
				wantTokens(t, told, 0)
				if hang {
					pauseAll(t, p)
					time.Sleep(lookEvery) // virtual
				}
				began := time.Now()
				stop()
				<-ended
				if took := time.Since(began); took != 0 || len(told) > 0 {
					t.Errorf("after its context ended: got %d sightings, and the end after %v; want none, and at once", len(told), took)
				}
			})
		})
	}
}

// pauseAll has all nodes hang until the test ends.
func pauseAll(t *testing.T, p *clienttest.Platform) {
	t.Helper()
	for n := range p.Endpoints() {
		p.Node(n + 1).Pause()
	}
	t.Cleanup(p.Heal)
}

// TestObserve_endsWhenTheClientIsClosed: the last thing that it tells is ErrClosed, once.
func TestObserve_endsWhenTheClientIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		c := newClient(t, p)
		told, ended, _ := observe(t, c, "k")
		wantTokens(t, told, 0)
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-ended
		if last := <-told; !errors.Is(last.err, client.ErrClosed) || len(told) > 0 {
			t.Errorf("after close: got %v and %d more, want ErrClosed alone", last.err, len(told))
		}
	})
}

// TestObserve_looksAboutOnceASecondAndAtRandom: observers that began together do not stay together, and none floods the nodes.
func TestObserve_looksAboutOnceASecondAndAtRandom(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		observe(t, newClient(t, p), "k")
		time.Sleep(10 * time.Minute) // virtual
		looks := p.Requests(clienttest.Match{Op: clienttest.ListLocks})
		gaps := map[time.Duration]bool{}
		for i, look := range looks[1:] {
			gap := look.At.Sub(looks[i].At)
			gaps[gap] = true
			if gap < time.Second || gap > lookEvery {
				t.Errorf("pause before look %d: got %v, want 1s to %v", i+2, gap, lookEvery)
			}
		}
		if len(looks) < 400 || len(gaps) < len(looks)/2 {
			t.Errorf("looks in 10 min: got %d with %d different pauses, want one about every 1.25s, at random", len(looks), len(gaps))
		}
	})
}

// TestLeader_isNobodyWhereNobodyHoldsTheKey.
func TestLeader_isNobodyWhereNobodyHoldsTheKey(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		c := newClient(t, p)
		if now, err := c.Leader(t.Context(), "ledger", "k"); err != nil || now != (client.Leadership{}) {
			t.Errorf("leader: got %+v, %v, want the zero value", now, err)
		}
		l := acquire(t, c, "k")
		if now, err := c.Leader(t.Context(), "ledger", "k"); err != nil || now.Token != l.Token() || now.Waiters != 0 {
			t.Errorf("leader: got %+v, %v, want token %d and no waiter", now, err, l.Token())
		}
	})
}
