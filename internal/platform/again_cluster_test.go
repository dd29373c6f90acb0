package platform_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/tenants"
)

func tenantMadeAgainGoesOnAboveItsTokens(t *testing.T, c *calm) {
	before := c.client(t, classShort)
	last := before.take(t, newID(), classShort, "k").lease.Token
	c.control(t, control.Entry{Tenants: tenants.DropTenant{Tenant: c.tenant, Note: "test", By: tenants.ByPlatform(), AtMS: time.Now().UnixMilli()}})
	eventually(t, "the final token is recorded", func() bool { return c.nodes[0].finalToken(c.tenant) != 0 })

	c.partition = 3 - c.partition // the other of two
	c.putTenant(t, c.tenant, tenants.PartitionID(c.partition), tenants.Quotas{})
	after := newClient(t, c.cluster, c.createKey(t, c.tenant))
	eventually(t, "the other partition carries the tenant", func() bool { return c.state(t).ID != "" })
	if r := after.acquire(t, newID(), acquire{class: classShort, key: "k"}); r.code() != wire.CodeClassNotInForce {
		t.Errorf("under a class of the earlier life an acquire is answered %s; want class_not_in_force", r)
	}
	c.putInForce(t, c.tenant, classFiles[classShort])
	if got := after.take(t, newID(), classShort, "k").lease.Token; got <= last {
		t.Errorf("after token %d the tenant made again is granted %d", last, got)
	}
}

func keyUseIsKnownEverywhere(t *testing.T, c *calm) {
	api := c.client(t, classShort)
	api.take(t, newID(), classShort, "k")
	eventually(t, "every node knows that the API key was used", func() bool {
		for _, n := range c.nodes {
			if err := n.platform.TellKeyUses(t.Context()); err != nil {
				return false
			}
		}
		return !slices.ContainsFunc(c.nodes, func(n *testNode) bool {
			var used int64
			n.platform.ViewControl(func(m *control.Machine) {
				for _, k := range m.APIKeys(c.tenant) {
					used = max(used, k.LastUsedMS)
				}
			})
			return used == 0
		})
	})
	applied, behind := c.nodes[0].platform.AwaitApplied(t.Context())
	if len(applied) != len(c.nodes) || len(behind) != 0 {
		t.Errorf("applied on %v, not on %v; want all nodes", applied, behind)
	}
}
