package tenants

import (
	"cmp"
	"errors"
	"slices"
)

// PartitionLoad is what the tenants of a partition may ask of it.
type PartitionLoad struct {
	Partition         PartitionID
	Tenants           int // those not dropped
	RequestsPerSecond int // the sum of their quotas
}

// ErrNoPartition is returned by Place when there is nothing to choose from.
var ErrNoPartition = errors.New("no partition")

// Place chooses the partition for a new tenant: the one with the fewest requests per second promised; among equals, with
// the fewest tenants; among equals, with the lowest number. The tenant's name plays no part, so that nobody can steer
// it. The order of loads does not matter.
func Place(loads []PartitionLoad) (PartitionID, error) {
	if len(loads) == 0 {
		return 0, ErrNoPartition
	}
	least := slices.MinFunc(loads, func(a, b PartitionLoad) int {
		return cmp.Or(cmp.Compare(a.RequestsPerSecond, b.RequestsPerSecond), cmp.Compare(a.Tenants, b.Tenants),
			cmp.Compare(a.Partition, b.Partition))
	})
	return least.Partition, nil
}

// Loads is the load of each partition from 1 to count, in order.
func (s *State) Loads(count PartitionID) []PartitionLoad {
	loads := make([]PartitionLoad, count)
	for i := range loads {
		loads[i].Partition = PartitionID(i + 1)
	}
	s.tenants.Scan(func(_ TenantID, t *Tenant) bool {
		if !t.Dropped && t.Partition <= count {
			loads[t.Partition-1].Tenants++
			loads[t.Partition-1].RequestsPerSecond += t.Quotas.RequestsPerSecond
		}
		return true
	})
	return loads
}
