// Command stanchion is the whole product in one binary: the node (serve), a cluster to try it on (dev), and the tools of
// those who declare classes and operate the platform. It is the only place that wires the packages together.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes. A command that means more by its code says so in its help.
const (
	exitFailed = 1
	exitUsage  = 2
)

// exitError ends the process with a code of its own; what it says has been printed already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	began := false
	watch(root, &began)
	err := root.ExecuteContext(ctx)
	var code exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "stanchion:", err)
	if !began || errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailed
}

// watch sets began as soon as a command begins its work: whatever fails before that is wrong with the command line.
func watch(c *cobra.Command, began *bool) {
	if work := c.RunE; work != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*began = true
			return work(c, args)
		}
	}
	for _, sub := range c.Commands() {
		watch(sub, began)
	}
}

// errUsage marks a command line that makes no sense.
var errUsage = errors.New("usage")

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "stanchion",
		Short:         "Locks whose promise is written down, signed, kept and proven",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w: %w; see '%s --help'", errUsage, err, c.CommandPath())
	})
	root.AddCommand(newServe(), newDev(), newClass(), newCluster(), newBench(), newLocks(), newWhy(), newAudit(),
		newTenant(), newAPIKey(), newRun())
	return root
}
