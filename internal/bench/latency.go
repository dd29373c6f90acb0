package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is what was measured of one kind of call, in microseconds, exact to three digits.
type Latency struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50_us"`
	P90   int64 `json:"p90_us"`
	P99   int64 `json:"p99_us"`
	P999  int64 `json:"p99_9_us"`
	Max   int64 `json:"max_us"`
}

const (
	latencyMax    = 10 * time.Minute // what took longer counts as that
	latencyDigits = 3
)

// recorder collects latencies. Safe for concurrent use: one for all clients, as a histogram for each is much memory.
type recorder struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram // guarded by mu
}

func newRecorder() *recorder {
	return &recorder{h: hdrhistogram.New(1, latencyMax.Microseconds(), latencyDigits)}
}

func (r *recorder) record(d time.Duration) {
	d = min(max(d, time.Microsecond), latencyMax)
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.h.RecordValue(d.Microseconds()) // fails out of the range only
}

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Reset()
}

func (r *recorder) latency() Latency {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.h.ValueAtPercentile
	return Latency{Count: r.h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: r.h.Max()}
}
