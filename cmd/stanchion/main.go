// Command stanchion is the whole product in one binary: the node (serve), a cluster to try it on (dev), and the tools of
// those who declare classes and operate the platform. It is the only place that wires the packages together.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
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
	return execute(ctx, newRoot(), args, os.Stderr)
}

// execute runs a command line and gives the exit code. What fails is told on errTo, in this one place.
func execute(ctx context.Context, root *cobra.Command, args []string, errTo io.Writer) int {
	root.SetArgs(args)
	began := false
	watch(root, &began)
	c, err := root.ExecuteContextC(ctx)
	var code exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	_ = explain(err, c, began).print(errTo, wantsJSON(c, args)) // there is nowhere else to say that it cannot be said
	if !began || errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailed
}

// wantsJSON reports whether a command's result, and so its failure, is for a program. A command line that makes no sense is
// looked through for the flag itself.
func wantsJSON(c *cobra.Command, args []string) bool {
	if f := c.Flags().Lookup("output"); f != nil && f.Changed {
		return f.Value.String() == "json" || f.Value.String() == "ndjson"
	}
	for i, arg := range args {
		switch {
		case arg == "--":
			return false
		case arg == "--output=json", arg == "--output" && i+1 < len(args) && args[i+1] == "json":
			return c.Flags().Lookup("output") != nil
		}
	}
	return false
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
		Version:       thisBuild().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newServe(), newDev(), newClass(), newCluster(), newBench(), newLocks(), newWhy(), newAudit(),
		newTenant(), newAPIKey(), newRun(), newRunHelper(), newProfile(), newVersion(), newCompletion())
	checkSubcommands(root)
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}",
		`{{if and .Runnable (not (index .Annotations "`+groupOfCommands+`"))}}`, 1))
	completeFlags(root)
	return root
}
