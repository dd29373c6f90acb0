// Package leadertest is a small deterministic world around leaders: nodes with machines, logs, terms and clocks of their
// own, elections, confirm rounds, and clients that keep account of what they were told. Everything runs on the caller's
// goroutine, in virtual time, and repeats exactly.
//
// The log is a model of Raft's contract, not of an implementation: entries are copied, acknowledged, truncated and
// committed by Raft's rules, but elections happen when a test says so. It therefore produces what the contract allows and
// good luck hides: several nodes that believe they lead, entries that commit after their proposer gave up, leadership lost
// and regained, acknowledgements read long after they were sent.
//
// An [Audit] follows every entry applied and every answer given, in true time, which no leader knows, and collects
// violations of the protocol's properties.
package leadertest
