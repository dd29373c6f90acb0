package main

import (
	"syscall"
	"time"
)

// SIGTSTP is never caught here: Go would not give its default action back, by which this process stops.
//
// A command that is stopped from the terminal stops this process with it, as a shell's user expects. Heartbeats end with that: whoever
// leaves a command stopped gives the lock up, and the watchdog ends the command in time.

// stopped is called when the command was stopped.
func (s *supervision) stopped() {
	e := ofLease(eventStopped, s.lease)
	e.LeftMS, e.foreground = milliseconds(max(s.lease.Remaining()-s.margin()/2, 0)), s.hand != nil
	s.report.say(e)
	if s.hand == nil {
		return // there is no job control: somebody has stopped the command alone
	}
	s.hand.take(s.gate.group)
	s.report.flush()
	s.suspended, s.goOn = true, time.After(goOnTime)
	_ = syscall.Kill(0, syscall.SIGTSTP) // the job, this process and those of its pipeline; where there is no shell, the kernel ignores it
}

// resume goes on, with the command.
func (s *supervision) resume() {
	s.goOn = nil
	if s.suspended {
		s.suspended = false
		s.say(eventContinued)
	}
	s.hand.give(s.gate.group)
	if s.cause == nil && s.lease.Err() == nil { // else it is ended, stopped as it is
		_ = s.gate.group.signal(syscall.SIGCONT)
	}
}
