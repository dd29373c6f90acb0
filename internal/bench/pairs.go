package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// PairsOptions say how pairs are measured.
type PairsOptions struct {
	Clients []int // a row for each: so many clients at a time, each 1 .. ClientsMax
}

// PairsRow is what was measured of pairs: each client takes a key of its own and gives it back, as fast as it is answered.
type PairsRow struct {
	Clients        int      `json:"clients"`
	Seconds        float64  `json:"seconds"`
	Pairs          int64    `json:"pairs"`
	PairsPerSecond float64  `json:"pairs_per_second"`
	Acquire        Latency  `json:"acquire"`
	Release        Latency  `json:"release"`
	ServerCores    *float64 `json:"server_cpu_cores"` // busy on the average; null: not measured
	ServerPerPair  *float64 `json:"server_cpu_us_per_pair"`
	ClientCores    float64  `json:"client_cpu_cores"` // of this process
}

// Pairs measures pairs of acquire and release. Errors: ErrRange, ErrRestarted, and what the cluster answered.
func Pairs(ctx context.Context, c Config, o PairsOptions) (report Report[PairsRow], err error) {
	if err := errors.Join(c.validate(), eachInRange("clients", o.Clients, ClientsMax)); err != nil {
		return report, err
	}
	r, err := c.begin(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = r.finish(ctx, err) }()
	report = newReport[PairsRow]("pairs", r)
	for _, clients := range o.Clients {
		row, _, err := r.pairs(ctx, fmt.Sprintf("pairs, %d clients", clients), clients)
		if err != nil {
			return report, err
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

func (r *run) pairs(ctx context.Context, what string, clients int) (PairsRow, window, error) {
	l := &pairLoad{run: r, acquire: newRecorder(), release: newRecorder()}
	var w window
	err := load(ctx, clients, l.client, func(ctx context.Context) (err error) {
		w, err = r.open(ctx, what)
		return err
	})
	if err != nil {
		return PairsRow{}, w, err
	}
	return l.row(clients, w), w, nil
}

// pairLoad is a load of pairs.
type pairLoad struct {
	*run
	acquire, release *recorder
}

func (l *pairLoad) row(clients int, w window) PairsRow {
	row := PairsRow{Clients: clients, Seconds: w.took.Seconds(), Acquire: l.acquire.latency(), Release: l.release.latency(),
		ServerCores: w.cores, ClientCores: w.clientCores}
	row.Pairs = row.Release.Count
	row.PairsPerSecond = w.perSecond(row.Pairs)
	row.ServerPerPair = perUnit(row.ServerCores, row.PairsPerSecond)
	return row
}

// client takes and gives back a key of its own. An acquire counts with its release.
func (l *pairLoad) client(ctx, running context.Context, i int) error {
	c := l.conn()
	defer c.close()
	p := newLeaseRequests(l.session())
	body := acquireBody(l.Class, fmt.Sprintf("bench-%s-pairs-%d", l.id, i), noWait)
	for running.Err() == nil {
		path := p.next()
		sent := time.Now()
		if err := c.want(ctx, http.MethodPut, path, body); err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		granted := time.Now()
		if err := c.want(ctx, http.MethodDelete, path, nil); err != nil {
			return fmt.Errorf("release: %w", err)
		}
		if l.counts.Load() {
			l.acquire.record(granted.Sub(sent))
			l.release.record(time.Since(granted))
		}
	}
	return nil
}

// want makes a call that must be answered with 200.
func (c *conn) want(ctx context.Context, method, path string, body []byte) error {
	status, answer, err := c.call(ctx, method, path, body)
	if err == nil && status != http.StatusOK {
		err = failure(status, answer)
	}
	return err
}

// leaseRequests number the lease requests of one session.
type leaseRequests struct {
	prefix string
	n      uint64
}

func newLeaseRequests(session string) *leaseRequests {
	return &leaseRequests{prefix: "/v1/leases/" + session + "."}
}

// next is the path of the next request, from 1.
func (p *leaseRequests) next() string {
	p.n++
	return p.prefix + strconv.FormatUint(p.n, 10)
}

// acquireBody is the body of an acquire. A nil wait is as long as the class allows.
func acquireBody(class, key string, wait *wire.Duration) []byte {
	b, err := json.Marshal(wire.AcquireRequest{Class: class, Key: key, Wait: wait})
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// noWait tries once.
var noWait = new(wire.Duration)

func (PairsRow) header() []string {
	return []string{"clients", "pairs/s", "acquire p50", "p90", "p99", "p99.9", "max", "release p50", "p99", "server cores",
		"server µs/pair", "client cores"}
}

func (p PairsRow) cells() []string {
	a, r := p.Acquire, p.Release
	return []string{number(p.Clients), decimal(p.PairsPerSecond, 0), ms(a.P50), ms(a.P90), ms(a.P99), ms(a.P999), ms(a.Max), ms(r.P50),
		ms(r.P99), measured(p.ServerCores, 2), measured(p.ServerPerPair, 0), decimal(p.ClientCores, 2)}
}
