// Package client is the holder's side of Stanchion: it takes leases on keys, keeps them by heartbeats, and knows on its own
// clocks until when it may rely on them.
//
//	c, err := client.New(endpoints, apiKey)
//	...
//	err = c.Do(ctx, "ledger-close", "2026-06-30", func(ctx context.Context, l *client.Lease) error {
//		return closeLedger(ctx, l.Token()) // enters the guard with the token first, then reads, then writes
//	})
//
// A Client has one session and one heartbeat, however many leases it holds. Requests go to whichever node leads, are repeated with the
// same id at every node while no node has decided, and are withdrawn when the caller gives up. A lease ends at its local deadline,
// which package deadline computes: from when a request was sent, by the clock that ran most. Whatever ends it, its Context
// ends, its Err says why, and it stays over. Nothing that it says of itself is a guess: while nodes do not answer, the hold is in
// doubt (OnDoubt) and good until the deadline.
//
// # What remains unsafe without a guard
//
// A process can be paused between looking at a lease and acting on it: by the scheduler, a debugger, a machine that is moved. When it
// goes on, its lease may be somebody else's, and no check in this process can close that gap. Only the resource can: it compares
// fencing tokens. So give Token to the resource, as the first thing and before you read what you are going to change; package
// client/guard has that check for databases, HTTP services and memory. For a class without a guard the platform claims ordered
// grants and nothing more; Claim says what a lease was granted for.
//
// Test code that holds leases with package client/clienttest, which plays the platform and all its failures.
package client
