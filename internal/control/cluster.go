package control

import (
	"regexp"

	"github.com/stanchion-locks/stanchion/tenants"
)

// ClusterID names one life of a cluster: a random UUID in lower-case text form.
type ClusterID string

var clusterIDPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// SetCluster is the first command of a control log: which cluster it is of, and how many partitions there are to place
// tenants on. It is given once; the same again changes nothing, another is refused with RefusedClusterSet.
type SetCluster struct {
	ClusterID      ClusterID           `cbor:"1,keyasint"`
	PartitionCount tenants.PartitionID `cbor:"2,keyasint"` // 1 .. tenants.PartitionMax; they are numbered from 1
	CreatedMS      int64               `cbor:"3,keyasint"` // milliseconds since the Unix epoch
}

func (c SetCluster) wrongField() string {
	switch {
	case !clusterIDPattern.MatchString(string(c.ClusterID)):
		return "cluster_id"
	case c.PartitionCount < 1 || c.PartitionCount > tenants.PartitionMax:
		return "partitions"
	case c.CreatedMS <= 0:
		return "created"
	}
	return ""
}

func (m *Machine) setCluster(c SetCluster) (Result, []Event) {
	switch field := c.wrongField(); {
	case field != "":
		return m.refuse(c, RefusedInvalid, field)
	case m.cluster == c:
		return Result{OK: true, Unchanged: true}, nil
	case m.cluster != SetCluster{}:
		return m.refuse(c, RefusedClusterSet, "")
	}
	m.cluster = c
	return Result{OK: true}, []Event{{Kind: "cluster_set", Note: string(c.ClusterID), AtMS: c.CreatedMS}}
}

func (m *Machine) refuse(c SetCluster, reason, field string) (Result, []Event) {
	return Result{Reason: reason, Field: field},
		[]Event{{Kind: EventRefused, Command: "set_cluster", Reason: reason, Field: field, AtMS: c.CreatedMS}}
}
