package bench

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// metricsText is what a node answers.
func metricsText(cpu, rss, start, pid float64) string {
	text := fmt.Sprintf("# HELP process_cpu_seconds_total Time.\n# TYPE process_cpu_seconds_total counter\n%s %v\n%s %v\n%s %v\n"+
		"go_gc_duration_seconds{quantile=\"0\"} 2.1e-05\nprocess_cpu_seconds_total_other 7\n", metricCPU, cpu, metricRSS, rss, metricStart, start)
	if pid > 0 {
		text += fmt.Sprintf("%s %v\n", metricPID, pid)
	}
	return text
}

func serveMetrics(t *testing.T, text string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	t.Cleanup(s.Close)
	return s.URL + "/metrics"
}

func TestParseMetrics_readsPlainLinesAndNoOthers(t *testing.T) {
	got, err := parseMetrics(strings.NewReader(metricsText(12.34, 1.5e+08, 1.7e9, 41) + metricCPU + "{a=\"b\"} 99\n"))
	want := map[string]float64{metricCPU: 12.34, metricRSS: 1.5e8, metricStart: 1.7e9, metricPID: 41}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := parseMetrics(strings.NewReader(metricsText(1, 1, 1, 0) + metricCPU + " 5 1700000000\n")); err != nil || got[metricCPU] != 5 {
		t.Errorf("a value with a time: got %v, %v; want 5", got[metricCPU], err)
	}
}

func TestParseMetrics_refusesWhatLacksANumber(t *testing.T) {
	for text, says := range map[string]string{
		"": "no " + metricCPU,
		metricCPU + " 1\n" + metricStart + " 1\n":  "no " + metricRSS,
		metricsText(1, 1, 1, 1) + metricCPU + "\n": "no number",
		metricCPU + " fast\n":                      "no number",
		"<html>" + strings.Repeat("x", 100_000):    "too long",
	} {
		if got, err := parseMetrics(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q is read as %v, %v; want an error that says %q", text, got, err, says)
		}
	}
}

// TestMeter_countsAProcessOnce: nodes that run in one process show the same id, start time and machine.
func TestMeter_countsAProcessOnce(t *testing.T) {
	same := metricsText(10, 100, 50, 7)
	for name, c := range map[string]struct {
		urls []string
		want float64
	}{
		"one process, three nodes": {[]string{serveMetrics(t, same), serveMetrics(t, same), serveMetrics(t, same)}, 100},
		"three processes": {[]string{serveMetrics(t, same), serveMetrics(t, metricsText(10, 100, 50, 8)),
			serveMetrics(t, metricsText(10, 100, 51, 7))}, 300},
		"no ids": {[]string{serveMetrics(t, metricsText(10, 100, 50, 0)), serveMetrics(t, metricsText(10, 100, 50, 0))}, 200},
	} {
		m := newMeter(c.urls)
		defer m.close()
		if r, err := m.read(t.Context()); err != nil || r.memory() != c.want {
			t.Errorf("%s: got %v bytes, %v; want %v", name, r.memory(), err, c.want)
		}
	}
}

func TestMeter_saysWhichAddressFailsAndWhatToDo(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	for address, says := range map[string]string{gone.URL: "status 404", "localhost": "no address", serveMetrics(t, "<html>"): "no " + metricCPU} {
		m := newMeter([]string{address})
		defer m.close()
		_, err := m.read(t.Context())
		f, ok := errors.AsType[*Failure](err)
		if !ok || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), says) || !strings.Contains(f.Remedy, "--metrics") {
			t.Errorf("%s: got %v, want an error that names it, says %q and what to do", address, err, says)
		}
	}
}

func TestReading_coresAreOfEachProcessOverItsOwnTime(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	a, b := process{pid: 1}, process{pid: 2}
	before := reading{servers: map[process]usage{a: {at: at, cpu: 10}, b: {at: at.Add(time.Second), cpu: 20}}}
	after := reading{servers: map[process]usage{a: {at: at.Add(2 * time.Second), cpu: 11}, b: {at: at.Add(5 * time.Second), cpu: 21}}}
	cores, err := after.cores(before)
	if err != nil || math.Abs(*cores-0.75) > 1e-9 {
		t.Fatalf("cores: got %v, %v; want 1/2 + 1/4", cores, err)
	}
	if us := perUnit(cores, 1000); math.Abs(*us-750) > 1e-6 {
		t.Errorf("0.75 cores for 1000 a second: got %v µs each, want 750", *us)
	}
	after.servers = map[process]usage{{pid: 3}: {at: at.Add(2 * time.Second), cpu: 1}}
	if _, err := after.cores(before); !errors.Is(err, ErrRestarted) {
		t.Errorf("another process: got %v, want ErrRestarted", err)
	}
	if cores, err := (reading{}).cores(reading{}); cores != nil || err != nil || perUnit(cores, 5) != nil {
		t.Errorf("without metrics: got %v, %v; want nothing measured", cores, err)
	}
}
