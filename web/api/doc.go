// Package api is the lease API over HTTP: it reads requests strictly, asks the tenant's partition once, and says what
// came of it. Any node takes any request; one that does not lead the tenant's partition passes it on to the node that
// does, once, with the caller's own API key.
//
// It knows JSON, status codes and who may ask. It must not know Raft, disks or how a grant is decided: a partition is a
// [Locks], the node a [Platform], and both are handed over by whoever wires the program.
package api
