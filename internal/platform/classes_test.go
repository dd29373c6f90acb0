package platform_test

import (
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

func TestInForceOnNodes_saysWhoHasAppliedAVersionAndWhoDoesNotAnswer(t *testing.T) {
	c := startCluster(t)
	c.putTenant(t, acme, 1, tenants.Quotas{})
	version := c.putInForce(t, acme, classFiles[classMiddle])
	asked := c.nodes[0]
	for _, n := range asked.platform.InForceOnNodes(t.Context(), acme, classMiddle) {
		if !n.Answered || n.Version != version {
			t.Errorf("%+v; want an answer with version %d", n, version)
		}
	}
	for _, class := range []lockcore.ClassName{"unknown", classLong} {
		for _, n := range asked.platform.InForceOnNodes(t.Context(), acme, class) {
			if !n.Answered || n.Version != 0 {
				t.Errorf("class %s: %+v; want an answer with none", class, n)
			}
		}
	}
	gone := c.nodes[2]
	gone.stop(t)
	got := asked.platform.InForceOnNodes(t.Context(), acme, classMiddle)
	if len(got) != len(c.nodes) {
		t.Fatalf("%d nodes are told; want all %d: %+v", len(got), len(c.nodes), got)
	}
	for i, n := range got {
		stopped := n.Node == string(gone.id)
		if n.Answered == stopped || !stopped && n.Version != version {
			t.Errorf("%+v; want an answer with version %d, except of %s", n, version, gone.id)
		}
		if i > 0 && got[i-1].Node >= n.Node {
			t.Errorf("%s is told before %s", got[i-1].Node, n.Node)
		}
	}
}
