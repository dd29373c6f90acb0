// Package clienttest is a lock platform in memory, for tests of programs that hold leases.
//
//	func TestBackup_stopsWhenItsLeaseIsLost(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			p := clienttest.New(t)
//			p.Class("backup", clienttest.ClassConfig{Lease: 10 * time.Second})
//			c, err := client.New(p.Endpoints(), p.APIKey(), p.Options()...)
//			...
//			p.Expire("backup", "db-1") // and see what the program does
//		})
//	}
//
// It speaks the lease API of the real platform, so that the client under test is the real one, and it goes wrong on
// demand: nodes hang or are cut off, requests and answers are lost, late or doubled, the leader changes, the quorum is
// lost, holds are revoked and expire. It keeps a record of the requests that it has seen.
//
// # Time
//
// Within a bubble of testing/synctest nothing here needs a socket or a real clock: hours pass in no time, and nothing
// depends on how fast the machine is. Make the platform in the bubble in which it is used. Clients take
// [Platform.Options], which are the platform's transport and its [Clock]; a test can step that clock, stop it, or have
// its machine sleep. Outside of a bubble all works the same in real time, and [Platform.Serve] opens real addresses for
// other processes.
//
// # What is as on the platform
//
//   - Requests and answers: the JSON and the problems are those of package wire. What is malformed or unknown is refused.
//   - Leases: one grant for each lease id, however often it is asked for; queues in order of arrival, whose requests
//     hang; the pick-up window of a lease that was handed to a waiter; use_within, counted from when the request was
//     there; expiry never before the lease is over; the ids that refusals and early releases use up; fencing tokens that
//     rise with each grant.
//   - Waiters: one whose connection is lost leaves after half a second, one that is silent after three polls, or 5 s if
//     that is longer.
//   - Any node answers. A change of leader has what hangs answered not_leader, and lets every lease run its full term
//     anew.
//
// # What is not
//
//   - There is one copy of everything: no log, no votes, no disk. A leader changes, and a quorum is lost, only when told
//     to; cutting the leader off changes nothing for the other nodes.
//   - No lock delay, no max_hold, no quotas, no rate limits, no unprotected grants; nothing is refused for what it costs.
//   - An API key may do everything. Scopes are not checked, and there is one tenant.
//   - A session is kept until [Platform.ForgetSession], not for ten minutes.
//   - The lists of GET /v1/locks have no pages. There are no calls about classes, tenants, API keys, the audit or guards.
//   - Long leases are as short ones: a change of leader gives them their full term as well.
//
// So a test against this package shows how a program takes what a platform may answer. It shows nothing about the
// platform, and nothing about how fast it is.
package clienttest
