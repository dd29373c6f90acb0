package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// latency is what `stanchion bench` says of one kind of call.
type latency struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50_us"`
	P90   int64 `json:"p90_us"`
	P99   int64 `json:"p99_us"`
	P999  int64 `json:"p99_9_us"`
	Max   int64 `json:"max_us"`
}

// benchRow has the fields of all measurements' rows that scripts rely on.
type benchRow struct {
	Clients        int      `json:"clients"`
	Seconds        float64  `json:"seconds"`
	Pairs          int64    `json:"pairs"`
	PairsPerSecond float64  `json:"pairs_per_second"`
	Acquire        latency  `json:"acquire"`
	Release        latency  `json:"release"`
	ServerCores    *float64 `json:"server_cpu_cores"`
	ServerPerPair  *float64 `json:"server_cpu_us_per_pair"`
	ClientCores    float64  `json:"client_cpu_cores"`

	Holders          int64    `json:"holders"`
	HoldersPerSecond float64  `json:"holders_per_second"`
	HoldersAtOnce    int      `json:"holders_at_once"`
	Handoff          latency  `json:"handoff"`
	ServerPerHolder  *float64 `json:"server_cpu_us_per_holder"`

	Leases             int      `json:"leases"`
	Sessions           int      `json:"sessions"`
	Heartbeats         int64    `json:"heartbeats"`
	Heartbeat          latency  `json:"heartbeat"`
	Service            latency  `json:"heartbeat_service"`
	IdleCores          *float64 `json:"idle_server_cpu_cores"`
	ServerPerHeartbeat *float64 `json:"server_cpu_us_per_heartbeat"`
	ServerPerRenewal   *float64 `json:"server_cpu_us_per_renewal"`

	Memory         *float64 `json:"server_memory_bytes"`
	MemoryPerLease *float64 `json:"server_memory_bytes_per_lease"`
	ToFirst        float64  `json:"pairs_to_first_row"`

	Load       string      `json:"load"`
	P99ToAlone float64     `json:"acquire_p99_to_alone"`
	Flood      *benchFlood `json:"flood"`
}

type benchFlood struct {
	Requests int64 `json:"requests"`
	Granted  int64 `json:"granted"`
}

type benchReport struct {
	Measure string     `json:"measure"`
	Leader  string     `json:"leader"`
	Class   string     `json:"class"`
	Rows    []benchRow `json:"rows"`
	Notes   []string   `json:"notes"`
}

// TestBench_measuresEachOfItsKinds: against one cluster, briefly.
func TestBench_measuresEachOfItsKinds(t *testing.T) {
	c := newCluster(t)
	c.start("--processes", "--flood-tenant")
	t.Run("pairs", func(t *testing.T) {
		r := c.bench(t, 2, "pairs", "--clients", "1,4")
		for i, clients := range []int{1, 4} {
			row := r.Rows[i]
			wantOrdered(t, "acquire", row.Acquire)
			wantOrdered(t, "release", row.Release)
			if row.Clients != clients || row.Pairs != row.Acquire.Count || row.PairsPerSecond <= 0 || !positive(row.ServerPerPair) {
				t.Errorf("row %d: got %+v, want pairs of %d clients, and CPU for each", i, row, clients)
			}
		}
	})
	t.Run("handoff", func(t *testing.T) {
		row := c.bench(t, 1, "handoff", "--clients", "4").Rows[0]
		wantOrdered(t, "hand-off", row.Handoff)
		if row.Holders != row.Handoff.Count || row.HoldersAtOnce != 1 || row.HoldersPerSecond <= 0 || !positive(row.ServerPerHolder) {
			t.Errorf("got %+v, want holders, one at a time, and CPU for each", row)
		}
	})
	t.Run("heartbeats", func(t *testing.T) {
		row := c.bench(t, 1, "heartbeats", "--leases", "40", "--every", "200ms").Rows[0]
		wantOrdered(t, "heartbeat", row.Heartbeat)
		wantOrdered(t, "heartbeat from when it was sent", row.Service)
		if row.Leases != 40 || row.Sessions != 4 || row.Heartbeats != row.Heartbeat.Count || row.Service.P50 > row.Heartbeat.Max {
			t.Errorf("got %+v, want heartbeats of 40 leases in 4 sessions", row)
		}
		if row.IdleCores == nil || !positive(row.ServerPerHeartbeat) || !positive(row.ServerPerRenewal) || *row.ServerPerRenewal >= *row.ServerPerHeartbeat {
			t.Errorf("got %+v, want CPU idle, for each heartbeat and, less, for each lease in one", row)
		}
	})
	t.Run("held", func(t *testing.T) {
		for i, row := range c.bench(t, 2, "held", "--leases", "20,60", "--clients", "2", "--leases-per-session", "20", "--every", "500ms").Rows {
			wantOrdered(t, "acquire", row.Acquire)
			if row.Leases != []int{20, 60}[i] || row.Pairs == 0 || !positive(row.Memory) || row.MemoryPerLease == nil || row.ToFirst <= 0 {
				t.Errorf("row %d: got %+v, want pairs and memory", i, row)
			}
		}
	})
	t.Run("fairness", func(t *testing.T) {
		rows := c.bench(t, 2, "fairness", "--rate", "20", "--clients", "4", "--flood-clients", "8").Rows
		for i, row := range rows {
			wantOrdered(t, "acquire", row.Acquire)
			if row.Load != []string{"alone", "flooded"}[i] || row.P99ToAlone <= 0 || (row.Flood != nil) != (i == 1) {
				t.Errorf("row %d: got %+v", i, row)
			}
		}
		if f := rows[1].Flood; f != nil && (f.Granted == 0 || f.Requests < f.Granted) {
			t.Errorf("flood: got %+v, want grants", *f)
		}
	})
	t.Run("table", func(t *testing.T) {
		p := start(t, c.benchCommand("pairs", "--clients", "2", "--seconds", "1"))
		p.wait(t)
		p.wantExit(t, 0, "clients", "pairs/s", "server µs/pair", "All requests went to http://localhost:")
	})
	t.Run("interrupted", c.benchInterrupted)
	c.wantNothingHeld(t)
	c.stop(syscall.SIGTERM)
}

// benchInterrupted: what a measurement holds is free when it has ended by a signal.
func (c *cluster) benchInterrupted(t *testing.T) {
	p := start(t, c.benchCommand("held", "--leases", "30,3000", "--seconds", "60"))
	await(t, "leases are held", func() error {
		if n := c.locksHeld(t); n < 30 {
			return fmt.Errorf("%d locks are held", n)
		}
		return nil
	})
	p.stop(t, syscall.SIGINT)
	p.wantExit(t, 1, "interrupted")
	c.wantNothingHeld(t)
}

func (c *cluster) wantNothingHeld(t *testing.T) {
	t.Helper()
	if n := c.locksHeld(t); n > 0 {
		t.Errorf("%d locks are held or waited for after the measurement, want none", n)
	}
}

// locksHeld is how many locks somebody holds or waits for, as far as one page shows them.
func (c *cluster) locksHeld(t *testing.T) int {
	t.Helper()
	a := newClient(t, c.file).must(t, "GET", "/v1/locks?limit=100", nil)
	var list wire.LockList
	if err := json.Unmarshal(a.body, &list); err != nil {
		t.Fatalf("locks: %v\n%s", err, a.body)
	}
	return len(list.Locks)
}

// benchCommand is `stanchion bench` with the environment that the cluster wrote.
func (c *cluster) benchCommand(args ...string) *exec.Cmd {
	script := `. "$0/env" && exec "$@"`
	return exec.Command("sh", slices.Concat([]string{"-c", script, c.dir, binary, "bench"}, args)...)
}

// bench measures for a second per row, and wants so many rows that are in themselves consistent.
func (c *cluster) bench(t *testing.T, rows int, args ...string) benchReport {
	t.Helper()
	p := start(t, c.benchCommand(append(args, "--seconds", "1", "--output", "json")...))
	p.wait(t)
	p.wantExit(t, 0)
	var r benchReport
	if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil {
		t.Fatalf("bench %v: %v\n%s", args, err, p.out.String())
	}
	if r.Measure != args[0] || r.Class != "ledger-close" || !strings.HasPrefix(r.Leader, "http://localhost:") || len(r.Rows) != rows {
		t.Fatalf("bench %v: got %+v, want %d rows of ledger-close", args, r, rows)
	}
	for i, row := range r.Rows {
		if row.Seconds < 1 || !positive(row.ServerCores) || row.ClientCores <= 0 {
			t.Errorf("bench %v, row %d: %v s, CPU of servers %v, of the client %v; want 1 s or more and CPU", args, i, row.Seconds,
				row.ServerCores, row.ClientCores)
		}
	}
	return r
}

func positive(f *float64) bool { return f != nil && *f > 0 }

func wantOrdered(t *testing.T, what string, l latency) {
	t.Helper()
	if !slices.IsSorted([]int64{1, l.P50, l.P90, l.P99, l.P999, l.Max}) || l.Count == 0 {
		t.Errorf("latency of %s: got %+v, want some, and percentiles in order", what, l)
	}
}

// TestBenchmarks_commandsOfTheDocumentAreValid: each gets as far as asking the cluster, and there is none.
func TestBenchmarks_commandsOfTheDocumentAreValid(t *testing.T) {
	text, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, block := range fenced(string(text), "sh bench") {
		for _, line := range strings.Split(block, "\n") {
			args := strings.Fields(line)
			if len(args) < 3 || args[0] != "stanchion" || args[1] != "bench" {
				continue
			}
			kinds[args[2]] = true
			p := start(t, benchNowhere(args[1:]...))
			p.wait(t)
			p.wantExit(t, 1, "refused")
		}
	}
	if len(kinds) != 5 {
		t.Errorf("the document has commands of %v, want all five", kinds)
	}
}

// benchNowhere is a command of stanchion with the address of no cluster.
func benchNowhere(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "STANCHION_ENDPOINTS=http://127.0.0.1:1", "STANCHION_API_KEY=stn_none", "STANCHION_FLOOD_API_KEY=stn_flood")
	return cmd
}

// TestBench_refusesWhatMakesNoSense: with exit code 2, the range, and before anything is asked.
func TestBench_refusesWhatMakesNoSense(t *testing.T) {
	for _, c := range []struct {
		says string
		args []string
	}{
		{"clients is 1 to 4096, not 0", []string{"pairs", "--clients", "0"}},
		{"seconds is 1 to 600, not 601", []string{"pairs", "--seconds", "601"}},
		{"clients is 2 to 1000, not 1", []string{"handoff", "--clients", "1"}},
		{"leases is 1 to 1000000, not 1000001", []string{"heartbeats", "--leases", "1000001"}},
		{"leases grow; 10 comes after 20", []string{"held", "--leases", "20,10"}},
		{"rate is 1 to 10000, not 0", []string{"fairness", "--rate", "0"}},
		{"unknown flag", []string{"pairs", "--rounds", "3"}},
		{"arguments", []string{"pairs", "64"}},
	} {
		p := start(t, benchNowhere(append([]string{"bench"}, c.args...)...))
		p.wait(t)
		if c.says == "arguments" {
			p.wantExit(t, 2)
			continue
		}
		p.wantExit(t, 2, c.says)
	}
	cmd := benchNowhere("bench", "fairness")
	cmd.Env = append(cmd.Env, "STANCHION_FLOOD_API_KEY=")
	p := start(t, cmd)
	p.wait(t)
	p.wantExit(t, 2, "--flood-key-file")
}
