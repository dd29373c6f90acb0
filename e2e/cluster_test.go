package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// devFile is dev.json: the shape that scripts rely on.
type devFile struct {
	Nodes          []devNode  `json:"nodes"`
	Tenant         string     `json:"tenant"`
	APIKey         string     `json:"api_key"`
	AdminKey       string     `json:"admin_key"`
	OperatorAPIKey string     `json:"operator_api_key"`
	FloodAPIKey    string     `json:"flood_api_key"` // with --flood-tenant
	Classes        []devClass `json:"classes"`
	Data           string     `json:"data"`
}

type devNode struct {
	ID       string   `json:"id"`
	URL      string   `json:"url"`
	Metrics  string   `json:"metrics"`
	PID      int      `json:"pid"`
	LeaderOf []string `json:"leader_of"`
}

type devClass struct {
	Class       string `json:"class"`
	Purpose     string `json:"purpose"`
	Enforcement string `json:"enforcement"`
	QuorumLoss  string `json:"quorum_loss"`
}

// cluster is a development cluster under test. It belongs to the test's own goroutine.
type cluster struct {
	t     *testing.T
	dir   string
	port  int
	dev   *process
	file  devFile             // as it was when the cluster became ready
	own   map[string]*process // nodes that the test itself has started again, by id
	ready time.Duration       // from the start of the process
}

// partition is the group that carries the sample tenant.
const partition = "partition-1"

// newCluster chooses a folder and ports for a development cluster that the test starts. Its path is short, because it
// has Unix sockets in it. The ends of the nodes' logs are printed if the test fails.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "stn")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: dir, port: freePorts(t), own: map[string]*process{}}
	t.Cleanup(func() {
		c.wantNoRaces()
		if t.Failed() {
			c.printLogs()
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

// freePorts finds three ports in a row that are free, below those that the kernel gives to outgoing connections.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		first := 10_000 + 10*rand.IntN(2_000)
		if portsFree(first) == nil {
			return first
		}
	}
	t.Fatal("no three free ports in a row")
	return 0
}

func portsFree(first int) error {
	var listeners []net.Listener
	var err error
	for port := first; port < first+3; port++ {
		l, listened := net.Listen("tcp", fmt.Sprintf("localhost:%d", port))
		if listened == nil {
			listeners = append(listeners, l)
		}
		err = errors.Join(err, listened)
	}
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// devCommand is `stanchion dev` on the cluster's folder and ports.
func (c *cluster) devCommand(flags ...string) *exec.Cmd {
	return exec.Command(binary, slices.Concat([]string{"dev", "--data", c.dir, "--port", fmt.Sprint(c.port)}, flags)...)
}

// start runs `stanchion dev` and waits until it says that the cluster is ready.
func (c *cluster) start(flags ...string) {
	c.t.Helper()
	c.follow(start(c.t, c.devCommand(flags...)))
}

// follow waits until a `stanchion dev` on this folder says that the cluster is ready.
func (c *cluster) follow(dev *process) {
	c.t.Helper()
	began := time.Now()
	c.dev = dev
	await(c.t, "stanchion dev is ready", func() error {
		if dev.ended() {
			c.t.Fatalf("stanchion dev ended: %v\n%s", dev.cmd.ProcessState, dev.out.String())
		}
		if !strings.Contains(dev.out.String(), "Stanchion is ready") {
			return errors.New("it does not say so")
		}
		return nil
	})
	c.ready = time.Since(began)
	c.file = c.readFile()
}

func (c *cluster) readFile() devFile {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, "dev.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	var f devFile
	if err := json.Unmarshal(raw, &f); err != nil {
		c.t.Fatalf("dev.json: %v\n%s", err, raw)
	}
	return f
}

// stop ends all nodes with a signal and wants a clean exit.
func (c *cluster) stop(s syscall.Signal) {
	c.t.Helper()
	for _, p := range c.own {
		p.stop(c.t, s)
	}
	c.dev.stop(c.t, s)
	c.dev.wantExit(c.t, 0)
}

// pid is the process that runs a node.
func (c *cluster) pid(node string) int {
	if p := c.own[node]; p != nil {
		return p.cmd.Process.Pid
	}
	for _, n := range c.file.Nodes {
		if n.ID == node {
			return n.PID
		}
	}
	c.t.Fatalf("there is no node %s", node)
	return 0
}

// startAgain runs a node that was killed, as its operator would.
func (c *cluster) startAgain(node string) {
	c.t.Helper()
	c.own[node] = start(c.t, exec.Command(binary, "serve", "--config", filepath.Join(c.dir, node, "node.yaml")))
}

// nodeStatus is what a node says of itself on its operator's socket.
type nodeStatus struct {
	Node   string        `json:"node"`
	Groups []groupStatus `json:"groups"`
}

type groupStatus struct {
	Group       string `json:"group"`
	Leader      string `json:"leader"`
	Ready       bool   `json:"ready"`
	FirstIndex  uint64 `json:"first_index"` // that its log still has
	Index       uint64 `json:"index"`
	RollingHash string `json:"rolling_hash"`
	StateHash   string `json:"state_hash"`
}

func (c *cluster) status(node string) (nodeStatus, error) {
	cmd := exec.CommandContext(c.t.Context(), binary, "cluster", "status", "--socket",
		filepath.Join(c.dir, node, "admin.sock"), "--hashes", "--output", "json")
	raw, err := cmd.Output()
	if err != nil {
		return nodeStatus{}, fmt.Errorf("status of %s: %w", node, err)
	}
	var s nodeStatus
	return s, json.Unmarshal(raw, &s)
}

func (s nodeStatus) group(name string) groupStatus {
	i := slices.IndexFunc(s.Groups, func(g groupStatus) bool { return g.Group == name })
	if i < 0 {
		return groupStatus{}
	}
	return s.Groups[i]
}

// leader is the node that leads the tenant's partition and answers: dev.json and the node itself agree.
func (c *cluster) leader() string {
	c.t.Helper()
	var leader string
	await(c.t, "the partition has a leader", func() error {
		for _, n := range c.readFile().Nodes {
			if slices.Contains(n.LeaderOf, partition) {
				leader = n.ID
			}
		}
		if leader == "" {
			return errors.New("dev.json names none")
		}
		s, err := c.status(leader)
		if g := s.group(partition); err == nil && (g.Leader != leader || !g.Ready) {
			return fmt.Errorf("dev.json names %s; %s says %q leads, ready: %v", leader, leader, g.Leader, g.Ready)
		}
		return err
	})
	return leader
}

// others are the nodes besides one.
func (c *cluster) others(node string) []string {
	var ids []string
	for _, n := range c.file.Nodes {
		if n.ID != node {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// index is how far a node has applied the tenant's partition.
func (c *cluster) index(node string) uint64 {
	c.t.Helper()
	s, err := c.status(node)
	if err != nil {
		c.t.Fatal(err)
	}
	return s.group(partition).Index
}

// awaitReady waits until a node serves and has caught up to an index.
func (c *cluster) awaitReady(node string, index uint64) {
	c.t.Helper()
	await(c.t, node+" is ready again", func() error {
		if p := c.own[node]; p != nil && p.ended() {
			c.t.Fatalf("%s ended: %v\n%s", node, p.cmd.ProcessState, p.out.String())
		}
		s, err := c.status(node)
		if err != nil {
			return err
		}
		if got := s.group(partition).Index; got < index {
			return fmt.Errorf("%s is at index %d, want %d", node, got, index)
		}
		return c.readyz(node)
	})
}

func (c *cluster) readyz(node string) error {
	for _, n := range c.file.Nodes {
		if n.ID != node {
			continue
		}
		client := http.Client{Timeout: attemptTime}
		defer client.CloseIdleConnections()
		res, err := client.Get(n.URL + "/readyz")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: readyz answers %d", node, res.StatusCode)
		}
	}
	return nil
}

// wantSameState waits until all nodes report the same hashes at the same index that is not zero, for every group.
func (c *cluster) wantSameState() {
	c.t.Helper()
	await(c.t, "all nodes are in the same state", func() error {
		first, err := c.status(c.file.Nodes[0].ID)
		if err != nil {
			return err
		}
		for _, n := range c.file.Nodes {
			s, err := c.status(n.ID)
			if err != nil {
				return err
			}
			if err := c.compare(first, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// compare fails the test at once where two nodes have another state at the same index: that never mends.
func (c *cluster) compare(a, b nodeStatus) error {
	c.t.Helper()
	if len(a.Groups) != 3 || len(b.Groups) != 3 {
		c.t.Fatalf("%s has %d groups and %s %d, want 3", a.Node, len(a.Groups), b.Node, len(b.Groups))
	}
	for i, g := range a.Groups {
		other := b.Groups[i]
		switch {
		case g.Index == 0 || g.StateHash == "" || g.RollingHash == "":
			return fmt.Errorf("%s: %s is empty: %+v", a.Node, g.Group, g)
		case g.Index != other.Index:
			return fmt.Errorf("%s: %s is at index %d, %s at %d", g.Group, a.Node, g.Index, b.Node, other.Index)
		case g.StateHash != other.StateHash || g.RollingHash != other.RollingHash:
			c.t.Fatalf("%s at index %d: %s has state %s, rolling %s; %s has state %s, rolling %s", g.Group, g.Index,
				a.Node, g.StateHash, g.RollingHash, b.Node, other.StateHash, other.RollingHash)
		}
	}
	return nil
}

// said is what each process has said, by its name or its file's.
func (c *cluster) said() map[string]string {
	all := map[string]string{}
	if c.dev != nil {
		all["stanchion dev"] = c.dev.out.String()
	}
	for id, p := range c.own {
		all[id+", started again"] = p.out.String()
	}
	for _, name := range []string{"n1/node.log", "n2/node.log", "n3/node.log", "nodes.log"} {
		if raw, err := os.ReadFile(filepath.Join(c.dir, name)); err == nil {
			all[name] = string(raw)
		}
	}
	return all
}

// wantNoRaces fails the test if the race detector, where the binary has it, has found one.
func (c *cluster) wantNoRaces() {
	for name, text := range c.said() {
		if _, race, found := strings.Cut(text, "WARNING: DATA RACE"); found {
			c.t.Errorf("data race in %s:%.4000s", name, race)
		}
	}
}

// printLogs prints the end of what each process has said.
func (c *cluster) printLogs() {
	const logBytesMax = 6 << 10
	for name, text := range c.said() {
		c.t.Logf("end of what %s said:\n%s", name, lastBytes([]byte(text), logBytesMax))
	}
}

// writeClasses writes class files into a folder of their own and returns it.
func writeClasses(t *testing.T, classes ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, text := range classes {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("class%d.yaml", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// classFile is a class file for a correctness · fenced class, with further lines.
func classFile(name string, lines ...string) string {
	return strings.Join(append([]string{"format: 1", "class: " + name, `resource: "postgres:test/` + name + `"`,
		"owner: group:test-owners", "purpose: correctness", "enforcement: fenced", "quorum_loss: closed",
		`guard: "column fence, entered first in the transaction"`}, lines...), "\n") + "\n"
}
