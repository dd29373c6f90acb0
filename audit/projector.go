package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// BatchRows and BatchWait say when what is offered is stored: whichever comes first.
	BatchRows = 256
	BatchWait = 20 * time.Millisecond
	// batchEntries bounds the entries of a batch, most of which may have no events.
	batchEntries = 1024
	// replayWindow is how far below what was durable at the start a replayed entry is still compared with what is stored.
	replayWindow = 4096

	defaultEntriesMax = 16 << 10
	defaultBytesMax   = 32 << 20
	defaultRetryMin   = 100 * time.Millisecond
	defaultRetryMax   = 5 * time.Second
)

// ProjectorConfig says where a projector stores entries and how much it holds. Only Store is needed.
type ProjectorConfig struct {
	Store      *Store
	EntriesMax int           // entries held at a time; 0: 16,384
	BytesMax   int64         // their size in memory, roughly; 0: 32 MiB
	RetryMin   time.Duration // pause after a failure; it doubles up to RetryMax; 0: 100 ms
	RetryMax   time.Duration // 0: 5 s
	Logger     *slog.Logger  // nil: slog.Default()
	OnAlarm    func(error)   // called from Run when a log's projection stops for good; must not block; nil: only logged
}

// Projector is the queue between the machines' Apply and a store. Offer never waits; Run stores. Safe for concurrent use, but
// the entries of one log come from one goroutine, in order.
type Projector struct {
	config ProjectorConfig
	wake   chan struct{} // has room for one: there is work

	mu       sync.Mutex
	queue    []work         // guarded by mu
	inFlight int            // guarded by mu: of queue, what Run is storing; it is not changed meanwhile
	entries  int            // guarded by mu: in queue
	bytes    int64          // guarded by mu: in queue
	full     bool           // guarded by mu: entries are dropped until half the queue is free
	stopped  map[Log]error  // guarded by mu: logs that are not projected any more
	failed   error          // guarded by mu: what keeps Run from storing
	replayed map[Log]uint64 // guarded by mu: entries of a log up to here are stored, and not compared again
	stored   chan struct{}  // guarded by mu: closed, and made anew, after each batch
}

// work is one step for Run: an entry, a gap or the beginning of a log.
type work struct {
	entry Entry // Log always; Index unless it is a gap or a beginning
	gap   span  // from 1: a gap
	why   string
	begin uint64 // from 1: the log begins there
	bytes int64
}

// NewProjector makes a projector; it does nothing before Run.
func NewProjector(c ProjectorConfig) *Projector {
	if c.EntriesMax <= 0 {
		c.EntriesMax = defaultEntriesMax
	}
	if c.BytesMax <= 0 {
		c.BytesMax = defaultBytesMax
	}
	if c.RetryMin <= 0 {
		c.RetryMin = defaultRetryMin
	}
	if c.RetryMax <= 0 {
		c.RetryMax = max(defaultRetryMax, c.RetryMin)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return &Projector{config: c, wake: make(chan struct{}, 1), stopped: map[Log]error{}, replayed: map[Log]uint64{},
		stored: make(chan struct{})}
}

// Offer hands over what an applied entry led to. It never blocks and never fails: when the queue is full, the entry is
// dropped and will be recorded as a gap, until half of the queue is free again. A replayed entry that is stored already is
// compared if it lies within the last 4,096 indexes that were durable when its log was first offered, or fills an open gap;
// older ones are passed over without a question to SQLite.
func (p *Projector) Offer(e Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped[e.Log] != nil || p.passesOver(e) {
		return
	}
	size := e.bytes()
	if p.entries >= p.config.EntriesMax || (p.entries > 0 && p.bytes+size > p.config.BytesMax) { // the largest fits alone
		p.setFull(true)
	}
	if p.full {
		p.addGap(e.Log, span{e.first(), e.Index}, "the projection's queue was full")
	} else {
		p.push(work{entry: e, bytes: size})
	}
	p.awake()
}

// passesOver reports whether a replayed entry is old enough not to be looked at. The caller holds mu.
func (p *Projector) passesOver(e Entry) bool {
	known, ok := p.replayed[e.Log]
	if !ok {
		known = p.config.Store.extent(e.Log).durable
		known -= min(known, replayWindow)
		p.replayed[e.Log] = known
	}
	if e.Index > known {
		return false
	}
	covers := span{e.first(), e.Index}
	return !slices.ContainsFunc(p.config.Store.extent(e.Log).open, covers.meets)
}

// SkipTo says that a snapshot was installed or loaded: what lies between the entries offered before and index, included,
// does not come any more and is a gap, as far as it is not stored.
func (p *Projector) SkipTo(log Log, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if index == 0 || p.stopped[log] != nil {
		return
	}
	p.addGap(log, span{1, index}, "a snapshot took the place of the entries")
	p.awake()
}

// Begin says where the replay of a log begins on a node that has nothing of it: entries below are no gap. It does nothing for
// a log that has begun.
func (p *Projector) Begin(log Log, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if index == 0 || p.stopped[log] != nil {
		return
	}
	p.push(work{entry: Entry{Log: log}, begin: index})
	p.awake()
}

// addGap notes a gap; one of the same log and cause that was the last work noted grows. The caller holds mu.
func (p *Projector) addGap(log Log, missing span, why string) {
	for i := len(p.queue) - 1; i >= p.inFlight; i-- {
		last := &p.queue[i]
		if last.entry.Log != log {
			continue
		}
		if last.gap.from > 0 && last.why == why {
			last.gap.to = max(last.gap.to, missing.to)
			return
		}
		break
	}
	p.push(work{entry: Entry{Log: log}, gap: missing, why: why})
}

// push queues work. The caller holds mu.
func (p *Projector) push(w work) {
	p.queue = append(p.queue, w)
	if w.entry.Index > 0 {
		p.entries++
	}
	p.bytes += w.bytes
}

func (p *Projector) setFull(full bool) {
	if p.full != full {
		p.full = full
		p.config.Logger.Warn("audit projection's queue", "full", full, "entries", p.entries, "bytes", p.bytes)
	}
}

func (p *Projector) awake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run stores what is offered until ctx ends, which is what it returns. A failure is retried for ever with growing pauses:
// State tells it meanwhile. A log whose content differs from what is stored, or that cannot be stored, is not projected any
// more; the others go on. It runs once.
func (p *Projector) Run(ctx context.Context) error {
	for {
		if err := p.gather(ctx); err != nil {
			return err
		}
		if err := p.drain(ctx); err != nil {
			return err
		}
	}
}

// gather waits until a batch is due.
func (p *Projector) gather(ctx context.Context) error {
	var due <-chan time.Time
	for {
		waiting, enough := p.due()
		if enough {
			return nil
		}
		if waiting && due == nil {
			timer := time.NewTimer(BatchWait)
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.wake:
		case <-due:
			return nil
		}
	}
}

// due reports whether anything waits to be stored, and whether it is a batch.
func (p *Projector) due() (waiting, enough bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rows := 0
	for i := 0; i < len(p.queue) && rows < BatchRows; i++ {
		rows += len(p.queue[i].entry.Events)
	}
	return len(p.queue) > 0, rows >= BatchRows || len(p.queue) >= batchEntries
}

// drain stores one batch, however long that takes.
func (p *Projector) drain(ctx context.Context) error {
	pause := p.config.RetryMin
	for {
		batch := p.batch()
		if len(batch) == 0 {
			return nil
		}
		err := p.store(ctx, batch)
		var entry *EntryError
		switch {
		case err == nil:
			p.done(len(batch))
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &entry):
			p.stop(entry.Log, err)
			continue
		}
		p.fail(err, pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, p.config.RetryMax)
	}
}

// batch is the work at the head of the queue that is stored together; it stays in the queue meanwhile. A gap or a beginning
// is a batch of its own.
func (p *Projector) batch() []work {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight = p.batchLength()
	return slices.Clone(p.queue[:p.inFlight])
}

// batchLength is how much of the queue goes together. The caller holds mu.
func (p *Projector) batchLength() int {
	rows := 0
	for i := range p.queue {
		if p.queue[i].entry.Index == 0 {
			return max(i, 1)
		}
		rows += len(p.queue[i].entry.Events)
		if rows >= BatchRows || i+1 == batchEntries {
			return i + 1
		}
	}
	return len(p.queue)
}

func (p *Projector) store(ctx context.Context, batch []work) error {
	switch w := batch[0]; {
	case w.gap.from > 0:
		return p.storeGap(ctx, w)
	case w.begin > 0:
		return p.config.Store.Begin(ctx, w.entry.Log, w.begin)
	}
	entries := make([]Entry, len(batch))
	for i := range batch {
		entries[i] = batch[i].entry
	}
	return p.config.Store.Append(ctx, entries)
}

// storeGap records a gap as far as it lies above what is stored.
func (p *Projector) storeGap(ctx context.Context, w work) error {
	durable := p.config.Store.extent(w.entry.Log).durable
	if w.gap.to <= durable {
		return nil
	}
	return p.config.Store.RecordGap(ctx, w.entry.Log, max(w.gap.from, durable+1), w.gap.to, w.why)
}

// done takes stored work out of the queue and tells who waits.
func (p *Projector) done(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.queue[:n] {
		p.forget(w)
	}
	p.queue = slices.Delete(p.queue, 0, n)
	p.inFlight = 0
	p.recovered()
	close(p.stored)
	p.stored = make(chan struct{})
}

// forget takes work off the counts. The caller holds mu.
func (p *Projector) forget(w work) {
	p.bytes -= w.bytes
	if w.entry.Index > 0 {
		p.entries--
	}
	if p.entries <= p.config.EntriesMax/2 && p.bytes <= p.config.BytesMax/2 {
		p.setFull(false)
	}
}

// recovered ends a failure. The caller holds mu.
func (p *Projector) recovered() {
	if p.failed != nil {
		p.config.Logger.Info("audit projection goes on", "after", p.failed)
		p.failed = nil
	}
}

func (p *Projector) fail(err error, pause time.Duration) {
	p.mu.Lock()
	first := p.failed == nil
	p.failed = err
	p.mu.Unlock()
	if first {
		p.config.Logger.Error("audit projection fails and is retried", "error", err, "pause", pause)
	}
}

// stop ends the projection of a log for good and drops what is queued of it.
func (p *Projector) stop(log Log, err error) {
	p.mu.Lock()
	p.stopped[log] = err
	p.inFlight = 0
	kept := p.queue[:0]
	for _, w := range p.queue {
		if w.entry.Log == log {
			p.forget(w)
		} else {
			kept = append(kept, w)
		}
	}
	clear(p.queue[len(kept):])
	p.queue = kept
	close(p.stored) // who waits for this log learns that it is over
	p.stored = make(chan struct{})
	p.mu.Unlock()
	p.config.Logger.Error("audit projection of a log is stopped", "log", log, "error", err)
	if p.config.OnAlarm != nil {
		p.config.OnAlarm(err)
	}
}

// Durable is the index up to which every entry of a log is stored, or a recorded gap. It is answered from memory.
func (p *Projector) Durable(log Log) uint64 { return p.config.Store.extent(log).durable }

// WaitDurable waits until Durable reaches an index. It ends with ctx, or with why the log is not projected any more.
func (p *Projector) WaitDurable(ctx context.Context, log Log, index uint64) error {
	for {
		p.mu.Lock()
		stored, stopped := p.stored, p.stopped[log]
		p.mu.Unlock()
		switch {
		case p.Durable(log) >= index:
			return nil
		case stopped != nil:
			return fmt.Errorf("wait for audit of log %d: %w", log, stopped)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for audit of log %d: %w", log, ctx.Err())
		case <-stored:
		}
	}
}

// Pending says what is not stored yet, and whether so much that entries are being dropped.
func (p *Projector) Pending() (entries int, bytes int64, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.entries, p.bytes, p.full
}

// State is nil while all is well; else what keeps entries from being stored, or which logs are stopped and why.
func (p *Projector) State() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []error{p.failed}
	for _, log := range slices.Sorted(maps.Keys(p.stopped)) {
		all = append(all, p.stopped[log])
	}
	return errors.Join(all...)
}
