// Package tenants holds the rules of tenants and their API keys, and the replicated state that follows from them.
//
// State is one half of the control log's machine. It is deterministic: times, key ids and hashes arrive in commands,
// which whoever proposes them has drawn, and equal commands in equal order lead to equal states, results and events. A
// command that breaks a rule is refused with a Reason and changes nothing.
//
// The package must not know locks, classes' contents, reviews, HTTP, disks or clocks, and imports nothing of the house.
// Who may do what is decided by the caller, with one exception that only the state can decide without a race: an API
// key never makes a key wider than itself.
package tenants
