package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v4"
	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

// pids are the processes of the nodes. Safe for concurrent use.
type pids struct {
	mu  sync.Mutex
	all [devNodes]int // guarded by mu; 0: not running
}

func (p *pids) set(i, pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[i] = pid
}

func (p *pids) get(i int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[i]
}

// processStopTime is how long a node's process gets to stop before it is killed.
const processStopTime = 20 * time.Second

// runProcesses writes a configuration for each node and runs them as `serve` until ctx ends.
func (d *devCluster) runProcesses(ctx context.Context) error {
	for i := range devNodes {
		if err := d.writeConfig(i); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range devNodes {
		g.Go(func() error { return d.keepProcess(ctx, i) })
	}
	return g.Wait()
}

// writeConfig writes what `serve` needs for one node. Addresses between nodes and certificates are new at each start.
func (d *devCluster) writeConfig(i int) error {
	self, dir := d.members[i], d.nodeDir(i)
	if err := d.ca.WriteFiles(filepath.Join(dir, "tls"), d.cluster, self.ID); err != nil {
		return err
	}
	c := nodeConfig{Node: string(self.ID), Cluster: string(d.cluster), Data: ".", Partitions: devPartitions,
		Listen: d.listen(i), Private: d.private[i], Profile: d.options.profile,
		TLS: tlsConfig{CA: "tls/ca.pem", Cert: fmt.Sprintf("tls/%s.pem", self.ID), Key: fmt.Sprintf("tls/%s-key.pem", self.ID)}}
	for _, m := range d.members {
		c.Nodes = append(c.Nodes, memberFile{ID: string(m.ID), Peer: m.Addr, URL: m.URL})
	}
	raw, err := yaml.Dump(c)
	if err != nil {
		return err
	}
	return os.WriteFile(d.configPath(i), raw, 0o600)
}

func (d *devCluster) configPath(i int) string { return filepath.Join(d.nodeDir(i), "node.yaml") }

// keepProcess runs one node, and again when it ends by itself.
func (d *devCluster) keepProcess(ctx context.Context, i int) error {
	for {
		err := d.runProcess(ctx, i, d.fresh && !d.made(i))
		d.pids.set(i, 0)
		if ctx.Err() != nil {
			return nil
		}
		fmt.Fprintf(d.out, "%s ended: %v\n", d.members[i].ID, err)
		if d.options.restartAfter <= 0 {
			fmt.Fprintf(d.out, "  start it again with: stanchion serve --config %s\n", d.configPath(i))
			<-ctx.Done()
			return nil
		}
		if !pause(ctx, d.options.restartAfter) {
			return nil
		}
		fmt.Fprintf(d.out, "%s starts again\n", d.members[i].ID)
	}
}

// made reports whether a node has made all its groups, so that it starts without bootstrap: a first start may be cut short.
func (d *devCluster) made(i int) bool {
	id, err := raftnode.ReadIdentity(d.nodeDir(i))
	return err == nil && len(id.Groups) == devPartitions+1
}

// runProcess runs one node's process until it ends; when ctx ends it is asked to stop, and killed if it does not. The
// kernel ends it should this process die.
func (d *devCluster) runProcess(ctx context.Context, i int, bootstrap bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(d.nodeDir(i), "node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"serve", "--development", "--config", d.configPath(i)}
	if bootstrap {
		args = append(args, "--bootstrap")
	}
	c := exec.CommandContext(ctx, self, args...)
	c.Stdout, c.Stderr = log, log
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = processStopTime
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}

	runtime.LockOSThread() // the kernel ties the death signal to the thread that started the child
	defer runtime.UnlockOSThread()
	if err := c.Start(); err != nil {
		return err
	}
	d.pids.set(i, c.Process.Pid)
	err = c.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return fmt.Errorf("%w; see %s", err, log.Name())
	}
	return err
}

// freeAddresses are different loopback addresses that were free a moment ago.
func freeAddresses(n int) ([]string, error) {
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // once all are chosen, so that none is chosen twice
		all = append(all, l.Addr().String())
	}
	return all, nil
}
