package e2e_test

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// claim is the life of one lease request as its client saw it. A time that never came is zero.
type claim struct {
	id       string
	key      string
	asked    time.Time // the first request was sent
	lined    time.Time // the first answer came, granted or queued
	from     time.Time // the first answer with a grant came
	to       time.Time // the local deadline, or when the client stopped to give the lease back, if that was sooner
	token    uint64
	resigned bool // the client stopped asking
}

// judge collects claims and says what is wrong with them. Safe for concurrent use.
type judge struct {
	mu       sync.Mutex
	claims   map[string]*claim // by lease id; guarded by mu
	findings []string          // of the clients themselves; guarded by mu
}

func newJudge() *judge { return &judge{claims: map[string]*claim{}} }

// find reports what a client itself saw go wrong.
func (j *judge) find(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.findings = append(j.findings, fmt.Sprintf(format, args...))
}

// note changes a claim, or begins it.
func (j *judge) note(id string, change func(*claim)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.claims[id]
	if c == nil {
		c = &claim{id: id}
		j.claims[id] = c
	}
	change(c)
}

// verdict is everything that is wrong so far.
func (j *judge) verdict() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := slices.Clone(j.findings)
	keys := map[string][]*claim{}
	tokens := map[uint64]string{}
	for _, c := range j.claims {
		keys[c.key] = append(keys[c.key], c)
		if c.from.IsZero() {
			continue
		}
		if other, taken := tokens[c.token]; taken || c.token == 0 {
			all = append(all, fmt.Sprintf("token %d of %s: also granted to %q", c.token, c.id, other))
		}
		tokens[c.token] = c.id
	}
	for _, claims := range keys {
		all = append(all, overlaps(claims)...)
		all = append(all, disorder(claims)...)
	}
	return all
}

// overlaps finds holders of one key whose intervals have a moment in common.
func overlaps(claims []*claim) []string {
	held := slices.DeleteFunc(slices.Clone(claims), func(c *claim) bool { return c.from.IsZero() })
	slices.SortFunc(held, func(a, b *claim) int { return a.from.Compare(b.from) })
	var found []string
	for i, c := range held {
		for _, later := range held[i+1:] {
			if later.from.Before(c.to) {
				found = append(found, fmt.Sprintf("key %s: %s (token %d) began %v before the end of %s (token %d)",
					c.key, later.id, later.token, c.to.Sub(later.from), c.id, c.token))
			}
		}
	}
	return found
}

// disorder finds requests that were served before others that were in line before they were even sent.
func disorder(claims []*claim) []string {
	ordered := slices.SortedFunc(slices.Values(claims), func(a, b *claim) int { return cmp.Compare(a.asked.UnixNano(), b.asked.UnixNano()) })
	var found []string
	for _, c := range ordered {
		for _, later := range ordered {
			inLine := !c.lined.IsZero() && c.lined.Before(later.asked)
			if !inLine || later.from.IsZero() {
				continue
			}
			if c.from.IsZero() && !c.resigned {
				found = append(found, fmt.Sprintf("key %s: %s (token %d) was served, %s before it was not", c.key, later.id, later.token, c.id))
			}
			if !c.from.IsZero() && c.token > later.token {
				found = append(found, fmt.Sprintf("key %s: %s (token %d) was served before %s (token %d)", c.key, later.id, later.token, c.id, c.token))
			}
		}
	}
	return found
}

// granted counts the claims that were granted.
func (j *judge) granted() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, c := range j.claims {
		if !c.from.IsZero() {
			n++
		}
	}
	return n
}
