package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// HeldOptions say how held leases are measured.
type HeldOptions struct {
	HoldOptions
	Leases  []int // a row for each: so many are held, growing; each 1 .. LeasesMax
	Clients int   // that take and release pairs meanwhile; 1 .. ClientsMax
}

// HeldRow is what was measured while so many leases were held, and kept with heartbeats: pairs, and the servers' memory.
type HeldRow struct {
	Leases         int     `json:"leases"`
	GrowSeconds    float64 `json:"grow_seconds"` // from the number before
	Clients        int     `json:"clients"`
	Seconds        float64 `json:"seconds"`
	Pairs          int64   `json:"pairs"`
	PairsPerSecond float64 `json:"pairs_per_second"`
	Acquire        Latency `json:"acquire"`
	// ToFirst is pairs per second to those of the first row.
	ToFirst    float64 `json:"pairs_to_first_row"`
	Heartbeats int64   `json:"heartbeats"`
	Heartbeat  Latency `json:"heartbeat"` // from when it was due
	// Memory is what the servers' processes hold together, in bytes, garbage that was not collected yet included.
	Memory         *float64 `json:"server_memory_bytes"`
	MemoryPerLease *float64 `json:"server_memory_bytes_per_lease"` // of the growth since nothing was held
	ServerCores    *float64 `json:"server_cpu_cores"`
	ClientCores    float64  `json:"client_cpu_cores"`
}

func (o HeldOptions) validate() error {
	errs := []error{o.HoldOptions.validate(), eachInRange("leases", o.Leases, LeasesMax), inRange("clients", o.Clients, 1, ClientsMax)}
	for i := 1; i < len(o.Leases); i++ {
		if o.Leases[i] <= o.Leases[i-1] {
			errs = append(errs, fmt.Errorf("%w: leases grow; %d comes after %d", ErrRange, o.Leases[i], o.Leases[i-1]))
		}
	}
	return errors.Join(errs...)
}

// Held measures pairs and memory while more and more leases are held. Errors: ErrRange, ErrRestarted, and what the cluster
// answered.
func Held(ctx context.Context, c Config, o HeldOptions) (report Report[HeldRow], err error) {
	if err := errors.Join(c.validate(), o.validate()); err != nil {
		return report, err
	}
	r, err := c.begin(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = r.finish(ctx, err) }()
	report = newReport[HeldRow]("held", r)
	empty, err := r.meter.read(ctx)
	if err != nil {
		return report, err
	}
	h, err := r.hold(ctx, o.HoldOptions)
	if err != nil {
		return report, err
	}
	err = load(ctx, len(h.holders), h.work, func(ctx context.Context) error {
		for _, leases := range o.Leases {
			row, err := h.heldRow(ctx, leases, o.Clients, empty.memory())
			if err != nil {
				return err
			}
			report.Rows = append(report.Rows, row)
			if first := report.Rows[0].PairsPerSecond; first > 0 {
				report.Rows[len(report.Rows)-1].ToFirst = row.PairsPerSecond / first
			}
		}
		return nil
	})
	return report, err
}

// heldRow grows to so many leases and measures pairs beside them.
func (h *holding) heldRow(ctx context.Context, leases, clients int, empty float64) (HeldRow, error) {
	began := time.Now()
	if err := h.growTo(ctx, leases); err != nil {
		return HeldRow{}, err
	}
	grew := time.Since(began).Seconds()
	h.beat.reset()
	pairs, w, err := h.pairs(ctx, fmt.Sprintf("pairs, %d leases held", leases), clients)
	if err != nil {
		return HeldRow{}, err
	}
	row := HeldRow{Leases: leases, GrowSeconds: grew, Clients: clients, Seconds: pairs.Seconds, Pairs: pairs.Pairs,
		PairsPerSecond: pairs.PairsPerSecond, Acquire: pairs.Acquire, Heartbeat: h.beat.latency(), ServerCores: pairs.ServerCores,
		ClientCores: pairs.ClientCores}
	row.Heartbeats = row.Heartbeat.Count
	if w.memory > 0 {
		perLease := (w.memory - empty) / float64(leases)
		row.Memory, row.MemoryPerLease = &w.memory, &perLease
	}
	return row, nil
}

func (HeldRow) header() []string {
	return []string{"leases", "grown in s", "clients", "pairs/s", "to first", "acquire p50", "p99", "max", "heartbeats", "p99",
		"memory MB", "bytes/lease", "server cores", "client cores"}
}

func (h HeldRow) cells() []string {
	a := h.Acquire
	memory := notMeasured
	if h.Memory != nil {
		memory = decimal(*h.Memory/1e6, 0)
	}
	return []string{number(h.Leases), decimal(h.GrowSeconds, 1), number(h.Clients), decimal(h.PairsPerSecond, 0), decimal(h.ToFirst, 2),
		ms(a.P50), ms(a.P99), ms(a.Max), number(int(h.Heartbeats)), ms(h.Heartbeat.P99), memory, measured(h.MemoryPerLease, 0),
		measured(h.ServerCores, 2), decimal(h.ClientCores, 2)}
}
