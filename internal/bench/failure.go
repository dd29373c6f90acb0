package bench

import (
	"encoding/json"
	"fmt"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// Failure is an error with what to do about it. What the cluster answered is in it as a *wire.Problem; one that says itself what
// to do is returned as it is.
type Failure struct {
	Err    error
	Remedy string
}

// Error is what went wrong.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap is what went wrong.
func (f *Failure) Unwrap() error { return f.Err }

// remedies are what to do about problems in a measurement, where it is not what the problem itself says.
var remedies = map[wire.Code]string{
	wire.CodeClassNotInForce: "name a class that is in force with --class",
	wire.CodeQuotaExceeded: "raise the quota that is named, as the platform's operator: stanchion tenant update TENANT --quota-leases N " +
		"(or --quota-keys, --quota-sessions, --quota-waiters); or hold fewer --leases",
	wire.CodeRateLimited:    "raise the quota, as the platform's operator: stanchion tenant update TENANT --quota-requests-per-second N",
	wire.CodeNotLeader:      again,
	wire.CodeNoQuorum:       again,
	wire.CodeOutcomeUnknown: again,
	wire.CodeQueueFull:      "take fewer --clients, or a class with more max_waiters",
	wire.CodeHeld:           "name a class that queues with --class",
	wire.CodeSessionEnded:   "somebody ended the session; measure again",
}

const again = "measure again, when the cluster has a leader and keeps it"

// failure is the error that an answer is.
func failure(status int, answer []byte) error {
	p := new(wire.Problem)
	if json.Unmarshal(answer, p) != nil || p.Code == "" {
		return &Failure{Err: fmt.Errorf("status %d, which is no answer of Stanchion", status), Remedy: "check the addresses in --endpoints"}
	}
	if remedy, ok := remedies[p.Code]; ok {
		return &Failure{Err: p, Remedy: remedy}
	}
	return p
}
