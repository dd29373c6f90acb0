package platform_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// splitTime is where a split stands.
type splitTime int

const (
	beforeSplit splitTime = iota
	duringSplit
	afterSplit
)

// lonely are the clients at the node that is cut off. Each asks one kind of thing, over and over.
type lonely struct {
	s       *split
	session string // sequence i+1 holds fewKey(i)
	waiter  string // waits for a key of the larger side since before the split
	newcome string // asks for a free key, first during the split

	mu      sync.Mutex
	time    splitTime       // guarded by mu
	served  map[string]bool // guarded by mu: kinds that were answered before the split
	refused map[string]bool // guarded by mu: kinds that were refused during the split
	late    []string        // guarded by mu: kinds that had not been refused when the first key was inherited
	heirs   int             // guarded by mu
	tokens  [splitKeys]uint64
	until   [splitKeys]time.Time // guarded by mu: local deadlines
	lost    map[string]wire.Lost // guarded by mu: what heartbeats after the split said, by lease id
}

const freeKey = "free"

func startLonely(t *testing.T, s *split) *lonely {
	t.Helper()
	l := &lonely{s: s, session: newSession(), waiter: newID(), newcome: newID(), served: map[string]bool{},
		refused: map[string]bool{}, lost: map[string]wire.Lost{}}
	for i := range splitKeys {
		sent := time.Now()
		r := s.api.take(t, fmt.Sprintf("%s.%d", l.session, i+1), classMiddle, fewKey(i))
		l.tokens[i], l.until[i] = r.lease.Token, sent.Add(r.lease.UseWithin.Std())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all errgroup.Group
	for _, q := range l.questions() {
		all.Go(func() error {
			l.askOn(ctx, t, q)
			return nil
		})
	}
	t.Cleanup(func() { cancel(); _ = all.Wait() })
	return l
}

// question is one kind of request.
type question struct {
	kind, method, path, body string
	first                    splitTime // it is not asked before
}

func (l *lonely) questions() []question {
	beat := wire.HeartbeatRequest{}
	for i := range splitKeys {
		beat.Leases = append(beat.Leases, uint64(i+1))
	}
	body, err := json.Marshal(beat)
	if err != nil {
		panic(err)
	}
	return []question{
		{"heartbeat", http.MethodPost, "/v1/sessions/" + l.session + "/heartbeat", string(body), beforeSplit},
		{"look", http.MethodGet, "/v1/leases/" + l.session + ".1", "", beforeSplit},
		{"list", http.MethodGet, "/v1/locks?" + url.Values{"class": {classMiddle}}.Encode(), "", beforeSplit},
		{"poll", http.MethodPut, "/v1/leases/" + l.waiter,
			acquire{class: classMiddle, key: manyKey(0), wait: "10m", poll: "1s"}.body(), beforeSplit},
		{"acquire", http.MethodPut, "/v1/leases/" + l.newcome,
			acquire{class: classMiddle, key: freeKey, wait: "1m"}.body(), duringSplit},
	}
}

// askOn asks one question until ctx ends, and judges each answer by the time of its question.
func (l *lonely) askOn(ctx context.Context, t *testing.T, q question) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		asked := l.now()
		if asked >= q.first {
			sent := time.Now()
			if r, err := l.s.api.send(ctx, l.s.few, q.method, q.path, q.body); err == nil {
				l.judge(t, q, asked, sent, r)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (l *lonely) judge(t *testing.T, q question, asked splitTime, sent time.Time, r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	decided := !r.tellsNothing()
	switch {
	case asked == beforeSplit && decided:
		l.served[q.kind] = true
	case asked == duringSplit && l.time == duringSplit && decided:
		t.Errorf("%s at the node that is cut off is answered %s", q.kind, r)
	case asked == duringSplit && r.code() == wire.CodeNoQuorum:
		l.refused[q.kind] = true
	}
	if q.kind == "heartbeat" && decided {
		l.takeBeat(t, asked, sent, r)
	}
}

// takeBeat takes note of what a heartbeat was told. The lock is held.
func (l *lonely) takeBeat(t *testing.T, asked splitTime, sent time.Time, r reply) {
	var beat wire.HeartbeatAnswer
	if err := json.Unmarshal(r.body, &beat); err != nil {
		t.Errorf("heartbeat: %v: %s", err, r)
	}
	for _, held := range beat.Held {
		var i int
		if _, err := fmt.Sscanf(held.LeaseID[len(l.session):], ".%d", &i); err != nil || i < 1 || i > splitKeys {
			t.Errorf("a heartbeat is answered with lease %q", held.LeaseID)
			continue
		}
		if asked == afterSplit {
			t.Errorf("after the split a lease that was granted to another is held: %+v", held)
		}
		l.until[i-1] = sent.Add(held.UseWithin.Std())
	}
	for _, lost := range beat.Lost {
		if l.time != afterSplit {
			t.Errorf("before the split healed a lease is told lost: %+v", lost)
		}
		l.lost[lost.LeaseID] = lost
	}
}

func (l *lonely) now() splitTime {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.time
}

func (l *lonely) enter(time splitTime) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.time = time
}

// inherited takes note that a key was granted on the larger side.
func (l *lonely) inherited(t *testing.T, i int, r reply, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heirs++; l.heirs == 1 {
		for _, q := range l.questions() {
			if !l.refused[q.kind] {
				l.late = append(l.late, q.kind)
			}
		}
	}
	if r.lease.Token <= l.tokens[i] || at.Before(l.until[i]) {
		t.Errorf("%s is granted on the larger side with token %d, %v before its holder's deadline; want more than %d, and after it",
			fewKey(i), r.lease.Token, l.until[i].Sub(at), l.tokens[i])
	}
}

// awaitServed awaits that each kind of question that is asked before the split is answered.
func (l *lonely) awaitServed(t *testing.T) {
	t.Helper()
	eventually(t, "the clients are served before the split", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.served) == len(l.questions())-1
	})
}

// wantRefused checks that each kind of question was refused before anybody could inherit.
func (l *lonely) wantRefused(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.late) > 0 {
		t.Errorf("when the first key was granted on the larger side, these had not been answered with no_quorum: %q", l.late)
	}
}

// awaitLost awaits that the holders are told that they have lost everything, and how.
func (l *lonely) awaitLost(t *testing.T) {
	t.Helper()
	eventually(t, "after the split the old holders are told what they have lost", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.lost) == splitKeys
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, lost := range l.lost {
		if lost.Code != wire.CodeEnded || lost.Reason != "expired" || lost.Ending {
			t.Errorf("after the split %s is told lost as %+v; want it ended, expired", id, lost)
		}
	}
}

// wantClearAnswers uses the old handles at the node that was cut off.
func (l *lonely) wantClearAnswers(t *testing.T) {
	t.Helper()
	at := []*testNode{l.s.few}
	for i := range splitKeys {
		path := fmt.Sprintf("/v1/leases/%s.%d", l.session, i+1)
		again := l.s.api.askAt(t, at, http.MethodPut, path, acquire{class: classMiddle, key: fewKey(i)}.body())
		look := l.s.api.askAt(t, at, http.MethodGet, path, "")
		release := l.s.api.askAt(t, at, http.MethodDelete, path, "")
		if again.code() != wire.CodeEnded || look.lease.State != wire.StateEnded || look.lease.Reason != "expired" ||
			release.status != http.StatusOK || release.lease.Reason != "expired" {
			t.Errorf("after the split an old handle is answered: acquire %s; look %s; release %s; want it ended, expired", again, look, release)
		}
	}
	r := l.s.api.askAt(t, at, http.MethodPut, "/v1/leases/"+l.newcome, acquire{class: classMiddle, key: freeKey, wait: "1m"}.body())
	if !r.granted() {
		t.Errorf("after the split the request that was refused during it is answered %s; want a grant", r)
	}
	r = l.s.api.askAt(t, at, http.MethodDelete, "/v1/leases/"+l.waiter, "")
	if r.status != http.StatusOK || r.lease.State != wire.StateEnded {
		t.Errorf("after the split the waiter from before it leaves with %s; want it ended", r)
	}
}
