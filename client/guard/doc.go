// Package guard is the resource's side of a lock: the check of the fencing token, where the work is done.
//
// A lease tells its holder that nobody else holds the lock. It cannot stop a program that looks at its lease, is paused
// for a minute, and then writes: no clock and no time limit can. Every grant therefore carries a fencing token, higher
// than all before it, and the resource refuses any token lower than the highest that it has seen. Lock, lease and this
// check together keep two holders apart. Without the check, mutual exclusion is a hope: two holders will write at the same
// time, rarely, and after a pause of one of them.
//
// # Enter first
//
// A holder enters the resource with its token, and only then reads what it is going to change. Entering raises the fence.
// Without it holder 33 may read, stale holder 32 write (33 has not shown itself yet), and 33 overwrite what 32 wrote. Each
// guard here has an Enter for that, and returns from it what is needed to go on:
//
//   - [Memory] guards what lives in one process. Work is done in [Entry.Do].
//   - [SQL] guards anything in a database, by a row in a table of fences, within the caller's own transaction. [SQL.Do]
//     makes the transaction, enters as its first statement, and hands its work an [Entered].
//   - [Column] does the same with a column of the caller's own row.
//   - [HTTP] is middleware on the header Stanchion-Fencing-Token.
//
// Tokens are 1 to 2^53-1. Zero is what an unprotected grant carries, and never enters. An equal token is the same holder,
// and is accepted. The comparison at the resource is the whole protection: asking the lock service whether a token is
// still good proves nothing by the time the answer is there.
//
// # What a guard cannot do
//
//   - It cannot undo. What a holder did before a newer one entered stays done, finished or not: the newer holder finds it,
//     and must cope with work half done. A transaction makes that easy, a file or a device does not.
//   - It guards only what passes it. A read that a change is based on, taken before entering, or a second way to the
//     resource, is unguarded.
//   - It does not reach elsewhere. A mail that a stale holder sends is sent; each resource needs its own guard.
//   - It compares tokens of one tenant of the lock service. Resources shared by two tenants, and two lock classes on one
//     resource with a fence each, are not kept apart.
//   - A fence must last as long as its resource. Restoring a resource from a backup restores its old fence.
//   - A token is not a secret and proves no identity. Whoever can reach the resource can present any number, and one
//     that is too high shuts out all rightful holders until their tokens catch up.
//
// # Reports
//
// A [Reporter] tells the lock service how often guards checked and which stale tokens they refused, so that people can see
// that a class said to be fenced is. Nothing depends on it: guards decide the same without it.
//
// This package knows tokens, and nothing of leases, their clients or the service's rules. It imports no database driver.
package guard
