package raftnode

import (
	"sync"
	"time"
)

const (
	refusalSilence  = 10 * time.Second
	refusalsKeptMax = 128
)

// refusals remembers which refusals were logged lately: a node that does not belong tries several times a second, for
// ever. Safe for concurrent use; the zero value is ready.
type refusals struct {
	mu   sync.Mutex
	last map[string]time.Time // guarded by mu
}

// first tells whether the refusal is worth a line: it was not logged within the last refusalSilence.
func (r *refusals) first(text string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.last[text]; ok && now.Sub(at) < refusalSilence {
		return false
	}
	if r.last == nil || len(r.last) >= refusalsKeptMax {
		r.last = make(map[string]time.Time)
	}
	r.last[text] = now
	return true
}
