// Package wire is the JSON of the lease API: what requests and answers look like, and the published table of problems.
// The server and the Go client share it, so that neither can drift from the other.
//
// It knows shapes and their limits, not rules: it imports nothing of this house, opens no connection and decides no
// grant. Values are plain; none of its types is changed by a method, so they may be shared once they are filled.
package wire
