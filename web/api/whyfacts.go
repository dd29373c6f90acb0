package api

import (
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// FactsQuery names one lock of a tenant.
type FactsQuery struct {
	Tenant     lockcore.TenantID
	Class      lockcore.ClassName
	Key        lockcore.Key
	WaitersMax int // at most so many waiters
}

// Facts is what a node knows of one lock, of its class and tenant in the partition, and of the partition.
type Facts struct {
	At    time.Time // wall clock
	Stale bool      // no majority has confirmed the node as the partition's leader since the facts were asked for
	Index uint64    // log index applied
	Epoch lockcore.Epoch

	Tenant  lockcore.TenantState // zero: unknown to the partition
	Class   *lockcore.Class      // nil: unknown to the partition; never to be changed
	Guard   lockcore.Guard       // zero: no guard has reported
	Lock    lockcore.Lock        // without a holder, a delay and waiters: free
	Waiting []*lockcore.Lease    // the first of its waiters, in line; never to be changed
	// SinceContact is how long ago the holder was heard of; negative: only the leader knows.
	SinceContact time.Duration

	Node   string // who knows all this
	Leader string // of the partition, as far as the node knows; empty: none
	Ready  bool   // the node leads and answers
	Voters []wire.VoterSeen
}

// classFacts is what the control log knows of a class.
type classFacts struct {
	declared bool
	signed   uint64 // version signed last; 0: none
	retired  bool
	inReview []wire.InReview
	last     review.Version // declared last
}

// classFacts reads this node's copy of the control log.
func (a *API) classFacts(tenant tenants.TenantID, name string) classFacts {
	var f classFacts
	a.platform.ViewControl(func(m *control.Machine) {
		class, known := m.Class(tenant, review.ClassName(name))
		if !known || len(class.Versions) == 0 {
			return
		}
		f = classFacts{declared: true, signed: class.Current, retired: class.Retired, last: class.Versions[len(class.Versions)-1]}
		for _, v := range class.InReview() {
			open := wire.InReview{Version: v.Number, Missing: []string{}, Stale: class.Stale(v)}
			for _, g := range v.Missing() {
				open.Missing = append(open.Missing, string(g))
			}
			f.inReview = append(f.inReview, open)
		}
	})
	return f
}

// state is where the class stands: what grants is the partition's to say.
func (f classFacts) state(inPartition *lockcore.Class) wire.ClassState {
	switch {
	case inPartition != nil && !inPartition.Retired:
		return wire.ClassInForce
	case f.signed != 0 && f.retired, inPartition != nil && inPartition.Version >= f.signed:
		return wire.ClassRetired
	case f.signed != 0:
		return wire.ClassSigned
	case f.declared:
		return wire.ClassNeverSigned
	}
	return wire.ClassUnknown
}
