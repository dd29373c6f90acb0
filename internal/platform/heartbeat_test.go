package platform_test

import "testing"

// Heartbeats of short leases are confirmed by a majority and write nothing: the log's last index stands still. A change of
// leader would write an entry of its own, so a count across one is taken again.
func TestHeartbeatsOfShortLeases_writeNothingToTheLog(t *testing.T) {
	t.Parallel()
	const beats, tries = 1000, 5
	c := startCluster(t)
	api, _ := c.furnish(t, classMiddle)
	session := newSession()
	api.take(t, session+".1", classMiddle, "k")
	for range tries {
		before := c.leader(t, acmePartition).group(acmePartition)
		for range beats {
			if a := api.heartbeat(t, session, 1); len(a.Held) != 1 || len(a.Lost) != 0 {
				t.Fatalf("heartbeat: held %v, lost %v; want the lease held", a.Held, a.Lost)
			}
		}
		after := c.leader(t, acmePartition).group(acmePartition)
		if after.Term != before.Term {
			continue
		}
		if after.LastIndex != before.LastIndex {
			t.Errorf("%d heartbeats moved the log from index %d to %d", beats, before.LastIndex, after.LastIndex)
		}
		return
	}
	t.Fatalf("the leader changed in each of %d tries", tries)
}
