package leader

import (
	"errors"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// Caller says who asks, as its API key tells.
type Caller struct {
	Tenant lockcore.TenantID
	Owner  lockcore.OwnerID // lineage of the API key
	APIKey string           // id of the API key, for people
}

// WaitDefault asks to queue as long as the class allows, or to try once where it does not queue.
const WaitDefault time.Duration = -1 << 62

// Acquire asks for a lease, polls for it, or repeats either.
type Acquire struct {
	Caller
	Lease  lockcore.LeaseID
	Class  lockcore.ClassName
	Key    lockcore.Key
	Wait   time.Duration // how long to queue; 0: try once; WaitDefault; negative otherwise: unlimited
	Poll   time.Duration // how long this request may hang; at most the poll limit of the class's lease
	Holder string        // label for people
}

// Release gives a lease back or leaves the queue.
type Release struct {
	Caller
	Lease lockcore.LeaseID
	Token lockcore.Token // 0: not given
}

// Heartbeat names the leases of a session that the sender wants to keep.
type Heartbeat struct {
	Caller
	Session   lockcore.SessionID
	Sequences []uint64 // at most HeartbeatMax, each once
}

// HeartbeatMax bounds the leases that one heartbeat may name.
const HeartbeatMax = 10_000

// EndSession releases all that a session holds.
type EndSession struct {
	Caller
	Session lockcore.SessionID
}

// Look reads one lease and changes nothing.
type Look struct {
	Caller
	Lease lockcore.LeaseID
}

// Status is where a lease request stands, as an answer may say it.
type Status uint8

// The statuses.
const (
	StatusGranted Status = iota + 1
	StatusQueued
	StatusEnding // held, and being ended from outside
	StatusEnded
	StatusRefused
)

// Answer tells a caller where its lease stands. It is true of a moment after the request arrived.
type Answer struct {
	Status        Status
	Reason        lockcore.Reason // of Ending, Ended and Refused
	Lease         *lockcore.Lease // nil where there is none; never to be changed
	Position      int             // of StatusQueued, from 1
	UseWithin     time.Duration   // of StatusGranted: counted from when the client sent this very request
	ContactWithin time.Duration   // when the next heartbeat or poll is due, counted likewise
	Index         uint64          // log index applied when the answer was made
}

// HeartbeatAnswer tells of each lease named whether it is held.
type HeartbeatAnswer struct {
	Held  []Answer // in the order asked
	Lost  []Lost   // in the order asked
	Index uint64
}

// Lost is a lease that the sender does not hold, and why.
type Lost struct {
	Lease  lockcore.LeaseID
	Reason lockcore.Reason // how it ended; of a hold being ended from outside its cause; RefusedUnknown, RefusedTooOld
	Ending bool            // not over yet: the holder should release it
	Token  lockcore.Token  // 0 where there was no grant
}

var (
	// ErrNotLeader says that this node does not lead the partition and nothing was proposed. Ask the leader, with the same id.
	ErrNotLeader = errors.New("not the leader")
	// ErrNoQuorum says that no majority confirmed this leader in time. Nothing is known to have changed; repeat with the same id.
	ErrNoQuorum = errors.New("no quorum")
	// ErrUnknownOutcome says that a command may or may not be carried out. Repeat with the same id to learn which.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrOverloaded says that the tenant's queue of commands is full and nothing was proposed. Repeat later with the same id.
	ErrOverloaded = errors.New("too many requests are waiting")
	// ErrNotFound says that there is no such session or lease for this caller: a foreign one answers the same.
	ErrNotFound = errors.New("not found")
)
