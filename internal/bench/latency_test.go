package bench

import (
	"testing"
	"time"
)

func TestRecorder_percentilesAreOfWhatWasRecorded(t *testing.T) {
	r := newRecorder()
	for us := 1; us <= 1000; us++ {
		r.record(time.Duration(us) * time.Microsecond)
	}
	if got, want := r.latency(), (Latency{Count: 1000, P50: 500, P90: 900, P99: 990, P999: 999, Max: 1000}); got != want {
		t.Errorf("latencies of 1 to 1000 µs: got %+v, want %+v", got, want)
	}
	r.reset()
	if got := r.latency(); got != (Latency{}) {
		t.Errorf("after reset: got %+v, want nothing", got)
	}
}

func TestRecorder_keepsThreeDigits(t *testing.T) {
	for _, us := range []int64{1, 999, 12_345, 1_234_567, 98_765_432} {
		r := newRecorder()
		r.record(time.Duration(us) * time.Microsecond)
		got := r.latency().P50
		if off := got - us; off < 0 || off*1000 > us {
			t.Errorf("%d µs is told as %d, want it exact to a thousandth", us, got)
		}
	}
}

// TestRecorder_losesNothing: what is out of its range counts as the nearest it can tell.
func TestRecorder_losesNothing(t *testing.T) {
	r := newRecorder()
	r.record(-time.Second)
	r.record(0)
	r.record(time.Hour)
	got := r.latency()
	if most := latencyMax.Microseconds(); got.Count != 3 || got.P50 != 1 || got.Max < most || got.Max > most+most/1000 {
		t.Errorf("got %+v, want 3 recorded, from 1 µs to about %d µs", got, most)
	}
}
