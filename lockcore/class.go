package lockcore

// Purpose says what a class is for. It is fixed for the class's name, for ever.
type Purpose uint8

// The purposes.
const (
	PurposeUnknown Purpose = iota
	PurposeCorrectness
	PurposeEfficiency
)

func (p Purpose) String() string {
	return [...]string{"unknown", "correctness", "efficiency"}[min(p, PurposeEfficiency)]
}

// Enforcement says whether the resource checks the token.
type Enforcement uint8

// The enforcements.
const (
	EnforcementUnknown Enforcement = iota
	EnforcementFenced
	EnforcementAdvisory
)

func (e Enforcement) String() string {
	return [...]string{"unknown", "fenced", "advisory"}[min(e, EnforcementAdvisory)]
}

// QuorumLoss says what happens to a class while no majority answers.
type QuorumLoss uint8

// The behaviours.
const (
	QuorumLossUnknown QuorumLoss = iota
	QuorumLossClosed
	QuorumLossOpen
)

func (q QuorumLoss) String() string {
	return [...]string{"unknown", "closed", "open"}[min(q, QuorumLossOpen)]
}

// Class is the posture of a class that grants now, as the partition's log carries it.
type Class struct {
	Name        ClassName   `cbor:"1,keyasint"`
	Version     uint64      `cbor:"2,keyasint"` // from 1; only a higher one replaces it
	Digest      string      `cbor:"3,keyasint"` // of the signed posture statement
	Purpose     Purpose     `cbor:"4,keyasint"`
	Enforcement Enforcement `cbor:"5,keyasint"`
	QuorumLoss  QuorumLoss  `cbor:"6,keyasint"`
	LeaseMS     int64       `cbor:"7,keyasint"`            // 1,000 .. 3,600,000
	HeartbeatMS int64       `cbor:"8,keyasint"`            // 1 .. half the lease
	LockDelayMS int64       `cbor:"9,keyasint,omitempty"`  // 0 .. 60,000
	MaxHoldMS   int64       `cbor:"10,keyasint,omitempty"` // 0: unlimited
	MaxWaitMS   int64       `cbor:"11,keyasint,omitempty"` // 0: unlimited
	MaxWaiters  int         `cbor:"12,keyasint,omitempty"` // 1 .. 100,000; unused when Refuses
	Refuses     bool        `cbor:"13,keyasint,omitempty"` // wait mode refuse: nobody queues
	Retired     bool        `cbor:"14,keyasint,omitempty"` // grants nothing any more; the name and its purpose stay
}

// LongLeaseMS is the length from which a lease keeps what remains of it across a change of leader.
const LongLeaseMS = 30_000

const (
	leaseMSMin    = 1_000
	leaseMSMax    = 3_600_000
	pollMSMax     = 10_000
	pickupSlackMS = 2_000
)

// PollLimitMS is the longest time between two polls of a waiter for a lease of the given length: a quarter of the
// lease, at most 10 s.
func PollLimitMS(leaseMS int64) int64 { return min(leaseMS/4, pollMSMax) }

// PickupMS is the pick-up window of a lease handed to a waiter: its poll limit and 2 s, at most the lease.
func PickupMS(leaseMS int64) int64 { return min(leaseMS, PollLimitMS(leaseMS)+pickupSlackMS) }

// putClass puts a signed version in force.
func (m *Machine) putClass(t *tenant, c Class) Result {
	old, known := t.class(c.Name)
	switch {
	case !c.valid():
		return refuse(RefusedInvalid)
	case t.dropped:
		return refuse(RefusedDropped)
	case c.Purpose == PurposeCorrectness && c.QuorumLoss == QuorumLossOpen:
		return refuse(RefusedPosture)
	case known && old.Purpose != c.Purpose:
		return refuse(RefusedPurpose)
	case known && c.Version <= old.Version:
		return refuse(RefusedStaleVersion)
	case known && old.Retired && t.hasKeys(c.Name):
		return refuse(RefusedBusy)
	}
	t.classes.Set(string(c.Name), &c)
	m.emit(Event{Kind: EventClassInForce, Tenant: t.ID, Class: c.Name, Version: c.Version, Note: c.Digest})
	return Result{Outcome: Done}
}

// retireClass stops a class from granting. Its leases and waiters are ended by commands of their own, in bounded
// batches, which the leader proposes when it sees the event. The row takes the version that was retired, so that a leader
// whose copy of the control log lags cannot put that one in force afterwards.
func (m *Machine) retireClass(t *tenant, c RetireClass) Result {
	old, known := t.class(c.Class)
	switch {
	case c.Version == 0:
		return refuse(RefusedInvalid)
	case !known:
		return refuse(RefusedNotInForce)
	case old.Version > c.Version:
		return refuse(RefusedStaleVersion)
	case old.Retired && old.Version == c.Version:
		return Result{Outcome: Done}
	}
	retired := *old
	retired.Retired, retired.Version = true, c.Version
	t.classes.Set(string(c.Class), &retired)
	m.emit(Event{Kind: EventClassRetired, Tenant: t.ID, Class: c.Class, Version: c.Version, By: c.By})
	return Result{Outcome: Done}
}

// valid checks the ranges of the class file again: the core trusts no proposer with what a posture allows.
func (c Class) valid() bool {
	return ValidName(string(c.Name)) && c.Version > 0 && !c.Retired && len(c.Digest) <= 128 &&
		(c.Purpose == PurposeCorrectness || c.Purpose == PurposeEfficiency) &&
		(c.Enforcement == EnforcementFenced || c.Enforcement == EnforcementAdvisory) &&
		(c.QuorumLoss == QuorumLossClosed || c.QuorumLoss == QuorumLossOpen) &&
		within(c.LeaseMS, leaseMSMin, leaseMSMax) && within(c.HeartbeatMS, 1, c.LeaseMS/2) &&
		within(c.LockDelayMS, 0, 60_000) && within(c.MaxHoldMS, 0, maxDurationMS) &&
		within(c.MaxWaitMS, 0, 86_400_000) &&
		(c.Refuses || within(int64(c.MaxWaiters), 1, 100_000))
}

// maxDurationMS bounds max_hold: ten years, far from any overflow.
const maxDurationMS = 10 * 366 * 86_400_000

func within(v, lo, hi int64) bool { return lo <= v && v <= hi }
