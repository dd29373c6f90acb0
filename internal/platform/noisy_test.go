package platform_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/tenants"
)

// BenchmarkNoisyTenant measures what a tenant within its quota notices of another one, in the same partition and with the
// default quota, that floods the leader: the 99th percentile of its acquires before the flood and during it, and their
// ratio. One round is 500 acquires before and 500 during the flood, about 20 s: run it with -benchtime=1x. Nodes, flood and
// the quiet tenant share this machine, so an unpaced flood takes processor time that elsewhere would be its sender's own.
func BenchmarkNoisyTenant(b *testing.B) {
	quota := rate.Limit(tenants.QuotasDefault().RequestsPerSecond)
	for _, flood := range []struct {
		name      string
		perSecond rate.Limit
	}{{"floods with 3 times its quota", 3 * quota}, {"floods without a pause", rate.Inf}} {
		b.Run(flood.name, func(b *testing.B) { noisyTenant(b, flood.perSecond) })
	}
}

const (
	quietAcquires = 500                   // of one round, before and during the flood
	quietEvery    = 20 * time.Millisecond // far within the quota
	floodClients  = 64
)

func noisyTenant(b *testing.B, perSecond rate.Limit) {
	c := newCluster(b, nodeCount)
	for _, n := range c.nodes {
		n.profile = raftnode.ProductionProfile() // a busy machine is no reason for an election
		n.start(b, true)
	}
	c.awaitReady(b)
	c.putTenant(b, acme, 1, tenants.Quotas{})
	c.putTenant(b, globex, 1, tenants.Quotas{})
	for _, tenant := range []tenants.TenantID{acme, globex} {
		c.putInForce(b, tenant, classFiles[classMiddle])
	}
	quiet := newClient(b, c, c.createKey(b, acme))
	noisy := &flood{client: newClient(b, c, c.createKey(b, globex)), pace: rate.NewLimiter(perSecond, floodClients)}
	for range b.N {
		leader := c.leader(b, acmePartition)
		acquirePaced(b, quiet, leader, quietAcquires/10) // connections and caches
		alone := p99(acquirePaced(b, quiet, leader, quietAcquires))
		began, stop := time.Now(), noisy.start(b, leader)
		flooded := p99(acquirePaced(b, quiet, leader, quietAcquires))
		stop()
		report(b, noisy, time.Since(began), alone, flooded)
	}
}

// report prints the figures of a round.
func report(b *testing.B, noisy *flood, took, alone, flooded time.Duration) {
	b.Helper()
	millis := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(0, "ns/op") // means nothing here
	b.ReportMetric(millis(alone), "p99-alone-ms")
	b.ReportMetric(millis(flooded), "p99-flooded-ms")
	b.ReportMetric(float64(flooded)/float64(alone), "ratio")
	b.ReportMetric(float64(noisy.answered.Swap(0))/took.Seconds(), "flood-answered/s")
	refused := noisy.refused.Swap(0)
	b.ReportMetric(float64(refused)/took.Seconds(), "flood-refused/s")
	if refused == 0 {
		b.Fatal("the flood never met its quota")
	}
}

// acquirePaced takes and gives back free keys at fixed times, and returns how long each acquire took from when it was due: a
// slow answer does not hide the waiting of those behind it.
func acquirePaced(b *testing.B, c *client, leader *testNode, n int) []time.Duration {
	b.Helper()
	nodes := append([]*testNode{leader}, c.cluster.others(leader)...) // should it lose its leadership, that counts too
	session, began := newSession(), time.Now()
	took := make([]time.Duration, 0, n)
	for i := range n {
		due := began.Add(time.Duration(i) * quietEvery)
		<-time.After(time.Until(due))
		path := "/v1/leases/" + session + "." + strconv.Itoa(i+1)
		if r := c.askAt(b, nodes, http.MethodPut, path, acquire{class: classMiddle, key: session}.body()); !r.granted() {
			b.Fatalf("acquire within the quota is answered %s", r)
		}
		took = append(took, time.Since(due))
		if r := c.askAt(b, nodes, http.MethodDelete, path, ""); r.status != http.StatusOK {
			b.Fatalf("release is answered %s", r)
		}
	}
	return took
}

func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100]
}

// flood is a tenant that minds no answer.
type flood struct {
	client   *client
	pace     *rate.Limiter // of its acquires; each that is granted is given back at once
	answered atomic.Int64  // requests that were carried out
	refused  atomic.Int64  // requests over the quota
}

// start floods a node until stop is called, which returns when all clients have ended. It returns once the flood meets its
// quota.
func (f *flood) start(b *testing.B, n *testNode) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var all errgroup.Group
	for range floodClients {
		all.Go(func() error { f.pour(ctx, n); return nil })
	}
	stop = func() { cancel(); _ = all.Wait() }
	b.Cleanup(stop)
	eventually(b, "the flood meets its quota", func() bool { return f.refused.Load() > 0 })
	return stop
}

// pour takes and gives back keys until ctx ends. Answers are counted, and not minded.
func (f *flood) pour(ctx context.Context, n *testNode) {
	session := newSession()
	for i := 1; f.pace.Wait(ctx) == nil; i++ {
		path := "/v1/leases/" + session + "." + strconv.Itoa(i)
		if r := f.count(ctx, n, http.MethodPut, path, acquire{class: classMiddle, key: session}.body()); r.granted() {
			f.count(ctx, n, http.MethodDelete, path, "")
		}
	}
}

func (f *flood) count(ctx context.Context, n *testNode, method, path, body string) reply {
	r, err := f.client.send(ctx, n, method, path, body)
	switch {
	case err != nil:
		return reply{}
	case r.status == http.StatusTooManyRequests:
		f.refused.Add(1)
	default:
		f.answered.Add(1)
	}
	return r
}
