// Package e2e tests the real binary: real processes, real sockets, real disks, and clients that know nothing but the API
// and a clock. A test starts `stanchion dev` or `stanchion serve`, breaks something, and judges by what the clients were
// told. It imports nothing of ours but what a client may: what only the code knows is asked through the product's doors.
package e2e
