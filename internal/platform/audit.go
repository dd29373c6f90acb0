package platform

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web/api"
)

const (
	// What waits for the store is bounded: some ten seconds of a busy node. Beyond it rows are left out, as a gap that
	// another node fills.
	auditEntriesMax    = 100_000
	auditQueueBytesMax = 64 << 20
	// auditLogBytesMax is how long a log may get because its audit is behind. Beyond it, Raft makes its snapshots all the
	// same, and what the store then misses is a gap.
	auditLogBytesMax = 1 << 30
)

// ErrAuditBehind says that the audit has stood still for so long that a class which must be accounted for grants nothing.
var ErrAuditBehind = api.ErrAuditBehind

// auditor keeps this node's copy of the audit. It takes what the machines emit, without ever holding them up, has it
// stored, fills from other nodes what this one has missed, and compares with them. Safe for concurrent use.
type auditor struct {
	log       *slog.Logger
	store     *audit.Store
	projector *audit.Projector

	mu     sync.Mutex
	peers  map[raftnode.NodeID]auditStanding // guarded by mu: what each other node said last
	alarms map[string]string                 // guarded by mu: what is wrong, by where; see Ready
	cut    map[audit.Log]uint64              // guarded by mu: to where logs were truncated before two nodes had stored that

	overdrawn atomic.Bool // cut is not empty
}

// controlAuditLog is the control log in the audit; a partition has its number.
const controlAuditLog audit.Log = 0

func openAuditor(c Config, incarnation uint64) (*auditor, error) {
	path := c.AuditFile
	if path == "" {
		path = filepath.Join(c.Data, "audit.db")
	}
	ctx, cancel := context.WithTimeout(context.Background(), auditOpenTime)
	defer cancel()
	a := newAuditor(c.Logger)
	store, err := audit.Open(ctx, audit.Config{Path: path, Incarnation: incarnation, BytesMax: c.AuditBytesMax,
		Logger: c.Logger, Now: time.Now})
	if err != nil {
		return nil, fmt.Errorf("open the audit: %w", err)
	}
	if damaged := store.Damaged(); damaged != "" {
		c.Logger.Error("the audit's file was damaged; it was put aside, and other nodes' rows fill a new one", "file", damaged)
	}
	a.store = store
	a.projector = audit.NewProjector(audit.ProjectorConfig{Store: store, EntriesMax: cmp.Or(c.AuditEntriesMax, auditEntriesMax),
		BytesMax: auditQueueBytesMax, Logger: c.Logger, OnAlarm: func(err error) { a.alarm("its own rows", err) }})
	return a, nil
}

func newAuditor(log *slog.Logger) *auditor {
	return &auditor{log: log, peers: map[raftnode.NodeID]auditStanding{}, alarms: map[string]string{}, cut: map[audit.Log]uint64{}}
}

// auditOpenTime bounds the look at a whole file when the node starts.
const auditOpenTime = 10 * time.Minute

// alarm notes that something is wrong, or with nil that it no longer is, and logs it once.
func (a *auditor) alarm(where string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil && a.alarms[where] != "":
		a.log.Info("the audit is well again", "where", where)
		delete(a.alarms, where)
	case err != nil && a.alarms[where] != err.Error():
		a.log.Error("the audit is not well", "where", where, "error", err)
		a.alarms[where] = err.Error()
	}
}

// auditFeed is how one log's entries get to the audit. Whoever applies them calls it, under one lock, in their order.
type auditFeed struct {
	auditor *auditor
	log     audit.Log
	last    uint64 // the last entry that was applied in this life of the group, or that its snapshot holds
}

// begin is told that a life of the group begins, with an empty machine.
func (f *auditFeed) begin() { f.last = 0 }

// restored is told that the machine stands at an index by a snapshot: what the store lacks of the entries up to there is
// missing here.
func (f *auditFeed) restored(index uint64) {
	f.last = index
	if index > f.auditor.projector.Durable(f.log) {
		f.auditor.projector.SkipTo(f.log, index)
	}
}

// offer takes what an entry led to. A restarted node applies its log again; what is stored already is compared, or passed
// over.
func (f *auditFeed) offer(index uint64, salt [16]byte, events []audit.Event) {
	first := f.last + 1
	f.last = index
	f.auditor.projector.Offer(audit.Entry{Log: f.log, Index: index, First: first, Salt: salt, Events: events})
}

func lockAudit(events []lockcore.Event) []audit.Event {
	rows := make([]audit.Event, 0, len(events))
	for _, e := range events {
		if row, ok := audit.FromLock(e); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// run stores what is offered until ctx ends.
func (a *auditor) run(ctx context.Context) error {
	if err := a.projector.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// part says how the audit is, for whoever asks whether the node is ready. One that is behind, but loses nothing yet, is.
func (a *auditor) part() wire.Part {
	part := wire.Part{Part: "audit", Ready: true}
	if err := a.projector.State(); err != nil {
		part.Why = err.Error()
	}
	a.mu.Lock()
	for _, where := range slices.Sorted(maps.Keys(a.alarms)) {
		part.Why = a.alarms[where]
	}
	a.mu.Unlock()
	if _, _, full := a.projector.Pending(); full {
		part.Ready = false
		part.Why = "rows are being left out, to be fetched from other nodes later; correctness classes grant nothing anew: " + part.Why
	} else if a.overdrawn.Load() {
		part.Why = "a log was truncated before two nodes had stored its rows; correctness classes grant nothing anew until they have: " + part.Why
	}
	return part
}

// snapshotGate lets a snapshot at an index become the only witness of the entries before it once they are in the store,
// or once the log has become so long that a gap is the smaller evil.
func (a *auditor) snapshotGate(log audit.Log, group func() *raftnode.Group) func(context.Context, uint64) error {
	return func(ctx context.Context, index uint64) error {
		err := a.projector.WaitDurable(ctx, log, index)
		if g := group(); err != nil && g != nil && g.LogBytes() > auditLogBytesMax {
			a.log.Error("snapshot although the audit is behind: should this node stop now, its rows from there on are missing",
				"log", a.name(log), "durable", a.projector.Durable(log), "snapshot", index, "error", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("the audit is stored to entry %d only: %w", a.projector.Durable(log), err)
		}
		return nil
	}
}

// truncationGate is the highest index that may go from a log: what two nodes have stored. Of a log that has become too long,
// everything goes, and correctness classes grant nothing anew until two nodes have stored that.
func (a *auditor) truncationGate(log audit.Log, voters int) func(first, last uint64, bytes int64) uint64 {
	return func(_, last uint64, bytes int64) uint64 {
		stored := min(last, a.projector.Durable(log))
		if voters > 1 {
			stored = min(stored, a.elsewhere(log))
		}
		if bytes <= auditLogBytesMax || stored == last {
			return stored
		}
		a.log.Error("log truncated although the audit is behind", "log", a.name(log), "stored", stored, "truncated", last)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cut[log] = last
		a.overdrawn.Store(true)
		return last
	}
}

// settle forgets what was truncated too early and has been stored since.
func (a *auditor) settle(voters int) {
	if !a.overdrawn.Load() {
		return
	}
	for log, last := range a.cuts() {
		if a.projector.Durable(log) >= last && (voters < 2 || a.elsewhere(log) >= last) {
			a.mu.Lock()
			if a.cut[log] == last {
				delete(a.cut, log)
			}
			a.overdrawn.Store(len(a.cut) > 0)
			a.mu.Unlock()
		}
	}
}

func (a *auditor) cuts() map[audit.Log]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.cut)
}

// elsewhere is the highest index of a log to which some other node has stored it.
func (a *auditor) elsewhere(log audit.Log) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var best uint64
	for _, s := range a.peers {
		best = max(best, s.position(log).Durable)
	}
	return best
}

// behind reports whether rows are being left out because the store does not take them, or two nodes have not stored what the
// log does not have any more.
func (a *auditor) behind() bool {
	_, _, full := a.projector.Pending()
	return full || a.overdrawn.Load()
}

func (a *auditor) name(log audit.Log) string {
	if log == controlAuditLog {
		return string(controlGroup)
	}
	return string(partitionGroup(int(log)))
}

// retain drops the bodies of rows that are older than their tenant keeps them, once a day, as soon as it is sure how long that
// is: while a node catches up, its copy of the control log goes through what tenants had once asked for.
func (a *auditor) retain(ctx context.Context, days func(tenant string) int, sure func() bool) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if !sure() {
			timer.Reset(retainAgain)
			continue
		}
		n, err := a.store.Retain(ctx, days, time.Now())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			a.log.Warn("audit rows past their retention could not be dropped", "error", err)
		case n > 0:
			a.log.Info("audit rows past their retention dropped; their hashes stay", "rows", n)
		}
		timer.Reset(retainEvery)
	}
}

const (
	retainEvery = 24 * time.Hour
	retainAgain = 200 * time.Millisecond
)

// knowsQuotas reports whether the node's copy of the control log is not behind, as far as the node can tell.
func (p *Platform) knowsQuotas() bool { return !p.control.cutOff() && p.control.caughtUp() }

// retentionDays is how long the tenant's rows keep their bodies. A tenant that is gone, and the platform itself, keep them
// as long as is possible.
func (p *Platform) retentionDays(tenant string) int {
	days := retentionDaysMax
	p.control.view(func(m *control.Machine) {
		if t, known := m.Tenant(tenants.TenantID(tenant)); known {
			days = t.Quotas.AuditRetentionDays
		}
	})
	return days
}

const retentionDaysMax = 3650

// runAudit owns everything that the audit does beside the logs.
func (p *Platform) runAudit(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.audit.retain(ctx, p.retentionDays, p.knowsQuotas) })
	g.Go(func() error { return p.compareAudits(ctx) })
	return g.Wait()
}

// Audit is this node's copy of the audit.
func (p *Platform) Audit() api.Audit { return nodeAudit{p} }

// nodeAudit is the audit as the API reads it.
type nodeAudit struct{ p *Platform }

func (n nodeAudit) Query(ctx context.Context, q audit.Query) (audit.Page, error) {
	return n.p.audit.store.Query(ctx, q)
}

// Logs are those that the tenant's events can be in: the control log and its partition, so that what other partitions do
// is not counted before its eyes. All of them for the platform, and for a tenant that was made again, which may have been
// elsewhere before.
func (n nodeAudit) Logs(tenant tenants.TenantID) []audit.Log {
	var t tenants.Tenant
	known := false
	if tenant != tenants.Platform {
		n.p.control.view(func(m *control.Machine) { t, known = m.Tenant(tenant) })
	}
	logs := []audit.Log{controlAuditLog}
	for _, part := range n.p.partitions {
		if !known || t.EarlierLives > 0 || int(t.Partition) == part.number {
			logs = append(logs, audit.Log(part.number))
		}
	}
	return logs
}

// Wait returns when the log is stored to the index.
func (n nodeAudit) Wait(ctx context.Context, log audit.Log, index uint64) error {
	return n.p.audit.projector.WaitDurable(ctx, log, index)
}

// Checkpoint is how far the log is stored here, and the root of its rows.
func (n nodeAudit) Checkpoint(ctx context.Context, log audit.Log) (audit.Position, error) {
	positions, err := n.p.audit.store.Positions(ctx)
	return auditStanding{Positions: positions}.position(log), err
}

// ProveRow is the store's.
func (n nodeAudit) ProveRow(ctx context.Context, log audit.Log, row, size uint64) (tlog.RecordProof, error) {
	return n.p.audit.store.ProveRow(ctx, log, row, size)
}

// ProvePrefix is the store's.
func (n nodeAudit) ProvePrefix(ctx context.Context, log audit.Log, oldSize, newSize uint64) (tlog.TreeProof, error) {
	return n.p.audit.store.ProvePrefix(ctx, log, oldSize, newSize)
}
