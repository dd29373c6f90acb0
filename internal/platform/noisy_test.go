package platform_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/tenants"
)

// BenchmarkNoisyTenant measures what a tenant within its quota notices of another one, in the same partition and with the
// default quota, that floods the leader as fast as its connections allow: percentiles of its acquires before the flood and
// during it, and the ratio of the 99th. One round is 500 acquires before and 500 during the flood, about 20 s: run it with
// -benchtime=1x. Nodes, flood and the quiet tenant share one machine, so the flood takes processor time that elsewhere would
// be its sender's own.
func BenchmarkNoisyTenant(b *testing.B) {
	for _, connections := range []int{64, 256} {
		b.Run(fmt.Sprintf("floods over %d connections", connections), func(b *testing.B) { noisyTenant(b, connections) })
	}
}

const (
	quietAcquires = 500                   // of one round, before and during the flood
	quietEvery    = 20 * time.Millisecond // far within the quota
)

func noisyTenant(b *testing.B, connections int) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the binary does
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
	noisy := &flood{client: newClient(b, c, c.createKey(b, globex)), connections: connections}
	for range b.N {
		leader := c.leader(b, acmePartition)
		acquirePaced(b, quiet, leader, quietAcquires/10) // connections and caches
		alone := sorted(acquirePaced(b, quiet, leader, quietAcquires))
		began, stop := time.Now(), noisy.start(b, leader)
		acquirePaced(b, quiet, leader, quietAcquires/10) // until the flood has used up what it had saved
		flooded := sorted(acquirePaced(b, quiet, leader, quietAcquires))
		stop()
		report(b, noisy, time.Since(began), alone, flooded)
	}
}

// report prints the figures of a round.
func report(b *testing.B, noisy *flood, took time.Duration, alone, flooded []time.Duration) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // means nothing here
	b.ReportMetric(millis(alone, 50), "p50-alone-ms")
	b.ReportMetric(millis(flooded, 50), "p50-flooded-ms")
	b.ReportMetric(millis(alone, 99), "p99-alone-ms")
	b.ReportMetric(millis(flooded, 99), "p99-flooded-ms")
	b.ReportMetric(millis(flooded, 99)/millis(alone, 99), "p99-ratio")
	b.ReportMetric(float64(noisy.answered.Swap(0))/took.Seconds(), "flood-answered/s")
	b.ReportMetric(float64(noisy.refused.Swap(0))/took.Seconds(), "flood-refused/s") // 0: this machine is slower than the quota
}

// acquirePaced takes and gives back free keys at fixed times, whether or not those before have been answered, and returns how
// long each acquire took.
func acquirePaced(b *testing.B, c *client, leader *testNode, n int) []time.Duration {
	b.Helper()
	took := make([]time.Duration, n)
	nodes := append([]*testNode{leader}, c.cluster.others(leader)...) // should it lose its leadership, that counts too
	session, began := newSession(), time.Now()
	var all errgroup.Group
	for i := range n {
		<-time.After(time.Until(began.Add(time.Duration(i) * quietEvery)))
		all.Go(func() (err error) {
			took[i], err = c.acquireTimed(b.Context(), nodes, session, i+1)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}

// acquireTimed takes a free key and gives it back.
func (c *client) acquireTimed(ctx context.Context, nodes []*testNode, session string, n int) (took time.Duration, err error) {
	path, began := fmt.Sprintf("/v1/leases/%s.%d", session, n), time.Now()
	r, err := c.decided(ctx, nodes, http.MethodPut, path, acquire{class: classMiddle, key: path}.body())
	took = time.Since(began)
	if err != nil || !r.granted() {
		return took, fmt.Errorf("acquire within the quota is answered %s, %w", r, err)
	}
	if r, err = c.decided(ctx, nodes, http.MethodDelete, path, ""); err != nil || r.status != http.StatusOK {
		return took, fmt.Errorf("release is answered %s, %w", r, err)
	}
	return took, nil
}

// decided asks one node after the other until one decides. The error is the last one, when none did for long.
func (c *client) decided(ctx context.Context, nodes []*testNode, method, path, body string) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := 0; ctx.Err() == nil; i++ {
		r, err = c.send(ctx, nodes[i%len(nodes)], method, path, body)
		if err == nil && !r.tellsNothing() {
			return r, nil
		}
	}
	return r, errors.Join(ctx.Err(), err)
}

func sorted(took []time.Duration) []time.Duration {
	slices.Sort(took)
	return took
}

// millis is a percentile of sorted times, in milliseconds.
func millis(sorted []time.Duration, percentile int) float64 {
	return float64(sorted[len(sorted)*percentile/100]) / float64(time.Millisecond)
}

// flood is a tenant that minds no answer.
type flood struct {
	client      *client
	connections int
	answered    atomic.Int64 // requests that were carried out
	refused     atomic.Int64 // requests over the quota
}

// start floods a node until stop is called, which returns when all clients have ended.
func (f *flood) start(b *testing.B, n *testNode) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var all errgroup.Group
	for range f.connections {
		all.Go(func() error { f.pour(ctx, n); return nil })
	}
	stop = func() { cancel(); _ = all.Wait() }
	b.Cleanup(stop)
	return stop
}

// pour takes keys, and gives back what it was granted, until ctx ends. Refusals do not make it wait.
func (f *flood) pour(ctx context.Context, n *testNode) {
	session := newSession()
	for i := 1; ctx.Err() == nil; i++ {
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
