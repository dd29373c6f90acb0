package leader_test

import (
	"math/rand/v2"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

// actor is a client of the random run: it takes leases one after the other, keeps them, gives them back, forgets to, and
// now and then dies and begins anew as another session.
type actor struct {
	s        *simulation
	k        *leadertest.Client
	node     *leadertest.Node // whom it believes to lead
	sequence uint64
	request  leader.Acquire
	step     int // rises with each change of mind: what answers an older one is not acted on
}

const patience = 700 * time.Millisecond // how long an actor waits for an answer beyond what it asked for

func (a *actor) born() {
	a.k = a.s.client()
	a.k.PPM = a.s.rate()
	a.sequence = 0
	a.begin()
}

// begin asks for another lease.
func (a *actor) begin() {
	a.sequence++
	lock := a.s.locks[a.s.rnd.IntN(len(a.s.locks))]
	a.request = leader.Acquire{Class: lock.class, Key: lock.key, Wait: forever, Poll: time.Hour}
	switch a.s.rnd.IntN(5) {
	case 0:
		a.request.Wait = 0
	case 1:
		a.request.Wait = a.s.between(100*ms, 4*second)
	}
	a.ask()
}

// later does f unless the actor has changed its mind by then, or the run is ending.
func (a *actor) later(d time.Duration, f func()) {
	step := a.step
	a.s.After(d, func() {
		if a.step == step && !a.s.ending {
			f()
		}
	})
}

// send awaits a reply: answered is called when it comes in time, else missed.
func (a *actor) send(r *leadertest.Reply, within time.Duration, answered func(), missed func()) {
	a.step++
	step := a.step
	next := func(f func()) {
		if a.step == step && !a.s.ending {
			a.step++
			f()
		}
	}
	if r.Done {
		next(answered)
		return
	}
	r.Then = func() { next(answered) }
	a.s.After(within, func() { next(missed) })
}

func (a *actor) elsewhere() { a.node = a.s.Nodes[a.s.rnd.IntN(len(a.s.Nodes))] }

func (a *actor) ask() {
	r := a.k.Acquire(a.node, a.sequence, a.request)
	limit := time.Duration(lockcore.PollLimitMS(lengths[a.request.Class])) * ms
	a.send(r, limit+patience, func() { a.asked(r) }, func() {
		a.elsewhere()
		a.ask()
	})
	if a.s.chance(0.02) {
		a.s.After(a.s.between(0, limit), r.Hangup)
	}
}

func (a *actor) asked(r *leadertest.Reply) {
	if r.Err != nil {
		a.elsewhere()
		a.later(a.s.between(10*ms, 200*ms), a.ask)
		return
	}
	switch r.Answer.Status {
	case leader.StatusQueued:
		a.waiting()
	case leader.StatusGranted:
		a.holding()
	default:
		a.later(a.s.between(0, 300*ms), a.begin)
	}
}

func (a *actor) waiting() {
	switch {
	case a.s.chance(0.04):
		a.die()
	case a.s.chance(0.04):
		a.release()
	default:
		a.later(a.s.between(0, 300*ms), a.ask)
	}
}

func (a *actor) holding() {
	if !a.k.Holds(a.sequence) {
		a.release()
		return
	}
	length := time.Duration(lengths[a.request.Class]) * ms
	if a.s.chance(0.05) {
		a.k.Look(a.node, a.sequence)
	}
	switch {
	case a.s.chance(0.06):
		a.die()
	case a.s.chance(0.15):
		a.later(a.s.between(0, length/4), a.release)
	case a.s.chance(0.10): // asleep for about as long as the lease
		a.later(a.s.between(length*9/10, length*11/10), a.beat)
	case a.s.chance(0.10):
		a.later(a.s.between(0, length/4), a.ask)
	default:
		a.later(a.s.between(length/10, length/2), a.beat)
	}
}

func (a *actor) beat() {
	r := a.k.Heartbeat(a.node, a.sequence)
	a.send(r, patience, func() { a.beaten(r) }, func() {
		a.elsewhere()
		a.beat()
	})
}

func (a *actor) beaten(r *leadertest.Reply) {
	switch {
	case r.Err != nil:
		a.elsewhere()
		a.later(a.s.between(10*ms, 100*ms), a.beat)
	case len(r.Beat.Lost) > 0:
		a.later(a.s.between(0, 300*ms), a.release)
	default:
		a.holding()
	}
}

func (a *actor) release() {
	r := a.k.Release(a.node, a.sequence, 0)
	again := func() {
		a.elsewhere()
		a.release()
	}
	a.send(r, patience, func() {
		if r.Err != nil {
			a.later(a.s.between(10*ms, 200*ms), again)
			return
		}
		a.later(a.s.between(0, 500*ms), a.begin)
	}, again)
}

// die leaves everything as it is, or says goodbye to whoever hears it.
func (a *actor) die() {
	if a.s.chance(0.2) {
		a.k.EndSession(a.node)
	}
	a.step++
	a.later(a.s.between(0, 2*second), a.born)
}

func (s *simulation) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.rnd.Int64N(int64(to-from)+1))
}

func (s *simulation) chance(p float64) bool { return s.rnd.Float64() < p }

// rate is a clock's: any two differ by at most one part in a hundred, unless the run is to break that.
func (s *simulation) rate() int64 { return s.rnd.Int64N(2*s.drift+1) - s.drift }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x5ca1ab1e)) }
