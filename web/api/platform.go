package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/tenants"
)

// Locks is one partition as this node sees it. Only a ready leader answers; every other one returns
// leader.ErrNotLeader. The further errors are those of package leader, and the context's own. Cancelling the context of
// an Acquire that hangs takes the request out of the queue unless another poll follows soon. Safe for concurrent use.
type Locks interface {
	Acquire(context.Context, leader.Acquire) (leader.Answer, error)
	Release(context.Context, leader.Release) (leader.Answer, error)
	Heartbeat(context.Context, leader.Heartbeat) (leader.HeartbeatAnswer, error)
	EndSession(context.Context, leader.EndSession) error
	Look(context.Context, leader.Look) (leader.Answer, error)
	// List reads a page of locks after a confirm round begun when the request was here already.
	List(context.Context, LockQuery) (LockPage, error)
	// Command proposes a command of the platform's own, such as the end of a hold. What breaks a rule is no error.
	Command(context.Context, lockcore.Command) (lockcore.Result, error)
}

// Platform is the node. Its methods return at once and are safe for concurrent use.
type Platform interface {
	Control
	Classes
	// Authenticate checks an API key as it was presented; empty: none was. ErrNotReady is answered as not ready. Any other
	// error is answered as one and the same refusal, so it takes as long for no key as for a wrong one.
	Authenticate(presented string) (tenants.Principal, error)
	// Locks is the tenant's partition if this node carries it.
	Locks(lockcore.TenantID) (Locks, bool)
	// Leader is who leads the tenant's partition, as far as this node knows; a hint.
	Leader(lockcore.TenantID) (LeaderRef, bool)
	// Forward carries a request to another node's peer listener. The request's URL host is the node's id.
	Forward(nodeID string) http.RoundTripper
	// KeyName is the name of a tenant's API key, for people; empty if there is none any more.
	KeyName(tenant lockcore.TenantID, apiKeyID string) string
	// Facts is what this node knows of a lock and of the partition that carries it. Unlike the other methods it may take a
	// second or two, for it asks the voters; where no majority confirms this node as leader, the facts are stale.
	Facts(context.Context, FactsQuery) Facts
	// InUse is what the tenant's partition carries of it, as this node has applied it; false: nothing.
	InUse(lockcore.TenantID) (lockcore.TenantState, bool)
	// AwaitApplied waits, a second at most, until the other nodes have applied what this node has applied of the control
	// log, and lists those that have, this one included, and those that are behind or cannot be reached.
	AwaitApplied(context.Context) (applied, behind []string)
	// Ready lists the node's parts and what each still waits for. All ready: the node serves.
	Ready() []wire.Part
	// Audit is this node's copy of the audit.
	Audit() Audit
}

// Audit is a node's own copy of the audit. Errors are those of package audit, and the context's own. Safe for concurrent use.
type Audit interface {
	// Query finds events, a page at a time.
	Query(context.Context, audit.Query) (audit.Page, error)
	// Logs are those that a tenant may know of, which its events are in; all that there are for tenants.Platform.
	Logs(tenants.TenantID) []audit.Log
	// Wait returns once this node's copy of the log has reached the index.
	Wait(ctx context.Context, log audit.Log, index uint64) error
	// Checkpoint is how the log stands in this copy. A log of which nothing has happened yet has no rows.
	Checkpoint(context.Context, audit.Log) (audit.Position, error)
	// ProveRow proves that the log's tree of size rows has the row, counted from 0. A tree that this copy does not have is
	// audit.ErrNotNumbered.
	ProveRow(ctx context.Context, log audit.Log, row, size uint64) (tlog.RecordProof, error)
	// ProvePrefix proves that the log's tree of newSize rows begins with the one of oldSize, from 1. A tree that this copy does
	// not have is audit.ErrNotNumbered.
	ProvePrefix(ctx context.Context, log audit.Log, oldSize, newSize uint64) (tlog.TreeProof, error)
}

// ErrNotReady is returned by Platform.Authenticate for an API key that this node does not know while it may only not know
// it yet. The same request is good at another node, or here a little later.
var ErrNotReady = errors.New("this node has not caught up yet")

// ErrAuditBehind is returned by Locks.Acquire for a class whose purpose is correctness while the leader's audit has stood
// still for so long that it leaves rows out.
var ErrAuditBehind = errors.New("the audit is behind")

// LeaderRef names a leader.
type LeaderRef struct {
	NodeID string
	URL    string // public address, for clients
	Self   bool   // it is this node
}

// LockQuery asks for a page of a tenant's locks, ordered by class and then by key, byte for byte.
type LockQuery struct {
	Tenant     lockcore.TenantID
	From       LockPosition                  // the first lock that may be in the page; zero: the tenant's first
	Class      lockcore.ClassName            // only this class; empty: all
	Key        lockcore.Key                  // only this key; empty: all
	Prefix     string                        // only keys that begin with these bytes
	Allows     func(lockcore.ClassName) bool // only classes for which it is true
	Limit      int                           // at most so many locks
	WaitersMax int                           // at most so many waiters of each lock
}

// LockPosition is a place in the order of a tenant's locks.
type LockPosition struct {
	Class lockcore.ClassName
	Key   lockcore.Key
}

// LockPage is what a partition found.
type LockPage struct {
	Locks []LockState
	Next  LockPosition // where the next page begins; zero: there is none. A page may be short, or empty, and have a next one.
	Index uint64       // log index that the page reflects
}

// LockState is one lock.
type LockState struct {
	lockcore.Lock
	Waiting       []*lockcore.Lease // the first of its waiters, in line; never to be changed
	LastHeartbeat time.Time         // of the holder; zero: none under this leader
}
