package platform

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	againNowMS = int64(1_800_000_000_000)
	againSlug  = "acme"
	againClass = "jobs"
)

// lives is a control log and two partitions, without a network: each step is done by some node, whose copies of the logs
// lag as far as the test draws.
type lives struct {
	t          *rapid.T
	control    [][]byte
	partitions [2]*life
	sequence   uint64 // of the last lease id
	highest    lockcore.Token
	granted    map[uint32]int // grants by how many lives came before
}

// life is one partition's log and what it has led to.
type life struct {
	log     [][]byte
	machine *lockcore.Machine
	held    []lockcore.LeaseID
}

func newLives(t *rapid.T) *lives {
	w := &lives{t: t, granted: map[uint32]int{}}
	w.propose(control.Entry{Cluster: &control.SetCluster{ClusterID: "0b9aa3f2-1111-4222-8333-444455556666", PartitionCount: 2,
		CreatedMS: againNowMS}})
	for i := range w.partitions {
		w.partitions[i] = &life{machine: lockcore.New()}
		w.partitions[i].apply(t, 0, lockcore.AdvanceEpoch{})
	}
	return w
}

// propose puts an entry into the control log. One that is refused stands there as well, as it would.
func (w *lives) propose(e control.Entry) {
	b, err := e.Encode()
	if err != nil {
		w.t.Fatalf("encode %+v: %v", e, err)
	}
	w.control = append(w.control, b)
}

// copyOfControl is a node's copy of the control log's machine, behind by as much as is drawn.
func (w *lives) copyOfControl() *control.Machine {
	m := control.New()
	for i, b := range w.control[:len(w.control)-w.lag(len(w.control)-1)] {
		m.Apply(uint64(i+1), b)
	}
	return m
}

func (w *lives) lag(most int) int {
	if rapid.IntRange(0, 2).Draw(w.t, "lags") > 0 {
		return 0
	}
	return rapid.IntRange(0, most).Draw(w.t, "lag")
}

// copyOfPartition is a replica of a partition, behind by as much as is drawn.
func (w *lives) copyOfPartition(p *life) *lockcore.Machine {
	m := lockcore.New()
	for i, b := range p.log[:len(p.log)-w.lag(len(p.log)-1)] {
		m.Apply(uint64(i+1), b)
	}
	return m
}

func (p *life) apply(t *rapid.T, epoch lockcore.Epoch, commands ...lockcore.Command) []lockcore.Result {
	b, err := lockcore.Entry{Epoch: epoch, Commands: commands}.Encode()
	if err != nil {
		t.Fatalf("encode %+v: %v", commands, err)
	}
	p.log = append(p.log, b)
	results, _ := p.machine.Apply(uint64(len(p.log)), b)
	return results
}

func (w *lives) partition() (int, *life) {
	i := rapid.IntRange(0, 1).Draw(w.t, "partition")
	return i + 1, w.partitions[i]
}

func (w *lives) put() {
	number, _ := w.partition()
	w.propose(control.Entry{Tenants: tenants.PutTenant{Tenant: againSlug, OwnerGroups: []tenants.Group{"owners"}, Create: true,
		Quotas: tenants.QuotasDefault(), Partition: tenants.PartitionID(number), By: tenants.ByPlatform(), AtMS: againNowMS}})
}

func (w *lives) drop() {
	w.propose(control.Entry{Tenants: tenants.DropTenant{Tenant: againSlug, Note: "closed", By: tenants.ByPlatform(), AtMS: againNowMS}})
}

// reconcile is what a partition's leader does: from its own copy of the control log, to the partition as it is, since a
// leader has applied all of its log.
func (w *lives) reconcile() {
	number, p := w.partition()
	m := w.copyOfControl()
	for _, d := range m.DesiredState(tenants.PartitionID(number)) {
		for _, c := range missingOf(p.machine, d, m.Revision()) {
			p.apply(w.t, 1, c)
		}
	}
}

// record is what the control group's leader does, from its own copies of both.
func (w *lives) record() {
	number, p := w.partition()
	m, replica := w.copyOfControl(), w.copyOfPartition(p)
	for _, d := range m.DesiredState(tenants.PartitionID(number)) {
		for _, c := range finalTokensOf(replica, d, againNowMS) {
			w.propose(control.Entry{Tenants: c})
		}
	}
}

// grant takes a lease in a partition that carries the tenant, and holds its token against all before.
func (w *lives) grant() {
	_, p := w.partition()
	if s, known := p.machine.Tenant(againSlug); !known || s.Dropped {
		return
	}
	if _, known := p.machine.Class(againSlug, againClass); !known {
		p.apply(w.t, 1, lockcore.PutClass{Tenant: againSlug, Class: lockcore.Class{Name: againClass, Version: 1,
			Purpose: lockcore.PurposeEfficiency, Enforcement: lockcore.EnforcementAdvisory, QuorumLoss: lockcore.QuorumLossClosed,
			LeaseMS: 10_000, HeartbeatMS: 5_000, MaxWaiters: 10}})
	}
	w.sequence++
	id := lockcore.LeaseID{Session: lockcore.SessionID{1}, Sequence: w.sequence}
	r := p.apply(w.t, 1, lockcore.Acquire{Tenant: againSlug, Owner: "owner", Lease: id, Class: againClass,
		Key: lockcore.Key(id.String())})[0]
	if r.Outcome != lockcore.Granted {
		w.t.Fatalf("acquire: got %+v, want granted", r)
	}
	l, _ := p.machine.Lease(againSlug, id)
	if l.Token <= w.highest {
		w.t.Fatalf("token %d was granted after token %d", l.Token, w.highest)
	}
	w.highest = l.Token
	p.held = append(p.held, id)
	w.granted[w.before()]++
}

// before is how many lives the slug had before the one it has.
func (w *lives) before() uint32 {
	m := control.New()
	for i, b := range w.control {
		m.Apply(uint64(i+1), b)
	}
	t, _ := m.Tenant(againSlug)
	return t.EarlierLives
}

func (w *lives) release() {
	_, p := w.partition()
	for _, id := range p.held {
		p.apply(w.t, 1, lockcore.Release{Tenant: againSlug, Owner: "owner", Lease: id})
	}
	p.held = nil
}

// Tokens rise over the whole life of a tenant's name, however often it is dropped and made again, in the same partition
// or in another, and however far behind the copies are from which the nodes act.
func TestTokens_riseAcrossTheLivesOfASlug(t *testing.T) {
	granted := map[uint32]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newLives(t)
		steps := []func(){w.put, w.drop, w.reconcile, w.reconcile, w.reconcile, w.record, w.record, w.grant, w.grant, w.release, w.release}
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			rapid.SampledFrom(steps).Draw(t, "step")()
		}
		for n, grants := range w.granted {
			granted[n] += grants
		}
	})
	for _, before := range []uint32{0, 1, 2} {
		if granted[before] == 0 {
			t.Errorf("no grant was made after %d earlier lives: %v", before, granted)
		}
	}
}

// A partition that is to carry a tenant of a later life puts none of the earlier lives' classes in force, not even for the
// moment before it retires them; and a leader whose copy is of the earlier life puts nothing there.
func TestMissing_leavesClassesOfAnEarlierLifeOut(t *testing.T) {
	signed := review.Desired{Class: againClass, Version: 3, Posture: review.Posture{Class: againClass,
		Purpose: review.PurposeEfficiency, Enforcement: review.EnforcementAdvisory, QuorumLoss: review.QuorumLossClosed,
		LeaseMS: 10_000, HeartbeatMS: 5_000, WaitMode: review.WaitQueue, MaxWaitMS: 30_000, MaxWaiters: 10}}
	retired := signed
	retired.Retired = true
	d := control.TenantDesired{Tenant: againSlug, Quotas: tenants.QuotasDefault(), TokenBase: 8, Again: true,
		Classes: []review.Desired{retired}}
	m := lockcore.New()
	apply := func(commands []lockcore.Command) {
		t.Helper()
		b, err := lockcore.Entry{Epoch: m.Epoch(), Commands: commands}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m.Apply(m.Index()+1, b)
	}
	apply([]lockcore.Command{lockcore.AdvanceEpoch{}})
	first := missingOf(m, d, 50)
	if _, put := first[0].(lockcore.PutTenant); len(first) != 1 || !put {
		t.Fatalf("got %+v, want the tenant alone", first)
	}
	apply(first)
	if got := missingOf(m, d, 50); len(got) != 0 {
		t.Errorf("afterwards: got %+v, want nothing", got)
	}
	earlier := control.TenantDesired{Tenant: againSlug, Quotas: tenants.QuotasDefault(), Classes: []review.Desired{signed}}
	if got := missingOf(m, earlier, 20); len(got) != 0 {
		t.Errorf("from a copy of the earlier life: got %+v, want nothing", got)
	}
	d.Classes = []review.Desired{signed}
	if got := missingOf(m, d, 51); len(got) != 1 {
		t.Errorf("once a class is signed anew: got %+v, want it put in force", got)
	}
}
