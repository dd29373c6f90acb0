// Package lockcore is the lock state machine: a deterministic function from a log of entries to leases, queues and
// fencing tokens. Every node applies the same entries and reaches the same state, the same answers and the same events.
//
// It knows no clock, no randomness, no network, no disk and no goroutine, and nothing in it depends on the order of a Go
// map. Elapsed time arrives in entries as the leader's lease clock; wall time arrives too, for people, and decides nothing.
// Deadlines of short leases, poll limits and heartbeats are the business of package leader, which proposes what follows
// from them (Expire, Leave, WaiterGone, EndDelay). Each such command names what it expects, so that one which arrives late
// changes nothing and says why.
//
// A [Machine] is not safe for concurrent use; the package that owns the log guards it. A [Snapshot] is independent of the
// machine it was taken from and may be written by another goroutine while the machine goes on.
package lockcore
