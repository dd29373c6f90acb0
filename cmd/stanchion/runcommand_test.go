package main

import (
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/deadline"
)

// granted is a run that holds the lock c k of a platform that is played.
func granted(t *testing.T, out io.Writer) (*running, *clienttest.Platform) {
	t.Helper()
	p := clienttest.New(t)
	p.Class("c", clienttest.ClassConfig{Lease: 30 * time.Second, Heartbeat: 100 * time.Millisecond})
	c, err := client.New(p.Endpoints(), p.APIKey(), p.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Acquire(t.Context(), "c", "k")
	if err != nil {
		t.Fatal(err)
	}
	r := &running{options: &runOptions{class: "c", key: "k", margin: marginDefault}, client: c, report: newReporter(out, true, "c", "k"),
		signals: make(chan os.Signal, 16), lease: l}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		r.report.close()
	})
	return r, p
}

// gated is a supervision whose gate and watchdog are pipes, and what has passed the gate when it is closed.
func gated(t *testing.T, r *running) (s *supervision, passed func() string) {
	t.Helper()
	openRead, openWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	notesRead, notesWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	statusRead, statusWrite, err := os.Pipe() // its end means that the gate became the command
	if err != nil {
		t.Fatal(err)
	}
	statusWrite.Close()
	cmd := sleeper(t)
	g := &gate{cmd: cmd, group: openGroup(cmd.Process.Pid), open: openWrite, status: statusRead}
	t.Cleanup(func() {
		for _, f := range []*os.File{openRead, notesRead, notesWrite} {
			f.Close()
		}
		g.closeFiles()
	})
	s = &supervision{running: r, lease: r.lease, gate: g, leash: &leash{notes: notesWrite, watch: deadline.NewWatch(deadline.System())}}
	return s, func() string {
		openWrite.Close()
		text, err := io.ReadAll(openRead)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// TestBegin_opensTheGateOnlyForALeaseThatIsHeld: what was lost, or interrupted, between the grant and the start is not started.
func TestBegin_opensTheGateOnlyForALeaseThatIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*running, *clienttest.Platform)
		code      int
		passed    string
		says      string
	}{
		"held": {func(*running, *clienttest.Platform) {}, 0, string(gateOpen), ""},
		"revoked": {func(r *running, p *clienttest.Platform) {
			p.Revoke("c", "k", clienttest.ReasonForced)
			<-r.lease.Context().Done() // a heartbeat tells
		}, exitNotGranted, "", `"event":"not_granted"`},
		"interrupted": {func(r *running, _ *clienttest.Platform) { r.signals <- syscall.SIGTERM }, exitSignal + int(syscall.SIGTERM), "",
			`"event":"gave_up"`},
		"the watchdog is gone": {nil, exitCannotRun, "", `"event":"cannot_start"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out lines
			r, p := granted(t, &out)
			s, passed := gated(t, r)
			if c.meanwhile != nil {
				c.meanwhile(r, p)
			} else {
				s.leash.notes.Close()
			}
			code, begun := s.begin()
			if got := passed(); code != c.code || begun != (c.passed != "") || got != c.passed {
				t.Errorf("got code %d, begun %v, %q through the gate; want %d, %v, %q", code, begun, got, c.code, c.passed != "", c.passed)
			}
			r.report.flush()
			if got := out.String(); !strings.Contains(got, c.says) {
				t.Errorf("it told %s, want %s", got, c.says)
			}
		})
	}
}

// TestLook_endsTheCommandOfALeaseThatWasRevoked: TERM at once, and KILL half a margin later to what does not mind it.
func TestLook_endsTheCommandOfALeaseThatWasRevoked(t *testing.T) {
	var out lines
	r, p := granted(t, &out)
	s, _ := gated(t, r)
	s.fresh = r.lease.Remaining()
	s.look()
	if s.cause != nil {
		t.Errorf("while it is held: got %v, want no reason to end it", s.cause)
	}
	p.Revoke("c", "k", clienttest.ReasonForced)
	<-r.lease.Context().Done()
	s.look()
	if s.cause == nil || s.killing {
		t.Errorf("after it was revoked: cause %v, killing %v, want a cause and TERM alone", s.cause, s.killing)
	}
	s.killAt = time.Now()
	s.look()
	if !s.killing {
		t.Error("half a margin later: got no KILL")
	}
	r.report.flush()
	if got := out.String(); !strings.Contains(got, `"event":"terminating"`) || !strings.Contains(got, `"event":"killing"`) {
		t.Errorf("it told %s, want terminating and killing", got)
	}
}

// TestWaiting_tellsThePlaceAndWhoHolds: with the holder's label, its API key's name, and since when.
func TestWaiting_tellsThePlaceAndWhoHolds(t *testing.T) {
	var out lines
	r, _ := granted(t, &out)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	w, done := r.newWaiting(), make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx)
	}()
	w.queued(client.Place{Position: 3})
	tick := time.NewTicker(goneTick)
	defer tick.Stop()
	for range tick.C {
		if r.report.flush(); out.String() != "" || ctx.Err() != nil {
			break
		}
	}
	cancel()
	<-done
	for _, want := range []string{`"event":"waiting"`, `"place":3`, `"holder":"`, `"holder_api_key":"`, `"held_since":"`} {
		if got := out.String(); !strings.Contains(got, want) {
			t.Errorf("it told %s, want %s in it", got, want)
		}
	}
}
