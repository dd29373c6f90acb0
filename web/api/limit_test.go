package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/tenants"
)

// What is kept follows from the requests of the last seconds, not from all tenants that ever asked.
func TestLimits_forgetTenantsThatHaveTheirQuotaBack(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := NewLimits(func() time.Time { return now })
	quota := func() int { return 5 }
	ask := func(tenant string) bool { return l.take(tenants.TenantID(tenant), bucketOther, quota) }
	for i := range limitsKept {
		ask(fmt.Sprintf("early-%d", i))
	}
	for range burstMin {
		ask("busy")
	}
	now = now.Add(time.Second) // the early ones are full again, the busy one is not
	ask("late")
	kept := 0
	l.tenants.Range(func(any, any) bool { kept++; return true })
	if kept != 2 || int(l.kept.Load()) != kept {
		t.Errorf("got %d kept, %d counted, want the busy tenant and the late one", kept, l.kept.Load())
	}
	passed := 0
	for ask("busy") {
		passed++
	}
	if passed != 5 {
		t.Errorf("got %d more of the busy tenant, want the 5 of one second", passed)
	}
}

func BenchmarkLimits(b *testing.B) {
	l := NewLimits(nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.take("acme", bucketOther, func() int { return 1_000_000 })
		}
	})
}
