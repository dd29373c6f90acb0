package api

import (
	"context"
	"errors"
	"net/http"
	"time"

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
}

// Platform is the node. Its methods return at once and are safe for concurrent use.
type Platform interface {
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
	// Ready lists the node's parts and what each still waits for. All ready: the node serves.
	Ready() []wire.Part
}

// ErrNotReady is returned by Platform.Authenticate for an API key that this node does not know while it may only not know
// it yet. The same request is good at another node, or here a little later.
var ErrNotReady = errors.New("this node has not caught up yet")

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
