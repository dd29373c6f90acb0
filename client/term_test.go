package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
)

// terms are lengths of leases: the shortest that a class may have, one in the middle, and one that is long.
var terms = map[string]time.Duration{"shortest": time.Second, "middle": 5 * time.Second, "long": time.Minute}

// eachTerm runs a test for a class of each length, called "term".
func eachTerm(t *testing.T, f func(t *testing.T, p *clienttest.Platform, term time.Duration)) {
	t.Helper()
	for name, term := range terms {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, p *clienttest.Platform) {
				p.Class("term", clienttest.ClassConfig{Lease: term})
				f(t, p, term)
			})
		})
	}
}

// TestLease_isKeptOverManyTerms: ten leases of one client, each for twenty terms, through answers that are on their way for a while.
func TestLease_isKeptOverManyTerms(t *testing.T) {
	eachTerm(t, func(t *testing.T, p *clienttest.Platform, term time.Duration) {
		const leases, long = 10, 20
		p.DelayAnswers(clienttest.Match{}, clienttest.Always, min(term/10, time.Second))
		c := newClient(t, p)
		var held []*client.Lease
		var doubts atomic.Int64
		for i := range leases {
			l, err := c.Acquire(t.Context(), "term", fmt.Sprintf("key-%d", i))
			if err != nil {
				t.Fatal(err)
			}
			l.OnDoubt(func(error) { doubts.Add(1) })
			held = append(held, l)
		}
		for range 10 * long {
			time.Sleep(term / 10) // virtual
			for _, l := range held {
				if err := l.Err(); err != nil || l.Remaining() <= 0 {
					t.Fatalf("%s: got %v with %v left, want held", l.Key(), err, l.Remaining())
				}
			}
		}
		for _, l := range held {
			if id, token, _ := p.Holder("term", l.Key()); id != l.ID() || token != l.Token() {
				t.Errorf("%s: the platform has %q with token %d, want %s with %d", l.Key(), id, token, l.ID(), l.Token())
			}
		}
		if got := doubts.Load(); got != 0 {
			t.Errorf("times of doubt while every heartbeat was answered: got %d, want none", got)
		}
	})
}

// severed is a process's way to the platform until it is killed: nothing comes or goes any more, and nobody says so.
type severed struct {
	http.RoundTripper
	dead atomic.Bool
}

func (s *severed) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.dead.Load() {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	return s.RoundTripper.RoundTrip(r)
}

const (
	tryEvery    = time.Second
	expiryGrace = time.Second // a lease ends this long after its length at the latest
)

// TestTryAcquire_isGrantedADeadHoldersKeyOnceItsLeaseIsOver: another client tries each second. It is refused while the dead one may believe in
// its lease, and granted at the first try after the lease and the grace are over, at the latest.
func TestTryAcquire_isGrantedADeadHoldersKeyOnceItsLeaseIsOver(t *testing.T) {
	eachTerm(t, func(t *testing.T, p *clienttest.Platform, term time.Duration) {
		way := &severed{RoundTripper: p.Transport()}
		a := newClient(t, p, client.WithTransport(way))
		first, err := a.Acquire(t.Context(), "term", "k")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(term * 7 / 3) // virtual: it is kept for a while
		died := time.Now()
		way.dead.Store(true)
		second, tries := tryUntilGranted(t, newClient(t, p), first)
		took := time.Since(died)
		if took > term+expiryGrace+tryEvery {
			t.Errorf("granted %v after the holder died, at try %d; want %v at most", took, tries, term+expiryGrace+tryEvery)
		}
		if second.Token() <= first.Token() {
			t.Errorf("tokens: got %d after %d, want a higher one", second.Token(), first.Token())
		}
	})
}

// tryUntilGranted tries for the key of a lease each second. What it is refused, it is refused because the key is held; when it is granted,
// the lease is lost.
func tryUntilGranted(t *testing.T, c *client.Client, before *client.Lease) (l *client.Lease, tries int) {
	t.Helper()
	const triesMax = 1_000
	for tries = range triesMax {
		l, err := c.TryAcquire(t.Context(), before.Class(), before.Key())
		if err == nil {
			if lost := before.Err(); !errors.Is(lost, client.ErrDeadline) {
				t.Errorf("the lease before, when the next one was granted: got %v, want ErrDeadline", lost)
			}
			return l, tries
		}
		if !errors.Is(err, client.ErrHeld) {
			t.Fatalf("try %d: got %v, want ErrHeld", tries, err)
		}
		time.Sleep(tryEvery) // virtual
	}
	t.Fatalf("not granted in %d tries", triesMax)
	return nil, 0
}
