package main

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/deadline"
)

// TestEnding_comesInTime: TERM when half of the margin is left or stanchion run has ended, KILL at half of what was left then, and at once
// when nothing is.
func TestEnding_comesInTime(t *testing.T) {
	const s = time.Second
	type step struct {
		left   time.Duration
		orphan bool
		want   syscall.Signal
		first  bool
	}
	for name, steps := range map[string][]step{
		"all is well": {{10 * s, false, 0, false}, {s + 1, false, 0, false}},
		"no answer": {{s + 1, false, 0, false}, {s, false, syscall.SIGTERM, true},
			{s/2 + 1, false, 0, false}, {s / 2, false, syscall.SIGKILL, true}, {s / 4, false, syscall.SIGKILL, false}},
		"killed": {{8 * s, true, syscall.SIGTERM, true}, {4*s + 1, true, 0, false},
			{4 * s, true, syscall.SIGKILL, true}},
		"killed while ending": {{s, false, syscall.SIGTERM, true}, {s - 1, true, 0, false}, {s / 2, true, syscall.SIGKILL, true}},
		"too late":            {{0, false, syscall.SIGKILL, true}, {0, false, syscall.SIGKILL, false}},
		"killed, too late":    {{0, true, syscall.SIGKILL, true}},
		"begun, not taken back by a renewal": {{s, false, syscall.SIGTERM, true}, {10 * s, false, 0, false},
			{s / 2, false, syscall.SIGKILL, true}},
	} {
		t.Run(name, func(t *testing.T) {
			e := ending{margin: 2 * s}
			for i, step := range steps {
				if got, first := e.due(step.left, step.orphan, time.Now()); got != step.want || first != step.first {
					t.Errorf("step %d, %v left: got %v, first %v, want %v, %v", i, step.left, got, first, step.want, step.first)
				}
			}
		})
	}
}

// handSet are clocks that are set by hand.
type handSet struct{ now deadline.Reading }

func (c *handSet) Read() deadline.Reading { return c.now }

// TestDeadlineOf_countsFromWhenTheClocksWereRead: not from when the note arrived, by the clock that ran most.
func TestDeadlineOf_countsFromWhenTheClocksWereRead(t *testing.T) {
	at := deadline.Reading{Boot: time.Hour, Monotonic: time.Hour, Raw: time.Hour, Wall: 1e6 * time.Hour}
	c := &handSet{at}
	c.now.Boot += 7 * time.Second // the rest stood still: the machine slept
	d := deadlineOf(watchNote{At: at, Left: 10 * time.Second}, c)
	if got, want := d.Remaining(), 3*time.Second; got != want {
		t.Errorf("left when the note arrived: got %v, want %v", got, want)
	}
	c.now.Wall += 3 * time.Second
	if !d.Passed() {
		t.Errorf("3 s later: got %v left, want none", d.Remaining())
	}
}

// sleeper is a process that leads a group of its own.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// noteOf is what a watchdog is told at first.
func noteOf(cmd *exec.Cmd, left time.Duration) watchNote {
	return watchNote{Class: "c", Key: "k", Group: cmd.Process.Pid, At: deadline.System().Read(), Left: left, Margin: time.Second}
}

// watched has a watchdog hear notes, and the end of stanchion run after them, and returns when it has ended.
func watched(notes ...watchNote) {
	heard := make(chan watchNote, len(notes))
	for _, n := range notes {
		heard <- n
	}
	close(heard)
	new(watchdog).run(heard)
}

// TestWatchdog_endsTheGroupOfOneThatWasKilled: it is gone when the watchdog ends, however much of the lease is left.
func TestWatchdog_endsTheGroupOfOneThatWasKilled(t *testing.T) {
	for _, left := range []time.Duration{time.Hour, 0} {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			cmd := sleeper(t)
			watched(noteOf(cmd, left))
			g := openGroup(cmd.Process.Pid)
			defer g.close()
			if !g.gone() {
				t.Error("the group is there still")
			}
		})
	}
}

// TestWatchdog_leavesAloneWhatIsDone: the number may be another group's by then. Nor does it do anything that it was not told of.
func TestWatchdog_leavesAloneWhatIsDone(t *testing.T) {
	cmd := sleeper(t)
	watched(noteOf(cmd, time.Hour), watchNote{Done: true})
	watched()
	g := openGroup(cmd.Process.Pid)
	defer g.close()
	if g.gone() {
		t.Error("the group was ended")
	}
}

// TestFollow_leavesTheCommandToBeWaitedFor: so that its group's number stays its own.
func TestFollow_leavesTheCommandToBeWaitedFor(t *testing.T) {
	cmd := sleeper(t)
	stops, followed := make(chan struct{}, stopsNoted), make(chan error, 1)
	go func() { followed <- follow(cmd.Process.Pid, stops) }()
	g := openGroup(cmd.Process.Pid)
	defer g.close()
	_ = g.signal(syscall.SIGSTOP)
	if _, more := <-stops; !more {
		t.Fatal("told: its end, want a stop")
	}
	g.kill()
	if _, more := <-stops; more {
		t.Error("told: a stop, want its end")
	}
	if err := <-followed; err != nil {
		t.Errorf("followed: got %v", err)
	}
	if err := syscall.Kill(cmd.Process.Pid, 0); err != nil {
		t.Errorf("the process: got %v, want it there to be waited for", err)
	}
	if !g.gone() {
		t.Error("a process that has ended counts as one that runs")
	}
}
