package client_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
)

const contenders = 50

// TestClients_ofOneProcessExcludeEachOther: each client is a holder of its own, also beside others in the same process.
func TestClients_ofOneProcessExcludeEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		each := make([]*client.Client, contenders)
		for i := range each {
			each[i] = newClient(t, p)
		}
		won := contend(t, each, client.ErrHeld)
		if _, token, held := p.Holder("ledger", "k"); !held || token != won.Token() {
			t.Errorf("the platform's holder: got %v with token %d, want token %d", held, token, won.Token())
		}
	})
}

// TestClient_holdsAKeyOnceHoweverManyOfItsGoroutinesAsk: the others are told that their own client has it.
func TestClient_holdsAKeyOnceHoweverManyOfItsGoroutinesAsk(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		one := newClient(t, p)
		each := make([]*client.Client, contenders)
		for i := range each {
			each[i] = one
		}
		won := contend(t, each, client.ErrAlreadyHeld)
		if err := won.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again := acquire(t, one, "k"); again.Token() <= won.Token() {
			t.Errorf("token after a release: got %d, want more than %d", again.Token(), won.Token())
		}
	})
}

// contend has clients try for one key at once, wants all but one of them refused with an error, and returns the lease of that one.
func contend(t *testing.T, each []*client.Client, refused error) *client.Lease {
	t.Helper()
	ends := make([]asked, len(each))
	var wait sync.WaitGroup
	for i, c := range each {
		wait.Go(func() { ends[i].lease, ends[i].err = c.TryAcquire(t.Context(), "ledger", "k") })
	}
	wait.Wait()
	var won []*client.Lease
	for _, end := range ends {
		switch {
		case end.err == nil:
			won = append(won, end.lease)
		case !errors.Is(end.err, refused):
			t.Errorf("a contender: got %v, want %v", end.err, refused)
		}
	}
	if len(won) != 1 {
		t.Fatalf("holders of one key: got %d, want 1", len(won))
	}
	return won[0]
}
