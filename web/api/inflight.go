package api

import (
	"sync"
	"sync/atomic"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// Lane keeps requests that may hang apart from those that must get through.
type Lane uint8

// The lanes.
const (
	LaneOther   Lane = iota // reads, declares, reports, administers: nothing that holders wait for
	LaneKeep                // keeps, gives back, ends holds
	LaneAcquire             // may hang in a queue
	laneCount
)

// inFlight counts each tenant's requests under way. A tenant that has been seen keeps its counters; only authenticated
// callers get here, so they are as many as there are tenants.
type inFlight struct {
	max     int64
	tenants sync.Map // of lockcore.TenantID to *[laneCount]atomic.Int64
}

// enter counts a request in and returns the counter to take 1 off when it is answered, or nil if the tenant has too many under way.
func (f *inFlight) enter(tenant lockcore.TenantID, lane Lane) *atomic.Int64 {
	lanes, ok := f.tenants.Load(tenant)
	if !ok {
		lanes, _ = f.tenants.LoadOrStore(tenant, new([laneCount]atomic.Int64))
	}
	n := &lanes.(*[laneCount]atomic.Int64)[lane]
	if n.Add(1) > f.max {
		n.Add(-1)
		return nil
	}
	return n
}
