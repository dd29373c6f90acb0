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
	slot int // in the heap; -1: gone off or taken back
}

// set calls fire once, at the first step not before at. It need not be taken back: fire looks whether its reason still
// stands. What may be set for long after its reason is gone should be, for the memory's sake.
func (a *alarms) set(at time.Duration, fire func(now time.Duration)) *alarm {
	a.seq++
	set := &alarm{at: at, seq: a.seq, fire: fire}
	heap.Push(&a.heap, set)
	return set
}

// takeBack forgets an alarm that has not gone off. Nil is none.
func (a *alarms) takeBack(set *alarm) {
	if set != nil && set.slot >= 0 {
		heap.Remove(&a.heap, set.slot)
	}
}

// next is the moment of the first alarm.
func (a *alarms) next() (time.Duration, bool) {
	if len(a.heap) == 0 {
		return 0, false
	}
	return a.heap[0].at, true
}

func (a *alarms) due(now time.Duration) bool { return len(a.heap) > 0 && a.heap[0].at <= now }

func (a *alarms) pop() *alarm { return heap.Pop(&a.heap).(*alarm) }

type alarmHeap []*alarm

func (h alarmHeap) Len() int { return len(h) }
func (h alarmHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || (h[i].at == h[j].at && h[i].seq < h[j].seq)
}
func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}
func (h *alarmHeap) Push(x any) {
	a := x.(*alarm)
	a.slot = len(*h)
	*h = append(*h, a)
}
func (h *alarmHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	last.slot = -1
	return last
}
