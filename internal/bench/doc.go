// Package bench measures a running cluster through its API: pairs of acquire and release, hand-offs, heartbeats, held
// leases and fairness.
//
// The load is lean, as it often shares the machine with the nodes: each client writes its requests to a connection of its
// own and reads the answers in the same goroutine. All speak to the node that leads their tenant's partition. What is held is
// given back at the end, however a measurement ends.
//
// The package knows the API as any client does. It must not know how the platform works inside.
package bench
