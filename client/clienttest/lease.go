package clienttest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// lockName is one lock.
type lockName struct{ class, key string }

// lock is one key that somebody holds, and who waits for it.
type lock struct {
	holder *lease   // nil: nobody
	queue  []*lease // in order; empty where nobody holds
}

// session is one session of a client.
type session struct {
	id      string
	lineage string // of the API key that used it first
	ended   bool
	highest uint64 // the highest number seen
	leases  map[uint64]*lease
}

// lease is one request for a lease and what has become of it.
type lease struct {
	session *session
	n       uint64
	name    lockName // zero: the id was used up before it was asked for
	label   string
	apiKey  string
	wait    time.Duration // negative: without end

	state   wire.State
	ended   end       // of one that is over, or is being ended: how
	class   class     // of one that is granted: the version that it was granted under; else the one it asked under
	token   uint64    // 0: it was not granted
	epoch   uint64    // of the grant
	since   time.Time // of the grant, or of the place in line
	handed  bool      // it was granted to a waiter that is still to take it up
	expires time.Time // not before
	contact time.Time // when its holder was last heard of under this leader; zero: never

	expiry   *alarm // nil: it is not held
	timeout  *alarm // ends the wait; nil: it does not wait, or waits without end
	silence  *alarm // looks for a waiter that is not heard of
	lastPoll time.Time
	parked   *poll // the request that hangs for it; nil: none
}

// end is how a request was decided otherwise than by a grant.
type end struct {
	reason  string // the platform's own name for it
	code    wire.Code
	refused bool // it never waited nor was granted; the refusal used its id up
}

// The ends.
var (
	endReleased     = end{reason: "released", code: wire.CodeEnded}
	endExpired      = end{reason: "expired", code: wire.CodeEnded}
	endPickupMissed = end{reason: "pickup_missed", code: wire.CodeEnded}
	endSession      = end{reason: "session_ended", code: wire.CodeSessionEnded}
	endWaitTimeout  = end{reason: "wait_timeout", code: wire.CodeWaitTimeout}
	endLeft         = end{reason: "left", code: wire.CodeEnded}
	endDisconnected = end{reason: "disconnected", code: wire.CodeEnded}
	endSilent       = end{reason: "silent", code: wire.CodeEnded}
	endBurned       = end{reason: "burned", code: wire.CodeEnded}

	refusedHeld        = end{reason: "held", code: wire.CodeHeld, refused: true}
	refusedAlreadyHeld = end{reason: "already_held", code: wire.CodeAlreadyHeld, refused: true}
	refusedQueueFull   = end{reason: "queue_full", code: wire.CodeQueueFull, refused: true}
)

// window is how many numbers of a session, up to its highest, the platform remembers.
const window = 1024

func (l *lease) id() string { return l.session.id + "." + strconv.FormatUint(l.n, 10) }

func (l *lease) over() bool { return l.state == wire.StateEnded }

func (l *lease) held() bool { return l.state == wire.StateGranted || l.state == wire.StateEnding }

// forgot reports whether a number is so old that nothing is remembered of it, unless it lives.
func (s *session) forgot(n uint64) bool { return n+window <= s.highest }

// see takes note of a request.
func (s *session) see(l *lease) {
	s.leases[l.n] = l
	s.highest = max(s.highest, l.n)
	if len(s.leases) < 2*window {
		return
	}
	for n, old := range s.leases {
		if old.over() && s.forgot(n) {
			delete(s.leases, n)
		}
	}
}

// live lists what the session holds and waits for, by number.
func (s *session) live() []*lease {
	var all []*lease
	for _, l := range s.leases {
		if !l.over() {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *lease) int { return int(a.n) - int(b.n) })
	return all
}

// lockOf is the row of a lock, made if there is none.
func (p *Platform) lockOf(name lockName) *lock {
	if p.locks[name] == nil {
		p.locks[name] = &lock{}
	}
	return p.locks[name]
}

// find is the request with an id, if the session is the API key's.
func (p *Platform) find(key *apiKey, id leaseID) (*session, *lease, bool) {
	s := p.sessions[id.session]
	if s == nil || s.lineage != key.lineage {
		return nil, nil, s != nil
	}
	l := s.leases[id.n]
	if l != nil && l.over() && s.forgot(id.n) {
		l = nil
	}
	return s, l, false
}

// begin is the session with an id, made if there is none.
func (p *Platform) begin(key *apiKey, id string) *session {
	if p.sessions[id] == nil {
		p.sessions[id] = &session{id: id, lineage: key.lineage, leases: map[uint64]*lease{}}
	}
	return p.sessions[id]
}

// leaseID is the id of a request.
type leaseID struct {
	session string
	n       uint64
}

const (
	sessionDigits = 32
	numberMax     = 1<<53 - 1
)

func parseLeaseID(text string) (leaseID, bool) {
	s, number, _ := strings.Cut(text, ".")
	n, ok := parseNumber(number)
	return leaseID{s, n}, ok && validSession(s)
}

// parseNumber reads a whole number from 1 in its one written form.
func parseNumber(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && n >= 1 && n <= numberMax && strconv.FormatUint(n, 10) == text
}

func validSession(text string) bool {
	return len(text) == sessionDigits && strings.Trim(text, "0123456789abcdef") == "" && strings.Trim(text, "0") != ""
}
