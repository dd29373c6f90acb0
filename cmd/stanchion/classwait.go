package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// versionPollMax is how long one request may wait for a version.
const versionPollMax = 10 * time.Second

func newClassWait() *cobra.Command {
	var o clientOptions
	var version uint64
	var timeout time.Duration
	wait := &cobra.Command{
		Use:   "wait CLASS",
		Short: "Wait until a version is signed and in force",
		Long: `Wait until a version, by default the newest, is signed and in force.
Exits 0 when it is in force, 3 when the time is over, 1 when it was rejected, withdrawn, superseded or retired, which is said
with the reason.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if timeout < 0 {
				return fmt.Errorf("%w: --timeout %s is in the past", errUsage, timeout)
			}
			api, err := o.client()
			if err != nil {
				return err
			}
			v, err := waitFor(c.Context(), api, args[0], version, time.Now().Add(timeout))
			if err != nil {
				return err
			}
			return reportWait(c.OutOrStdout(), v, o.json())
		},
	}
	o.flags(wait, true)
	wait.Flags().Uint64Var(&version, "version", 0, "the version to wait for; by default the newest")
	wait.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	return wait
}

func waitFor(ctx context.Context, api *apiClient, class string, version uint64, until time.Time) (wire.ClassVersion, error) {
	if version == 0 {
		c, err := getClass(ctx, api, class)
		if err != nil {
			return wire.ClassVersion{}, fmt.Errorf("look at class %s: %w", class, err)
		}
		version = c.LatestVersion
	}
	return awaitVersion(ctx, api, class, version, until)
}

func getClass(ctx context.Context, api *apiClient, class string) (wire.Class, error) {
	var c wire.Class
	_, err := api.call(ctx, apiRequest{method: http.MethodGet, path: classPath(class)}, &c)
	return c, err
}

func getVersion(ctx context.Context, api *apiClient, class string, version uint64,
	poll time.Duration) (wire.ClassVersion, error) {
	q := url.Values{"version": {strconv.FormatUint(version, 10)}}
	if poll > 0 {
		q.Set("poll", fmt.Sprintf("%dms", poll.Milliseconds()))
	}
	var v wire.ClassVersion
	if _, err := api.call(ctx, apiRequest{method: http.MethodGet, path: classPath(class), query: q}, &v); err != nil {
		return v, fmt.Errorf("look at version %d of class %s: %w", version, class, err)
	}
	return v, nil
}

// awaitVersion looks at a version until nothing more comes of it by itself or the time is over. Each request hangs at the
// server, so that there is nothing to pace here.
func awaitVersion(ctx context.Context, api *apiClient, class string, version uint64,
	until time.Time) (wire.ClassVersion, error) {
	for {
		left := max(time.Until(until), 0)
		v, err := getVersion(ctx, api, class, version, min(left, versionPollMax))
		if err != nil || !v.State.Undecided() || v.Stale || left < time.Millisecond {
			return v, err
		}
	}
}

// reportWait says how the waiting ended, in words and by exit code.
func reportWait(out io.Writer, v wire.ClassVersion, asJSON bool) error {
	var err error
	switch {
	case asJSON:
		err = printJSON(out, v)
	case v.State == wire.VersionInForce:
		_, err = fmt.Fprintf(out, "%s: version %d is in force\n", v.Class, v.Version)
	case v.Stale:
		_, err = fmt.Fprintf(out, "%s: %s\n", v.Class, staleWords(v.Version))
	case v.State == wire.VersionInReview:
		_, err = fmt.Fprintf(out, "%s: version %d is still to be signed by %s\n", v.Class, v.Version,
			visible(signers(v.MissingSignatures)))
	case v.State == wire.VersionSigned:
		_, err = fmt.Fprintf(out, "%s: version %d is signed and not in force yet\n", v.Class, v.Version)
	default:
		_, err = fmt.Fprintf(out, "%s: %s\n", v.Class, visible(decisionOf(v.Version, v.State, v.Decision)))
	}
	switch {
	case err != nil:
		return err
	case v.State == wire.VersionInForce:
		return nil
	case v.State.Undecided() && !v.Stale:
		return exitError(exitAwaiting)
	}
	return exitError(exitFailed)
}
