package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client/clienttest"
)

// recorder stands for a test: it notes what the test would have been told.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) end() {
	for _, f := range r.cleanups {
		f()
	}
}

func TestNew_failsTheTestIfRequestsAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		p := clienttest.New(r)
		p.Class("ledger", clienttest.ClassConfig{Lease: time.Hour})
		a, b := newAsker(t, p, 1), newAsker(t, p, 2)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		hanging := b.later(1, "k", "", "")
		r.end()
		if len(r.errors) != 1 || !strings.Contains(r.errors[0], "acquire at node1") {
			t.Fatalf("the test was told %q, want that an acquire at node1 is under way", r.errors)
		}
		if got := <-hanging; got.err == nil {
			t.Fatalf("what hung: got %s, want an error", got)
		}
		if got := a.beat(1); got.err == nil {
			t.Fatalf("after the end: got %s, want an error", got)
		}
	})
}

func TestNew_givesRequestsTimeToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		p := clienttest.New(r)
		p.Class("ledger", clienttest.ClassConfig{Lease: time.Hour})
		a := newAsker(t, p, 1)
		p.DelayAnswers(clienttest.Match{}, 1, time.Second/2)
		p.RepeatRequests(clienttest.Match{}, 1, time.Hour)
		answered := a.later(1, "k", "", "")
		r.end()
		must(t, "acquire", <-answered, "200 granted")
		mustEqual(t, "errors", len(r.errors), 0)
	})
}

func TestClass_thatNoPlatformTakesFailsTheTest(t *testing.T) {
	r := &recorder{TB: t}
	p := clienttest.New(r)
	p.Class("Ledger", clienttest.ClassConfig{})
	p.Class("ledger", clienttest.ClassConfig{Lease: time.Second, Heartbeat: time.Second})
	p.Class("ledger", clienttest.ClassConfig{MaxWait: -1})
	mustEqual(t, "errors", len(r.errors), 3)
	r.end()
}

func TestAwait_wakesOnChangeAndEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		began := time.Now()
		if err := p.Await(t.Context(), func() bool { _, _, held := p.Holder("ledger", "k"); return !held }); err != nil {
			t.Fatalf("await: %v", err)
		}
		mustEqual(t, "after", time.Since(began), 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Await(ctx, func() bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("await: got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestRequests_inOrderAndBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		began := time.Now()
		must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
		pass(time.Second)
		must(t, "heartbeat", a.at(p.Node(2)).beat(1), "200")
		all := p.Requests(clienttest.Match{Class: "ledger"})
		mustEqual(t, "requests", len(all), 2)
		first, second := all[0], all[1]
		mustEqual(t, "first", fmt.Sprint(first.Op, first.Node, first.Leases, first.Class, first.Key, first.Holder, first.APIKey,
			first.Status), fmt.Sprint(clienttest.Acquire, "node1", []string{a.id(1)}, "ledger", "k", "worker-1", "clienttest", 200))
		mustEqual(t, "second", fmt.Sprint(second.Op, second.Node, second.Key, second.At.Sub(began)),
			fmt.Sprint(clienttest.Heartbeat, "node2", "k", time.Second))
		for range 5_200 {
			a.look(1)
		}
		mustEqual(t, "requests in the record", len(p.Requests(clienttest.Match{})), 4096)
		mustEqual(t, "looks in the record", len(p.Requests(clienttest.Match{Op: clienttest.Look})), 4096)
	})
}

func TestTransport_knowsItsNodesAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		a := newAsker(t, p, 1)
		a.node = "http://elsewhere.test"
		if got := a.look(1); got.err == nil {
			t.Fatalf("elsewhere: got %s, want an error", got)
		}
	})
}

func TestServe_answersAtRealAddresses(t *testing.T) {
	p := clienttest.New(t, clienttest.Nodes(2))
	p.Class("ledger", clienttest.ClassConfig{})
	addresses := p.Serve()
	mustEqual(t, "again", fmt.Sprint(p.Serve()), fmt.Sprint(addresses))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	a := newAsker(t, p, 1)
	a.send, a.node = transport, addresses[1]
	got := must(t, "acquire", a.acquire(1, "k", "", ""), "200 granted")
	mustEqual(t, "leader", got.header.Get("Stanchion-Leader"), "node1 "+addresses[0])
	p.LoseAnswers(clienttest.Match{Op: clienttest.Heartbeat}, 1)
	if got := a.beat(1); got.err == nil {
		t.Fatalf("an answer that was lost: got %s, want an error", got)
	}
	p.Node(2).Cut()
	if got := a.beat(1); got.err == nil {
		t.Fatalf("a node that was cut off: got %s, want an error", got)
	}
	a.node = addresses[0]
	must(t, "release", a.release(1, ""), "200 ended")
}
