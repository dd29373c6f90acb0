package control

import (
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// Reasons of this package's own; the others are those of the packages tenants and review, as they spell them.
const (
	RefusedInvalid       = "invalid"
	RefusedClusterSet    = "cluster_set"         // the log is of another cluster
	RefusedNoCluster     = "no_cluster"          // SetCluster comes first
	RefusedNoPartition   = "no_such_partition"   // above the cluster's number of partitions
	RefusedUnknownTenant = "unknown_tenant"      // no such tenant
	RefusedTenantDropped = "tenant_dropped"      // the tenant is dropped
	RefusedOwnerGroup    = "unknown_owner_group" // the class's owner is none of the tenant's owner groups
	RefusedOwnerStays    = "owner_group_stays"   // the group to be replaced is an owner group of the tenant still
	RefusedForbidden     = "forbidden"           // the API key that declares does not work, or has no such scope
	RefusedAuthor        = "wrong_author"        // the author named is not whoever answers for the API key
)

// Result is what an entry led to, equal on every replica. Its encoding goes into the rolling hash.
type Result struct {
	OK        bool                `cbor:"1,keyasint"`           // carried out, now or before
	Unchanged bool                `cbor:"2,keyasint,omitempty"` // carried out before
	Reason    string              `cbor:"3,keyasint,omitempty"` // why not; one of a closed set
	Field     string              `cbor:"4,keyasint,omitempty"` // with RefusedInvalid, where known: the field, as the API spells it
	Version   uint64              `cbor:"5,keyasint,omitempty"` // of the class concerned, such as the one declared; zero: none
	State     review.VersionState `cbor:"6,keyasint,omitempty"` // of that version
	Missing   []review.Group      `cbor:"7,keyasint,omitempty"` // whose signature that version still needs
}

// EventRefused is the kind of the event of a refused entry.
const EventRefused = "refused"

// Event is one thing that became true, or that was refused, for the audit. Fields that do not apply are zero. It carries
// no secret and no hash of one.
type Event struct {
	Kind      string // one of a closed set: cluster_set, tenant_…, api_key_…, final_token_recorded, posture_…, refused
	Tenant    tenants.TenantID
	APIKey    tenants.APIKeyID // concerned
	KeyName   string           // of APIKey
	Successor tenants.APIKeyID // of APIKey, when it was rotated
	Token     uint64           // final
	Class     review.ClassName
	Version   uint64
	Digest    review.Digest
	Command   string        // of EventRefused
	Reason    string        // of EventRefused
	Field     string        // of EventRefused
	Actor     tenants.Actor // who, where the command names them so
	By        string        // who, as shown to people
	Note      string        // the reason that was given
	AtMS      int64         // the proposer's wall time, milliseconds since the Unix epoch, for people
}
