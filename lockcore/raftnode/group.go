package raftnode

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of a group's life.
var (
	// ErrGroupStopped: Stop was called, or the group could not be reopened by Restart.
	ErrGroupStopped = errors.New("group is stopped")
	// ErrAlreadyBootstrapped: the group has a configuration on this node. Nothing was changed.
	ErrAlreadyBootstrapped = errors.New("group already has a configuration")
	// ErrBadConfig: the configuration of a group or its membership makes no sense; the message says why.
	ErrBadConfig = errors.New("bad group configuration")
)

const lagTicksPerLimit = 10

// GroupConfig describes one Raft group on one node. All fields are required unless they say otherwise.
type GroupConfig struct {
	Group GroupID
	// Data is the node's checked data directory; the group lives in a folder of its own in it.
	Data *DataDir
	// Create allows a group that has never been on this node: set it when bootstrapping or joining, not at later starts.
	// It never helps a known member whose data is gone.
	Create    bool
	Mux       *Mux
	Confirmer *Confirmer
	Profile   Profile
	// NewMachine makes an empty state machine: one at opening, another at each Restart.
	NewMachine func() Machine
	Logger     *slog.Logger
	// Fatal is called at the first error after which the node must not go on: storage, a hung write, a hung machine. In
	// production it does not return (ExitOnFailure).
	Fatal func(error)
	// Gate, optional, is asked before entries first..last are removed from the front of the log because a snapshot covers
	// them, and returns the highest index that may go: below first, none. What it keeps is asked for again after the next
	// snapshot. bytes is what the log takes now, as LogBytes tells: what it would go on taking if nothing went. The gate is
	// not asked when a follower cuts off the end of its log, which conflicts with the leader's. It must not block.
	Gate func(first, last uint64, bytes int64) uint64
	// SnapshotGate, optional, is called before a snapshot is written, beside later calls of the machine's Apply. index is
	// that of the last entry that the machine had been given; those up to it may go from the log once it returns nil. An error
	// fails this snapshot; Raft takes another later. It must return when ctx ends, after a minute at the latest or with
	// the life of the group.
	SnapshotGate func(ctx context.Context, index uint64) error
	// OnLag, optional, is called when this process stood still for longer than the profile's LagLimit while the node
	// led the group. By default the group is restarted, which gives the leadership up.
	OnLag func(lag time.Duration)
}

func (c GroupConfig) validate() error {
	switch {
	case c.Data == nil, c.Mux == nil, c.Confirmer == nil, c.NewMachine == nil, c.Logger == nil, c.Fatal == nil:
		return fmt.Errorf("%w: a required field is missing", ErrBadConfig)
	case c.Data.Identity().Node != c.Mux.Node():
		return fmt.Errorf("%w: data directory of %s, port of %s", ErrBadConfig, c.Data.Identity().Node, c.Mux.Node())
	}
	return errors.Join(c.Group.Validate(), c.Profile.validate())
}

// Group is one Raft group on this node. Safe for concurrent use.
type Group struct {
	cfg        GroupConfig
	logs       *logPump
	leadership *leadershipFeed
	live       atomic.Pointer[life] // nil while restarting and after Stop

	proposals chan *proposal
	intake    sync.RWMutex
	stopping  bool // guarded by intake

	turn     sync.Mutex  // held while a life begins or ends
	restarts chan string // reason of a requested restart; holds one
	quit     chan struct{}
	stop     func() // once: closes quit
	work     sync.WaitGroup
}

// OpenGroup checks the group's data, opens it and starts it as what it was; a created group waits for Bootstrap, or to
// be added by the leader. The caller owns it and calls Stop. Errors: ErrBadConfig, ErrDataLost, ErrForeignData,
// ErrUnknownGroup, ErrDamaged, ErrLogGap, ErrStoreInUse, and those of the disk.
func OpenGroup(cfg GroupConfig) (*Group, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open group %s: %w", cfg.Group, err)
	}
	g := &Group{
		cfg:        cfg,
		logs:       newLogPump(cfg.Logger.With("group", string(cfg.Group)).Handler()),
		leadership: newLeadershipFeed(),
		proposals:  make(chan *proposal, proposalsQueuedMax),
		restarts:   make(chan string, 1),
		quit:       make(chan struct{}),
	}
	g.stop = sync.OnceFunc(func() { close(g.quit) })
	if err := g.begin(cfg.Create); err != nil {
		g.logs.close(context.Background())
		return nil, fmt.Errorf("open group %s: %w", cfg.Group, err)
	}
	g.work.Go(g.submit)
	g.work.Go(g.supervise)
	return g, nil
}

// ID returns the group's id.
func (g *Group) ID() GroupID { return g.cfg.Group }

// Machine returns the state machine of the present life, nil while the group restarts and after Stop.
func (g *Group) Machine() Machine {
	if l := g.live.Load(); l != nil {
		return l.machine
	}
	return nil
}

// LogBytes estimates the bytes that the log takes on this node's disk: the pages of its file that are in use or were
// allotted in advance, Bolt's own and the few stable records included, so at most some 16 MiB too many. 0 while the group
// restarts and after Stop.
func (g *Group) LogBytes() int64 {
	if l := g.live.Load(); l != nil {
		return l.store.Bytes()
	}
	return 0
}

// FirstIndex is the oldest entry that this node's log still has; 0 if it is empty, cannot be read, or the group restarts.
func (g *Group) FirstIndex() uint64 {
	l := g.live.Load()
	if l == nil {
		return 0
	}
	first, err := l.store.FirstIndex()
	if err != nil {
		return 0
	}
	return first
}

// Leadership yields this node's present leadership and then every change, until ctx ends. A leadership that was lost
// and regained is two, with different serials: whatever was derived from the first is void.
func (g *Group) Leadership(ctx context.Context) iter.Seq[Leadership] { return g.leadership.watch(ctx) }

// Restart closes the group and opens it again in this process, with a fresh machine rebuilt from snapshot and log. It
// is how a leader gives its leadership up. Proposals under way end with ErrUnknownOutcome. After an error the group is
// stopped for good; ErrGroupStopped if it was already.
func (g *Group) Restart() error {
	g.turn.Lock()
	defer g.turn.Unlock()
	if g.isStopping() {
		return ErrGroupStopped
	}
	if err := g.finish(); err != nil {
		return fmt.Errorf("restart group %s: %w", g.cfg.Group, err)
	}
	if err := g.begin(false); err != nil {
		return fmt.Errorf("restart group %s: %w", g.cfg.Group, err)
	}
	return nil
}

// Stop closes the group and waits for its goroutines, as long as ctx allows: a hung disk does not let go.
func (g *Group) Stop(ctx context.Context) error {
	g.refuseIntake()
	ended := make(chan error, 1)
	go func() {
		err := g.endLife()
		g.work.Wait()
		g.logs.close(ctx)
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("stop group %s: %w", g.cfg.Group, ctx.Err())
	}
}

func (g *Group) endLife() error {
	g.turn.Lock()
	defer g.turn.Unlock()
	return g.finish()
}

func (g *Group) refuseIntake() {
	g.intake.Lock()
	defer g.intake.Unlock()
	if !g.stopping {
		g.stopping = true
		close(g.proposals)
	}
	g.stop()
}

func (g *Group) isStopping() bool {
	g.intake.RLock()
	defer g.intake.RUnlock()
	return g.stopping
}

// requestRestart asks the supervisor for a restart; a request already waiting is enough.
func (g *Group) requestRestart(reason string) {
	select {
	case g.restarts <- reason:
	default:
	}
}

// supervise restarts the group on request and watches whether this process gets to run.
func (g *Group) supervise() {
	interval := g.cfg.Profile.LagLimit / lagTicksPerLimit
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-g.quit:
			return
		case reason := <-g.restarts:
			g.restartFor(reason)
			last = time.Now()
		case <-ticker.C:
			now := time.Now()
			g.checkLag(now.Sub(last) - interval)
			last = now
		}
	}
}

func (g *Group) restartFor(reason string) {
	g.cfg.Logger.Warn("restarting group", "group", string(g.cfg.Group), "reason", reason)
	if err := g.Restart(); err != nil && !errors.Is(err, ErrGroupStopped) {
		g.cfg.Fatal(err)
	}
}

func (g *Group) checkLag(lag time.Duration) {
	if lag <= g.cfg.Profile.LagLimit {
		return
	}
	if _, state := g.standing(); state != Leader {
		return
	}
	if g.cfg.OnLag != nil {
		g.cfg.OnLag(lag)
		return
	}
	g.requestRestart(fmt.Sprintf("this process stood still for %v while leading", lag))
}
