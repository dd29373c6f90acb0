package main

import (
	"cmp"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/stanchion-locks/stanchion/client"
)

const (
	runTick    = 50 * time.Millisecond // how often the lease's clocks are looked at while the command runs, whatever timers believe
	goneTime   = time.Second           // for what was killed to be gone
	goOnTime   = time.Second           // for this process to have stopped: where nobody controls jobs, it does not
	stopsNoted = 1                     // stops that are not looked at yet; more say no more
)

// errNotRenewed: what was lost is the certainty.
var errNotRenewed = errors.New("heartbeats were not answered in time")

// errTooLate: the command would have to be ended as soon as it began.
var errTooLate = errors.New("too little is left of the lease to begin")

// supervision is a command that runs under a lease.
type supervision struct {
	*running
	lease     *client.Lease
	gate      *gate
	leash     *leash
	hand      *hand // nil: standard input is no terminal of this process's session
	stops     chan struct{}
	continued chan os.Signal   // SIGCONT
	fresh     time.Duration    // the most that was left of the lease
	cause     error            // why the command is being ended; nil: it is not
	killAt    time.Time        // when KILL follows TERM
	killing   bool             // it has
	unwatched bool             // it was said that the watchdog is gone
	suspended bool             // this process has stopped with its command, or tried to
	goOn      <-chan time.Time // when it goes on though nobody said so
}

// command runs the command under the lease. The watchdog is there before it.
func (r *running) command(path string, args []string) int {
	l := r.lease
	l.OnDoubt(func(cause error) {
		e := ofLease(eventDoubt, l)
		e.Cause, e.LeftMS = cause.Error(), milliseconds(l.Remaining())
		r.report.say(e)
	})
	env := os.Environ()
	leash, err := startLeash(withoutSecret(env, r.apiKey), r.options)
	if err != nil {
		return r.cannotStart(err)
	}
	gate, err := newGate(path, args, commandEnvironment(env, r.apiKey, l))
	if err != nil {
		leash.end()
		return r.cannotStart(err)
	}
	s := &supervision{running: r, lease: l, gate: gate, leash: leash, hand: newHand(os.Stdin),
		stops: make(chan struct{}, stopsNoted), continued: make(chan os.Signal, 1)}
	defer s.gate.closeFiles()
	if code, begun := s.begin(); !begun {
		s.end()
		return code
	}
	return s.run()
}

// begin has the gate become the command, unless there is a reason not to; then it says the exit code.
func (s *supervision) begin() (code int, begun bool) {
	s.fresh = s.lease.Remaining()
	if err := s.leash.begin(s.gate.group, s.lease, s.margin()); err != nil {
		return s.cannotStart(err), false
	}
	s.hand.give(s.gate.group)
	s.report.flush()
	if by := s.pending(); by != 0 {
		return s.gaveUp(by), false
	}
	left := s.lease.Remaining() - s.margin()
	if left <= 0 {
		return s.notGranted(errors.Join(client.ErrDeadline, cmp.Or(s.lease.Err(), errTooLate))), false
	}
	if err := s.gate.pass(left); err != nil {
		return s.cannotStart(err), false
	}
	return 0, true
}

// pending is a signal that came since the grant and ends a run without a command.
func (r *running) pending() syscall.Signal {
	for {
		select {
		case s := <-r.signals:
			if ends(s) {
				return s.(syscall.Signal)
			}
		default:
			return 0
		}
	}
}

// margin is how long before the deadline the command is ended.
func (s *supervision) margin() time.Duration { return min(s.options.margin, s.fresh/marginShare) }

// run watches over the command until it has ended, and says the exit code.
func (s *supervision) run() int {
	e := ofLease(eventStarted, s.lease)
	e.PID = s.gate.group.id
	s.report.say(e)
	signal.Notify(s.continued, syscall.SIGCONT)
	defer signal.Stop(s.continued)
	followed := make(chan error, 1)
	go func() { followed <- follow(s.gate.group.id, s.stops) }() // ends with the command, which is killed at the latest at its deadline
	s.watch()
	failed := <-followed
	s.end()
	return s.ended(failed)
}

// ended tells how the command ended, and says the exit code. A lease that is over by now was so, as far as anybody knows, before the
// command had ended.
func (s *supervision) ended(failed error) int {
	code, by := commandExit(s.gate.cmd.ProcessState)
	exited := ofLease(eventExited, s.lease)
	exited.ExitCode = new(code)
	if by != 0 {
		exited.Signal = signalName(by)
	}
	s.report.say(exited)
	lost := cmp.Or(s.lease.Err(), s.cause, failed)
	if by != 0 || lost != nil {
		s.hand.restore()
	}
	if lost == nil {
		return code
	}
	code = exitLost
	gone := ofLease(eventLost, s.lease)
	gone.Cause, gone.ExitCode = lost.Error(), new(code)
	s.report.say(gone)
	return code
}

// watch passes signals on until the command has ended, and ends it in time if the lease is lost or not renewed.
func (s *supervision) watch() {
	tick := time.NewTicker(runTick)
	defer tick.Stop()
	over := s.lease.Context().Done()
	for {
		select {
		case _, running := <-s.stops:
			if !running {
				return
			}
			s.stopped()
		case sent := <-s.signals:
			_ = s.gate.group.signal(sent.(syscall.Signal)) // it may be gone
		case <-s.continued:
			s.resume()
		case <-s.goOn:
			s.resume()
		case <-over:
			over = nil
		case <-tick.C:
		}
		s.look()
	}
}

// look ends the command if the lease is over, or is about to be.
func (s *supervision) look() {
	left := s.lease.Remaining()
	s.fresh = max(s.fresh, left)
	s.leash.follow(s.lease, s.margin())
	s.wantWatchdog()
	if left > s.margin() && s.cause == nil {
		return
	}
	late := time.Until(s.lease.Deadline()) <= s.margin()/2
	if s.cause == nil {
		s.cause, s.killAt = cmp.Or(s.lease.Err(), errNotRenewed), time.Now().Add(s.margin()/2)
		if !late { // what is late is not woken to hear of it
			s.say(eventTerminating)
			s.gate.group.end()
		}
	}
	if late || !time.Now().Before(s.killAt) {
		s.gate.group.kill()
		if !s.killing {
			s.killing = true
			s.say(eventKilling)
		}
	}
}

// say tells of the end that is made of the command, or of a stop.
func (s *supervision) say(name eventName) {
	e := ofLease(name, s.lease)
	if s.cause != nil {
		e.Cause = s.cause.Error()
	}
	e.LeftMS = milliseconds(max(time.Until(s.lease.Deadline()), 0))
	s.report.say(e)
}

// wantWatchdog says, once, that the watchdog is gone.
func (s *supervision) wantWatchdog() {
	if s.leash.broken == nil || s.unwatched {
		return
	}
	s.unwatched = true
	e := ofLease(eventUnwatched, s.lease)
	e.Cause = s.leash.broken.Error()
	s.report.say(e)
}

// end makes an end of the whole group and waits until it is gone. The command itself is waited for last: until then the group's number
// is nobody else's, and the watchdog may use it.
func (s *supervision) end() {
	s.gate.group.kill() // what the command left behind must not go on without the lock
	if !s.gate.group.awaitGone(goneTime) {
		e := ofLease(eventLeftBehind, s.lease)
		e.PID = s.gate.group.id
		s.report.say(e)
	}
	s.leash.end()
	s.hand.take(s.gate.group)
	_ = s.gate.cmd.Wait() // ProcessState says how it ended
}
