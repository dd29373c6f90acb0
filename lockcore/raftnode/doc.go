// Package raftnode replicates opaque entries among the nodes of a cluster: Raft groups around state machines, their
// stores on disk, and the one encrypted port through which nodes speak to each other.
//
// It is the only package that imports the Raft library, and it exists to keep that library's traps in one place: term
// and vote are one record, the first storage error stops the node, heartbeats never overtake the main loop, one append
// is in flight per peer, and leadership is confirmed by a round of our own whose answers are tied to its questions.
//
// The plumbing is generic over [Machine]. It must not know what a lock, a lease, a tenant or an HTTP request is.
//
// From the bottom up:
//
//   - [DataDir] says whose data a directory holds, and refuses anybody else's.
//   - [Store] is the Raft log and its stable records on one Bolt file, checked page by page before it is trusted.
//   - [Mux] carries every group's Raft traffic, the confirm rounds and forwarded API calls over one mTLS port.
//   - [Confirmer] asks a majority of voters whether a leader still leads.
//   - [Group] is one Raft group: open, propose, watch the leadership, confirm, restart, stop.
package raftnode
