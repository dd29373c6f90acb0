package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/internal/bench"
)

// envMetrics names the addresses of the nodes' metrics.
const envMetrics = "STANCHION_METRICS"

// envFloodAPIKey holds the API key of the tenant that floods.
const envFloodAPIKey = "STANCHION_FLOOD_API_KEY"

func newBench() *cobra.Command {
	all := &cobra.Command{
		Use:   "bench",
		Short: "Measure a running cluster through its API",
		Long: `Measure a running cluster through its API. Requests go straight to the node that leads the tenant's partition. What is held is
given back at the end, and after SIGINT and SIGTERM as well.

Give the addresses of the nodes' metrics with --metrics or STANCHION_METRICS to have the servers' CPU and memory measured;
'stanchion dev' writes them into DIR/env. docs/benchmarks.md says how to read the figures.`,
	}
	all.AddCommand(newBenchPairs(), newBenchHandoff(), newBenchHeartbeats(), newBenchHeld(), newBenchFairness())
	return all
}

// benchOptions are the flags that all measurements have.
type benchOptions struct {
	clientOptions
	class   string
	seconds int
	metrics string
}

func (o *benchOptions) flags(c *cobra.Command) {
	o.clientOptions.flags(c, true)
	c.Flags().StringVar(&o.class, "class", "ledger-close", "class whose keys are taken")
	c.Flags().IntVar(&o.seconds, "seconds", 5, fmt.Sprintf("seconds measured per row, after one second of warm-up; 1 to %d", bench.SecondsMax))
	c.Flags().StringVar(&o.metrics, "metrics", "", "addresses of the nodes' metrics, separated by commas (default $STANCHION_METRICS)")
}

// config says what to measure with.
func (o *benchOptions) config(p *benchProgress) (bench.Config, error) {
	c, err := o.client()
	if err != nil {
		return bench.Config{}, err
	}
	metrics := o.metrics
	if metrics == "" {
		metrics = os.Getenv(envMetrics)
	}
	config := bench.Config{Endpoints: c.endpoints, APIKey: c.key, TLS: c.tls, Class: o.class, Seconds: o.seconds, Progress: p}
	for address := range strings.SplitSeq(metrics, ",") {
		if address = strings.TrimSpace(address); address != "" {
			config.Metrics = append(config.Metrics, address)
		}
	}
	return config, nil
}

// benchReport is what a measurement found.
type benchReport interface {
	Table(w io.Writer) error
}

// runBench measures and prints what was found. own are the measurement's own options.
func runBench[R benchReport, O any](c *cobra.Command, o *benchOptions, measure func(context.Context, bench.Config, O) (R, error), own O) error {
	p := newBenchProgress(os.Stderr)
	config, err := o.config(p)
	if err != nil {
		return err
	}
	found, err := measure(c.Context(), config, own)
	p.end()
	if err != nil {
		return benchError(c.Context(), err)
	}
	if o.json() {
		return printJSON(c.OutOrStdout(), found)
	}
	return found.Table(c.OutOrStdout())
}

// errBenchInterrupted is what is left to say after SIGINT or SIGTERM.
var errBenchInterrupted = interrupted("interrupted; all that was held was given back")

// interrupted is an error of a command that was told to end. It is a context.Canceled.
type interrupted string

func (e interrupted) Error() string { return string(e) }

// Is reports whether target is context.Canceled.
func (e interrupted) Is(target error) bool { return target == context.Canceled }

// benchError says whose fault it was, and what to do.
func benchError(ctx context.Context, err error) error {
	f, known := errors.AsType[*bench.Failure](err)
	switch {
	case errors.Is(err, bench.ErrRange):
		return fmt.Errorf("%w: %w", errUsage, err)
	case ctx.Err() != nil && !errors.Is(err, bench.ErrNotGivenBack):
		return errBenchInterrupted
	case errors.Is(err, bench.ErrRestarted):
		return withRemedy(err, "measure again, when all nodes stay up")
	case known:
		return withRemedy(err, f.Remedy)
	}
	return err
}

func newBenchPairs() *cobra.Command {
	var o benchOptions
	var own bench.PairsOptions
	c := &cobra.Command{
		Use:   "pairs",
		Short: "Acquire and release pairs: each client has a key of its own",
		Long:  "Measure acquire and release pairs: each client takes and gives back a key of its own, as fast as it is answered.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runBench(c, &o, bench.Pairs, own)
		},
	}
	o.flags(c)
	c.Flags().IntSliceVar(&own.Clients, "clients", []int{1, 64, 256}, fmt.Sprintf("clients at a time, a row for each number; 1 to %d", bench.ClientsMax))
	return c
}

func newBenchHandoff() *cobra.Command {
	var o benchOptions
	var own bench.HandoffOptions
	c := &cobra.Command{
		Use:   "handoff",
		Short: "Hand-offs: all clients wait in line for one key",
		Long: `Measure hand-offs: all clients want one key. Each gives it back as soon as it has it, and stands in line again. The time runs from
before the release is sent to when the next client has read its grant. Tokens must grow, and never may two hold the key.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runBench(c, &o, bench.Handoff, own)
		},
	}
	o.flags(c)
	c.Flags().IntVar(&own.Clients, "clients", 32, fmt.Sprintf("clients in line; 2 to %d", bench.HandoffClientsMax))
	return c
}

// holdFlags adds the flags of measurements that hold leases.
func holdFlags(c *cobra.Command, o *bench.HoldOptions, perSession int) {
	c.Flags().IntVar(&o.LeasesPerSession, "leases-per-session", perSession,
		fmt.Sprintf("leases that one heartbeat keeps; 1 to %d", bench.LeasesPerSessionMax))
	c.Flags().DurationVar(&o.Every, "every", 0, fmt.Sprintf("time between a session's heartbeats, %v to %v (default 5s, or less where the platform asks for it)",
		bench.EveryMin, bench.EveryMax))
}

func newBenchHeartbeats() *cobra.Command {
	var o benchOptions
	var own bench.HeartbeatsOptions
	c := &cobra.Command{
		Use:   "heartbeats",
		Short: "Heartbeats of leases that are held",
		Long: `Measure heartbeats: leases are held, and each session sends one heartbeat for all of its leases each period. Latencies count from when
the heartbeat was due, whether or not it could be sent then.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runBench(c, &o, bench.Heartbeats, own)
		},
	}
	o.flags(c)
	c.Flags().IntVar(&own.Leases, "leases", 1000, fmt.Sprintf("leases held; 1 to %d", bench.LeasesMax))
	holdFlags(c, &own.HoldOptions, 10)
	return c
}

func newBenchHeld() *cobra.Command {
	var o benchOptions
	var own bench.HeldOptions
	c := &cobra.Command{
		Use:   "held",
		Short: "Pairs and memory while more and more leases are held",
		Long: `Measure acquire and release pairs, and the servers' memory, while more and more leases are held and kept with heartbeats. The
tenant's quotas must have room for the leases, their keys and their sessions.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runBench(c, &o, bench.Held, own)
		},
	}
	o.flags(c)
	c.Flags().IntSliceVar(&own.Leases, "leases", []int{1000, 10_000}, fmt.Sprintf("leases held, growing, a row for each number; 1 to %d", bench.LeasesMax))
	c.Flags().IntVar(&own.Clients, "clients", 16, fmt.Sprintf("clients that take and release pairs meanwhile; 1 to %d", bench.ClientsMax))
	holdFlags(c, &own.HoldOptions, 100)
	return c
}

func newBenchFairness() *cobra.Command {
	var o benchOptions
	var own bench.FairnessOptions
	var keyFile string
	c := &cobra.Command{
		Use:   "fairness",
		Short: "What a flooding tenant costs another",
		Long: `Measure what a tenant that floods costs another, which takes and releases at a steady rate: first alone, then flooded. The API key of
the tenant that floods is in --flood-key-file or STANCHION_FLOOD_API_KEY. Latencies count from when a pair was due, whether
or not it could be sent then.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if own.FloodAPIKey, err = floodKey(keyFile); err != nil {
				return err
			}
			return runBench(c, &o, bench.Fairness, own)
		},
	}
	o.flags(c)
	c.Flags().IntVar(&own.Rate, "rate", 50, fmt.Sprintf("pairs per second of the steady tenant, within its quota; 1 to %d", bench.RateMax))
	c.Flags().IntVar(&own.Clients, "clients", 8, fmt.Sprintf("clients of the steady tenant; 1 to %d", bench.SteadyClientsMax))
	c.Flags().IntVar(&own.FloodClients, "flood-clients", 64, fmt.Sprintf("clients of the tenant that floods; 1 to %d", bench.FloodClientsMax))
	c.Flags().StringVar(&own.FloodClass, "flood-class", "", "class whose keys the flood takes (default: as --class)")
	c.Flags().StringVar(&keyFile, "flood-key-file", "", "file that holds the API key of the tenant that floods (default: the key in $STANCHION_FLOOD_API_KEY)")
	return c
}

func floodKey(file string) (string, error) {
	key := os.Getenv(envFloodAPIKey)
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("API key of the tenant that floods: %w", err)
		}
		key = strings.TrimSpace(string(raw))
	}
	if key == "" {
		return "", withRemedy(fmt.Errorf("%w: no API key of a tenant that floods", errUsage),
			"make a second tenant with 'stanchion tenant create' and 'stanchion api-key create --tenant', and give its API key with --flood-key-file or "+envFloodAPIKey)
	}
	return key, nil
}
