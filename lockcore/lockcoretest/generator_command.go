package lockcoretest

import (
	"strings"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// draw is one kind of command and how often, among a thousand, it is drawn.
type draw struct {
	weight  int
	command func(*Generator, *pool) lockcore.Command
}

var draws = []draw{
	{480, (*Generator).acquire},
	{180, (*Generator).release},
	{55, (*Generator).expire},
	{45, (*Generator).endDelay},
	{15, (*Generator).leave},
	{10, (*Generator).waiterGone},
	{40, (*Generator).markEnding},
	{11, (*Generator).endSession},
	{30, (*Generator).forgetSession},
	{85, (*Generator).extend},
	{9, (*Generator).putTenant},
	{2, (*Generator).dropTenant},
	{20, (*Generator).putClass},
	{5, (*Generator).retireClass},
	{15, (*Generator).partition},
	{25, (*Generator).reportGuard},
}

var drawWeights = weightsOf(draws)

func weightsOf(draws []draw) []int {
	var weights []int
	for _, d := range draws {
		weights = append(weights, d.weight)
	}
	return weights
}

func (g *Generator) command() lockcore.Command {
	p := pick(g, g.pools)
	switch {
	case !p.known && !g.chance(3):
		return g.putTenant(p)
	case p.known && !p.dropped && len(p.versions) < 7 && g.chance(2):
		return g.putClass(p)
	case p.dropped && g.chance(2): // what a leader does: end what is left
		return g.drain(p)
	}
	return draws[g.weighted(drawWeights)].command(g, p)
}

func (g *Generator) drain(p *pool) lockcore.Command {
	switch {
	case len(p.delays) > 0:
		return g.endDelay(p)
	case len(p.waiting) > 0 && g.chance(2), len(p.held) == 0 && len(p.waiting) > 0:
		return lockcore.Leave{Tenant: p.id, Lease: pick(g, p.waiting).id, Cause: lockcore.TenantDropped}
	case len(p.held) > 0:
		r := pick(g, p.held)
		return lockcore.MarkEnding{Tenant: p.id, Lease: r.id, Token: r.token, Cause: lockcore.TenantDropped, Now: g.chance(2)}
	}
	return g.acquire(p)
}

func (g *Generator) acquire(p *pool) lockcore.Command {
	r := g.someRequest(p, 45, 5, 6, 100)
	if r.class == "" || g.chance(50) {
		r.class, r.key = pick(g, classNames), g.key()
	}
	c := lockcore.Acquire{Tenant: p.id, Owner: g.owner(), Lease: r.id, Class: r.class, Key: r.key, WaitMS: g.wait(r.class),
		Holder: "host:1", APIKey: "key1"}
	switch {
	case g.chance(20): // crowd one key
		c.Class, c.Key, c.WaitMS = "narrow", "key-A", 5_000
	case g.chance(200):
		c.Class = undeclared
	}
	if g.chance(50) && len(p.held) > 0 { // a second id for what its session holds
		h := pick(g, p.held)
		c.Lease.Session, c.Class, c.Key = h.id.Session, h.class, h.key
		c.Lease.Sequence = h.id.Sequence + 1 + uint64(g.r.IntN(3))
	}
	if g.chance(100) {
		g.corrupt(&c)
	}
	return c
}

// wait draws how long an acquire queues: mostly what the class allows.
func (g *Generator) wait(class lockcore.ClassName) int64 {
	if class == "refusing" && !g.chance(8) {
		return 0
	}
	return pick(g, []int64{0, 5_000, 5_000, 5_000, 5_000, 5_000, 5_001, lockcore.WaitUnlimited, 30_000})
}

// corrupt puts one value out of its range.
func (g *Generator) corrupt(c *lockcore.Acquire) {
	switch g.r.IntN(9) {
	case 0:
		c.Lease.Session = lockcore.SessionID{}
	case 1:
		c.Lease.Sequence = 0
	case 2:
		c.Lease.Sequence = lockcore.SequenceMax + 1
	case 3:
		c.Owner = ""
	case 4:
		c.Key = ""
	case 5:
		c.Key = "line\nbreak"
	case 6:
		c.Key = lockcore.Key(strings.Repeat("k", lockcore.KeyBytesMax+1))
	case 7:
		c.Holder = strings.Repeat("h", lockcore.HolderBytesMax+1)
	case 8:
		c.WaitMS = lockcore.WaitUnlimited - 1
	}
}

func (g *Generator) release(p *pool) lockcore.Command {
	r := g.someRequest(p, 80, 8, 10, 2)
	c := lockcore.Release{Tenant: p.id, Owner: g.owner(), Lease: r.id}
	if g.chance(2) {
		c.Token = g.token(r)
	}
	if g.chance(200) {
		c.Lease.Sequence = 0
	}
	return c
}

func (g *Generator) expire(p *pool) lockcore.Command {
	r := g.someRequest(p, 80, 5, 8, 4)
	return lockcore.Expire{Tenant: p.id, Lease: r.id, Token: g.token(r), Missed: g.chance(3)}
}

func (g *Generator) endDelay(p *pool) lockcore.Command {
	if len(p.delays) == 0 {
		r := g.someRequest(p, 1, 1, 1, 1)
		return lockcore.EndDelay{Tenant: p.id, Class: r.class, Key: r.key, Token: r.token}
	}
	r := pick(g, p.delays)
	return lockcore.EndDelay{Tenant: p.id, Class: r.class, Key: r.key, Token: g.token(r)}
}

func (g *Generator) leave(p *pool) lockcore.Command {
	r := g.someRequest(p, 8, 80, 8, 4)
	causes := []lockcore.Reason{lockcore.WaitTimeout, lockcore.Disconnected, lockcore.ClassRetired, lockcore.TenantDropped}
	c := lockcore.Leave{Tenant: p.id, Lease: r.id, Cause: pick(g, causes)}
	if g.chance(50) {
		c.Cause = lockcore.Silent
	}
	return c
}

func (g *Generator) waiterGone(p *pool) lockcore.Command {
	c := lockcore.WaiterGone{Tenant: p.id}
	for range g.r.IntN(4) {
		c.Leases = append(c.Leases, g.someRequest(p, 1, 8, 1, 1).id)
	}
	return c
}

func (g *Generator) markEnding(p *pool) lockcore.Command {
	r := g.someRequest(p, 80, 4, 6, 4)
	causes := []lockcore.Reason{lockcore.Forced, lockcore.MaxHold, lockcore.ClassRetired, lockcore.TenantDropped}
	c := lockcore.MarkEnding{Tenant: p.id, Lease: r.id, Token: g.token(r), Cause: pick(g, causes), By: "dana", Now: g.chance(4)}
	if g.chance(50) {
		c.Cause = lockcore.Released
	}
	return c
}

func (g *Generator) endSession(p *pool) lockcore.Command {
	c := lockcore.EndSession{Tenant: p.id, Owner: g.owner(), Session: SessionNumber(uint16(1 + g.r.IntN(sessionsDrawn)))}
	if g.chance(30) {
		c.Session = lockcore.SessionID{}
	}
	return c
}

func (g *Generator) forgetSession(p *pool) lockcore.Command {
	return lockcore.ForgetSession{Tenant: p.id, Session: SessionNumber(uint16(1 + g.r.IntN(sessionsDrawn)))}
}

func (g *Generator) extend(p *pool) lockcore.Command {
	r := g.someRequest(p, 60, 4, 6, 4)
	for range 3 { // mostly a long one
		if r.class != "long" {
			r = g.someRequest(p, 60, 4, 6, 4)
		}
	}
	return lockcore.Extend{Tenant: p.id, Lease: r.id, Token: g.token(r)}
}

func (g *Generator) putTenant(p *pool) lockcore.Command {
	c := lockcore.PutTenant{Tenant: p.id, Revision: g.revision(p), Quotas: lockcore.Quotas{Keys: 1000, Leases: 1000, Waiters: 1000,
		Sessions: 1000, PerSession: 1000, Ends: 1_000_000}}
	if g.chance(2) {
		c.Quotas.Ends = 1 + g.r.IntN(100)
	}
	switch g.weighted([]int{40, 15, 8, 8, 10, 3, 4, 20}) {
	case 1:
		c.Quotas.Sessions = 1 + g.r.IntN(sessionsDrawn)
	case 2:
		c.Quotas.Keys = 1 + g.r.IntN(12)
	case 3:
		c.Quotas.Leases = 1 + g.r.IntN(12)
	case 4:
		c.Quotas.Waiters = 1 + g.r.IntN(3)
	case 5:
		c.Suspended = true
	case 6:
		*pick(g, []*int{&c.Quotas.Waiters, &c.Quotas.PerSession, &c.Quotas.Ends}) = pick(g, []int{0, -1, 100_000_001})
	case 7:
		c.Quotas.PerSession = 1 + g.r.IntN(3)
	}
	if g.chance(40) {
		c.TokenBase = pick(g, []lockcore.Token{7, 1_000, lockcore.TokenBaseMax + 1})
	}
	return c
}

// revision draws the control log's revision of a command: mostly the next, or the same again; now and then one before.
func (g *Generator) revision(p *pool) uint64 {
	switch g.weighted([]int{6, 3, 1}) {
	case 0:
		p.revision++
	case 2:
		return p.revision - min(p.revision, 1+g.r.Uint64N(2))
	}
	return p.revision
}

func (g *Generator) dropTenant(p *pool) lockcore.Command {
	return lockcore.DropTenant{Tenant: p.id, By: "dana", Revision: g.revision(p)}
}

// posture is what a tenant declares under a name.
func (g *Generator) posture(name lockcore.ClassName) lockcore.Class {
	c := usualClass
	c.Name = name
	switch name {
	case "long":
		c.LeaseMS, c.Purpose, c.Enforcement = pick(g, []int64{lockcore.LongLeaseMS - 1, lockcore.LongLeaseMS, 60_000, 60_000}),
			lockcore.PurposeCorrectness, lockcore.EnforcementFenced
		c.LockDelayMS = pick(g, []int64{0, 0, 1_000})
	case "delayed":
		c.LockDelayMS, c.MaxHoldMS = 5_000, 60_000
	case "refusing":
		c.Refuses, c.MaxWaiters = true, 0
	case "narrow":
		c.MaxWaiters = 1
	case "capped":
		c.MaxWaitMS = 5_000
	case "brief":
		c.LeaseMS = 1_000
	}
	return c
}

func (g *Generator) putClass(p *pool) lockcore.Command {
	c := g.posture(pick(g, classNames))
	if i := g.r.IntN(len(classNames)); p.versions[classNames[i]] == 0 { // rather one that is missing
		c = g.posture(classNames[i])
	}
	c.Version = p.versions[c.Name] + 1
	switch g.weighted([]int{40, 4, 4, 4, 4}) {
	case 1:
		c.Version--
	case 2:
		c.Purpose, c.QuorumLoss = lockcore.PurposeCorrectness, lockcore.QuorumLossOpen
	case 3:
		c.Purpose = lockcore.PurposeCorrectness + lockcore.PurposeEfficiency - c.Purpose
	case 4:
		g.corruptClass(&c)
	}
	return lockcore.PutClass{Tenant: p.id, Class: c}
}

func (g *Generator) corruptClass(c *lockcore.Class) {
	switch g.r.IntN(5) {
	case 0:
		c.HeartbeatMS = c.LeaseMS/2 + 1
	case 1:
		c.LeaseMS = 3_600_001
	case 2:
		c.Name = "No-Name"
	case 3:
		c.Retired = true
	case 4:
		c.LockDelayMS = 60_001
	}
}

func (g *Generator) retireClass(p *pool) lockcore.Command {
	name := pick(g, []lockcore.ClassName{"brief", "brief", "capped", "narrow", "delayed", undeclared})
	c := lockcore.RetireClass{Tenant: p.id, Class: name, By: "dana", Version: max(1, p.versions[name])}
	switch g.weighted([]int{10, 1, 1}) {
	case 1:
		c.Version--
	case 2:
		c.Version++
	}
	return c
}

// reportGuard draws a guard's report: mostly the reporter's next, now and then one again, one before, or one after a gap.
func (g *Generator) reportGuard(p *pool) lockcore.Command {
	reporter := uint16(1 + g.r.IntN(reportersMax))
	c := lockcore.ReportGuard{Tenant: p.id, Class: pick(g, classNames), Key: g.key(), Reporter: ReporterNumber(reporter),
		Sequence: p.reported[reporter] + 1, Checks: uint64(g.r.IntN(5)), APIKey: "key1"}
	switch g.weighted([]int{12, 3, 1, 2}) {
	case 1:
		c.Sequence -= min(c.Sequence-1, 1)
	case 2:
		c.Sequence = 1 + g.r.Uint64N(c.Sequence)
	case 3:
		c.Sequence += 1 + g.r.Uint64N(9)
	}
	p.reported[reporter] = max(p.reported[reporter], c.Sequence)
	for range g.r.IntN(3) {
		token := lockcore.Token(g.r.IntN(40))
		c.Rejections = append(c.Rejections, lockcore.Rejection{Token: token, Highest: token + 1 + lockcore.Token(g.r.IntN(3)),
			Count: 1 + g.r.Uint64N(4), AtMS: g.wallMS - int64(g.r.IntN(1000))})
	}
	if g.chance(20) {
		g.corruptReport(&c)
	}
	return c
}

// corruptReport puts one value out of its range, or to its end.
func (g *Generator) corruptReport(c *lockcore.ReportGuard) {
	switch g.r.IntN(8) {
	case 0:
		c.Reporter = lockcore.ReporterID{}
	case 1:
		c.Sequence = 0
	case 2:
		c.Class = undeclared
	case 3:
		c.Key = "line\nbreak"
	case 4:
		c.Checks = lockcore.CountMax + g.r.Uint64N(2)
	case 5:
		c.Rejections = make([]lockcore.Rejection, lockcore.RejectionsMax+1)
	case 6:
		c.Rejections = []lockcore.Rejection{{Token: 5, Highest: 5 + lockcore.Token(g.r.IntN(2)), Count: 1}}
	case 7:
		c.Rejections = []lockcore.Rejection{{Token: 5, Highest: 6, Count: g.r.Uint64N(2) * lockcore.CountMax}}
	}
}

// partition draws a command of no tenant.
func (g *Generator) partition(*pool) lockcore.Command {
	switch g.weighted([]int{6, 4, 1}) {
	case 0:
		return lockcore.LeaseClock{}
	case 1:
		c := g.unsaid
		if g.chance(3) {
			c.Index++
		}
		return c
	}
	return lockcore.RaiseLevel{Level: 1}
}
