// Package leader is what a partition's leader does beyond applying the log: it keeps the deadlines of leases on its own
// clock, renews them for holders that a majority confirms, watches over waiters, and proposes what follows when time
// runs out. One [Leader] lives as long as one leadership.
//
// It is stepped: every call returns at once, and the world is reached only through [Log], [Net] and [Clock], so that a
// single-threaded simulator can drive it under a seed. It starts no goroutine and knows no Raft, no HTTP and no disk.
// It is not safe for concurrent use: the owner holds the partition's lock around each call and around the machine.
//
// Three rules carry its safety. A deadline that a client may rely on comes only from an entry of this leadership or from
// a request that a majority confirmed after it had arrived. A timer only ever runs longer than what clients were told. A
// lease once proposed for expiry is doomed: nothing says that it is held until the outcome is known.
package leader
