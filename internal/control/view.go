package control

import (
	"slices"

	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// Revision is the index of the last entry applied.
func (m *Machine) Revision() uint64 { return m.index }

// Cluster is what SetCluster said, if it has been applied.
func (m *Machine) Cluster() (SetCluster, bool) { return m.cluster, m.cluster != SetCluster{} }

// Authenticate accepts an API key as presented at a moment, in milliseconds since the Unix epoch, or returns
// tenants.ErrUnauthorized.
func (m *Machine) Authenticate(presented string, nowMS int64) (tenants.Principal, error) {
	return m.tenants.Authenticate(presented, nowMS)
}

// Tenant is the tenant with that slug, dropped ones included.
func (m *Machine) Tenant(id tenants.TenantID) (tenants.Tenant, bool) { return m.tenants.Tenant(id) }

// Tenants are all tenants by slug, dropped ones included.
func (m *Machine) Tenants() []tenants.Tenant { return m.tenants.Tenants() }

// TenantsFrom are at most limit tenants by slug, dropped ones included, beginning with the first that is not before from.
func (m *Machine) TenantsFrom(from tenants.TenantID, limit int) []tenants.Tenant {
	return m.tenants.TenantsFrom(from, limit)
}

// UseIsNews reports whether a use of the API key at that moment is worth an entry of the log.
func (m *Machine) UseIsNews(key tenants.APIKeyID, atMS int64) bool {
	return m.tenants.UseIsNews(key, atMS)
}

// PlaceTenant chooses the partition for a new tenant. Before SetCluster it is tenants.ErrNoPartition.
func (m *Machine) PlaceTenant() (tenants.PartitionID, error) {
	return tenants.Place(m.tenants.Loads(m.cluster.PartitionCount))
}

// APIKey is the tenant's API key with that id; another tenant's is unknown.
func (m *Machine) APIKey(tenant tenants.TenantID, id tenants.APIKeyID) (tenants.APIKey, bool) {
	return m.tenants.APIKey(tenant, id)
}

// APIKeys are a tenant's API keys in the order in which they were made.
func (m *Machine) APIKeys(tenant tenants.TenantID) []tenants.APIKey { return m.tenants.APIKeys(tenant) }

// Class is one class with its history. The caller must not change what it refers to.
func (m *Machine) Class(tenant tenants.TenantID, name review.ClassName) (review.Class, bool) {
	return m.reviews.Class(review.TenantID(tenant), name)
}

// Classes are a tenant's classes by name, with their histories. The caller must not change what they refer to.
func (m *Machine) Classes(tenant tenants.TenantID) []review.Class {
	return slices.Collect(m.reviews.Classes(review.TenantID(tenant)))
}

// ClassVersions are the versions of one class, first to last; none if there is no such class. The caller must not change
// what they refer to.
func (m *Machine) ClassVersions(tenant tenants.TenantID, name review.ClassName) []review.Version {
	c, _ := m.reviews.Class(review.TenantID(tenant), name)
	return slices.Clone(c.Versions)
}

// TenantDesired is what a partition ought to carry for one tenant.
type TenantDesired struct {
	Tenant     tenants.TenantID
	Quotas     tenants.Quotas
	TokenBase  uint64 // tokens count from above it
	Suspended  bool   // no new leases
	Dropped    bool   // the partition ought to have nothing of it
	TokenFinal bool   // dropped, and the last token issued is recorded: there is nothing left to do
	Again      bool   // the slug has had earlier lives, whose classes are among these, retired
	Classes    []review.Desired
}

// DesiredState is what the partition ought to carry, by tenant, dropped ones included. Classes of a dropped tenant are
// left out.
func (m *Machine) DesiredState(partition tenants.PartitionID) []TenantDesired {
	var all []TenantDesired
	for _, t := range m.tenants.Tenants() {
		if t.Partition != partition {
			continue
		}
		d := TenantDesired{Tenant: t.ID, Quotas: t.Quotas, TokenBase: t.TokenBase, Suspended: t.Suspended,
			Dropped: t.Dropped, TokenFinal: t.TokenFinal, Again: t.EarlierLives > 0}
		if !t.Dropped {
			d.Classes = m.reviews.Desired(review.TenantID(t.ID))
		}
		all = append(all, d)
	}
	return all
}
