package leader_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader/leadertest"
)

var (
	simSeed = flag.Uint64("sim.seed", 0, "run only this seed of the random runs")
	simRuns = flag.Int("sim.runs", 8, "how many random runs to make")
)

const (
	runLength = 1000 * time.Second
	// driftPPM is the clocks' rate against true time: any two clocks differ by at most 1 %.
	driftPPM = 4_970
)

// lengths of the leases in the random runs, milliseconds.
var lengths = map[lockcore.ClassName]int64{"fast": 2_000, "delay": 3_000, "long": 30_000}

type lock struct {
	class lockcore.ClassName
	key   lockcore.Key
}

// simulation is one random run: actors, and faults of every kind that the log's contract allows.
type simulation struct {
	*world
	rnd    *rand.Rand
	drift  int64
	locks  []lock
	faulty map[*leadertest.Node]bool
	away   map[*leadertest.Node]bool // faulty so that it cannot lead
	ending bool
}

func newSimulation(t *testing.T, seed uint64, broken leadertest.Break, drift int64) *simulation {
	s := &simulation{rnd: newRand(seed), drift: drift, faulty: map[*leadertest.Node]bool{},
		away: map[*leadertest.Node]bool{}}
	quiet := true
	config := leadertest.Config{
		Delay: func() time.Duration {
			switch {
			case quiet:
				return 0
			case s.chance(0.01):
				return s.between(50*ms, 400*ms)
			}
			return s.between(100*time.Microsecond, 10*ms)
		},
		Lose:   func() bool { return !quiet && s.chance(0.02) },
		Jitter: s.rnd.Float64,
		Break:  broken,
	}
	s.world = &world{t: t, Cluster: leadertest.New(config)}
	s.elect(s.Nodes[0])
	s.setUp()
	quiet = false
	for _, n := range s.Nodes {
		n.Clock.SetRate(s.rate())
	}
	for range 30 {
		a := &actor{s: s, node: s.Nodes[0]}
		a.born()
	}
	s.After(second, s.fault)
	s.After(second, s.watch)
	return s
}

func (s *simulation) setUp() {
	quotas := lockcore.Quotas{Keys: 1000, Leases: 1000, Waiters: 10_000, Sessions: 100_000,
		PerSession: lockcore.PerSessionMax, Ends: 1_000_000}
	s.command(lockcore.PutTenant{Tenant: acme, Quotas: quotas})
	for _, name := range []lockcore.ClassName{"fast", "delay", "long"} {
		s.command(lockcore.PutClass{Tenant: acme, Class: class(name, lengths[name], func(c *lockcore.Class) {
			if name == "delay" {
				c.LockDelayMS, c.MaxHoldMS = 500, 4_000
			}
		})})
		s.locks = append(s.locks, lock{name, "k1"}, lock{name, "k2"})
	}
	s.locks = s.locks[:5] // one long lease is enough to wait for
}

// fault does something to a node, and undoes it later.
func (s *simulation) fault() {
	if s.ending {
		return
	}
	s.After(s.between(200*ms, 5*second), s.fault)
	n := s.Nodes[s.rnd.IntN(len(s.Nodes))]
	if s.chance(0.6) {
		n = s.newest()
	}
	if s.faulty[n] {
		return
	}
	switch s.rnd.IntN(11) {
	case 0:
		s.tryElect()
	case 1:
		n.HoldProposals()
		s.mend(n, s.between(200*ms, 3*second), n.ReleaseProposals)
	case 2:
		n.Clock.SetRate(s.rate())
	case 3:
		n.Cut()
		s.away[n] = true
		s.mend(n, s.between(200*ms, 15*second), n.Heal)
	case 4:
		n.HoldInbox()
		s.away[n] = true
		s.mend(n, s.between(50*ms, 6*second), n.ReadInbox)
	case 5:
		n.Pause()
		s.away[n] = true
		s.mend(n, s.between(50*ms, 8*second), n.Resume)
	case 6:
		n.HoldProposals()
		s.mend(n, s.between(50*ms, 2*second), n.ReleaseProposals)
	case 7:
		n.HoldRounds()
		s.mend(n, s.between(50*ms, second), n.ReleaseRounds)
	case 8, 9: // the leadership is lost and regained in front of its own proposals
		n.HoldProposals()
		s.mend(n, s.between(50*ms, 2*second), func() {
			if s.chance(0.3) {
				_ = s.Elect(n)
				s.After(s.between(0, second), n.ReleaseProposals)
				return
			}
			n.ReleaseProposals()
		})
	case 10:
		n.FailRounds(true)
		s.mend(n, s.between(50*ms, second), func() { n.FailRounds(false) })
	}
	if s.chance(0.15) {
		s.force()
	}
}

func (s *simulation) mend(n *leadertest.Node, d time.Duration, f func()) {
	s.faulty[n] = true
	s.After(d, func() {
		s.faulty[n], s.away[n] = false, false
		f()
	})
}

// newest is the node that leads the newest term, or any.
func (s *simulation) newest() *leadertest.Node {
	best := s.Nodes[0]
	for _, n := range s.Nodes {
		if n.Ready() && (!best.Ready() || n.Leader().Epoch() > best.Leader().Epoch()) {
			best = n
		}
	}
	return best
}

func (s *simulation) tryElect() {
	n := s.Nodes[s.rnd.IntN(len(s.Nodes))]
	if s.chance(0.5) {
		_ = s.Elect(n) // who has too old a log is not elected
		return
	}
	_ = s.Elect(n, n, s.Nodes[s.rnd.IntN(len(s.Nodes))])
}

// watch elects somebody when nobody who can be reached leads.
func (s *simulation) watch() {
	n := s.newest()
	if !n.Ready() || (s.away[n] && s.chance(0.3)) {
		_ = s.Elect(s.Nodes[s.rnd.IntN(len(s.Nodes))])
	}
	s.After(s.between(200*ms, second), s.watch)
}

// force ends somebody's hold from outside.
func (s *simulation) force() {
	n := s.newest()
	if !n.Ready() || n.IsPaused() {
		return
	}
	n.Machine.EachLive(acme, func(l *lockcore.Lease) bool {
		if l.Held() {
			n.Leader().Propose(lockcore.MarkEnding{Tenant: acme, Lease: l.ID, Token: l.Token, Cause: lockcore.Forced}, nil)
		}
		return !l.Held()
	})
}

// end lets every actor vanish and heals everything: what nobody keeps must come to its end.
func (s *simulation) end() {
	s.ending = true
	s.Advance(16 * second) // until the last fault is mended
	s.Advance(60 * second)
	n := s.newest()
	if state, _ := n.Machine.Tenant(acme); !n.Ready() || state.Occupied != 0 || state.Waiting != 0 {
		s.Audit.Violations = append(s.Audit.Violations, fmt.Sprintf("liveness: ready %v, %d keys are not free, %d wait",
			n.Ready(), state.Occupied, state.Waiting))
	}
}

func (s *simulation) findings() []string { return append(s.Audit.Violations, s.Overlaps()...) }

// provoked is what every run must have seen to be worth anything.
var provoked = map[string]int{
	"leaderships": 20, "grants": 100, "hand-offs": 20, "pick-ups": 20, "pickup_missed": 1, "released": 20, "expired": 10,
	"doomed refusals": 1, "unknown outcomes": 5, "no quorum": 5, "failed rounds": 5, "stale commands": 1, "silent": 1,
	"wait_timeout": 1, "max_hold": 1, "forced": 1, "disconnected": 1,
}

func TestRandomRuns_keepTheProperties(t *testing.T) {
	first, runs := uint64(1), *simRuns
	if *simSeed != 0 {
		first, runs = *simSeed, 1
	}
	for seed := first; seed < first+uint64(runs); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			s := newSimulation(t, seed, leadertest.BreakNothing, driftPPM)
			s.Advance(runLength)
			s.end()
			s.check()
			for what, least := range provoked {
				if got := s.Audit.Count[what]; got < least {
					t.Errorf("coverage: %q occurred %d times, want %d", what, got, least)
				}
			}
			if t.Failed() {
				t.Logf("repeat with: go test ./lockcore/leader -run TestRandomRuns -sim.seed=%d", seed)
			}
			t.Log(s.Audit.Count)
		})
	}
}

func TestRandomRun_repeatsExactly(t *testing.T) {
	var hashes [2][32]byte
	for i := range hashes {
		s := newSimulation(t, 7, leadertest.BreakNothing, driftPPM)
		s.Advance(30 * second)
		hashes[i] = s.newest().Machine.Rolling()
	}
	if hashes[0] != hashes[1] {
		t.Errorf("the same seed gave %x and %x", hashes[0][:8], hashes[1][:8])
	}
}

// A checker that cannot fail is worth nothing: with a rule left out, some runs must find the violation that the rule
// prevents.
func TestRandomRuns_findWhatIsBroken(t *testing.T) {
	tests := []struct {
		name   string
		broken leadertest.Break
		drift  int64
		found  string
	}{
		{"rounds answered by old acknowledgements", leadertest.BreakRounds, driftPPM, "exclusion among clients"},
		{"commands not fenced by their epoch", leadertest.BreakEpochFence, driftPPM, "epoch order"},
		{"deadlines counted from the answer", leadertest.BreakSendMoment, driftPPM, "exclusion among clients"},
		{"clocks beyond the stated drift", leadertest.BreakNothing, 200_000, "exclusion among clients"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 20; seed++ {
				s := newSimulation(t, seed, tt.broken, tt.drift)
				s.Advance(300 * second)
				for _, f := range s.findings() {
					if strings.Contains(f, tt.found) {
						t.Logf("seed %d: %s", seed, f)
						return
					}
				}
			}
			t.Errorf("no run found %q", tt.found)
		})
	}
}
