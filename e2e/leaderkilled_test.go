package e2e_test

import (
	"syscall"
	"testing"
	"time"
)

const leaseTime = 10 * time.Second

// contended are the keys that others wait for, and how many.
var contended = []struct {
	key     string
	waiters int
}{{keyName(0), 12}, {keyName(1), 5}, {keyName(2), 3}}

// uncontended are some keys that nobody waits for.
var uncontended = []string{keyName(10), keyName(20), keyName(30), keyName(40)}

// workFleet starts a cluster with the production profile, 50 workers that hold a key each, and 20 that wait.
func workFleet(t *testing.T) (*cluster, *fleet) {
	t.Helper()
	c := newCluster(t)
	c.start("--processes", "--profile", "production", "--restart-after", "0",
		"--classes", writeClasses(t, classFile("work", "lease: 10s", "heartbeat: 2s", "wait:", "  max_wait: 30m")))
	f := newFleet(t, c, "work")
	f.addHolders(50)
	for _, k := range contended {
		f.addWaiters(k.key, k.waiters)
	}
	return c, f
}

// TestLeaderKilledTenTimes: nobody loses anything. Judged by what the clients were told, from when each answer arrived to
// the deadline that it gave: no holder that is alive loses its lease, no two of a key overlap, no token comes twice,
// waiters are served in order, for three leases' time after the last kill too; and the nodes agree, the killed ones
// included.
func TestLeaderKilledTenTimes(t *testing.T) {
	c, f := workFleet(t)
	for kill := range 10 {
		killLeader(c, f, contended[kill%len(contended)].key)
	}
	if got := f.traffic.straddled.Load(); got < 10 {
		t.Errorf("heartbeats in flight when a leader was killed: got %d in ten kills, want at least 10", got)
	}
	serveLines(f, 3*leaseTime)
	f.finish()
	c.wantSameState()
	c.stop(syscall.SIGTERM)
}

// killLeader kills the leader while heartbeats are in flight, and some releases and acquires; waits until another one has
// answered every holder; has more committed; and starts the dead node again.
func killLeader(c *cluster, f *fleet, key string) {
	c.t.Helper()
	leader := c.leader()
	before := c.index(leader)
	f.heartbeatsInFlight(10)
	taken := f.takeAnew(uncontended...)
	killed := f.traffic.kill(c.pid(leader))
	f.awaitRenewed(f.holders(), killed)
	renewed := time.Since(killed)
	taken()
	f.giveBack(key)()
	c.wantGrown(leader, before)
	down := time.Since(killed)
	c.startAgain(leader)
	c.awaitReady(leader, before+1)
	c.t.Logf("%s killed at index %d: first answer after %v, every holder renewed after %v, started again after %v, ready after %v", leader,
		before, f.traffic.outage().Round(time.Millisecond), renewed.Round(time.Millisecond), down.Round(time.Millisecond),
		time.Since(killed).Round(time.Millisecond))
}

// wantGrown checks that the nodes besides one, which is down, have committed more than there was.
func (c *cluster) wantGrown(down string, before uint64) {
	c.t.Helper()
	for _, node := range c.others(down) {
		if got := c.index(node); got <= before {
			c.t.Fatalf("%s is at index %d while %s is down; want more than %d", node, got, down, before)
		}
	}
}

// serveLines has the contended keys change hands for a while; one of their holders dies without a word.
func serveLines(f *fleet, long time.Duration) {
	f.t.Helper()
	end := time.Now().Add(long)
	f.abandon(contended[2].key)
	for time.Now().Before(end) {
		for _, k := range contended[:2] {
			f.giveBack(k.key)()
		}
		f.awaitRenewed(f.holders(), time.Now())
	}
}
