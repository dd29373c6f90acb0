package lockcoretest

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// Shape says what sequence a Generator draws. Equal shapes draw equal sequences from equally behaving machines.
type Shape struct {
	Seed     uint64
	Tenants  int // 1 .. 4
	BatchMax int // 1 .. 32 commands in an entry
	Keys     int // 1 .. 32 keys of each class
}

// Generator draws entries that a partition's log might carry, and many that it should not. It learns what is held and
// queued from the events of what it drew before, so that most commands meet something. Not safe for concurrent use.
type Generator struct {
	shape   Shape
	r       *rand.Rand
	pools   []*pool
	epoch   lockcore.Epoch
	clockMS int64
	wallMS  int64
	index   uint64
	unsaid  lockcore.Checkpoint // last one passed
	m       *lockcore.Machine   // as observed last; nil before
}

// pool is what the generator knows of one tenant.
type pool struct {
	id       lockcore.TenantID
	known    bool
	dropped  bool
	revision uint64 // highest one drawn
	versions map[lockcore.ClassName]uint64
	sequence map[uint16]uint64 // last one drawn, by session number
	held     []request
	waiting  []request
	past     []request // ended, refused or only drawn: newest last, at most pastMax
	delays   []request
	reported map[uint16]uint64 // last sequence drawn, by reporter number
}

type request struct {
	id    lockcore.LeaseID
	class lockcore.ClassName
	key   lockcore.Key
	token lockcore.Token
}

const (
	pastMax       = 64
	sessionsDrawn = 48
	reportersMax  = 6
	otherOwner    = "mallory"
)

// The classes that a tenant declares, and one that it never does.
var classNames = []lockcore.ClassName{"short", "short", "long", "long", "delayed", "refusing", "narrow", "capped", "brief"}

const undeclared lockcore.ClassName = "undeclared"

// NewGenerator begins a sequence.
func NewGenerator(s Shape) *Generator {
	g := &Generator{shape: s, r: rand.New(rand.NewPCG(s.Seed, 0x5741)), wallMS: 1_700_000_000_000}
	for _, id := range []lockcore.TenantID{"acme", "birch", "cedar", "delta"}[:s.Tenants] {
		g.pools = append(g.pools, &pool{id: id, versions: map[lockcore.ClassName]uint64{}, sequence: map[uint16]uint64{},
			reported: map[uint16]uint64{}})
	}
	return g
}

// Next draws the next entry and its index.
func (g *Generator) Next() (uint64, lockcore.Entry) {
	g.index += 1 + uint64(g.r.IntN(20))
	g.clockMS += int64(g.r.IntN(300))
	if g.chance(60) {
		g.clockMS += 20_000 + int64(g.r.IntN(60_000))
	}
	g.wallMS += 5
	e := lockcore.Entry{Epoch: g.epoch, ClockMS: g.clockMS, WallMS: g.wallMS}
	binary.BigEndian.PutUint64(e.Salt[8:], g.index)
	if g.epoch == 0 || g.chance(200) {
		if g.epoch > 0 || g.chance(2) {
			e.Commands = []lockcore.Command{lockcore.AdvanceEpoch{Node: "n1"}}
			return g.index, e
		}
	}
	if g.chance(60) {
		e.Epoch += lockcore.Epoch(g.r.IntN(2)*2) - 1 // the one before, or the one after
	}
	if g.chance(50) {
		e.ClockMS -= 5_000 // a stamp below the lease clock
	}
	if c, at, ok := g.atDeadline(); ok {
		e.Commands, e.ClockMS = append(e.Commands, c), at
	}
	for range 1 + g.r.IntN(g.shape.BatchMax) {
		e.Commands = append(e.Commands, g.command())
	}
	return g.index, e
}

// atDeadline draws, now and then, the expiry of a long lease in the very millisecond of its deadline, or in the one
// before.
func (g *Generator) atDeadline() (c lockcore.Command, at int64, ok bool) {
	p := pick(g, g.pools)
	if g.m == nil || len(p.held) == 0 || !g.chance(20) {
		return nil, 0, false
	}
	r := pick(g, p.held)
	l, known := g.m.Lease(p.id, r.id)
	if !known || l.DeadlineMS < g.clockMS {
		return nil, 0, false
	}
	return lockcore.Expire{Tenant: p.id, Lease: r.id, Token: r.token}, l.DeadlineMS - int64(g.r.IntN(2)), true
}

// Observe learns what the last entry led to.
func (g *Generator) Observe(m *lockcore.Machine, events []lockcore.Event) {
	g.m, g.epoch, g.clockMS = m, m.Epoch(), max(g.clockMS, m.LeaseClockMS())
	if c, unsaid := m.UnstatedCheckpoint(); unsaid {
		g.unsaid = c
	}
	for _, e := range events {
		if i := slices.IndexFunc(g.pools, func(p *pool) bool { return p.id == e.Tenant }); i >= 0 {
			g.pools[i].observe(e)
		}
	}
}

func (p *pool) observe(e lockcore.Event) {
	r := request{e.Lease, e.Class, e.Key, e.Token}
	switch e.Kind {
	case lockcore.EventTenantPut:
		p.known, p.dropped = true, false
	case lockcore.EventTenantDropped:
		p.dropped = true
	case lockcore.EventTenantGone:
		p.known = false
		clear(p.versions)
		p.held, p.waiting, p.delays = nil, nil, nil
	case lockcore.EventClassInForce, lockcore.EventClassRetired:
		p.versions[e.Class] = e.Version
	case lockcore.EventGranted, lockcore.EventPromoted:
		p.waiting = without(p.waiting, e.Lease)
		p.held = append(p.held, r)
	case lockcore.EventQueued:
		p.waiting = append(p.waiting, r)
	case lockcore.EventLeft:
		p.waiting = without(p.waiting, e.Lease)
		p.remember(r)
	case lockcore.EventEnded:
		p.held = without(p.held, e.Lease)
		p.remember(r)
	case lockcore.EventDelayStarted:
		p.delays = append(p.delays, r)
	case lockcore.EventDelayEnded:
		p.delays = slices.DeleteFunc(p.delays, func(d request) bool { return d.token == e.Token })
	case lockcore.EventRefused, lockcore.EventBurned:
		p.remember(r)
	}
}

func (p *pool) remember(r request) {
	if p.past = append(p.past, r); len(p.past) > pastMax {
		p.past = slices.Delete(p.past, 0, 1)
	}
}

func without(all []request, id lockcore.LeaseID) []request {
	return slices.DeleteFunc(all, func(r request) bool { return r.id == id })
}

// chance is true once in n draws.
func (g *Generator) chance(n int) bool { return g.r.IntN(n) == 0 }

// weighted draws an index in proportion to the weights.
func (g *Generator) weighted(weights []int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	at := g.r.IntN(sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(weights) - 1
}

func pick[E any](g *Generator, from []E) E { return from[g.r.IntN(len(from))] }

// someRequest draws one that is held, that waits, that is over, or that was never heard of, in proportion to the
// weights.
func (g *Generator) someRequest(p *pool, held, waiting, past, unheard int) request {
	weights := []int{held, waiting, past, unheard}
	for i, list := range [][]request{p.held, p.waiting, p.past} {
		if len(list) == 0 {
			weights[i] = 0
		}
	}
	if held+waiting+past > 0 && weights[0]+weights[1]+weights[2]+unheard == 0 {
		weights[3] = 1
	}
	switch g.weighted(weights) {
	case 0:
		return pick(g, p.held)
	case 1:
		return pick(g, p.waiting)
	case 2:
		return pick(g, p.past)
	}
	return g.newRequest(p)
}

// newRequest draws the next id of a session, mostly; now and then it leaps, goes back or repeats.
func (g *Generator) newRequest(p *pool) request {
	session := uint16(1 + g.r.IntN(sessionsDrawn))
	last := p.sequence[session]
	sequence := last + 1
	switch g.weighted([]int{1000, 60, 30, 60}) {
	case 1:
		sequence = last + lockcore.Window + uint64(g.r.IntN(3)) - 1
	case 2:
		sequence = 1 + g.r.Uint64N(last+1)
	case 3: // at the window's border
		sequence = max(last, lockcore.Window) - lockcore.Window + uint64(g.r.IntN(3))
	}
	p.sequence[session] = max(last, sequence)
	return request{id: LeaseNumber(session, sequence), class: pick(g, classNames), key: g.key()}
}

func (g *Generator) key() lockcore.Key {
	n := g.r.IntN(g.shape.Keys)
	return lockcore.Key("key-" + string(rune('A'+n)))
}

// owner is who the sessions of transcripts belong to: always the same for a session, but for a foreigner now and then.
func (g *Generator) owner() lockcore.OwnerID {
	if g.chance(60) {
		return otherOwner
	}
	return usualOwner
}

// token is the request's own, mostly.
func (g *Generator) token(r request) lockcore.Token {
	if g.chance(30) {
		return r.token + lockcore.Token(g.r.IntN(3)) + 1
	}
	return r.token
}
