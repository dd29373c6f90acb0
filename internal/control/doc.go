// Package control is the control log's one machine: the rules of tenants and API keys, and those of classes and their
// reviews, behind one entry format, one snapshot and one rolling hash, with the few rules that need both halves.
//
// Machine is deterministic: it has no clock, no randomness and does no I/O. What the other logs ought to carry follows
// from it (see Machine.DesiredState); it must not know Raft, locks, HTTP, SQL, templates or who is signed in.
package control
