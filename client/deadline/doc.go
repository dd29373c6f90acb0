// Package deadline is the rule by which a holder knows, on its own clocks, until when it may rely on a lease.
//
//	deadline = the moment at which the request was sent + use_within of its answer
//
// Three things make the rule hold where a timer would not:
//
//   - It counts from when the request was sent, never from when the answer came: the server's promise does not wait for the
//     answer's way. The server has taken the bound on the difference of clock rates, and a margin, off use_within.
//   - No clock is right alone. CLOCK_MONOTONIC stands still while the machine sleeps and is slewed by time daemons, the wall
//     clock jumps. So time is the largest that any of four clocks saw pass, interval by interval: a clock that jumps ahead
//     makes a holder give up early, and one that stands still or goes back changes nothing.
//   - It is asked before each use. Timers are alarms: they go off late exactly when it matters.
//
// A deadline that has passed has passed for ever. Whatever answer comes later, somebody was told that the work stopped.
//
// What no rule of time can do: a process can be paused between the question and its next act, and a virtual machine can be
// stopped without any of its clocks noticing. The guard at the resource is for that; see package guard.
//
// The package reads clocks and does arithmetic. It starts no goroutine and no timer, and knows neither network nor lock, so
// that a simulator can run it on clocks of its own.
package deadline
