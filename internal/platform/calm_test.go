package platform_test

import (
	"fmt"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

// TestCalmCluster runs the rules that need no fault of a node beside each other on one cluster, each with a tenant of its
// own.
func TestCalmCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for i, rule := range []struct {
		name string
		test func(*testing.T, *calm)
	}{
		{"lost answers make one entry for each id", lostAnswersMakeOneEntryEach},
		{"tries on a held key leave nothing behind", triesLeaveNothingBehind},
		{"a wait cancelled at its grant never becomes a hold that nobody knows of", cancelledWaitIsNoHold},
		{"a session that asks twice for a key is told so at once", sessionHoldsAKeyOnce},
		{"a waiter whose client is gone leaves and is never granted", droppedClientLeavesTheQueue},
		{"keys are kept byte for byte", keysAreKeptByteForByte},
		{"failing acquires leave no session and no waiter", failingAcquiresLeaveNothing},
		{"only the right release succeeds", onlyTheRightReleaseSucceeds},
		{"ids of another tenant answer as unknown ones", foreignIDsAnswerAsUnknown},
		{"ids of another API key answer as unknown ones", otherKeysIDsAnswerAsUnknown},
		{"a new version comes into force and leaves older grants as they are", newVersionLeavesOlderGrants},
		{"a retired class ends waiters and revokes holders", retiredClassEndsWaitersAndHolders},
		{"a suspended tenant keeps what it holds", suspendedTenantKeepsWhatItHolds},
		{"a dropped tenant leaves its final token", droppedTenantLeavesItsFinalToken},
		{"a dropped tenant made again goes on above its tokens", tenantMadeAgainGoesOnAboveItsTokens},
		{"a use of an API key is known on every node", keyUseIsKnownEverywhere},
		{"a lock delay follows an expiry and no release", lockDelayFollowsAnExpiry},
		{"the audit tells who ended a hold, and why", auditTellsAForcedHold},
		{"durations out of range are refused by field", durationsOutOfRangeAreRefused},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			rule.test(t, &calm{cluster: c, tenant: tenants.TenantID(fmt.Sprintf("tenant-%d", i)), partition: 1 + i%partitions})
		})
	}
}

// calm is a rule's share of the calm cluster: a tenant that nobody else touches.
type calm struct {
	*cluster
	tenant    tenants.TenantID
	partition int
}

// client makes the tenant with its classes, and a client.
func (c *calm) client(t testing.TB, classes ...string) *client {
	t.Helper()
	return c.clientWithin(t, tenants.Quotas{}, classes...)
}

func (c *calm) clientWithin(t testing.TB, quotas tenants.Quotas, classes ...string) *client {
	t.Helper()
	c.putTenant(t, c.tenant, tenants.PartitionID(c.partition), quotas)
	for _, name := range classes {
		c.putInForce(t, c.tenant, classFiles[name])
	}
	return newClient(t, c.cluster, c.createKey(t, c.tenant))
}

// leads is the node that leads the tenant's partition.
func (c *calm) leads(t testing.TB) *testNode {
	t.Helper()
	return c.leader(t, fmt.Sprintf("partition-%d", c.partition))
}

// state is what the partition's leader keeps of the tenant.
func (c *calm) state(t testing.TB) lockcore.TenantState {
	t.Helper()
	var state lockcore.TenantState
	c.leads(t).platform.ViewPartition(c.partition, func(m *lockcore.Machine) {
		state, _ = m.Tenant(lockcore.TenantID(c.tenant))
	})
	return state
}
