package leadertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

// entry is one log entry and what the audit must know of its origin.
type entry struct {
	term     uint64
	bytes    []byte
	session  *session
	proposed time.Duration // true time
	stored   time.Duration // true time at which a majority had it in its term; 0: not yet
}

// Propose appends an entry to the log of the node that leads, and refuses it otherwise.
func (s *session) Propose(b []byte) {
	n := s.node
	if !s.leads() {
		n.c.After(0, func() { n.request(func() { s.leader.Failed(leader.ErrNotLeader) }) })
		return
	}
	e := &entry{bytes: b, session: s, proposed: n.c.now}
	if s.epochEntry == nil {
		s.epochEntry = e
	}
	if s.proposalsHeld {
		s.proposals = append(s.proposals, e)
		return
	}
	n.append(e)
}

// append takes an entry into the log of the term that the node leads now.
func (n *Node) append(e *entry) {
	e.term = n.term
	n.log = append(n.log, e)
	n.replicate()
}

// HoldProposals lets what this leadership proposes wait in front of the log. Without a leadership it does nothing.
func (n *Node) HoldProposals() {
	if n.session != nil && n.holding == nil {
		n.session.proposalsHeld, n.holding = true, n.session
	}
}

// ReleaseProposals appends what HoldProposals kept back: to the log of the leadership that the node has by then, if any.
func (n *Node) ReleaseProposals() {
	s := n.holding
	if s == nil {
		return
	}
	s.proposalsHeld, n.holding = false, nil
	due := s.proposals
	s.proposals = nil
	for _, e := range due {
		if !n.leads {
			s.leader.Failed(leader.ErrNotLeader)
			return
		}
		n.append(e)
	}
}

func (n *Node) peers() []*Node {
	return slices.DeleteFunc(slices.Clone(n.c.Nodes), func(p *Node) bool { return p == n })
}

// tick sends the leader's log again, for those who missed it.
func (n *Node) tick() {
	if n.leads && !n.paused {
		n.replicate()
	}
	n.c.After(raftTick, n.tick)
}

func (n *Node) replicate() {
	term, log, commit := n.term, slices.Clip(n.log), n.commit
	for _, peer := range n.peers() {
		n.c.send(n, peer, func() { peer.appendEntries(n, term, log, commit) })
	}
}

// appendEntries takes over a leader's log, as it was when the message was sent.
func (n *Node) appendEntries(from *Node, term uint64, log []*entry, commit int) {
	if term < n.term {
		newer := n.term
		n.c.send(n, from, func() { from.adoptTerm(newer) })
		return
	}
	n.adoptTerm(term)
	if !n.hasAll(log) {
		n.log = log
	}
	n.c.noteStored(term, log)
	n.commit = max(n.commit, min(commit, len(log)))
	n.apply()
	n.c.send(n, from, func() { from.acknowledged(n, term, len(log)) })
}

// hasAll reports whether the node's log begins with the given one.
func (n *Node) hasAll(log []*entry) bool {
	return len(log) == 0 || (len(n.log) >= len(log) && n.log[len(log)-1] == log[len(log)-1])
}

// noteStored stamps the entries of the term that a majority has: from here on they are committed, whoever knows it.
func (c *Cluster) noteStored(term uint64, log []*entry) {
	have := 0
	for _, n := range c.Nodes {
		if n.hasAll(log) {
			have++
		}
	}
	for i := len(log) - 1; have >= c.majority() && i >= 0 && log[i].term == term && log[i].stored == 0; i-- {
		log[i].stored = max(c.now, 1)
		if log[i].session.epochEntry == log[i] {
			c.Audit.epochStored(log[i].session.term)
		}
	}
}

func (n *Node) acknowledged(peer *Node, term uint64, upTo int) {
	if !n.leads || n.term != term {
		return
	}
	n.heard = true
	n.match[peer] = max(n.match[peer], upTo)
	for i := len(n.log); i > n.commit && n.log[i-1].term == n.term; i-- {
		if n.matched(i) >= n.c.majority() {
			n.commit = i
			n.apply()
			return
		}
	}
}

func (n *Node) matched(upTo int) int {
	count := 1
	for _, have := range n.match {
		if have >= upTo {
			count++
		}
	}
	return count
}

// adoptTerm learns of a newer term. A leader of an older one steps down, and is told so after a
// message's delay.
func (n *Node) adoptTerm(term uint64) {
	if term <= n.term {
		return
	}
	n.term = term
	if !n.leads {
		return
	}
	n.leads = false
	s := n.session
	told := func() {
		if n.session == s {
			n.endSession(ErrLeadershipLost)
		}
	}
	if d := n.c.config.Delay(); d > 0 {
		n.c.After(d, func() { n.request(told) })
		return
	}
	told()
}

// upToDate reports whether the node's log may win v's vote.
func (n *Node) upToDate(v *Node) bool {
	mine, theirs := n.lastTerm(), v.lastTerm()
	return mine > theirs || (mine == theirs && len(n.log) >= len(v.log))
}

func (n *Node) lastTerm() uint64 {
	if len(n.log) == 0 {
		return 0
	}
	return n.log[len(n.log)-1].term
}

// apply carries out what is committed and tells the leader, if there is one.
func (n *Node) apply() {
	for n.applied < n.commit {
		e := n.log[n.applied]
		n.applied++
		before := n.Machine.Epoch()
		results, events := n.Machine.Apply(uint64(n.applied), n.bytesOf(e))
		n.c.Audit.applied(n, uint64(n.applied), e, before, results, events)
		s := n.session
		switch {
		case s == nil:
		case e == s.epochEntry:
			s.leader.Ready(results[0].Epoch)
		default:
			s.leader.Applied(results, events)
		}
	}
}

// bytesOf is the entry as the machine gets it.
func (n *Node) bytesOf(e *entry) []byte {
	if n.c.config.Break != BreakEpochFence || e == e.session.epochEntry {
		return e.bytes
	}
	decoded, err := lockcore.DecodeEntry(e.bytes)
	if err != nil {
		panic(fmt.Sprintf("leadertest: entry of term %d: %v", e.term, err))
	}
	decoded.Epoch = n.Machine.Epoch()
	b, err := decoded.Encode()
	if err != nil {
		panic(fmt.Sprintf("leadertest: entry of term %d: %v", e.term, err))
	}
	return b
}
