package clienttest

import (
	"fmt"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// ClassConfig is how a class grants. The zero value is a lease of 10 s with queues that take in 100 for as long as they
// like.
type ClassConfig struct {
	Lease      time.Duration // length of a lease; 0: 10 s
	Heartbeat  time.Duration // how often a holder is to be heard of, at most half the lease; 0: half the lease
	MaxWait    time.Duration // the longest that a request may queue, and what it gets if it names no time; 0: without end
	NoQueue    bool          // requests that would wait are refused
	MaxWaiters int           // how many may queue for one key; 0: 100
	Claim      wire.Claim    // what grants say that they guarantee; zero: that they are ordered
}

const (
	leaseDefault      = 10 * time.Second
	maxWaitersDefault = 100
	pollMax           = 10 * time.Second // the longest that a request hangs
	pickupSlack       = 2 * time.Second
	marginMax         = 200 * time.Millisecond
)

var orderedGrants = wire.Claim{ID: "ordered-grants-efficiency", Text: "grants are ordered; nothing more is claimed."}

// class is a version of a class in force.
type class struct {
	ClassConfig
	version uint64
}

func (c ClassConfig) withDefaults() ClassConfig {
	if c.Lease == 0 {
		c.Lease = leaseDefault
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = c.Lease / 2
	}
	if c.MaxWaiters == 0 {
		c.MaxWaiters = maxWaitersDefault
	}
	if c.Claim == (wire.Claim{}) {
		c.Claim = orderedGrants
	}
	return c
}

func (c ClassConfig) validate() error {
	switch {
	case c.Lease < 0 || c.Heartbeat < 0 || c.MaxWait < 0 || c.MaxWaiters < 0:
		return fmt.Errorf("nothing in a class is negative: %+v", c)
	case c.Heartbeat > c.Lease/2:
		return fmt.Errorf("a heartbeat every %v is over half the lease of %v", c.Heartbeat, c.Lease)
	}
	return nil
}

// pollLimit is the longest that a request may hang, and the longest between two polls.
func (c class) pollLimit() time.Duration { return min(c.Lease/4, pollMax) }

// pickup is how long a lease that was handed to a waiter runs until it is taken up.
func (c class) pickup() time.Duration { return min(c.Lease, c.pollLimit()+pickupSlack) }

// useWithin is what a holder may add to the moment at which it sent its request, of what remains at its receipt.
func (c class) useWithin(remaining time.Duration) time.Duration {
	return max(0, remaining-remaining/100-min(marginMax, c.Lease/10))
}

// waitOf is how long a request queues; negative is without end. False: longer than the class allows.
func (c class) waitOf(asked *wire.Duration) (time.Duration, bool) {
	switch {
	case asked == nil && c.NoQueue:
		return 0, true
	case asked == nil && c.MaxWait == 0:
		return wire.Unlimited.Std(), true
	case asked == nil:
		return c.MaxWait, true
	case *asked == 0:
		return 0, true
	case c.NoQueue, c.MaxWait > 0 && (*asked < 0 || asked.Std() > c.MaxWait):
		return 0, false
	}
	return asked.Std(), true
}

// Class declares a class, or a new version of it. Leases keep the version that they were granted under. Until it is
// declared, a class is not in force and grants nothing. A name or a configuration that no platform takes fails the test.
func (p *Platform) Class(name string, config ClassConfig) {
	config = config.withDefaults()
	err := config.validate()
	if err == nil && !validName(name) {
		err = fmt.Errorf("%q is no name of a class: 1 to 63 lower-case letters, digits and hyphens", name)
	}
	if err != nil {
		p.t.Errorf("clienttest: class %s: %v", name, err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.classes[name] = class{config, p.classes[name].version + 1}
}
