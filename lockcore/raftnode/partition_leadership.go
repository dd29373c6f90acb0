package raftnode

import (
	"sync"

	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

// leadership is one time that this node leads the partition: the leader, and its way to the log and to the voters.
type leadership struct {
	p      *Partition
	leader *leader.Leader
	term   uint64 // of the epoch entry, once applied
	begun  bool   // the epoch entry was proposed
}

type confirmRound struct {
	lead *leadership
	id   uint64
	term uint64
}

// Propose hands an entry to Raft. It is called with the partition's lock held, and Raft may answer at once, so the answer
// is put by for Run. A batch that was applied needs none: the leader was told when it was applied.
func (s *leadership) Propose(entry []byte) {
	first := !s.begun
	s.begun = true
	s.p.group.Propose(entry, func(result any, _ uint64, err error) {
		if first || err != nil {
			s.p.outcomes.put(settlement{lead: s, first: first, result: result, err: err})
			signal(s.p.wake)
		}
	})
}

// Confirm asks for a confirm round. It is called with the partition's lock held; a leader has one round at a time, and a
// round of a leadership that is over has nobody who waits for it.
func (s *leadership) Confirm(round uint64) {
	s.p.round = confirmRound{lead: s, id: round, term: s.term}
	signal(s.p.rounds)
}

// proposed follows up on an epoch entry, or on an entry that failed. The lock is held.
func (p *Partition) proposed(o settlement) {
	switch s := o.lead; {
	case p.lead != s:
	case o.err != nil:
		s.leader.Failed(leaderError(o.err))
	default:
		a := o.result.(applied)
		s.term = a.term
		s.leader.Ready(a.results[0].Epoch)
		if !s.leader.IsReady() {
			return // somebody else's epoch entry came after ours
		}
		p.log.Info("partition leads", "epoch", uint64(s.leader.Epoch()), "term", s.term)
		p.config.OnChange()
	}
}

// settlement is what became of a proposal.
type settlement struct {
	lead   *leadership
	first  bool
	result any
	err    error
}

// outcomes puts by what became of proposals until Run looks. A leadership has one proposal under way, so they are few.
type outcomes struct {
	mu  sync.Mutex
	all []settlement // guarded by mu
}

func (o *outcomes) put(one settlement) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, one)
}

func (o *outcomes) take() []settlement {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}
