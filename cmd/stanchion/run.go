package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// Exit codes of `stanchion run` itself. They are part of its contract; otherwise its code is the command's own.
const (
	exitNotGranted  = 120 // the lock was not granted in time, or is held and --if-held is fail
	exitLost        = 121 // the lease was lost while the command ran, which was ended
	exitRefused     = 122 // the request was refused: a class that grants nothing, an API key without the right
	exitUnavailable = 123 // no node decided
	exitCannotRun   = 126 // the command could not be started
	exitNotFound    = 127 // there is no such command
	exitSignal      = 128 // plus the number of the signal that ended the command, or the wait
)

// runOptions are the flags of `stanchion run`.
type runOptions struct {
	clientOptions
	class  string
	key    string
	wait   string
	margin time.Duration
	ifHeld string
}

func newRun() *cobra.Command {
	o := runOptions{}
	run := &cobra.Command{
		Use:   "run --class C --key K [flags] -- command [argument...]",
		Short: "Run a command while holding a lock",
		Long: `Takes the lock, runs the command, and gives the lock back. Without a grant the command is never started.

The command gets STANCHION_TOKEN, the fencing token that it must give to the resource, STANCHION_KEY, STANCHION_EPOCH and STANCHION_CLASS,
and never the API key. It runs in a process group of its own. If the lease is lost, or cannot be renewed, the group gets TERM --margin before
the local deadline, and KILL at half of that, so that it is gone before anybody else is granted. Processes that leave the group are
not reached, nor is any if this process itself is killed; only a guard at the resource stops them. The group is not the terminal's, so a command
that reads from a terminal is stopped by it.

Exit codes: the command's own; 128 plus the signal that ended it; and
  0    skipped: somebody holds the lock, and --if-held is skip
  2    wrong usage
  120  not granted in time, or held and --if-held is fail
  121  the lease was lost while the command ran, and the command was ended
  122  refused: the class grants nothing, or the API key may not
  123  no node decided
  126  the command could not be started
  127  there is no such command`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.ErrOrStderr(), args)
		},
	}
	o.flags(run, false)
	run.Flags().StringVar(&o.class, "class", "", "class of the lock (required)")
	run.Flags().StringVar(&o.key, "key", "", "the lock in it (required)")
	run.Flags().StringVar(&o.wait, "wait", "", "how long to queue, such as 30s or unlimited (default: as long as the class allows)")
	run.Flags().DurationVar(&o.margin, "margin", 2*time.Second, "how long before the local deadline the command is ended; at most half of what a fresh lease has")
	run.Flags().StringVar(&o.ifHeld, "if-held", "wait", "what to do while somebody holds the lock: wait, skip (exit 0) or fail")
	_ = run.MarkFlagRequired("class") // the flags exist
	_ = run.MarkFlagRequired("key")
	return run
}

// acquireOptions reads the flags that say how to ask.
func (o *runOptions) acquireOptions() ([]client.AcquireOption, error) {
	switch {
	case o.ifHeld != "wait" && o.ifHeld != "skip" && o.ifHeld != "fail":
		return nil, fmt.Errorf("%w: --if-held %s is none of wait, skip and fail", errUsage, o.ifHeld)
	case o.margin < 100*time.Millisecond:
		return nil, fmt.Errorf("%w: --margin is 100ms or more", errUsage)
	case o.ifHeld != "wait" && o.wait != "":
		return nil, fmt.Errorf("%w: --wait goes with --if-held wait alone", errUsage)
	case o.ifHeld != "wait":
		return []client.AcquireOption{client.Wait(0)}, nil
	case o.wait == "":
		return nil, nil
	}
	wait, err := wire.ParseDuration(o.wait)
	if err != nil {
		return nil, fmt.Errorf("%w: --wait %s is %w", errUsage, o.wait, err)
	}
	return []client.AcquireOption{client.Wait(wait.Std())}, nil
}

func (o *runOptions) run(out io.Writer, args []string) error {
	ask, err := o.acquireOptions()
	if err != nil {
		return err
	}
	cluster, err := o.client()
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil { // before anything is asked: a lock is not taken for nothing
		fmt.Fprintf(out, "stanchion: run: %v\n", err)
		if errors.Is(err, fs.ErrPermission) {
			return exitError(exitCannotRun)
		}
		return exitError(exitNotFound)
	}
	c, err := client.New(cluster.endpoints, cluster.key)
	if err != nil {
		return err
	}
	r := &running{options: o, out: out, client: c, signals: make(chan os.Signal, 16)}
	signal.Notify(r.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(r.signals)
	code := r.hold(path, args, ask)
	ctx, cancel := context.WithTimeout(context.Background(), apiCallTime)
	defer cancel()
	if err := c.Close(ctx); err != nil && code == 0 {
		fmt.Fprintf(out, "stanchion: run: %v; the lock is free when its lease has run out\n", err)
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

// running is one run of a command under a lock.
type running struct {
	options *runOptions
	out     io.Writer
	client  *client.Client
	signals chan os.Signal
}

func (r *running) say(format string, args ...any) {
	fmt.Fprintf(r.out, "stanchion: run: "+format+"\n", args...)
}

// hold acquires, runs the command, and says the exit code.
func (r *running) hold(path string, args []string, ask []client.AcquireOption) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type outcome struct {
		lease *client.Lease
		err   error
	}
	asked := make(chan outcome, 1)
	ask = append(ask, client.OnQueued(func(p client.Place) {
		r.say("waiting for %s %q, place %d in line", r.options.class, r.options.key, p.Position)
	}))
	go func() { // ends with ctx at the latest, and is waited for below
		l, err := r.client.Acquire(ctx, r.options.class, r.options.key, ask...)
		asked <- outcome{l, err}
	}()
	for gaveUp := 0; ; {
		select {
		case s := <-r.signals:
			if number := s.(syscall.Signal); number != syscall.SIGUSR1 && number != syscall.SIGUSR2 {
				gaveUp = exitSignal + int(number)
				cancel()
			}
		case o := <-asked:
			switch {
			case gaveUp != 0: // a lease that was granted meanwhile is released by the close
				return gaveUp
			case o.err != nil:
				return r.notGranted(o.err)
			}
			return r.command(o.lease, path, args)
		}
	}
}

// notGranted says why there is no lock, and the exit code of it.
func (r *running) notGranted(err error) int {
	held := errors.Is(err, client.ErrHeld)
	if held && r.options.ifHeld == "skip" {
		r.say("skipped: somebody else holds %s %q", r.options.class, r.options.key)
		return 0
	}
	r.say("not started: %v", err)
	if p, ok := errors.AsType[*wire.Problem](err); ok && p.Remedy != "" {
		r.say("%s", p.Remedy)
	}
	switch {
	case held, errors.Is(err, client.ErrWaitTimeout), errors.Is(err, client.ErrQueueFull), errors.Is(err, client.ErrDeadline):
		return exitNotGranted
	case errors.Is(err, client.ErrUnavailable):
		return exitUnavailable
	}
	return exitRefused
}

// runVariables are what the command is told, and what it is never told.
var runVariables = []string{"STANCHION_TOKEN=", "STANCHION_KEY=", "STANCHION_EPOCH=", "STANCHION_CLASS=", "STANCHION_API_KEY="}

// environment is the command's.
func environment(inherited []string, l *client.Lease) []string {
	var env []string
	for _, v := range inherited {
		if !hasAnyPrefix(v, runVariables) {
			env = append(env, v)
		}
	}
	return append(env, "STANCHION_TOKEN="+strconv.FormatUint(l.Token(), 10), "STANCHION_KEY="+l.Key(),
		"STANCHION_EPOCH="+strconv.FormatUint(l.Epoch(), 10), "STANCHION_CLASS="+l.Class())
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// command runs the command under the lease.
func (r *running) command(l *client.Lease, path string, args []string) int {
	margin := min(r.options.margin, l.Remaining()/2)
	cmd := exec.Command(path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = environment(os.Environ(), l)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if l.Err() != nil {
		r.say("not started: %v", l.Err())
		return exitNotGranted
	}
	if err := cmd.Start(); err != nil {
		r.say("not started: %v", err)
		return exitCannotRun
	}
	g := &group{id: cmd.Process.Pid}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the command, which is killed at the latest at its deadline
	lost := r.watch(l, g, margin, ended)
	g.signal(syscall.SIGKILL) // what the command left behind must not go on without the lock
	if lost {
		r.say("the command was ended before its lease was over: %v", cmp.Or(l.Err(), errNotRenewed))
		return exitLost
	}
	return exitCode(cmd.ProcessState)
}

// errNotRenewed: what was lost is the certainty.
var errNotRenewed = errors.New("heartbeats were not answered in time")

// runTick is how often the lease's clocks are looked at while the command runs, whatever timers believe.
const runTick = 50 * time.Millisecond

// watch passes signals on until the command has ended, and ends it in time if the lease is lost or not renewed; true: it did.
func (r *running) watch(l *client.Lease, g *group, margin time.Duration, ended <-chan error) (lost bool) {
	tick := time.NewTicker(runTick)
	defer tick.Stop()
	var killAt time.Time // of a lease that is over: half a margin after TERM
	for {
		select {
		case <-ended:
			return lost
		case s := <-r.signals:
			g.signal(s.(syscall.Signal))
		case <-tick.C:
			left := l.Remaining()
			if left > margin && !lost {
				continue
			}
			if !lost {
				lost, killAt = true, time.Now().Add(margin/2)
				g.signal(syscall.SIGTERM)
			}
			if !time.Now().Before(killAt) || time.Until(l.Deadline()) <= margin/2 {
				g.signal(syscall.SIGKILL)
			}
		}
	}
}

// group is the command's process group.
type group struct{ id int }

func (g *group) signal(s syscall.Signal) { _ = syscall.Kill(-g.id, s) } // it may be gone

// exitCode is the code of a command that has ended, as a shell gives it.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return s.ExitCode()
}
