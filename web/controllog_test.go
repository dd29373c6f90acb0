package web_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/tenants"
)

// idsInLog are the ids under which the control log of controlLog has the API keys that the tests' node knows.
var idsInLog = map[string]tenants.APIKeyID{goodKey: "goodkey001", narrowKey: "narrowkey1", unscopedKey: "unscoped01",
	adminKey: "adminkey01", guardKey: "guardkey01", foreignKey: "theirkey01", operatorKey: "operator01"}

// targetKey is an API key of acme that nobody presents, for calls that end or rotate one.
const targetKey tenants.APIKeyID = "targetkey1"

// nameInLog gives an accepted API key the id that it has in the control log, if there is one.
func (p *platform) nameInLog(principal *tenants.Principal, presented string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.control == nil {
		return
	}
	id := idsInLog[presented]
	if k, known := p.control.APIKey(principal.Tenant, id); known {
		principal.KeyID, principal.Lineage, principal.Makers = k.ID, k.Lineage, k.Makers
	}
}

// admit puts a command into a control log in which it must be carried out.
func admit(t testing.TB, m *control.Machine, e control.Entry) control.Result {
	t.Helper()
	b, err := e.Encode()
	if err != nil {
		t.Fatalf("encode %+v: %v", e, err)
	}
	r, _ := m.Apply(m.Revision()+1, b)
	if !r.OK {
		t.Fatalf("%+v: got %+v, want carried out", e, r)
	}
	return r
}

func admitTenants(t testing.TB, m *control.Machine, commands ...tenants.Command) {
	t.Helper()
	for _, c := range commands {
		admit(t, m, control.Entry{Tenants: c})
	}
}

// controlLog is a control log of two partitions with the tenants acme and globex and the tests' API keys.
func controlLog(t testing.TB) *control.Machine {
	t.Helper()
	m, nowMS := control.New(), time.Now().UnixMilli()
	admit(t, m, control.Entry{Cluster: &control.SetCluster{ClusterID: "0b9aa3f2-1111-4222-8333-444455556666", PartitionCount: 2,
		CreatedMS: nowMS}})
	for i, id := range []tenants.TenantID{"acme", "globex"} {
		admitTenants(t, m, tenants.PutTenant{Tenant: id, OwnerGroups: []tenants.Group{"ledger-owners"}, Quotas: tenants.QuotasDefault(),
			Partition: tenants.PartitionID(i + 1), By: tenants.ByPlatform(), AtMS: nowMS})
	}
	for presented, id := range idsInLog {
		principal, err := (&platform{}).Authenticate(presented)
		if err != nil {
			t.Fatal(err)
		}
		admitTenants(t, m, tenants.CreateAPIKey{Tenant: principal.Tenant, Key: id, Hash: sha256.Sum256([]byte(presented)),
			Name: "ledger service", Scopes: principal.Scopes, ExpiresMS: nowMS + 86_400_000, By: tenants.ByPlatform(), AtMS: nowMS})
	}
	admitTenants(t, m, tenants.CreateAPIKey{Tenant: "acme", Key: targetKey, Hash: sha256.Sum256([]byte(targetKey)), Name: "night job",
		Scopes: tenants.Scopes{{Verb: tenants.VerbLocks, Classes: "ledger-*"}}, ExpiresMS: nowMS + 86_400_000, By: tenants.ByPlatform(),
		AtMS: nowMS})
	return m
}

// inLog runs a node that leads the control group, with such a log.
func inLog(t *testing.T, l *locks) (*node, *platform) {
	t.Helper()
	p := &platform{locks: l, leader: &self, control: controlLog(t)}
	return start(t, p, options{}), p
}

// relog gives the node another control log.
func (p *platform) relog(m *control.Machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.control = m
}
