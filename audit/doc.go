// Package audit keeps what became true: each node's own append-only projection of the committed logs into a SQLite file,
// with a Merkle log over each, searches, exports and their verification.
//
// It never decides anything. Rows are keyed by (incarnation, log, index, ordinal), so that replaying a log is harmless;
// another content at a known position stops the projection. What a node knows it does not have is a recorded gap, until
// another node fills it. [Projector] stands between a machine's Apply, which never waits, and [Store].
//
// The package must not know Raft, HTTP, the control log's commands or who may read what: whoever asks says for which
// tenant. Times are the leaders' wall clocks in milliseconds since the Unix epoch, for people; order is by position.
package audit
