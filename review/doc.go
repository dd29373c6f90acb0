// Package review holds the rules of what a lock class promises: the class file and its schema, the findings about it, the
// canonical statement that people sign, the versions of a class and who may sign them, and the table of guarantees.
//
// [Parse] reads a class file and reports everything that is wrong with it. [State] is the replicated state of declarations
// and signatures: a deterministic function from commands to results and events.
//
// The package knows no HTTP, SQL, template, network, disk or clock, nothing of Raft, of leases, of API keys or of logins,
// and nothing in it depends on the order of a Go map. Time arrives in commands as milliseconds since the Unix epoch (UTC).
// What a person may do beyond these rules (scopes, roles, sessions) is decided by whoever makes the commands.
package review
