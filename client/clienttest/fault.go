package clienttest

import (
	"slices"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// Always has a fault meet every request that matches, until it is stopped.
const Always = -1

// Fault is something that goes wrong with requests. A request meets the oldest fault of each kind that matches it. It is
// safe for concurrent use.
type Fault struct {
	platform *Platform
	kind     faultKind
	match    Match
	delay    time.Duration
	problem  *wire.Problem

	left int // guarded by platform.mu; how many requests it meets still; negative: all
	met  int // guarded by platform.mu
}

type faultKind int

const (
	faultDropRequest faultKind = iota
	faultDelayRequest
	faultAnswer
	faultRepeat
	faultDelayAnswer
	faultLoseAnswer
)

// Stop ends the fault. Requests that have met it already are not helped.
func (f *Fault) Stop() {
	f.platform.mu.Lock()
	defer f.platform.mu.Unlock()
	f.platform.faults = slices.DeleteFunc(f.platform.faults, func(g *Fault) bool { return g == f })
}

// Met is how many requests have met the fault.
func (f *Fault) Met() int {
	f.platform.mu.Lock()
	defer f.platform.mu.Unlock()
	return f.met
}

// DropRequests loses the next n requests that match on their way: they are not carried out, and their connections break.
func (p *Platform) DropRequests(m Match, n int) *Fault {
	return p.fault(&Fault{kind: faultDropRequest, match: m, left: n})
}

// DelayRequests has the next n requests that match arrive late by d. They arrive even if their client has given up by then.
func (p *Platform) DelayRequests(m Match, n int, d time.Duration) *Fault {
	return p.fault(&Fault{kind: faultDelayRequest, match: m, left: n, delay: d})
}

// Answer answers the next n requests that match with a problem, such as wire.NewProblem(wire.CodeOverloaded, ""), without
// carrying them out.
func (p *Platform) Answer(m Match, n int, problem *wire.Problem) *Fault {
	own := *problem
	return p.fault(&Fault{kind: faultAnswer, match: m, left: n, problem: &own})
}

// RepeatRequests has a copy of each of the next n requests that match arrive once more, d after the request was carried
// out. The copy does not hang, and its answer goes nowhere.
func (p *Platform) RepeatRequests(m Match, n int, d time.Duration) *Fault {
	return p.fault(&Fault{kind: faultRepeat, match: m, left: n, delay: d})
}

// DelayAnswers delays the answers to the next n requests that match by d. They are carried out at once; what an answer
// promises counts from then.
func (p *Platform) DelayAnswers(m Match, n int, d time.Duration) *Fault {
	return p.fault(&Fault{kind: faultDelayAnswer, match: m, left: n, delay: d})
}

// LoseAnswers loses the answers to the next n requests that match: they are carried out, and then their connections break.
func (p *Platform) LoseAnswers(m Match, n int) *Fault {
	return p.fault(&Fault{kind: faultLoseAnswer, match: m, left: n})
}

func (p *Platform) fault(f *Fault) *Fault {
	f.platform = p
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.left != 0 {
		p.faults = append(p.faults, f)
	}
	return f
}

// Heal undoes whatever was broken: it stops all faults, resumes and restores all nodes, and restores the quorum. What was
// lost stays lost.
func (p *Platform) Heal() {
	p.mu.Lock()
	p.faults = nil
	p.mu.Unlock()
	for _, n := range p.nodes {
		n.Resume()
		n.Restore()
	}
	p.RestoreQuorum()
}

// fate is what a request meets: at most one fault of each kind.
type fate map[faultKind]*Fault

// fateOf has a request meet its faults.
func (p *Platform) fateOf(c *call) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := fate{}
	for _, f := range slices.Clone(p.faults) {
		if all[f.kind] != nil || !f.match.matches(c.request) {
			continue
		}
		all[f.kind] = f
		f.met++
		f.left--
		if f.left == 0 {
			p.faults = slices.DeleteFunc(p.faults, func(g *Fault) bool { return g == f })
		}
	}
	p.change()
	return all
}

// delay is how long a fault of a kind delays; 0: there is none.
func (f fate) delay(k faultKind) time.Duration {
	if f[k] == nil {
		return 0
	}
	return f[k].delay
}
