package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// HeartbeatsOptions say how heartbeats are measured.
type HeartbeatsOptions struct {
	HoldOptions
	Leases int // held; 1 .. LeasesMax
}

// HeartbeatsRow is what was measured of heartbeats: leases are held, and each session sends one request for all of its own each period.
type HeartbeatsRow struct {
	Leases              int     `json:"leases"`
	Sessions            int     `json:"sessions"`
	LeasesPerSession    int     `json:"leases_per_session"`
	EverySeconds        float64 `json:"every_seconds"`
	Seconds             float64 `json:"seconds"`
	Heartbeats          int64   `json:"heartbeats"`
	HeartbeatsPerSecond float64 `json:"heartbeats_per_second"`
	RenewalsPerSecond   float64 `json:"renewals_per_second"` // leases named in heartbeats
	// Heartbeat counts from when it was due, so that one that had to wait for another before it is as late as it was.
	Heartbeat Latency `json:"heartbeat"`
	Service   Latency `json:"heartbeat_service"` // from when it was sent
	// IdleCores is what the servers used before anything was held; the other figures of CPU include it.
	IdleCores          *float64 `json:"idle_server_cpu_cores"`
	ServerCores        *float64 `json:"server_cpu_cores"`
	ServerPerHeartbeat *float64 `json:"server_cpu_us_per_heartbeat"`
	ServerPerRenewal   *float64 `json:"server_cpu_us_per_renewal"` // of one lease by one heartbeat
	ClientCores        float64  `json:"client_cpu_cores"`
}

// idleTime is how long the servers' CPU is read at most while nothing is done.
const idleTime = 3 * time.Second

// Heartbeats measures heartbeats. Errors: ErrRange, ErrRestarted, and what the cluster answered.
func Heartbeats(ctx context.Context, c Config, o HeartbeatsOptions) (report Report[HeartbeatsRow], err error) {
	if err := errors.Join(c.validate(), o.validate(), inRange("leases", o.Leases, 1, LeasesMax)); err != nil {
		return report, err
	}
	r, err := c.begin(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = r.finish(ctx, err) }()
	report = newReport[HeartbeatsRow]("heartbeats", r)
	idle, err := r.idle(ctx)
	if err != nil {
		return report, err
	}
	h, err := r.hold(ctx, o.HoldOptions)
	if err != nil {
		return report, err
	}
	var w window
	err = load(ctx, len(h.holders), h.work, func(ctx context.Context) (err error) {
		if err := h.growTo(ctx, o.Leases); err != nil {
			return err
		}
		w, err = r.open(ctx, fmt.Sprintf("heartbeats of %d leases", o.Leases))
		return err
	})
	if err != nil {
		return report, err
	}
	row := h.row(o.Leases, w)
	row.IdleCores = idle.cores
	report.Rows = append(report.Rows, row)
	return report, nil
}

// idle reads what the servers use while nothing is asked of them.
func (r *run) idle(ctx context.Context) (window, error) {
	if len(r.Metrics) == 0 {
		return window{}, nil
	}
	if err := r.pass(ctx, "idle", r.warmUp()); err != nil { // what was done before has its consequences
		return window{}, err
	}
	return r.watch(ctx, "idle", min(idleTime, r.seconds()))
}

func (h *holding) row(leases int, w window) HeartbeatsRow {
	row := HeartbeatsRow{Leases: leases, Sessions: (leases + h.perSession - 1) / h.perSession, LeasesPerSession: h.perSession,
		EverySeconds: h.every.Seconds(), Seconds: w.took.Seconds(), Heartbeat: h.beat.latency(), Service: h.service.latency(),
		ServerCores: w.cores, ClientCores: w.clientCores}
	row.Heartbeats = row.Heartbeat.Count
	row.HeartbeatsPerSecond = w.perSecond(row.Heartbeats)
	row.RenewalsPerSecond = row.HeartbeatsPerSecond * float64(leases) / float64(row.Sessions)
	row.ServerPerHeartbeat = perUnit(w.cores, row.HeartbeatsPerSecond)
	row.ServerPerRenewal = perUnit(w.cores, row.RenewalsPerSecond)
	return row
}

func (HeartbeatsRow) header() []string {
	return []string{"leases", "sessions", "every s", "heartbeats/s", "p50", "p90", "p99", "p99.9", "max", "sent p99", "idle cores",
		"server cores", "server µs/heartbeat", "server µs/renewal", "client cores"}
}

func (h HeartbeatsRow) cells() []string {
	l := h.Heartbeat
	return []string{number(h.Leases), number(h.Sessions), decimal(h.EverySeconds, 2), decimal(h.HeartbeatsPerSecond, 0), ms(l.P50),
		ms(l.P90), ms(l.P99), ms(l.P999), ms(l.Max), ms(h.Service.P99), measured(h.IdleCores, 3), measured(h.ServerCores, 3),
		measured(h.ServerPerHeartbeat, 0), measured(h.ServerPerRenewal, 1), decimal(h.ClientCores, 3)}
}
