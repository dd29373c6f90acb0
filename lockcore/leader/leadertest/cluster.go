package leadertest

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"time"
)

// Config says how the world behaves. The zero value is three nodes, no delay and no loss.
type Config struct {
	Nodes  []string             // names; default a, b and c
	Delay  func() time.Duration // of each message, of clients too; nil: none
	Lose   func() bool          // whether a message between a client and a node is lost; nil: never
	Jitter func() float64       // given to the leaders; nil: 0

	Break Break // what is deliberately wrong, to show that the audit can fail
}

// Break is a rule left out on purpose.
type Break uint8

// The rules that can be left out.
const (
	BreakNothing    Break = iota
	BreakRounds           // a confirm round is answered by any acknowledgement of the term, however old
	BreakEpochFence       // commands are carried out under whatever epoch is in force
	BreakSendMoment       // clients count a deadline from the receipt of the answer
)

const (
	raftTick     = 100 * time.Millisecond // how often a leader sends its log again
	roundTimeout = time.Second            // a confirm round without a majority fails then
)

// Cluster is the world. Not safe for concurrent use.
type Cluster struct {
	Audit *Audit
	Nodes []*Node

	config Config
	now    time.Duration // true time
	events eventHeap
	seq    uint64
	term   uint64 // the highest of all
	salts  uint64 // drawn so far
	ledger []*Hold
}

// New makes a cluster without a leader, at true time zero.
func New(config Config) *Cluster {
	if config.Nodes == nil {
		config.Nodes = []string{"a", "b", "c"}
	}
	if config.Delay == nil {
		config.Delay = func() time.Duration { return 0 }
	}
	if config.Lose == nil {
		config.Lose = func() bool { return false }
	}
	if config.Jitter == nil {
		config.Jitter = func() float64 { return 0 }
	}
	c := &Cluster{config: config}
	c.Audit = newAudit(c)
	for _, name := range config.Nodes {
		c.Nodes = append(c.Nodes, newNode(c, name))
	}
	return c
}

// Node finds a node by its name.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	panic("leadertest: no node " + name)
}

// salt is another one for each entry, and the same in each run.
func (c *Cluster) salt() (salt [16]byte) {
	c.salts++
	binary.BigEndian.PutUint64(salt[8:], c.salts)
	return salt
}

// Now is the true time.
func (c *Cluster) Now() time.Duration { return c.now }

// After calls f when d of true time has passed.
func (c *Cluster) After(d time.Duration, f func()) {
	c.seq++
	heap.Push(&c.events, event{at: c.now + d, seq: c.seq, fire: f})
}

// Settle carries out what happens without any time passing.
func (c *Cluster) Settle() { c.Advance(0) }

// Advance lets true time pass: messages arrive, alarms go off, in order.
func (c *Cluster) Advance(d time.Duration) {
	for end := c.now + d; ; {
		at, fire := c.next()
		if fire == nil || at > end {
			c.now = end
			return
		}
		c.now = max(c.now, at)
		fire()
	}
}

// next finds what happens next: messages before alarms of the same moment.
func (c *Cluster) next() (time.Duration, func()) {
	var at time.Duration
	var fire func()
	if len(c.events) > 0 {
		at, fire = c.events[0].at, func() { heap.Pop(&c.events).(event).fire() }
	}
	for _, n := range c.Nodes {
		if alarm, ok := n.nextStep(); ok && (fire == nil || alarm < at) {
			at, fire = alarm, n.step
		}
	}
	return at, fire
}

// Elect makes n the leader of a new term by the votes of itself and the voters: by default of every node that can be
// reached. Those who vote learn the term; others may go on believing in the leader that they had. It fails if a majority
// does not vote, because it cannot be reached or has a newer log; the voters have learned the term all the same.
func (c *Cluster) Elect(n *Node, voters ...*Node) error {
	if voters == nil {
		voters = c.Nodes
	}
	c.term++
	n.adoptTerm(c.term)
	votes := 1
	for _, v := range voters {
		if v == n || v.unreachable() || n.unreachable() {
			continue
		}
		v.adoptTerm(c.term)
		if n.upToDate(v) {
			votes++
		}
	}
	if votes < c.majority() {
		return fmt.Errorf("elect %s in term %d: %d votes of %d", n.Name, c.term, votes, len(c.Nodes))
	}
	n.lead()
	return nil
}

func (c *Cluster) majority() int { return len(c.Nodes)/2 + 1 }

// send delivers a message between nodes unless either is cut off when it leaves or arrives.
func (c *Cluster) send(from, to *Node, f func()) {
	if from.cut || to.cut {
		return
	}
	c.After(c.config.Delay(), func() {
		if from.cut || to.cut {
			return
		}
		to.receive(f)
	})
}

type event struct {
	at   time.Duration
	seq  uint64
	fire func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || (h[i].at == h[j].at && h[i].seq < h[j].seq)
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return last
}
