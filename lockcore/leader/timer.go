package leader

import (
	"container/heap"
	"time"
)

// alarms is a queue of moments on the leader's clock. Those of one moment go off in the order in which they were set, so
// that a simulation repeats.
type alarms struct {
	heap alarmHeap
	seq  uint64
}

type alarm struct {
	at   time.Duration
	seq  uint64
	fire func(now time.Duration)
}

// set calls fire once, at the first step not before at. There is no way to take it back: fire looks whether its reason
// still stands.
func (a *alarms) set(at time.Duration, fire func(now time.Duration)) {
	a.seq++
	heap.Push(&a.heap, alarm{at: at, seq: a.seq, fire: fire})
}

// next is the moment of the first alarm.
func (a *alarms) next() (time.Duration, bool) {
	if len(a.heap) == 0 {
		return 0, false
	}
	return a.heap[0].at, true
}

func (a *alarms) due(now time.Duration) bool { return len(a.heap) > 0 && a.heap[0].at <= now }

func (a *alarms) pop() alarm { return heap.Pop(&a.heap).(alarm) }

type alarmHeap []alarm

func (h alarmHeap) Len() int { return len(h) }
func (h alarmHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || (h[i].at == h[j].at && h[i].seq < h[j].seq)
}
func (h alarmHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *alarmHeap) Push(x any)   { *h = append(*h, x.(alarm)) }
func (h *alarmHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = alarm{}
	*h = old[:len(old)-1]
	return last
}
