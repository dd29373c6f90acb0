package bench

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/wire"
)

const briefly = 100 * time.Millisecond

// platform is a platform in memory with a class, and what measures it briefly.
func platform(t *testing.T, class clienttest.ClassConfig) (*clienttest.Platform, Config) {
	t.Helper()
	p := clienttest.New(t)
	p.Class("work", class)
	metrics := serveMetrics(t, metricsText(10, 1e8, 50, 7))
	return p, Config{Endpoints: p.Serve(), APIKey: p.APIKey(), Class: "work", Seconds: 1, Metrics: []string{metrics}, brief: briefly}
}

// wantNothingHeld checks that every session that took something was ended.
func wantNothingHeld(t *testing.T, p *clienttest.Platform) {
	t.Helper()
	for _, r := range p.Requests(clienttest.Match{Op: clienttest.Acquire}) {
		if lease, _, held := p.Holder(r.Class, r.Key); held {
			t.Errorf("%s is held by %s after the measurement, want it free", r.Key, lease)
			return
		}
		if queue := p.Queue(r.Class, r.Key); len(queue) > 0 {
			t.Errorf("%s has %d waiting after the measurement, want none", r.Key, len(queue))
			return
		}
	}
	if len(p.Requests(clienttest.Match{Op: clienttest.EndSession})) == 0 {
		t.Error("no session was ended")
	}
}

func ordered(l Latency) bool {
	return l.Count > 0 && 0 < l.P50 && slices.IsSorted([]int64{l.P50, l.P90, l.P99, l.P999, l.Max})
}

func TestPairs_haveARowForEachNumberOfClients(t *testing.T) {
	p, c := platform(t, clienttest.ClassConfig{})
	report, err := Pairs(t.Context(), c, PairsOptions{Clients: []int{1, 4}})
	if err != nil || len(report.Rows) != 2 || report.Leader != c.Endpoints[0] || report.Class != "work" {
		t.Fatalf("got %+v, %v; want two rows of %s", report, err, c.Endpoints[0])
	}
	for i, clients := range []int{1, 4} {
		r := report.Rows[i]
		if r.Clients != clients || r.Pairs == 0 || r.Pairs != r.Acquire.Count || r.PairsPerSecond <= 0 || !ordered(r.Acquire) || !ordered(r.Release) {
			t.Errorf("row %d: got %+v, want pairs of %d clients and ordered percentiles", i, r, clients)
		}
		if r.ServerCores == nil || *r.ServerCores != 0 || r.ClientCores <= 0 {
			t.Errorf("row %d: got CPU of servers %v, of the client %v; want 0, as they told, and more than 0", i, r.ServerCores, r.ClientCores)
		}
	}
	wantNothingHeld(t, p)
}

func TestPairs_withoutMetricsSayHowToGiveThem(t *testing.T) {
	_, c := platform(t, clienttest.ClassConfig{})
	c.Metrics = nil
	report, err := Pairs(t.Context(), c, PairsOptions{Clients: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(raw), `"server_cpu_cores":null`) {
		t.Errorf("got %s, %v; want null for the CPU", raw, err)
	}
	var table strings.Builder
	if err := report.Table(&table); err != nil || !strings.Contains(table.String(), notMeasured) || !strings.Contains(table.String(), "--metrics") {
		t.Errorf("got %s, %v; want %q and --metrics", table.String(), err, notMeasured)
	}
}

func TestHandoff_hasOneHolderAtATime(t *testing.T) {
	p, c := platform(t, clienttest.ClassConfig{})
	report, err := Handoff(t.Context(), c, HandoffOptions{Clients: 8})
	if err != nil || len(report.Rows) != 1 {
		t.Fatalf("got %+v, %v; want a row", report, err)
	}
	if r := report.Rows[0]; r.Clients != 8 || r.Holders == 0 || r.HoldersPerSecond <= 0 || r.HoldersAtOnce != 1 || !ordered(r.Handoff) {
		t.Errorf("got %+v, want holders, one at a time", r)
	}
	wantNothingHeld(t, p)
}

func TestLine_refusesTwoHolders(t *testing.T) {
	now := time.Now()
	l := line{handoff: newRecorder()}
	first := grant{token: 5, at: now, until: now.Add(time.Minute)}
	second := grant{token: 6, at: now.Add(time.Second), until: now.Add(time.Minute)}
	if err := l.enter(first, true); err != nil {
		t.Fatal(err)
	}
	if err := l.enter(second, true); !errors.Is(err, ErrTwoHolders) {
		t.Errorf("a second holder: got %v, want ErrTwoHolders", err)
	}
	l.leave(first)
	if err := l.enter(first, true); !errors.Is(err, ErrTokens) {
		t.Errorf("the same token again: got %v, want ErrTokens", err)
	}
	if err := l.enter(second, true); err != nil || l.handoff.latency().Count != 1 {
		t.Errorf("after the first left: got %v and %d hand-offs, want none wrong and one", err, l.handoff.latency().Count)
	}
	if err := l.enter(grant{token: 7, at: now, until: now}, true); !errors.Is(err, errLate) {
		t.Errorf("a grant whose deadline has passed: got %v, want errLate", err)
	}
}

// TestLine_doesNotCountAHolderWhoseDeadlineHasPassed: its lease was over, and somebody else may have been granted.
func TestLine_doesNotCountAHolderWhoseDeadlineHasPassed(t *testing.T) {
	now := time.Now()
	l := line{handoff: newRecorder(), holder: grant{token: 5, until: now.Add(-time.Second)}, inside: true}
	if err := l.enter(grant{token: 6, at: now, until: now.Add(time.Minute)}, true); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

func TestHeartbeats_keepEveryLease(t *testing.T) {
	p, c := platform(t, clienttest.ClassConfig{Lease: 2 * time.Second})
	c.brief = 300 * time.Millisecond
	o := HeartbeatsOptions{Leases: 25, HoldOptions: HoldOptions{LeasesPerSession: 10, Every: EveryMin}}
	report, err := Heartbeats(t.Context(), c, o)
	if err != nil || len(report.Rows) != 1 {
		t.Fatalf("got %+v, %v; want a row", report, err)
	}
	r := report.Rows[0]
	if r.Leases != 25 || r.Sessions != 3 || r.EverySeconds != 0.1 || r.Heartbeats == 0 || !ordered(r.Heartbeat) || !ordered(r.Service) {
		t.Errorf("got %+v, want heartbeats of 25 leases in 3 sessions", r)
	}
	if r.RenewalsPerSecond <= r.HeartbeatsPerSecond || r.IdleCores == nil {
		t.Errorf("got %+v, want more renewals than heartbeats, and what the servers use idle", r)
	}
	most := 0
	for _, h := range p.Requests(clienttest.Match{Op: clienttest.Heartbeat}) {
		most = max(most, len(h.Leases))
	}
	if most != 10 {
		t.Errorf("a heartbeat named %d leases at most, want 10", most)
	}
	wantNothingHeld(t, p)
}

func TestHeartbeats_sayWhenALeaseWasLost(t *testing.T) {
	p, c := platform(t, clienttest.ClassConfig{})
	c.brief = time.Minute // ends by the loss
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := Heartbeats(ctx, c.withoutIdle(), HeartbeatsOptions{Leases: 1, HoldOptions: HoldOptions{LeasesPerSession: 1, Every: EveryMin}})
		failed <- err
	}()
	expire := func() bool {
		for _, r := range p.Requests(clienttest.Match{Op: clienttest.Heartbeat}) {
			return p.Expire("work", r.Key)
		}
		return false
	}
	if err := p.Await(ctx, expire); err != nil {
		t.Fatal(err)
	}
	err := <-failed
	f, ok := errors.AsType[*Failure](err)
	if !ok || !strings.Contains(err.Error(), "1 leases were lost") || !strings.Contains(f.Remedy, "longer lease") {
		t.Errorf("got %v, want a loss and what to do", err)
	}
}

func (c Config) withoutIdle() Config {
	c.Metrics = nil
	return c
}

func TestHeartbeats_refuseAPeriodThatLosesLeases(t *testing.T) {
	p, c := platform(t, clienttest.ClassConfig{Lease: 2 * time.Second})
	_, err := Heartbeats(t.Context(), c, HeartbeatsOptions{Leases: 1, HoldOptions: HoldOptions{LeasesPerSession: 1, Every: 3 * time.Second}})
	if !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), "every is 3s") {
		t.Errorf("got %v, want ErrRange that names every", err)
	}
	wantNothingHeld(t, p)
}

func TestHeld_growsAndKeepsWhatItHolds(t *testing.T) {
	p, c := platform(t, clienttest.ClassConfig{Lease: 2 * time.Second})
	o := HeldOptions{Leases: []int{5, 15, 40}, Clients: 2, HoldOptions: HoldOptions{LeasesPerSession: 10, Every: EveryMin}}
	report, err := Held(t.Context(), c, o)
	if err != nil || len(report.Rows) != 3 {
		t.Fatalf("got %+v, %v; want three rows", report, err)
	}
	for i, r := range report.Rows {
		if r.Leases != o.Leases[i] || r.Pairs == 0 || !ordered(r.Acquire) || r.Memory == nil || *r.Memory != 1e8 || r.MemoryPerLease == nil {
			t.Errorf("row %d: got %+v, want pairs beside %d leases, and memory", i, r, o.Leases[i])
		}
	}
	if first, last := report.Rows[0], report.Rows[2]; first.ToFirst != 1 || last.ToFirst <= 0 {
		t.Errorf("to the first row: got %v and %v, want 1 and more than 0", first.ToFirst, last.ToFirst)
	}
	held := map[string]bool{}
	for _, h := range p.Requests(clienttest.Match{Op: clienttest.Heartbeat}) {
		for _, lease := range h.Leases {
			held[lease] = true
		}
	}
	if len(held) != 40 {
		t.Errorf("heartbeats named %d leases, want 40", len(held))
	}
	wantNothingHeld(t, p)
}

func TestFairness_countsWhatTheFloodIsRefused(t *testing.T) {
	p, c := platform(t, clienttest.ClassConfig{})
	o := FairnessOptions{Rate: 100, Clients: 4, FloodAPIKey: p.NewAPIKey("flood"), FloodClass: "unknown", FloodClients: 4}
	report, err := Fairness(t.Context(), c, o)
	if err != nil || len(report.Rows) != 2 {
		t.Fatalf("got %+v, %v; want two rows", report, err)
	}
	alone, flooded := report.Rows[0], report.Rows[1]
	if alone.Load != "alone" || alone.Flood != nil || alone.P99ToAlone != 1 || !ordered(alone.Acquire) {
		t.Errorf("alone: got %+v", alone)
	}
	f := flooded.Flood
	if flooded.Load != "flooded" || f == nil || f.Granted != 0 || f.Refused == 0 || f.Refused != f.Requests || flooded.P99ToAlone <= 0 || !ordered(flooded.Acquire) {
		t.Errorf("flooded: got %+v, flood %+v; want refused requests", flooded, f)
	}
	if !slices.ContainsFunc(report.Notes, func(note string) bool { return strings.Contains(note, "--flood-class") }) {
		t.Errorf("notes %q say nothing of a flood that is granted nothing", report.Notes)
	}
	o.FloodClass = ""
	report, err = Fairness(t.Context(), c, o)
	if err != nil || report.Rows[1].Flood.Granted == 0 {
		t.Errorf("a flood of pairs: got %+v, %v; want grants", report.Rows, err)
	}
	wantNothingHeld(t, p)
}

// TestMeasurements_giveBackWhatTheyHoldWhenInterrupted: each of them, in the middle of its load.
func TestMeasurements_giveBackWhatTheyHoldWhenInterrupted(t *testing.T) {
	for name, measure := range map[string]func(context.Context, *clienttest.Platform, Config) error{
		"pairs": func(ctx context.Context, _ *clienttest.Platform, c Config) error {
			_, err := Pairs(ctx, c, PairsOptions{Clients: []int{4}})
			return err
		},
		"handoff": func(ctx context.Context, _ *clienttest.Platform, c Config) error {
			_, err := Handoff(ctx, c, HandoffOptions{Clients: 4})
			return err
		},
		"heartbeats": func(ctx context.Context, _ *clienttest.Platform, c Config) error {
			_, err := Heartbeats(ctx, c, HeartbeatsOptions{Leases: 100, HoldOptions: HoldOptions{LeasesPerSession: 10}})
			return err
		},
		"held": func(ctx context.Context, _ *clienttest.Platform, c Config) error {
			_, err := Held(ctx, c, HeldOptions{Leases: []int{10, 100}, Clients: 2, HoldOptions: HoldOptions{LeasesPerSession: 10}})
			return err
		},
		"fairness": func(ctx context.Context, p *clienttest.Platform, c Config) error {
			o := FairnessOptions{Rate: 100, Clients: 4, FloodAPIKey: p.NewAPIKey("flood"), FloodClients: 4}
			_, err := Fairness(ctx, c, o)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, c := platform(t, clienttest.ClassConfig{})
			c.brief = time.Minute // ends by the interruption
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			ended := make(chan error, 1)
			go func() { ended <- measure(ctx, p, c.withoutIdle()) }()
			busy := func() bool { return len(p.Requests(clienttest.Match{Op: clienttest.Acquire})) >= 20 }
			if err := p.Await(t.Context(), busy); err != nil {
				t.Fatal(err)
			}
			interrupt()
			if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotGivenBack) {
				t.Errorf("got %v, want context.Canceled", err)
			}
			wantNothingHeld(t, p)
		})
	}
}

func TestMeasurements_sayWhatToDoAboutAProblem(t *testing.T) {
	for code, remedy := range map[wire.Code]string{wire.CodeQuotaExceeded: "--quota-leases", wire.CodeRateLimited: "--quota-requests-per-second",
		wire.CodeClassNotInForce: "--class", wire.CodeNoQuorum: "measure again"} {
		p, c := platform(t, clienttest.ClassConfig{})
		fault := p.Answer(clienttest.Match{Op: clienttest.Acquire}, clienttest.Always, &wire.Problem{Status: 409, Code: code, Detail: "so it is."})
		_, err := Pairs(t.Context(), c, PairsOptions{Clients: []int{2}})
		f, ok := errors.AsType[*Failure](err)
		problem, answered := errors.AsType[*wire.Problem](err)
		if !ok || !answered || problem.Code != code || !strings.Contains(f.Remedy, remedy) {
			t.Errorf("%s: got %v, want the problem, and a remedy with %s", code, err, remedy)
		}
		fault.Stop()
	}
}

func TestFailure_leavesAProblemThatSaysWhatToDo(t *testing.T) {
	err := failure(403, []byte(`{"code":"forbidden","detail":"No scope.","remedy":"Ask for it."}`))
	if p, ok := err.(*wire.Problem); !ok || p.Code != wire.CodeForbidden || p.Remedy != "Ask for it." {
		t.Errorf("got %#v, want the problem itself", err)
	}
	if f, ok := errors.AsType[*Failure](failure(200, []byte("<html>"))); !ok || !strings.Contains(f.Remedy, "--endpoints") {
		t.Errorf("no problem: got %v, want what to do", f)
	}
}

func TestConn_saysWhatToDoWhenItIsLost(t *testing.T) {
	url, _ := answering(t)
	c := targetAt(t, url).conn()
	defer c.close()
	_, _, err := c.call(t.Context(), "GET", "/", nil)
	if f, ok := errors.AsType[*Failure](err); !ok || f.Remedy != again {
		t.Errorf("got %v, want an error with what to do", err)
	}
}

func TestMeasurements_sayWhenTheLeaderChanged(t *testing.T) {
	p, c := platform(t, clienttest.ClassConfig{})
	var moved atomic.Bool
	c.Progress = progressFunc(func(what string) {
		if strings.HasPrefix(what, "pairs, 1 clients") && moved.CompareAndSwap(false, true) {
			p.Node(2).Lead()
		}
	})
	if _, err := Pairs(t.Context(), c, PairsOptions{Clients: []int{1}}); err == nil {
		t.Error("got no error, want one that says that the leader changed")
	}
	wantNothingHeld(t, p)
}

// progressFunc is called when a stage begins.
type progressFunc func(what string)

func (f progressFunc) Begin(what string, _ int) { f(what) }
func (f progressFunc) Step(int)                 {}

func TestMeasurements_refuseWhatIsOutOfRange(t *testing.T) {
	c := Config{Endpoints: []string{"http://127.0.0.1:1"}, APIKey: "stn_test", Class: "work", Seconds: 1}
	hold := HoldOptions{LeasesPerSession: 1}
	fair := FairnessOptions{Rate: 1, Clients: 1, FloodAPIKey: "stn_flood", FloodClients: 1}
	with := func(change func(*FairnessOptions)) FairnessOptions {
		o := fair
		change(&o)
		return o
	}
	pairs := func(c Config, clients ...int) error {
		_, err := Pairs(t.Context(), c, PairsOptions{Clients: clients})
		return err
	}
	handoff := func(clients int) error { _, err := Handoff(t.Context(), c, HandoffOptions{clients}); return err }
	heartbeats := func(leases int, o HoldOptions) error {
		_, err := Heartbeats(t.Context(), c, HeartbeatsOptions{o, leases})
		return err
	}
	held := func(clients int, leases ...int) error {
		_, err := Held(t.Context(), c, HeldOptions{hold, leases, clients})
		return err
	}
	fairness := func(change func(*FairnessOptions)) error {
		_, err := Fairness(t.Context(), c, with(change))
		return err
	}
	long, nowhere := c, c
	long.Seconds, nowhere.Endpoints = SecondsMax+1, nil
	for says, err := range map[string]error{
		"clients is 1 to 4096, not 0":                 pairs(c, 64, 0),
		"clients is 1 to 4096, not 4097":              pairs(c, ClientsMax+1),
		"clients has 1 to 16 numbers, not 0":          pairs(c),
		"clients has 1 to 16 numbers, not 17":         pairs(c, make([]int, StepsMax+1)...),
		"seconds is 1 to 600, not 601":                pairs(long, 1),
		"no endpoint":                                 pairs(nowhere, 1),
		"clients is 2 to 1000, not 1":                 handoff(1),
		"leases is 1 to 1000000, not 0":               heartbeats(0, hold),
		"leases-per-session is 1 to 10000, not 0":     heartbeats(1, HoldOptions{}),
		"every is 100ms to 1h0m0s, not 1ms":           heartbeats(1, HoldOptions{1, time.Millisecond}),
		"leases is 1 to 1000000, not 1000001":         held(1, LeasesMax+1),
		"leases grow; 5 comes after 5":                held(1, 5, 5),
		"clients is 1 to 4096, not -1":                held(-1, 5),
		"rate is 1 to 10000, not 0":                   fairness(func(o *FairnessOptions) { o.Rate = 0 }),
		"clients is 1 to 256, not 257":                fairness(func(o *FairnessOptions) { o.Clients = SteadyClientsMax + 1 }),
		"flood-clients is 1 to 1024, not 0":           fairness(func(o *FairnessOptions) { o.FloodClients = 0 }),
		"no API key of the tenant that floods":        fairness(func(o *FairnessOptions) { o.FloodAPIKey = "" }),
		"the tenant that floods has the same API key": fairness(func(o *FairnessOptions) { o.FloodAPIKey = c.APIKey }),
	} {
		if !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want ErrRange: %s", err, says)
		}
	}
}

func TestReports_haveACellForEachHeading(t *testing.T) {
	for _, row := range []Row{PairsRow{}, HandoffRow{}, HeartbeatsRow{}, HeldRow{}, FairnessRow{Flood: &Flood{}}} {
		if heads, cells := len(row.header()), len(row.cells()); heads != cells {
			t.Errorf("%T has %d headings and %d cells, want as many", row, heads, cells)
		}
	}
}

// TestFairness_countsFromWhenAPairWasDue: while each answer takes longer than the time between two pairs, the later ones wait for
// the ones before them, and that is part of their latency.
func TestFairness_countsFromWhenAPairWasDue(t *testing.T) {
	const slow = 30 * time.Millisecond
	p, c := platform(t, clienttest.ClassConfig{})
	c.brief = 300 * time.Millisecond
	fault := p.DelayAnswers(clienttest.Match{Op: clienttest.Acquire}, clienttest.Always, slow)
	defer fault.Stop()
	o := FairnessOptions{Rate: 100, Clients: 1, FloodAPIKey: p.NewAPIKey("flood"), FloodClass: "unknown", FloodClients: 1}
	report, err := Fairness(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	if got, least := report.Rows[0].Acquire.P50, (3 * slow).Microseconds(); got < least {
		t.Errorf("p50 of a rate that cannot be kept: got %d µs, want %d or more, as each waits for those before it", got, least)
	}
}
