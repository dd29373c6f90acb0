package leadertest

import (
	"errors"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

// ErrLeadershipLost is what a deposed leader is told of its entry under way: it may be committed all the same.
var ErrLeadershipLost = errors.New("leadership lost")

// Node is one replica: a log, a machine, a clock and, when it leads, a leader.
type Node struct {
	Name    string
	Clock   Clock
	Machine *lockcore.Machine

	c       *Cluster
	term    uint64
	leads   bool
	log     []*entry
	commit  int
	applied int
	match   map[*Node]int // of this term: how far each peer has acknowledged the log
	heard   bool          // some peer acknowledged this leadership
	session *session      // nil: no leadership that has not been told of its end

	cut     bool // no message from or to other nodes
	held    bool // messages of other nodes wait
	paused  bool // everything waits but the clock
	inbox   []func()
	clients []func()

	holding    *session // whose proposals are held
	roundsHeld bool
	verdicts   []func()
	failRounds bool
	rounds     int
}

// session is one leadership: the leader and what it talks to.
type session struct {
	node       *Node
	term       uint64
	leader     *leader.Leader
	epochEntry *entry

	proposalsHeld bool
	proposals     []*entry
}

func newNode(c *Cluster, name string) *Node {
	n := &Node{Name: name, c: c, Machine: lockcore.New(), Clock: Clock{c: c}}
	n.tick()
	return n
}

// Leader is the leadership that this node believes to have, or nil.
func (n *Node) Leader() *leader.Leader {
	if n.session == nil {
		return nil
	}
	return n.session.leader
}

// Ready reports whether the node answers as a leader.
func (n *Node) Ready() bool { return n.session != nil && n.session.leader.IsReady() }

// Cut drops every message between this node and the others. Clients still reach it.
func (n *Node) Cut() { n.cut = true }

// Heal ends Cut.
func (n *Node) Heal() { n.cut = false }

// HoldInbox lets messages of other nodes wait: they have been sent and will be read later.
func (n *Node) HoldInbox() { n.held = true }

// ReadInbox ends HoldInbox and reads what came meanwhile.
func (n *Node) ReadInbox() {
	n.held = false
	n.drain()
}

// DropInbox ends HoldInbox and loses what came meanwhile.
func (n *Node) DropInbox() { n.held, n.inbox = false, nil }

// Pause stops the process: nothing is read, no alarm goes off, and the clock runs on.
func (n *Node) Pause() { n.paused = true }

// Resume continues a paused process. What clients sent is read before what nodes sent: the worst order.
func (n *Node) Resume() {
	n.paused = false
	n.drain()
}

// IsPaused reports whether the process is stopped.
func (n *Node) IsPaused() bool { return n.paused }

// HoldRounds lets the verdicts of confirm rounds wait.
func (n *Node) HoldRounds() { n.roundsHeld = true }

// ReleaseRounds ends HoldRounds and tells the verdicts.
func (n *Node) ReleaseRounds() {
	n.roundsHeld = false
	due := n.verdicts
	n.verdicts = nil
	for _, f := range due {
		f()
	}
}

// FailRounds makes confirm rounds of this node fail, or not any more.
func (n *Node) FailRounds(fail bool) { n.failRounds = fail }

// Rounds counts the confirm rounds that this node began.
func (n *Node) Rounds() int { return n.rounds }

// LastIndex is the index of the last entry in this node's log.
func (n *Node) LastIndex() uint64 { return uint64(len(n.log)) }

func (n *Node) unreachable() bool { return n.cut || n.held || n.paused }

// receive reads a message of another node, now or when the node reads again.
func (n *Node) receive(f func()) {
	if n.held || n.paused {
		n.inbox = append(n.inbox, f)
		return
	}
	f()
}

// request reads a message of a client, or of the node to itself.
func (n *Node) request(f func()) {
	if n.paused {
		n.clients = append(n.clients, f)
		return
	}
	f()
}

func (n *Node) drain() {
	for len(n.clients) > 0 && !n.paused {
		f := n.clients[0]
		n.clients = n.clients[1:]
		f()
	}
	for len(n.inbox) > 0 && !n.held && !n.paused {
		f := n.inbox[0]
		n.inbox = n.inbox[1:]
		f()
	}
}

func (n *Node) nextStep() (time.Duration, bool) {
	if n.session == nil || n.paused {
		return 0, false
	}
	local, ok := n.session.leader.NextStep()
	if !ok {
		return 0, false
	}
	return n.Clock.trueAt(local), true
}

func (n *Node) step() { n.session.leader.Step() }

// lead begins a leadership of the node's current term.
func (n *Node) lead() {
	n.endSession(ErrLeadershipLost)
	n.leads, n.match, n.heard = true, map[*Node]int{}, false
	s := &session{node: n, term: n.term}
	s.leader = leader.New(leader.Config{Node: n.Name, Machine: n.Machine, Log: s, Net: s, Clock: &n.Clock,
		WallMS: func() int64 { return n.c.now.Milliseconds() }, Jitter: n.c.config.Jitter, Salt: n.c.salt})
	n.session = s
	n.c.Audit.Count["leaderships"]++
	s.leader.Begin()
}

// endSession tells the leader that its leadership is over.
func (n *Node) endSession(err error) {
	if s := n.session; s != nil {
		n.session = nil
		s.leader.Failed(err)
	}
}

// Confirm begins a round of the leader: who still follows this term?
func (s *session) Confirm(round uint64) {
	n := s.node
	n.rounds++
	votes, over := 1, false
	finish := func(err error) {
		if over {
			return
		}
		over = true
		s.verdict(round, err)
	}
	if n.c.config.Break == BreakRounds && n.heard && n.leads {
		n.c.After(0, func() { finish(nil) })
		return
	}
	for _, peer := range n.peers() {
		n.c.send(n, peer, func() {
			if peer.term != s.term || peer.leads {
				return
			}
			n.c.send(peer, n, func() {
				votes++
				if votes >= n.c.majority() && s.leads() {
					finish(nil)
				}
			})
		})
	}
	n.c.After(roundTimeout, func() { n.request(func() { finish(leader.ErrNoQuorum) }) })
}

// verdict tells the leader of a round, or keeps that back.
func (s *session) verdict(round uint64, err error) {
	if s.node.failRounds {
		err = leader.ErrNoQuorum
	}
	if err != nil {
		s.node.c.Audit.Count["failed rounds"]++
	}
	if s.node.roundsHeld {
		s.node.verdicts = append(s.node.verdicts, func() { s.verdict(round, err) })
		return
	}
	s.leader.Confirmed(round, err)
}

func (s *session) leads() bool { return s.node.leads && s.node.term == s.term && s.node.session == s }
