package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/wire"
)

const (
	cancelRaces   = 1_000
	cancelWorkers = 48
	cancelSpan    = 2 * time.Millisecond // how far a cancellation is from the release, either way
)

// withdrawals sees a client's requests, and which leases the platform has been told that nobody wants, by key. Each key is asked for once.
type withdrawals struct {
	http.RoundTripper
	mu   sync.Mutex
	keys map[string]string        // guarded by mu; key, by the path of its lease
	gone map[string]chan struct{} // guarded by mu; by key; closed when the platform has answered a DELETE
}

func newWithdrawals(t *testing.T) *withdrawals {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	return &withdrawals{RoundTripper: transport, keys: map[string]string{}, gone: map[string]chan struct{}{}}
}

func (w *withdrawals) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		if err := w.note(r); err != nil {
			return nil, err
		}
	}
	res, err := w.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == http.MethodDelete && res.StatusCode == http.StatusOK {
		w.withdrawn(r.URL.Path)
	}
	return res, err
}

// note takes note of what an acquire is about.
func (w *withdrawals) note(r *http.Request) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	var request wire.AcquireRequest
	if err := json.Unmarshal(raw, &request); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys[r.URL.Path] = request.Key
	if w.gone[request.Key] == nil {
		w.gone[request.Key] = make(chan struct{})
	}
	return nil
}

func (w *withdrawals) withdrawn(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := w.gone[w.keys[path]]
	select {
	case <-gone:
	default:
		if gone != nil { // else it is a session's end
			close(gone)
		}
	}
}

// of is closed when the request for a key was withdrawn.
func (w *withdrawals) of(key string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone[key]
}

// cancelRace is many races of a cancellation with a release, between two clients.
type cancelRace struct {
	t     *testing.T
	ctx   context.Context
	a, b  *sdk.Client
	calls *withdrawals // b's
	held  atomic.Int64
	trip  atomic.Int64 // how long a release took lately, nanoseconds
}

// raceCancels has one client hold a key and another wait for it, and cancels the waiting around the release: the waiter holds and was told so, or
// what it asked for is withdrawn, and then the key is free.
func raceCancels(t *testing.T, c *cluster) {
	calls := newWithdrawals(t)
	r := &cancelRace{t: t, ctx: c.caseContext(), a: c.member(c.urls(), nil), b: c.member(c.urls(), calls), calls: calls}
	var wait sync.WaitGroup
	for worker := range cancelWorkers {
		wait.Go(func() {
			for i := worker; i < cancelRaces && !t.Failed(); i += cancelWorkers {
				r.run(i)
			}
		})
	}
	wait.Wait()
	c.wantNoLocks(classCase)
	t.Logf("of %d cancelled waits %d ended with a lease", cancelRaces, r.held.Load())
}

// run cancels a wait within the span around when the release leaves, is half on its way, or is about to be answered: as far as can be known.
func (r *cancelRace) run(i int) {
	key := fmt.Sprintf("race-%d", i)
	offset := time.Duration(i)*2*cancelSpan/cancelRaces - cancelSpan + time.Duration(r.trip.Load())*time.Duration(i%3)/2
	first, err := r.a.Acquire(r.ctx, classCase, key)
	if err != nil {
		r.t.Error(err)
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	released := make(chan error, 1)
	second, err := r.b.Acquire(ctx, classCase, key, sdk.OnQueued(func(sdk.Place) {
		time.AfterFunc(2*cancelSpan+offset, cancel)
		time.AfterFunc(2*cancelSpan, func() {
			began := time.Now()
			released <- first.Release(r.ctx)
			r.trip.Store(int64(time.Since(began)))
		})
	}))
	<-ctx.Done() // where it comes after the grant, it ends no hold
	if err := r.outcome(<-released, second, err); err != nil {
		r.t.Errorf("%s, cancelled %v after the release: %v", key, offset, err)
		return
	}
	if second == nil {
		select {
		case <-r.calls.of(key):
		case <-r.ctx.Done():
			r.t.Errorf("%s, cancelled %v after the release: what was asked for was not withdrawn", key, offset)
			return
		}
	}
	wantFree(r.ctx, r.t, r.a, classCase, key)
}

// outcome judges how a race ended, and gives back what the waiter holds.
func (r *cancelRace) outcome(released error, l *sdk.Lease, err error) error {
	switch {
	case released != nil:
		return released
	case err != nil && !errors.Is(err, context.Canceled):
		return fmt.Errorf("got %w, want context.Canceled", err)
	case err != nil:
		return nil
	}
	r.held.Add(1)
	now, err := r.b.Leader(r.ctx, classCase, l.Key())
	if lost := l.Err(); err != nil || lost != nil || now.Token != l.Token() {
		return errors.Join(lost, err, fmt.Errorf("acquired with token %d; the platform says %+v", l.Token(), now))
	}
	return l.Release(r.ctx)
}
