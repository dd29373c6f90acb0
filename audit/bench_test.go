package audit_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/audit"
)

// BenchmarkAppend stores batches as the projector makes them: rows/s.
func BenchmarkAppend(b *testing.B) {
	s := open(b)
	next := uint64(1)
	for b.Loop() {
		batch := make([]audit.Entry, 0, audit.BatchRows)
		for range audit.BatchRows {
			batch = append(batch, entry(1, next, 1))
			next++
		}
		if err := s.Append(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*audit.BatchRows)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkQuery reads the newest 50 events of one of two tenants among 200,000: p50 and p99 of a page.
func BenchmarkQuery(b *testing.B) {
	s := open(b)
	for i := uint64(1); i <= 2000; i++ {
		appendAll(b, s, entry(1, i, 100))
	}
	for name, q := range map[string]audit.Query{
		"newest": {Tenant: acme, Limit: 50, Order: audit.Descending},
		"key":    {Tenant: acme, Limit: 50, Key: "key-1000-0"},
		"token":  {Tenant: acme, Limit: 50, Token: 100_001},
		"rare":   {Tenant: acme, Limit: 50, Text: "nowhere"}, // a page of bounded work
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := s.Query(context.Background(), q); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
