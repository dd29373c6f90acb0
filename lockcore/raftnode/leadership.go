package raftnode

import (
	"context"
	"iter"
	"sync"
)

// Leadership is what a group's node knows of its own part at a moment.
type Leadership struct {
	Leading bool
	// Serial counts the leaderships of this node since the group was opened, from 1. Two values with the same Serial
	// speak of the same uninterrupted leadership.
	Serial uint64
	// Term is Raft's term when the change was noticed. It is a hint: the term of a leadership is that of its own first
	// entry, as the machine sees it applied.
	Term uint64
}

// leadershipFeed keeps the latest leadership and wakes whoever watches. Safe for concurrent use.
type leadershipFeed struct {
	mu      sync.Mutex
	now     Leadership    // guarded by mu
	changed chan struct{} // guarded by mu: closed at each change
}

func newLeadershipFeed() *leadershipFeed {
	return &leadershipFeed{changed: make(chan struct{})}
}

// set notes a notification. Each gain is a new leadership, even when the loss before it was never seen.
func (f *leadershipFeed) set(leading bool, term uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now.Leading, f.now.Term = leading, term
	if leading {
		f.now.Serial++
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *leadershipFeed) get() (Leadership, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, f.changed
}

// watch yields the present leadership and then every change, until ctx ends or the consumer stops. A slow consumer
// misses leaderships that came and went meanwhile, but never the end of one that it was told of.
func (f *leadershipFeed) watch(ctx context.Context) iter.Seq[Leadership] {
	return func(yield func(Leadership) bool) {
		last, changed := f.get()
		if !yield(last) {
			return
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			var now Leadership
			now, changed = f.get()
			if last.Leading && now.Leading && now.Serial != last.Serial {
				if !yield(Leadership{Serial: last.Serial, Term: last.Term}) {
					return
				}
			}
			if now != last && !yield(now) {
				return
			}
			last = now
		}
	}
}
