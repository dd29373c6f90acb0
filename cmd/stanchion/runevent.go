package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// runEvent is something that happened to a run: one JSON object with --output json, else what text says of it. Fields are
// as docs/run.md has them; what an event does not have is absent.
type runEvent struct {
	Time       time.Time  `json:"time"`
	Event      eventName  `json:"event"`
	Class      string     `json:"class"`
	Key        string     `json:"key"`
	Place      int        `json:"place,omitempty"`
	Holder     string     `json:"holder,omitempty"`
	HolderKey  string     `json:"holder_api_key,omitempty"`
	HeldSince  *time.Time `json:"held_since,omitempty"`
	WaitedMS   *int64     `json:"waited_ms,omitempty"`
	Token      uint64     `json:"token,omitempty"`
	Epoch      uint64     `json:"epoch,omitempty"`
	Claim      string     `json:"claim,omitempty"`
	Posture    uint64     `json:"posture_version,omitempty"`
	PID        int        `json:"pid,omitempty"`
	LeftMS     *int64     `json:"left_ms,omitempty"`
	Signal     string     `json:"signal,omitempty"`
	Cause      string     `json:"cause,omitempty"`
	Code       string     `json:"code,omitempty"`
	Remedy     string     `json:"remedy,omitempty"`
	ExitCode   *int       `json:"exit_code,omitempty"`
	foreground bool       // of stopped: it is this process's terminal
}

// eventName is what happened.
type eventName string

// The events of a run, roughly in their order.
const (
	eventWaiting     eventName = "waiting"
	eventSkipped     eventName = "skipped"
	eventNotGranted  eventName = "not_granted"
	eventGaveUp      eventName = "gave_up"
	eventGranted     eventName = "granted"
	eventCannotStart eventName = "cannot_start"
	eventStarted     eventName = "started"
	eventDoubt       eventName = "doubt"
	eventStopped     eventName = "stopped"
	eventContinued   eventName = "continued"
	eventUnwatched   eventName = "unwatched"
	eventTerminating eventName = "terminating"
	eventKilling     eventName = "killing"
	eventWatchdog    eventName = "watchdog"
	eventExited      eventName = "exited"
	eventLeftBehind  eventName = "left_behind"
	eventLost        eventName = "lost"
	eventReleased    eventName = "released"
	eventNotReleased eventName = "not_released"
)

// eventFields are the fields that each event may have besides time, event, class and key.
var eventFields = map[eventName][]string{
	eventWaiting:     {"place", "holder", "holder_api_key", "held_since", "waited_ms"},
	eventSkipped:     {"cause", "exit_code"},
	eventNotGranted:  {"cause", "code", "remedy", "exit_code"},
	eventGaveUp:      {"signal", "exit_code"},
	eventGranted:     {"token", "epoch", "claim", "posture_version", "left_ms", "waited_ms"},
	eventCannotStart: {"cause", "exit_code"},
	eventStarted:     {"token", "pid"},
	eventDoubt:       {"token", "cause", "left_ms"},
	eventStopped:     {"token", "left_ms"},
	eventContinued:   {"token", "left_ms"},
	eventUnwatched:   {"token", "cause"},
	eventTerminating: {"token", "cause", "left_ms"},
	eventKilling:     {"token", "cause", "left_ms"},
	eventWatchdog:    {"pid", "signal", "cause", "left_ms"},
	eventExited:      {"token", "signal", "exit_code"},
	eventLeftBehind:  {"token", "pid"},
	eventLost:        {"token", "cause", "exit_code"},
	eventReleased:    {"token"},
	eventNotReleased: {"token", "cause"},
}

// text is what people read; "": nothing.
func (e runEvent) text() string {
	switch e.Event {
	case eventWaiting:
		return e.waitingText()
	case eventSkipped:
		return fmt.Sprintf("skipped: somebody else holds %s %s", e.Class, strconv.Quote(e.Key))
	case eventNotGranted:
		if e.Remedy != "" {
			return "not started: " + visible(e.Cause) + "\nstanchion: run: " + visible(e.Remedy)
		}
		return "not started: " + visible(e.Cause)
	case eventCannotStart:
		return "not started: " + visible(e.Cause)
	case eventDoubt:
		return "the lease may not be renewed; nodes are asked on: " + visible(e.Cause)
	case eventStopped:
		return e.stoppedText()
	case eventUnwatched:
		return "the watchdog is gone: should this process be killed, nothing ends the command: " + visible(e.Cause)
	case eventTerminating:
		return "the command is told to end, while its lease lasts: " + visible(e.Cause)
	case eventWatchdog:
		return fmt.Sprintf("watchdog: %s: the command's process group %d gets %s", e.Cause, e.PID, e.Signal)
	case eventLeftBehind:
		return fmt.Sprintf("processes of the command's group %d have not ended though they were killed; "+
			"look at them with ps -eo pid,pgid,stat,args", e.PID)
	case eventLost:
		return "the lease was lost before the command had ended, and the command was ended: " + visible(e.Cause)
	case eventNotReleased:
		return visible(e.Cause) + "; the lock is free when its lease has run out"
	}
	return ""
}

func (e runEvent) stoppedText() string {
	if e.foreground {
		return fmt.Sprintf("stopped; the lease is not renewed meanwhile: the command is ended unless it goes on within %s", shortTime(e.LeftMS))
	}
	return "the command is stopped, and its lease is kept; a command that is to read from the terminal needs it as its standard input"
}

// waitingText is one line about the wait.
func (e runEvent) waitingText() string {
	text := fmt.Sprintf("waiting for %s %s, place %d in line", e.Class, wire.Shown(e.Key), e.Place)
	if e.WaitedMS != nil {
		text += ", for " + shortTime(e.WaitedMS)
	}
	if e.HeldSince == nil {
		return text
	}
	return text + fmt.Sprintf("; held by %s (API key %s) since %s", visible(e.Holder), visible(e.HolderKey),
		e.HeldSince.UTC().Format(time.RFC3339))
}

// shortTime is a time in whole seconds.
func shortTime(ms *int64) string {
	if ms == nil {
		return "?"
	}
	return (time.Duration(*ms) * time.Millisecond).Round(time.Second).String()
}

func milliseconds(d time.Duration) *int64 { return new(d.Milliseconds()) }

// ofLease is an event about a lease.
func ofLease(name eventName, l *client.Lease) runEvent {
	return runEvent{Event: name, Token: l.Token()}
}
