package main

import (
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/deadline"
)

// The watchdog is a process beside `stanchion run` that ends the command's group when that cannot: it was killed, or stopped for so long
// that the lease is about to run out. It is in a session of its own, minds no signal, has neither the API key nor
// standard input or output, and ends with `stanchion run`, or when nothing of the group is left.

// watchNote is what it is told.
type watchNote struct {
	Class, Key string
	JSON       bool             // how it says what it does
	Group      int              // of the command; 0: no news
	At         deadline.Reading // when Left was looked at; clocks are the same for all processes of a machine
	Left       time.Duration    // until the local deadline
	Margin     time.Duration
	Done       bool // the group has ended, and its number may soon be another's: leave it alone
}

const (
	watchdogTick = 50 * time.Millisecond
	watchdogTime = time.Minute // to kill what does not end
)

// earlierClock is the system's clocks, but that the first reading is one which another process took before.
type earlierClock struct {
	first *deadline.Reading // nil: it was read
	deadline.Clock
}

func (c *earlierClock) Read() deadline.Reading {
	if first := c.first; first != nil {
		c.first = nil
		return *first
	}
	return c.Clock.Read()
}

// deadlineOf is a note's deadline, by the rule of all clients: it counts from when the other process looked at its clocks, not from
// when the note was read.
func deadlineOf(n watchNote, clock deadline.Clock) *deadline.Deadline {
	watch := deadline.NewWatch(&earlierClock{first: &n.At, Clock: clock})
	return deadline.New(watch, 0, n.Left)
}

func newWatchdogCommand() *cobra.Command {
	return &cobra.Command{Use: "watchdog", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2,
				syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
			notes := make(chan watchNote)
			go readNotes(os.Stdin, notes) // ends with its input, which this function waits for
			if _, err := os.Stdout.Write([]byte{gateReady}); err != nil {
				return exitError(exitFailed)
			}
			os.Stdout.Close()
			new(watchdog).run(notes)
			return nil
		}}
}

// readNotes hands on what `stanchion run` says, until that ends.
func readNotes(in io.Reader, notes chan<- watchNote) {
	defer close(notes)
	for d := json.NewDecoder(in); ; {
		var n watchNote
		if d.Decode(&n) != nil {
			return
		}
		notes <- n
	}
}

// watchdog is owned by run.
type watchdog struct {
	group    *group             // nil: not told yet
	deadline *deadline.Deadline // of the last note
	ending   ending
	done     bool
	orphan   bool // `stanchion run` has ended without a word
	report   *reporter
}

func (w *watchdog) run(notes <-chan watchNote) {
	tick := time.NewTicker(watchdogTick)
	defer tick.Stop()
	defer func() {
		if w.report != nil {
			w.report.close()
		}
	}()
	for !w.over() {
		select {
		case n, more := <-notes:
			if !more {
				notes, w.orphan = nil, true
			} else {
				w.note(n)
			}
		case <-tick.C:
		}
		w.look()
	}
}

func (w *watchdog) over() bool {
	switch {
	case w.done || w.group == nil:
		return w.orphan
	case w.orphan:
		return w.group.gone() || w.ending.since(watchdogTime)
	}
	return false
}

func (w *watchdog) note(n watchNote) {
	if n.Done {
		w.done = true
		return
	}
	if n.Group != 0 {
		w.group = new(openGroup(n.Group))
		w.report = newReporter(os.Stderr, n.JSON, n.Class, n.Key)
	}
	w.ending.margin = n.Margin
	w.deadline = deadlineOf(n, deadline.System())
}

// look ends the group if it is time to.
func (w *watchdog) look() {
	if w.done || w.group == nil || w.over() {
		return
	}
	left := w.deadline.Remaining()
	switch s, first := w.ending.due(left, w.orphan, time.Now()); {
	case s == 0:
	case s == syscall.SIGTERM:
		w.group.end()
		w.say(s, left)
	default:
		w.group.kill()
		if first {
			w.say(s, left)
		}
	}
}

func (w *watchdog) say(s syscall.Signal, left time.Duration) {
	cause := "stanchion run does not answer, and its lease is about to run out"
	if w.orphan {
		cause = "stanchion run was killed"
	}
	w.report.say(runEvent{Event: eventWatchdog, PID: w.group.id, Signal: signalName(s), Cause: cause, LeftMS: milliseconds(left)})
}

// ending is when the watchdog does what.
type ending struct {
	margin  time.Duration
	began   time.Time     // zero: not yet
	killAt  time.Duration // what is left of the lease when KILL follows TERM
	killing bool
}

// due is the signal that is due; 0: none. TERM is said once; KILL again and again, and first tells the first one. TERM comes when half
// of the margin is left, the other half having been the time of `stanchion run` itself, or when that has ended; KILL at half
// of what was left then, and at once when nothing is.
func (e *ending) due(left time.Duration, orphan bool, now time.Time) (s syscall.Signal, first bool) {
	switch {
	case left <= 0 || !e.began.IsZero() && left <= e.killAt:
		first, e.killing = !e.killing, true
		if e.began.IsZero() {
			e.began = now
		}
		return syscall.SIGKILL, first
	case e.began.IsZero() && (orphan || left <= e.margin/2):
		e.began, e.killAt = now, left/2
		return syscall.SIGTERM, true
	}
	return 0, false
}

// since reports whether the group should have ended that long ago.
func (e *ending) since(d time.Duration) bool { return e.killing && time.Since(e.began) > d }
