package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// benchOptions are the flags of `stanchion bench`.
type benchOptions struct {
	class   string
	clients int
	seconds int
	warmUp  time.Duration
}

const (
	benchClientsMax = 4096
	benchSecondsMax = 600
	benchCallTime   = 30 * time.Second
)

func newBench() *cobra.Command {
	o := benchOptions{warmUp: time.Second}
	bench := &cobra.Command{
		Use:   "bench",
		Short: "Measure a running cluster through its API",
		Long: `Measure acquire and release pairs: each client takes and gives back a key of its own, as fast as it is answered.
The cluster and the API key come from STANCHION_ENDPOINTS and STANCHION_API_KEY. All clients speak to the leader.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.clients < 1 || o.clients > benchClientsMax || o.seconds < 1 || o.seconds > benchSecondsMax {
				return fmt.Errorf("%w: --clients is 1 to %d, --seconds 1 to %d", errUsage, benchClientsMax, benchSecondsMax)
			}
			r, err := o.run(c.Context())
			if err != nil {
				return err
			}
			return json.NewEncoder(c.OutOrStdout()).Encode(r)
		},
	}
	bench.Flags().StringVar(&o.class, "class", "ledger-close", "class whose keys are taken")
	bench.Flags().IntVar(&o.clients, "clients", 64, "clients at a time")
	bench.Flags().IntVar(&o.seconds, "seconds", 5, "seconds measured, after one second of warm-up")
	return bench
}

// benchResult is what was measured. Latencies are of acquires, in milliseconds.
type benchResult struct {
	Clients        int     `json:"clients"`
	Seconds        float64 `json:"seconds"`
	Pairs          int     `json:"pairs"`
	PairsPerSecond float64 `json:"pairs_per_second"`
	P50            float64 `json:"acquire_p50_ms"`
	P99            float64 `json:"acquire_p99_ms"`
	Max            float64 `json:"acquire_max_ms"`
}

func (o benchOptions) run(ctx context.Context) (benchResult, error) {
	endpoints, key := os.Getenv("STANCHION_ENDPOINTS"), os.Getenv("STANCHION_API_KEY")
	if endpoints == "" || key == "" {
		return benchResult{}, errors.New("STANCHION_ENDPOINTS and STANCHION_API_KEY must name the cluster and an API key")
	}
	first, _, _ := strings.Cut(endpoints, ",")
	client := &http.Client{Timeout: benchCallTime, Transport: &http.Transport{MaxIdleConns: benchClientsMax,
		MaxIdleConnsPerHost: benchClientsMax, DisableCompression: true}}
	b := &benchRun{options: o, http: client, key: "Bearer " + key, base: first}
	if err := b.findLeader(ctx); err != nil {
		return benchResult{}, err
	}
	return b.measure(ctx)
}

type benchRun struct {
	options benchOptions
	http    *http.Client
	key     string
	base    string
	counts  atomic.Bool // the warm-up is over
}

// findLeader goes to the node that the first answer names.
func (b *benchRun) findLeader(ctx context.Context) error {
	header, err := b.call(ctx, http.MethodGet, "/v1/locks?limit=1", "", http.StatusOK)
	if err != nil {
		return fmt.Errorf("find the leader: %w", err)
	}
	if _, url, ok := strings.Cut(header.Get("Stanchion-Leader"), " "); ok {
		b.base = url
	}
	return nil
}

func (b *benchRun) measure(ctx context.Context) (benchResult, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	latencies := make([][]time.Duration, b.options.clients)
	var g errgroup.Group
	for i := range b.options.clients {
		g.Go(func() error {
			var err error
			latencies[i], err = b.client(running, ctx, i)
			return err
		})
	}
	if !pause(ctx, b.options.warmUp) {
		return benchResult{}, errors.Join(ctx.Err(), g.Wait())
	}
	b.counts.Store(true)
	began := time.Now()
	pause(ctx, time.Duration(b.options.seconds)*time.Second)
	took := time.Since(began)
	b.counts.Store(false)
	stop()
	if err := g.Wait(); err != nil {
		return benchResult{}, err
	}
	return b.result(slices.Concat(latencies...), took), nil
}

func (b *benchRun) result(all []time.Duration, took time.Duration) benchResult {
	slices.Sort(all)
	r := benchResult{Clients: b.options.clients, Seconds: took.Seconds(), Pairs: len(all), PairsPerSecond: float64(len(all)) / took.Seconds()}
	if len(all) > 0 {
		at := func(share float64) float64 {
			return all[int(share*float64(len(all)-1))].Seconds() * 1000
		}
		r.P50, r.P99, r.Max = at(0.5), at(0.99), at(1)
	}
	return r
}

// client takes and releases until running ends, and gives the latencies of its acquires. Calls use ctx, so that the last
// pair is finished.
func (b *benchRun) client(running, ctx context.Context, i int) ([]time.Duration, error) {
	var session [16]byte
	rand.Read(session[:])
	path := "/v1/leases/" + hex.EncodeToString(session[:]) + "."
	body := fmt.Sprintf(`{"class":%q,"key":"bench-%d","wait":"0s"}`, b.options.class, i)
	var latencies []time.Duration
	for n := 1; running.Err() == nil; n++ {
		id := path + strconv.Itoa(n)
		sent := time.Now()
		if _, err := b.call(ctx, http.MethodPut, id, body, http.StatusOK); err != nil {
			return nil, err
		}
		if took := time.Since(sent); b.counts.Load() {
			latencies = append(latencies, took)
		}
		if _, err := b.call(ctx, http.MethodDelete, id, "", http.StatusOK); err != nil {
			return nil, err
		}
	}
	_, err := b.call(ctx, http.MethodDelete, "/v1/sessions/"+hex.EncodeToString(session[:]), "", http.StatusOK)
	return latencies, err
}

func (b *benchRun) call(ctx context.Context, method, path, body string, want int) (http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", b.key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := b.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	const answerBytesMax = 1 << 20
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerBytesMax))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != want {
		var p wire.Problem
		if json.Unmarshal(answer, &p) == nil && p.Code != "" {
			return nil, fmt.Errorf("%s %s: %s: %s", method, path, p.Code, p.Detail)
		}
		return nil, fmt.Errorf("%s %s: answer %d", method, path, res.StatusCode)
	}
	return res.Header, nil
}
