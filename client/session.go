package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/client/deadline"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// session is one session of the client: the leases that it has, and their heartbeat.
type session struct {
	client *Client
	id     string
	wake   chan struct{} // holds one signal: something is due that was not

	mu       sync.Mutex
	last     uint64            // guarded by mu; the last number given out
	asking   int               // guarded by mu; requests that are not over
	used     deadline.Instant  // guarded by mu; when something was last asked or kept
	over     bool              // guarded by mu; nothing new is asked with it
	closing  bool              // guarded by mu; nothing new is kept
	leases   map[uint64]*Lease // guarded by mu; what is held
	keeping  bool              // guarded by mu; the keeper runs
	inFlight int               // guarded by mu; heartbeats
	route    route             // guarded by mu; of the heartbeats since the last that was answered
	failures int               // guarded by mu; likewise
}

func newSession(c *Client) *session {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return &session{client: c, id: hex.EncodeToString(id[:]), wake: make(chan struct{}, 1), leases: map[uint64]*Lease{},
		used: c.watch.Now()}
}

// number gives out the next number, for a request that begins; false: the session is not to be used any more.
func (s *session) number() (uint64, bool) {
	now := s.client.watch.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := s.asking == 0 && len(s.leases) == 0
	if s.over || idle && now.Sub(s.used) > sessionIdleTime {
		return 0, false
	}
	s.last++
	s.asking++
	s.used = now
	return s.last, true
}

// asked says that a request is over.
func (s *session) asked() {
	now := s.client.watch.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking--
	s.used = now
}

// retire has the next request begin a new session: the platform does not know this one any more, and nothing that it held.
func (s *session) retire(detail string) {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for _, l := range s.held() {
		l.lose(ErrExpired, detail)
	}
}

func (s *session) leaseID(n uint64) string { return s.id + "." + strconv.FormatUint(n, 10) }

func (s *session) leasePath(n uint64) string { return "/v1/leases/" + s.leaseID(n) }

// numberOf is a lease's number in this session, from its id; 0: it is none.
func (s *session) numberOf(leaseID string) uint64 {
	session, number, _ := strings.Cut(leaseID, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || session != s.id {
		return 0
	}
	return n
}

// hold begins to keep a lease that was granted by the answer to a request sent then; false: the client is being closed.
// takeUp: it was handed to a waiter, and a heartbeat is due at once.
func (s *session) hold(l *Lease, sent deadline.Instant, takeUp bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	l.renewed, l.due = sent, sent.Add(l.every)
	if takeUp {
		l.due = sent
	}
	s.leases[l.n] = l
	if s.keeping {
		s.signal()
		return true
	}
	s.keeping = s.client.begin(s.keep)
	return s.keeping
}

// drop ends the keeping of a lease.
func (s *session) drop(l *Lease) {
	now := s.client.watch.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, l.n)
	s.used = now
	if len(s.leases) == 0 {
		s.signal()
	}
}

// signal wakes the keeper.
func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// held lists what is held.
func (s *session) held() []*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Lease, 0, len(s.leases))
	for _, l := range s.leases {
		all = append(all, l)
	}
	return all
}

// releaseAll releases what is held, each by itself. The error names what failed.
func (s *session) releaseAll(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	all := s.held()
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, l := range all {
		wait.Go(func() { errs[i] = l.Release(ctx) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

const endTime = 10 * time.Second // for all attempts to end a session

// end ends the session at the platform, so that it counts in no quota any more.
func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	unused := s.last == 0 || s.over
	s.over = true
	s.mu.Unlock()
	if unused {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	r, err := s.client.decide(ctx, http.MethodDelete, "/v1/sessions/"+s.id)
	if err == nil && (r.problem == nil || r.problem.Code == wire.CodeNotFound || r.problem.Code == wire.CodeSessionEnded) {
		return nil
	}
	return fmt.Errorf("stanchion: end the session: %w", errProblem(r, err))
}
