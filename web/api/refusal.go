package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

// codeByReason says how each of the state machine's reasons is published. Every reason is in it; those that never answer
// a call of this API stand as internal.
var codeByReason = map[lockcore.Reason]wire.Code{
	lockcore.Released:      wire.CodeEnded,
	lockcore.Expired:       wire.CodeEnded,
	lockcore.PickupMissed:  wire.CodeEnded,
	lockcore.Forced:        wire.CodeRevoked,
	lockcore.MaxHold:       wire.CodeRevoked,
	lockcore.ClassRetired:  wire.CodeRevoked,
	lockcore.TenantDropped: wire.CodeRevoked,
	lockcore.SessionOver:   wire.CodeSessionEnded,
	lockcore.WaitTimeout:   wire.CodeWaitTimeout,
	lockcore.WaitLeft:      wire.CodeEnded,
	lockcore.Disconnected:  wire.CodeEnded,
	lockcore.Silent:        wire.CodeEnded,
	lockcore.Burned:        wire.CodeEnded,

	lockcore.RefusedStaleEpoch:    wire.CodeNotLeader,
	lockcore.RefusedUnknown:       wire.CodeNotFound,
	lockcore.RefusedForeign:       wire.CodeNotFound,
	lockcore.RefusedDropped:       wire.CodeTenantDropped,
	lockcore.RefusedSuspended:     wire.CodeTenantSuspended,
	lockcore.RefusedNotInForce:    wire.CodeClassNotInForce,
	lockcore.RefusedRetired:       wire.CodeClassRetired,
	lockcore.RefusedHeld:          wire.CodeHeld,
	lockcore.RefusedAlreadyHeld:   wire.CodeAlreadyHeld,
	lockcore.RefusedQueueFull:     wire.CodeQueueFull,
	lockcore.RefusedIDConflict:    wire.CodeIDConflict,
	lockcore.RefusedTooOld:        wire.CodeTooOld,
	lockcore.RefusedStaleToken:    wire.CodeStaleToken,
	lockcore.RefusedSessionOver:   wire.CodeSessionEnded,
	lockcore.RefusedWait:          wire.CodeInvalidRequest,
	lockcore.RefusedQuotaKeys:     wire.CodeQuotaExceeded,
	lockcore.RefusedQuotaLeases:   wire.CodeQuotaExceeded,
	lockcore.RefusedQuotaWaiters:  wire.CodeQuotaExceeded,
	lockcore.RefusedQuotaSessions: wire.CodeQuotaExceeded,
	lockcore.RefusedQuotaSession:  wire.CodeQuotaExceeded,
	lockcore.RefusedEnded:         wire.CodeEnded,
	lockcore.RefusedEnding:        wire.CodeRevoked,
	lockcore.RefusedInvalid:       wire.CodeInvalidRequest,
	lockcore.RefusedNotHeld:       wire.CodeNotFound, // a heartbeat that names a request which still waits

	lockcore.RefusedNotDue:       wire.CodeInternal,
	lockcore.RefusedNotLong:      wire.CodeInternal,
	lockcore.RefusedNotWaiting:   wire.CodeInternal,
	lockcore.RefusedNotDelayed:   wire.CodeInternal,
	lockcore.RefusedBusy:         wire.CodeInternal,
	lockcore.RefusedStaleVersion: wire.CodeInternal,
	lockcore.RefusedPurpose:      wire.CodeInternal,
	lockcore.RefusedPosture:      wire.CodeInternal,
}

// errStopping is the cause for which a hanging request is given up when its node shuts down.
var errStopping = errors.New("the node is shutting down")

// codeByError says how errors are published; the first that matches counts. What is not here is internal.
var codeByError = []struct {
	err    error
	code   wire.Code
	detail string
}{
	{errStopping, wire.CodeStopping, "The request was given up because this node shuts down."},
	{ErrNotReady, wire.CodeNotReady, "This node starts and cannot tell API keys yet; nothing was done. Another node may."},
	{ErrAuditBehind, wire.CodeAuditBehind, "The leader's audit does not take what happens; nothing was done."},
	{leader.ErrNotLeader, wire.CodeNotLeader, "This node does not lead the tenant's partition, or not any more."},
	{leader.ErrNoQuorum, wire.CodeNoQuorum, "No majority of the partition's nodes answered in time."},
	{leader.ErrUnknownOutcome, wire.CodeOutcomeUnknown, "The request was handed to the log and its outcome is not known."},
	{leader.ErrOverloaded, wire.CodeOverloaded, "The queue of the tenant's commands is full."},
	{leader.ErrNotFound, wire.CodeNotFound, "There is no such session or lease for this API key."},
	{context.DeadlineExceeded, wire.CodeOutcomeUnknown, "The partition's leader did not answer in time."},
	{context.Canceled, wire.CodeOutcomeUnknown, "The request was given up before its outcome was known."},
}

// ProblemOf is how an error is answered. Of an error that no table lists, and of one that the table does not explain,
// nothing is told but that it happened; log such an error.
func ProblemOf(err error) (problem *wire.Problem, listed bool) {
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		return p, p.Code != wire.CodeInternal
	}
	if bad, ok := errors.AsType[*badRequest](err); ok {
		return invalid(bad.field, bad.why), true
	}
	for _, row := range codeByError {
		if errors.Is(err, row.err) {
			return wire.NewProblem(row.code, row.detail), true
		}
	}
	return wire.NewProblem(wire.CodeInternal, ""), false
}

func invalid(field, why string) *wire.Problem {
	detail := why
	if field != "" {
		detail = "`" + field + "` " + why + "."
	}
	p := wire.NewProblem(wire.CodeInvalidRequest, detail)
	p.Field = field
	return p
}

// refused is how a refusal or an end is answered where the caller asked for a hold.
func (a *API) refused(answer leader.Answer, l wire.Lease) *wire.Problem {
	if answer.Reason == lockcore.RefusedWait {
		return invalid("wait", "is longer than the class's max_wait, or the class does not queue")
	}
	code := codeOf(answer.Reason)
	p := wire.NewProblem(code, "")
	p.Reason = answer.Reason.String()
	if code == wire.CodeQuotaExceeded || code == wire.CodeEnded || code == wire.CodeRevoked {
		p.Detail = fmt.Sprintf("The reason is %s.", p.Reason)
	}
	if answer.Lease != nil || answer.Status != leader.StatusRefused {
		p.Lease = &l
	}
	return p
}

// codeOf is the problem that a reason is published as.
func codeOf(r lockcore.Reason) wire.Code {
	if code, ok := codeByReason[r]; ok {
		return code
	}
	return wire.CodeInternal
}
