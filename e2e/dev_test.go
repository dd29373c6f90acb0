package e2e_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// sampleClasses are what dev puts in force: all three lanes.
var sampleClasses = []devClass{
	{"cache-warm", "efficiency", "advisory", "open"},
	{"ledger-close", "correctness", "fenced", "closed"},
	{"report-nightly", "correctness", "advisory", "closed"},
}

func TestDev_inOneProcess(t *testing.T) {
	c := newCluster(t)
	c.start()
	t.Logf("ready %v after the process started", c.ready.Round(time.Millisecond))
	wantFile(t, c, func(n devNode) bool { return n.PID == c.dev.cmd.Process.Pid })
	grantsEverySample(t, c)
	c.stop(syscall.SIGINT)
	wantNobody(t)
}

func TestDev_inProcesses(t *testing.T) {
	c := newCluster(t)
	c.start("--processes")
	t.Logf("ready %v after the process started", c.ready.Round(time.Millisecond))
	pids := map[int]bool{c.dev.cmd.Process.Pid: true}
	wantFile(t, c, func(n devNode) bool {
		fresh := n.PID > 0 && !pids[n.PID]
		pids[n.PID] = true
		return fresh
	})
	grantsEverySample(t, c)
	if all, err := running(binary); err != nil || len(all) != 4 {
		t.Errorf("processes while dev runs: got %v, %v, want 4", all, err)
	}
	c.stop(syscall.SIGTERM)
	wantNobody(t)
}

// wantFile checks dev.json, field by field, and env.
func wantFile(t *testing.T, c *cluster, pidFits func(devNode) bool) {
	t.Helper()
	wantFields(t, c)
	f := c.file
	leads := map[string]int{}
	for i, n := range f.Nodes {
		if n.ID != fmt.Sprintf("n%d", i+1) || n.URL != fmt.Sprintf("http://localhost:%d", c.port+i) || !pidFits(n) {
			t.Errorf("node %d: got %+v", i+1, n)
		}
		for _, group := range n.LeaderOf {
			leads[group]++
		}
	}
	if want := map[string]int{"control": 1, "partition-1": 1, "partition-2": 1}; len(f.Nodes) != 3 || !reflect.DeepEqual(leads, want) {
		t.Errorf("%d nodes, leaders of %v; want 3 and one leader for each of %v", len(f.Nodes), leads, want)
	}
	if f.Tenant != "acme" || !strings.HasPrefix(f.APIKey, "stn_") || !strings.HasPrefix(f.AdminKey, "stn_") || f.APIKey == f.AdminKey {
		t.Errorf("tenant %q, api_key %q, admin_key %q; want acme and two API keys", f.Tenant, f.APIKey, f.AdminKey)
	}
	if !strings.HasPrefix(f.OperatorAPIKey, "stn_") || f.OperatorAPIKey == f.AdminKey || f.OperatorAPIKey == f.APIKey {
		t.Errorf("operator_api_key %q; want an API key of its own", f.OperatorAPIKey)
	}
	if f.Data != c.dir || !slices.Equal(f.Classes, sampleClasses) {
		t.Errorf("data %q, classes %v; want %q and %v", f.Data, f.Classes, c.dir, sampleClasses)
	}
	var urls, metrics []string
	for _, n := range f.Nodes {
		if !strings.HasPrefix(n.Metrics, "http://127.0.0.1:") || slices.Contains(metrics, n.Metrics) {
			t.Errorf("metrics of %s: got %q, want an address of its own on loopback", n.ID, n.Metrics)
		}
		urls, metrics = append(urls, n.URL), append(metrics, n.Metrics)
	}
	want := fmt.Sprintf("export STANCHION_ENDPOINTS=%s\nexport STANCHION_API_KEY=%s\nexport STANCHION_METRICS=%s\n",
		strings.Join(urls, ","), f.APIKey, strings.Join(metrics, ","))
	if got, err := os.ReadFile(filepath.Join(c.dir, "env")); err != nil || string(got) != want {
		t.Errorf("env: got %q, %v, want %q", got, err, want)
	}
}

// wantFields checks that dev.json has the published fields and no others.
func wantFields(t *testing.T, c *cluster) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, "dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&devFile{}); err != nil {
		t.Errorf("dev.json: %v", err)
	}
	for _, field := range []string{"nodes", "id", "url", "metrics", "pid", "leader_of", "tenant", "api_key", "admin_key", "operator_api_key",
		"classes", "class", "purpose", "enforcement", "quorum_loss", "data"} {
		if !strings.Contains(string(raw), `"`+field+`":`) {
			t.Errorf("dev.json has no %s:\n%s", field, raw)
		}
	}
}

// grantsEverySample takes a lease of each class from each node.
func grantsEverySample(t *testing.T, c *cluster) {
	t.Helper()
	client := newClient(t, c.file)
	session, n := newSession(), uint64(0)
	for _, class := range sampleClasses {
		for _, node := range client.nodes {
			n++
			a, err := client.once(t.Context(), pollTime, node, http.MethodPut, leasePath(session, n), wire.AcquireRequest{Class: class.Class, Key: node})
			if err != nil {
				t.Fatal(err)
			}
			l, err := a.lease()
			if err != nil || l.State != wire.StateGranted || l.Token != n || !l.Protected || l.Claim.Text == "" {
				t.Errorf("%s at %s: got %+v, %v, want token %d granted", class.Class, node, l, err, n)
			}
		}
	}
}

// wantNobody checks that no process of the product is left.
func wantNobody(t *testing.T) {
	t.Helper()
	await(t, "no process is left", func() error {
		pids, err := running(binary)
		if err == nil && len(pids) > 0 {
			err = fmt.Errorf("left: %v", pids)
		}
		return err
	})
}

// TestDev_isKilled: nodes do not outlive a dev that had no chance to stop them.
func TestDev_isKilled_itsNodesEnd(t *testing.T) {
	c := newCluster(t)
	c.start("--processes")
	kill9(c.dev.cmd.Process.Pid)
	<-c.dev.done
	wantNobody(t)
}

func TestDev_dataSurvivesARestart(t *testing.T) {
	for _, mode := range []struct {
		name  string
		flags []string
	}{{"in one process", nil}, {"in processes", []string{"--processes"}}} {
		t.Run(mode.name, func(t *testing.T) { restart(t, mode.flags...) })
	}
}

// restart stops a cluster and starts it again on the same data: a long lease is still held, the same API keys work, and
// tokens go on.
func restart(t *testing.T, flags ...string) {
	c := newCluster(t)
	flags = append(flags, "--classes", writeClasses(t, classFile("long", "lease: 60s"), classFile("short", "lease: 10s")))
	c.start(flags...)
	before := c.file
	session := newSession()
	client := newClient(t, before)
	held, taken := client.acquire(t, session, 1, wire.AcquireRequest{Class: "long", Key: "k"})
	client.acquire(t, session, 2, wire.AcquireRequest{Class: "short", Key: "k"})
	c.stop(syscall.SIGINT)
	wantNobody(t)

	c.start(flags...)
	t.Logf("ready again %v after the process started", c.ready.Round(time.Millisecond))
	if c.file.APIKey != before.APIKey || c.file.AdminKey != before.AdminKey || c.file.OperatorAPIKey != before.OperatorAPIKey {
		t.Errorf("API keys: got %s, %s and %s, want those from before, %s, %s and %s", c.file.APIKey, c.file.AdminKey,
			c.file.OperatorAPIKey, before.APIKey, before.AdminKey, before.OperatorAPIKey)
	}
	wantStillHeld(t, client, held, taken)
	if l, _ := client.acquire(t, session, 3, wire.AcquireRequest{Class: "short", Key: "other"}); l.Token != 3 {
		t.Errorf("token after the restart: got %d, want 3", l.Token)
	}
	c.stop(syscall.SIGTERM)
}

// wantStillHeld asks for a lease as its holder would: by the same request, then by a heartbeat. What the first answer
// promises must have been promised before the restart.
func wantStillHeld(t *testing.T, client *client, held wire.Lease, taken answer) {
	t.Helper()
	session, _, _ := strings.Cut(held.LeaseID, ".")
	a := client.must(t, http.MethodGet, "/v1/leases/"+held.LeaseID, nil)
	got, err := a.lease()
	if err != nil || got.State != wire.StateGranted || got.Token != held.Token {
		t.Errorf("lease after the restart: got %s, %v, want token %d granted", a.body, err, held.Token)
	}
	if most := time.Minute; got.UseWithin.Std() > most || !a.received.Before(taken.sent.Add(most)) {
		t.Errorf("use_within after the restart: got %v, %v after the grant", got.UseWithin, a.received.Sub(taken.sent))
	}
	a = client.must(t, http.MethodPost, "/v1/sessions/"+session+"/heartbeat", wire.HeartbeatRequest{Leases: []uint64{1}})
	var h wire.HeartbeatAnswer
	if err := json.Unmarshal(a.body, &h); err != nil || len(h.Held) != 1 || h.Held[0].Token != held.Token {
		t.Errorf("heartbeat after the restart: got %s, want token %d held", a.body, held.Token)
	}
}

func TestDev_temporaryDataIsRemoved(t *testing.T) {
	tmp, err := os.MkdirTemp("", "stn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	c := newCluster(t)
	cmd := c.devCommand()
	cmd.Args = slices.DeleteFunc(cmd.Args, func(arg string) bool { return arg == "--data" || arg == c.dir })
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	p := start(t, cmd)
	await(t, "stanchion dev is ready", func() error {
		if !strings.Contains(p.out.String(), "Stanchion is ready") {
			return fmt.Errorf("it said: %s", p.out.String())
		}
		return nil
	})
	p.stop(t, syscall.SIGTERM)
	p.wantExit(t, 0)
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("temporary folder after the end: got %v, %v, want it empty", left, err)
	}
}

func TestDev_ownClasses_areInForceWithAWarning(t *testing.T) {
	c := newCluster(t)
	c.start("--classes", writeClasses(t,
		classFile("eager", "lease: 1s", "lock_delay: 3s"),
		classFile("refusing", "wait:", "  mode: refuse")))
	c.wantSaid("WITHOUT A REVIEW")
	want := []devClass{{"eager", "correctness", "fenced", "closed"}, {"refusing", "correctness", "fenced", "closed"}}
	if !slices.Equal(c.file.Classes, want) {
		t.Errorf("classes: got %v, want %v", c.file.Classes, want)
	}
	refuses(t, newClient(t, c.file))
	delays(t, newClient(t, c.file))
	c.stop(syscall.SIGTERM)
}

// refuses: a class that does not queue says so at once.
func refuses(t *testing.T, client *client) {
	t.Helper()
	request := wire.AcquireRequest{Class: "refusing", Key: "k"}
	client.acquire(t, newSession(), 1, request)
	a := client.must(t, http.MethodPut, leasePath(newSession(), 1), request)
	if p := a.problem(); a.status != http.StatusConflict || p.Code != wire.CodeHeld || p.Retry != wire.RetryNewID {
		t.Errorf("acquire of a held key of a refusing class: got %d %s", a.status, a.body)
	}
}

// delays: after a lease has run out its key is granted to nobody for the lock delay.
func delays(t *testing.T, client *client) {
	t.Helper()
	request := wire.AcquireRequest{Class: "eager", Key: "k"}
	held, taken := client.acquire(t, newSession(), 1, request)
	session := newSession()
	var next wire.Lease
	var got answer
	await(t, "the next one is granted", func() error {
		got = client.must(t, http.MethodPut, leasePath(session, 1), request)
		var err error
		if next, err = got.lease(); err == nil && next.State != wire.StateGranted {
			err = fmt.Errorf("it is %s", next.State)
		}
		return err
	})
	earliest := taken.sent.Add(held.UseWithin.Std() + 3*time.Second)
	if next.Token <= held.Token || got.received.Before(earliest) {
		t.Errorf("next grant: token %d, %v before the lock delay was over; want more than %d and after it",
			next.Token, earliest.Sub(got.received), held.Token)
	}
}

func TestDev_refusesAClassFileWithErrors(t *testing.T) {
	c := newCluster(t)
	dir := writeClasses(t, strings.Replace(classFile("bad"), "quorum_loss: closed\n", "", 1))
	p := start(t, c.devCommand("--classes", dir))
	p.wait(t)
	p.wantExit(t, 1, filepath.Join(dir, "class0.yaml")+":1:1", "quorum_loss")
}

func TestDev_refusesAPortInUse(t *testing.T) {
	for _, flags := range [][]string{nil, {"--processes"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			c := newCluster(t)
			l, err := net.Listen("tcp", fmt.Sprintf("localhost:%d", c.port+1))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			p := start(t, c.devCommand(flags...))
			p.wait(t)
			p.wantExit(t, 1, "address already in use", fmt.Sprint(c.port+1), "--port")
			wantNobody(t)
		})
	}
}
