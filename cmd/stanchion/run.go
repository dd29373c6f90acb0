package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/wire"
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

const (
	marginDefault = 2 * time.Second
	marginMin     = 100 * time.Millisecond
	marginShare   = 4 // a margin is at most this part of a fresh lease, so that a late heartbeat or two end nothing
)

func newRun() *cobra.Command {
	o := runOptions{}
	run := &cobra.Command{
		Use:   "run --class C --key K [flags] -- command [argument...]",
		Short: "Run a command while holding a lock",
		Long: `Takes the lock, runs the command, and gives the lock back. Without a grant the command is never started.

The command gets STANCHION_TOKEN, the fencing token that it must give to the resource, STANCHION_KEY, STANCHION_EPOCH and
STANCHION_CLASS, and never the API key. It runs in a process group of its own, which is the terminal's while it runs. If the
lease is lost, or cannot be renewed, the group gets TERM --margin before the local deadline, and KILL at half of that, so that it
is gone before anybody else is granted. A watchdog does so if this process is killed or stopped. Processes that leave
the group are not reached; only a guard at the resource stops them. docs/run.md has it in full.

Exit codes: the command's own, and
` + exitHelp(),
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.ErrOrStderr(), args)
		},
	}
	o.flags(run, true)
	run.Flags().StringVar(&o.class, "class", "", "class of the lock (required)")
	run.Flags().StringVar(&o.key, "key", "", "the lock in it (required)")
	run.Flags().StringVar(&o.wait, "wait", "", "how long to queue, such as 30s or unlimited (default: as long as the class allows)")
	run.Flags().DurationVar(&o.margin, "margin", marginDefault,
		"how long before the local deadline the command is ended; at most a quarter of a fresh lease")
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
	case o.margin < marginMin:
		return nil, fmt.Errorf("%w: --margin %s is too short to end a command in: give %s or more", errUsage, o.margin, marginMin)
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
		return asUsage(err)
	}
	c, err := client.New(cluster.endpoints, cluster.key, client.WithTLS(cluster.tls))
	if err != nil {
		return asUsage(err)
	}
	r := &running{options: o, client: c, apiKey: cluster.key, report: newReporter(out, o.json(), o.class, o.key), signals: passedOn()}
	defer r.report.close()
	defer signal.Stop(r.signals)
	path, err := exec.LookPath(args[0])
	if err != nil { // before anything is asked: a lock is not taken for nothing
		return exitOf(r.cannotStart(err))
	}
	code := r.hold(path, args, ask)
	r.giveBack(code)
	return exitOf(code)
}

// asUsage has a failure before anything was asked end with the code of wrong usage: 1 is the command's.
func asUsage(err error) error {
	if errors.Is(err, errUsage) {
		return err
	}
	return fmt.Errorf("%w: %w", errUsage, err)
}

func exitOf(code int) error {
	if code == 0 {
		return nil
	}
	return exitError(code)
}

// passedOn catches the signals that a command is to have as well. A hang-up that was ignored stays so. A reader of standard
// error that has gone is no reason to end.
func passedOn() chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	c := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// ends reports whether a signal ends a run that has no command yet.
func ends(s os.Signal) bool { return s != syscall.SIGUSR1 && s != syscall.SIGUSR2 }

// running is one run of a command under a lock.
type running struct {
	options *runOptions
	client  *client.Client
	apiKey  string
	report  *reporter
	signals chan os.Signal
	lease   *client.Lease // nil: none was granted
}

// cannotStart says why there is no command, and the exit code of it.
func (r *running) cannotStart(err error) int {
	code := exitCannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	r.report.say(runEvent{Event: eventCannotStart, Cause: err.Error(), ExitCode: new(code)})
	return code
}

const (
	giveBackTime  = 30 * time.Second // for the release, which ends at the local deadline at the latest
	afterLossTime = 2 * time.Second  // to tell nodes, which may be out of reach, what they find out by themselves
)

// giveBack releases the lease, or leaves the queue. A second signal cuts it short.
func (r *running) giveBack(code int) {
	limit := giveBackTime
	if code == exitLost {
		limit = afterLossTime
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	closed := make(chan error, 1)
	held := r.lease != nil && r.lease.Err() == nil
	go func() { closed <- r.client.Close(ctx) }() // ends with ctx
	for {
		select {
		case s := <-r.signals:
			if ends(s) {
				cancel()
			}
		case err := <-closed:
			switch {
			case held && err != nil:
				e := ofLease(eventNotReleased, r.lease)
				e.Cause = err.Error()
				r.report.say(e)
			case held:
				r.report.say(ofLease(eventReleased, r.lease))
			}
			return
		}
	}
}
