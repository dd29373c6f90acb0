package guard

import (
	"errors"
	"fmt"
)

// What a guard answers besides yes. The first three are refusals: decided, and the same as often as asked. Whatever is
// none of the errors named here is undecided (the database failed, the context ended): roll back, and begin again with Enter.
var (
	// ErrStale refuses a token lower than the highest that has entered: somebody newer holds the lock. Stop the work and
	// do not retry. The error is a *StaleError.
	ErrStale = errors.New("guard: stale fencing token")
	// ErrNoToken refuses a token that is missing, malformed, zero or above TokenMax. The caller holds no protected grant,
	// or lost its token on the way.
	ErrNoToken = errors.New("guard: no fencing token")
	// ErrNotEntered refuses a token that has not entered: Enter first, before reading. The error is a *NotEnteredError.
	ErrNotEntered = errors.New("guard: the fencing token has not entered")

	// ErrResource is returned for a resource name that is empty, longer than ResourceBytesMax, no UTF-8, or has control
	// characters. Nothing was checked.
	ErrResource = errors.New("guard: bad resource name")
	// ErrTooManyResources is returned by a Memory that knows as many resources as it may. Nothing was checked.
	ErrTooManyResources = errors.New("guard: too many resources")
	// ErrNoRow is returned by a Column whose row does not exist, so that there is nothing to enter. Nothing was checked.
	ErrNoRow = errors.New("guard: no such row")
)

// StaleError is an ErrStale with its tokens.
type StaleError struct {
	Resource  string
	Presented uint64 // lower than Highest
	Highest   uint64 // the highest token that has entered
}

// Error says which token was refused because of which.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %d was presented to %s, where %d has entered", ErrStale, e.Presented, e.Resource, e.Highest)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// NotEnteredError is an ErrNotEntered with its tokens.
type NotEnteredError struct {
	Resource  string
	Presented uint64 // higher than Highest
	Highest   uint64 // the highest token that has entered; 0: none has
}

// Error says which token should enter first.
func (e *NotEnteredError) Error() string {
	return fmt.Sprintf("%v: %d was presented to %s, where %d is the highest that has", ErrNotEntered, e.Presented, e.Resource, e.Highest)
}

// Is makes errors.Is(err, ErrNotEntered) true.
func (e *NotEnteredError) Is(target error) bool { return target == ErrNotEntered }

// tokenError is an ErrNoToken with its reason.
type tokenError struct {
	missing bool // nothing was presented at all
	why     string
}

func (e *tokenError) Error() string        { return ErrNoToken.Error() + ": " + e.why }
func (e *tokenError) Is(target error) bool { return target == ErrNoToken }

// decideEnter judges a token that wants to enter against the highest that has, or would have with it.
func decideEnter(resource string, token, highest uint64) error {
	if token < highest {
		return &StaleError{Resource: resource, Presented: token, Highest: highest}
	}
	return nil
}

// decideCheck judges a token that should have entered.
func decideCheck(resource string, token, highest uint64) error {
	if token > highest {
		return &NotEnteredError{Resource: resource, Presented: token, Highest: highest}
	}
	return decideEnter(resource, token, highest)
}

// decided reports whether a guard has said yes or no, as opposed to not being able to tell.
func decided(err error) bool {
	return err == nil || errors.Is(err, ErrStale) || errors.Is(err, ErrNoToken) || errors.Is(err, ErrNotEntered)
}
