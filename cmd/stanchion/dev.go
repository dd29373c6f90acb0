package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/internal/platform"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

//go:embed sample/*.yaml
var sampleClasses embed.FS

// devOptions are the flags of `stanchion dev`.
type devOptions struct {
	data         string
	port         int
	classes      string
	processes    bool
	profile      string
	flood        bool // a second tenant, for measuring what one costs the other
	restartAfter time.Duration
}

const (
	devNodes      = 3
	devTenant     = "acme"
	devFlood      = "flood"
	devPortMax    = 65_535 - devNodes
	devStartTime  = time.Minute
	devCertLife   = 365 * 24 * time.Hour
	devPartitions = partitionsDefault
)

func newDev() *cobra.Command {
	var o devOptions
	dev := &cobra.Command{
		Use:   "dev",
		Short: "Three nodes on loopback with a sample tenant, classes and API key",
		Long: `Three nodes on loopback with everything set up, until SIGINT or SIGTERM. For trying things out, never for production.

DIR/dev.json gets every address, API key and class once the cluster is ready; DIR/env is to be sourced by a shell.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDev(c.Context(), o, c.OutOrStdout()) },
	}
	f := dev.Flags()
	f.StringVar(&o.data, "data", "", "keep data in this folder; by default in a temporary one, removed at the end")
	f.IntVar(&o.port, "port", 8420, "port of the first node; the others take the next two")
	f.StringVar(&o.classes, "classes", "", "put the class files in this folder in force, instead of the samples, without a review")
	f.BoolVar(&o.processes, "processes", false, "run each node in a process of its own, so that one can be killed")
	f.StringVar(&o.profile, "profile", "dev", "dev (quick elections), production or test")
	f.BoolVar(&o.flood, "flood-tenant", false, "make a second tenant, flood, with the same classes, for 'stanchion bench fairness'")
	f.DurationVar(&o.restartAfter, "restart-after", 5*time.Second, "with --processes: start a node that ended again after so long; 0: never")
	return dev
}

// devCluster is a running development cluster.
type devCluster struct {
	options devOptions
	dir     string
	cluster raftnode.ClusterID
	fresh   bool // the data folder holds no cluster yet
	members []platform.Peer
	private [devNodes]string // host:port of each node's metrics
	profile raftnode.Profile
	ca      *raftnode.DevCA
	out     io.Writer
	classes []classSource
	pids    pids
}

func runDev(ctx context.Context, o devOptions, out io.Writer) error {
	if o.port < 1 || o.port > devPortMax {
		return fmt.Errorf("%w: --port %d is not 1 to %d", errUsage, o.port, devPortMax)
	}
	dir, remove, err := devDir(o.data)
	if err != nil {
		return err
	}
	defer remove()
	d := &devCluster{options: o, dir: dir, out: out}
	if err := d.prepare(); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(ctx)
	defer stop()
	g.Go(func() error { defer stop(); return d.runNodes(ctx) })
	g.Go(func() error { return d.setUp(running) })
	return g.Wait()
}

// devDir is the data folder, made if need be, and what removes it at the end if nobody named it.
func devDir(named string) (string, func(), error) {
	if named == "" {
		dir, err := os.MkdirTemp("", "stanchion-dev-")
		return dir, func() { _ = os.RemoveAll(dir) }, err // a folder that stays behind in /tmp does no harm
	}
	dir, err := filepath.Abs(named)
	if err != nil {
		return "", nil, err
	}
	return dir, func() {}, os.MkdirAll(dir, 0o700)
}

// prepare settles who the nodes are, what they are and where.
func (d *devCluster) prepare() error {
	var err error
	if d.profile, err = profile(d.options.profile); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if d.classes, err = readClassSources(d.options.classes); err != nil {
		return err
	}
	if err := d.portsFree(); err != nil {
		return err
	}
	if err := d.identify(); err != nil {
		return err
	}
	if d.ca, err = raftnode.NewDevCA(time.Now(), devCertLife); err != nil {
		return err
	}
	free, err := freeAddresses(2 * devNodes)
	if err != nil {
		return err
	}
	for i := range devNodes {
		d.members = append(d.members, platform.Peer{ID: raftnode.NodeID(fmt.Sprintf("n%d", i+1)), Addr: free[i],
			URL: fmt.Sprintf("http://localhost:%d", d.options.port+i)})
	}
	copy(d.private[:], free[devNodes:])
	return nil
}

// portsFree finds out whether the nodes can have their ports, before anything is written: a node that finds its port taken
// can only fail, in a process of its own again and again.
func (d *devCluster) portsFree() error {
	for i := range devNodes {
		l, err := net.Listen("tcp", d.listen(i))
		if err != nil {
			return fmt.Errorf("port of n%d: %w; is another cluster running there? choose other ports with --port", i+1, err)
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("port of n%d: %w", i+1, err)
		}
	}
	return nil
}

// listen is the address of a node's API.
func (d *devCluster) listen(i int) string { return fmt.Sprintf("localhost:%d", d.options.port+i) }

// identify finds out whether the data folder holds a cluster already.
func (d *devCluster) identify() error {
	for i := range devNodes {
		id, err := raftnode.ReadIdentity(d.nodeDir(i))
		switch {
		case errors.Is(err, raftnode.ErrNoIdentity):
			d.fresh = true
		case err != nil:
			return err
		default:
			d.cluster = id.Cluster
		}
	}
	if d.fresh && d.cluster != "" {
		return fmt.Errorf("%s holds some nodes of a cluster and lacks others: a first start was cut short, or data is missing; remove the folder", d.dir)
	}
	if d.fresh {
		d.cluster = raftnode.NewClusterID()
	}
	return nil
}

func (d *devCluster) nodeDir(i int) string { return filepath.Join(d.dir, fmt.Sprintf("n%d", i+1)) }

func (d *devCluster) admins() adminClients {
	var all adminClients
	for i := range devNodes {
		all = append(all, newAdminClient(filepath.Join(d.nodeDir(i), adminSocket)))
	}
	return all
}

// devProfile is between production's and the tests': a change of leader takes a second or two, and a disk that stalls for
// half a second causes none.
func devProfile() raftnode.Profile {
	p := raftnode.ProductionProfile()
	p.HeartbeatTimeout, p.ElectionTimeout = 700*time.Millisecond, 700*time.Millisecond
	p.LeaderLeaseTimeout = 500 * time.Millisecond
	return p
}

// runNodes runs the three nodes until ctx ends.
func (d *devCluster) runNodes(ctx context.Context) error {
	if d.options.processes {
		return d.runProcesses(ctx)
	}
	log, err := os.OpenFile(filepath.Join(d.dir, "nodes.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	g, ctx := errgroup.WithContext(ctx)
	for i := range devNodes {
		n, err := d.inProcess(i, log)
		if err != nil {
			return err
		}
		d.pids.set(i, os.Getpid())
		g.Go(func() error { return n.run(ctx) })
	}
	return g.Wait()
}

func (d *devCluster) inProcess(i int, logTo io.Writer) (node, error) {
	self := d.members[i]
	credentials, err := d.ca.Issue(d.cluster, self.ID)
	if err != nil {
		return node{}, err
	}
	log := slog.New(slog.NewJSONHandler(logTo, nil)).With("node", string(self.ID))
	dir := d.nodeDir(i)
	return node{
		listen: d.listen(i), private: d.private[i], admin: filepath.Join(dir, adminSocket), dev: true, log: log,
		access: filepath.Join(dir, accessLogFile),
		platform: platform.Config{Node: self.ID, Cluster: d.cluster, Data: dir, Listen: self.Addr, Peers: d.members,
			Partitions: devPartitions, Credentials: credentials, Profile: d.profile, Bootstrap: d.fresh, Logger: log,
			Fatal: raftnode.ExitOnFailure(dir, log, os.Exit)},
	}, nil
}
