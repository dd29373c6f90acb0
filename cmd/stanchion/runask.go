package main

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// granting is how a request for the lock ended.
type granting struct {
	lease *client.Lease
	err   error
}

// hold acquires, runs the command, and says the exit code.
func (r *running) hold(path string, args []string, ask []client.AcquireOption) int {
	began := time.Now()
	g, gaveUp := r.ask(ask)
	switch {
	case gaveUp != 0: // a lease that was granted meanwhile is released by the close
		return r.gaveUp(gaveUp)
	case g.err != nil:
		return r.notGranted(g.err)
	}
	r.lease = g.lease
	e := ofLease(eventGranted, g.lease)
	e.Epoch, e.Claim, e.Posture = g.lease.Epoch(), g.lease.Claim().ID, g.lease.PostureVersion()
	e.LeftMS, e.WaitedMS = milliseconds(g.lease.Remaining()), milliseconds(time.Since(began))
	r.report.say(e)
	return r.command(path, args)
}

// ask waits for the grant, or for a signal that ends the wait.
func (r *running) ask(ask []client.AcquireOption) (g granting, gaveUp syscall.Signal) {
	ctx, cancel := context.WithCancel(context.Background())
	var told sync.WaitGroup
	defer func() {
		cancel()
		told.Wait()
		r.report.flush() // the line of progress
	}()
	w := r.newWaiting()
	told.Go(func() { w.run(ctx) })
	answer := make(chan granting, 1)
	go func() { // ends with ctx at the latest, and is waited for below
		l, err := r.client.Acquire(ctx, r.options.class, r.options.key, append(ask, client.OnQueued(w.queued))...)
		answer <- granting{l, err}
	}()
	for {
		select {
		case s := <-r.signals:
			if ends(s) {
				gaveUp = s.(syscall.Signal)
				cancel()
			}
		case g := <-answer:
			return g, gaveUp
		}
	}
}

// gaveUp says that a signal ended the run before there was a command.
func (r *running) gaveUp(s syscall.Signal) int {
	code := exitSignal + int(s)
	r.report.say(runEvent{Event: eventGaveUp, Signal: signalName(s), ExitCode: new(code)})
	return code
}

func signalName(s syscall.Signal) string { return unix.SignalName(s) }

// notGranted says why there is no lock, and the exit code of it.
func (r *running) notGranted(err error) int {
	e := runEvent{Event: eventNotGranted, Cause: err.Error()}
	code := notGrantedCode(err)
	if errors.Is(err, client.ErrHeld) && r.options.ifHeld == "skip" {
		e.Event, code = eventSkipped, 0
	} else if p, ok := errors.AsType[*wire.Problem](err); ok {
		e.Code, e.Remedy = string(p.Code), p.Remedy
	}
	e.ExitCode = new(code)
	r.report.say(e)
	return code
}

// notGrantedCode is the exit code for an error of Acquire.
func notGrantedCode(err error) int {
	for _, late := range []error{client.ErrHeld, client.ErrWaitTimeout, client.ErrQueueFull, client.ErrDeadline} {
		if errors.Is(err, late) {
			return exitNotGranted
		}
	}
	if errors.Is(err, client.ErrUnavailable) {
		return exitUnavailable
	}
	return exitRefused
}
