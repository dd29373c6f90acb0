package client

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// Why a hold is over: the cause of a lease's context, and what its LostError is.
var (
	// ErrDeadline: the local deadline passed before the lease could be renewed. It may be somebody else's by now.
	ErrDeadline = errors.New("the local deadline has passed")
	// ErrRevoked: the hold was ended from outside: force-released, held longer than the class allows, or its class retired or
	// its tenant dropped. Stop now and release: until then, or until the lease runs out, nobody else is granted.
	ErrRevoked = errors.New("the hold was ended from outside")
	// ErrExpired: the platform says that the lease is over. It may be somebody else's by now.
	ErrExpired = errors.New("the lease has ended")
	// ErrReleased: the holder gave the lease back, or closed the client.
	ErrReleased = errors.New("the lease was released")
)

// LostError says that a hold is over and why. It is one of the errors above.
type LostError struct {
	Class, Key string
	Token      uint64
	Cause      error  // ErrDeadline, ErrRevoked, ErrExpired or ErrReleased
	Detail     string // the platform's own reason, where it gave one
	Last       error  // of ErrDeadline: why the last heartbeats failed, where they did
}

// Error names the lock, its token and the cause.
func (e *LostError) Error() string {
	text := fmt.Sprintf("stanchion: %s %s (token %d): %v", e.Class, strconv.Quote(e.Key), e.Token, e.Cause)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Last != nil {
		text += "; last heartbeat: " + e.Last.Error()
	}
	return text
}

// Unwrap gives the cause, and what failed.
func (e *LostError) Unwrap() []error {
	if e.Last == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Last}
}

// revocations are the reasons for which a hold is ended from outside.
var revocations = map[string]bool{"forced": true, "max_hold": true, "class_retired": true, "tenant_dropped": true}

// causeOf is what a heartbeat's "lost" means.
func causeOf(l wire.Lost) error {
	if l.Code == wire.CodeRevoked || l.Ending || revocations[l.Reason] {
		return ErrRevoked
	}
	return ErrExpired
}

// detailOf is the platform's own word for it.
func detailOf(l wire.Lost) string {
	if l.Reason != "" {
		return l.Reason
	}
	return string(l.Code)
}
