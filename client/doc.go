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
// ends, its Err says why, and it stays over.
//
// # Doubt
//
// Between a heartbeat that failed and the local deadline a hold is in doubt: it is good still, and may not be renewed any more. OnDoubt tells,
// with the cause. Go on working, and stop early only what takes longer to stop than Remaining says. Failures end no hold, whether a
// node is gone, a certificate is wrong or an API key is refused; only an answer that says so does, and the deadline.
//
// # Pauses
//
// A process can be paused: by the scheduler, a debugger, a sleeping machine. Timers do not count such a time, and go off late. So
// nothing here rests on a timer alone: Err, and the Err of a lease's Context, look at four clocks whenever they are asked. Ask before
// each step that must not be taken without the lock. Done follows within a second of waking.
//
// # What remains unsafe without a guard
//
// Asking makes the gap between looking at a lease and acting on it short, and does not close it:
//
//   - A process may be paused between the two, for as long as it takes somebody else to be granted the key.
//   - A virtual machine that is stopped and moved may see no time pass on any of its clocks, and believe for up to a whole lease that
//     it holds what is somebody else's.
//   - What was sent in time, to a database, a queue, a file server, may arrive late.
//   - Work goes on that looks at neither Err nor a context.
//
// No check in this process can mend that. The resource can: it compares fencing tokens. So give Token to the resource, as the first thing
// and before you read what you are going to change; package client/guard has that check for databases, HTTP services and memory. For a
// class without a guard the platform claims ordered grants and nothing more; Claim says what a lease was granted for.
//
// Test code that holds leases with package client/clienttest, which plays the platform and all its failures.
package client
