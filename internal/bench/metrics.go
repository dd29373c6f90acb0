package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The metrics that are read of a node. Each is one line without labels.
const (
	metricCPU   = "process_cpu_seconds_total"
	metricRSS   = "process_resident_memory_bytes"
	metricStart = "process_start_time_seconds"
	metricPID   = "stanchion_process_pid"
)

const (
	scrapeTime     = 10 * time.Second
	scrapeBytesMax = 8 << 20
)

// ErrRestarted is returned when a node's process ended and another began while it was measured.
var ErrRestarted = errors.New("a node was started again during the measurement")

// process tells the servers' processes apart: nodes that run in one process show the same machine, id and start time.
type process struct {
	host  string // of the address
	pid   float64
	start float64
	url   string // of one that does not tell its id
}

// usage is what a process has used by a moment.
type usage struct {
	at  time.Time
	cpu float64 // seconds
	rss float64 // bytes
}

// reading is what all servers' processes, and this one, have used by a moment.
type reading struct {
	at      time.Time
	servers map[process]usage // nil: not measured
	client  time.Duration     // CPU of this process
}

// meter reads what the servers and this process use.
type meter struct {
	urls []string
	http *http.Client
}

func newMeter(urls []string) *meter {
	return &meter{urls: urls, http: &http.Client{Timeout: scrapeTime, Transport: &http.Transport{}}}
}

func (m *meter) close() { m.http.CloseIdleConnections() }

// read asks each address. Each process counts once, however many nodes run in it.
func (m *meter) read(ctx context.Context) (reading, error) {
	r := reading{}
	for _, address := range m.urls {
		p, u, err := m.scrape(ctx, address)
		if err != nil {
			return r, &Failure{Err: fmt.Errorf("metrics of %s: %w", address, err), Remedy: "name the nodes' private addresses with --metrics"}
		}
		if r.servers == nil {
			r.servers = map[process]usage{}
		}
		r.servers[p] = u
	}
	r.at, r.client = time.Now(), clientCPU()
	return r, nil
}

func (m *meter) scrape(ctx context.Context, address string) (process, usage, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return process{}, usage{}, errors.New("this is no address like http://host:port/metrics")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/metrics"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return process{}, usage{}, err
	}
	res, err := m.http.Do(req)
	if err != nil {
		return process{}, usage{}, err
	}
	defer res.Body.Close()
	at := time.Now()
	if res.StatusCode != http.StatusOK {
		return process{}, usage{}, fmt.Errorf("status %d", res.StatusCode)
	}
	values, err := parseMetrics(io.LimitReader(res.Body, scrapeBytesMax))
	if err != nil {
		return process{}, usage{}, err
	}
	return identify(u, values), usage{at: at, cpu: values[metricCPU], rss: values[metricRSS]}, nil
}

func identify(u *url.URL, values map[string]float64) process {
	p := process{host: u.Hostname(), pid: values[metricPID], start: values[metricStart]}
	if p.pid == 0 {
		p.url = u.String()
	}
	return p
}

// parseMetrics reads the metrics named above out of the Prometheus text format. CPU, memory and start time must be there.
func parseMetrics(r io.Reader) (map[string]float64, error) {
	values := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case metricCPU, metricRSS, metricStart, metricPID:
			value, _, _ := strings.Cut(strings.TrimSpace(rest), " ") // a time may follow
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("%s is %.40q, which is no number", name, value)
			}
			values[name] = v
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for _, name := range []string{metricCPU, metricRSS, metricStart} {
		if _, ok := values[name]; !ok {
			return nil, fmt.Errorf("there is no %s", name)
		}
	}
	return values, nil
}

// clientCPU is what this process has used.
func clientCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory is what all servers' processes hold; 0: not measured.
func (r reading) memory() float64 {
	sum := 0.0
	for _, u := range r.servers {
		sum += u.rss
	}
	return sum
}

// cores is the CPU that all servers' processes used between two readings, as cores that were busy; nil: not measured. Each
// process counts over its own time, as they are read one after the other.
func (r reading) cores(before reading) (*float64, error) {
	if r.servers == nil {
		return nil, nil
	}
	sum := 0.0
	for p, now := range r.servers {
		then, ok := before.servers[p]
		took := now.at.Sub(then.at).Seconds()
		if !ok || took <= 0 {
			return nil, ErrRestarted
		}
		sum += (now.cpu - then.cpu) / took
	}
	return &sum, nil
}

// clientCores is the CPU that this process used since a reading, as cores that were busy.
func (r reading) clientCores(before reading) float64 {
	took := r.at.Sub(before.at).Seconds()
	if took <= 0 {
		return 0
	}
	return (r.client - before.client).Seconds() / took
}

// perUnit is the CPU of one of so many per second, in microseconds; nil: not measured.
func perUnit(cores *float64, perSecond float64) *float64 {
	if cores == nil || perSecond <= 0 {
		return nil
	}
	us := *cores / perSecond * 1e6
	return &us
}
