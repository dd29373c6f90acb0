package client

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// Why a lease was not obtained. All but ErrUnavailable and ErrClosed are decided: the request is over at every node.
var (
	// ErrHeld: somebody else holds the key, and the request does not queue. Ask again later, or queue.
	ErrHeld = errors.New("somebody else holds the key")
	// ErrWaitTimeout: the request queued as long as it asked to. Ask again if the work is still wanted.
	ErrWaitTimeout = errors.New("waited as long as asked, and was not granted")
	// ErrQueueFull: as many wait as the class allows. Ask again later.
	ErrQueueFull = errors.New("as many wait for the key as its class allows")
	// ErrAlreadyHeld: this client holds the key, or waits for it, already. A client holds a key once: use the lease that it
	// has, or a client of its own for each party that contends.
	ErrAlreadyHeld = errors.New("this client has the key already")
	// ErrNotInForce: the class has no signed version in force, or is retired, and grants nothing.
	ErrNotInForce = errors.New("the class grants nothing")
	// ErrUnavailable: no node decided in time. What was asked is withdrawn, as soon as a node answers.
	ErrUnavailable = errors.New("no node decided in time")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("the client is closed")
)

// AskError says why a lease was not obtained. It is one of the errors above, where one fits, and the *wire.Problem that the
// platform answered, if it answered; its Remedy says what to do.
type AskError struct {
	Class, Key string
	Reason     error // one of this package's errors; nil where none fits
	Err        error // a *wire.Problem, or the failure of the last attempt; nil: Reason says it all
}

// Error names the lock and the reason.
func (e *AskError) Error() string {
	text := fmt.Sprintf("stanchion: acquire %s %s: ", e.Class, strconv.Quote(e.Key))
	switch {
	case e.Reason == nil:
		return text + e.Err.Error()
	case e.Err == nil:
		return text + e.Reason.Error()
	}
	return text + e.Reason.Error() + " (" + e.Err.Error() + ")"
}

// Unwrap gives both.
func (e *AskError) Unwrap() []error {
	var all []error
	for _, err := range []error{e.Reason, e.Err} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// reasonOf are the problems that have a name of their own here.
var reasonOf = map[wire.Code]error{
	wire.CodeHeld:            ErrHeld,
	wire.CodeWaitTimeout:     ErrWaitTimeout,
	wire.CodeQueueFull:       ErrQueueFull,
	wire.CodeAlreadyHeld:     ErrAlreadyHeld,
	wire.CodeClassNotInForce: ErrNotInForce,
	wire.CodeClassRetired:    ErrNotInForce,
}
