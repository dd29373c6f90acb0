package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/internal/platform"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

// serveOptions are the flags of `stanchion serve`.
type serveOptions struct {
	config      string
	bootstrap   bool
	development bool // started by stanchion dev
}

func newServe() *cobra.Command {
	var o serveOptions
	serve := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run one node of a cluster",
		Long: `Run one node of a cluster until SIGINT or SIGTERM.

A new cluster is made once: start every node listed in the configuration with --bootstrap. The first operator's API key is
printed once, by the node that leads. A node that belongs to a cluster refuses --bootstrap, and one without data refuses to
start without it.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := readConfig(o.config)
			if err != nil {
				return err
			}
			if o.development && !config.onLoopback() {
				return fmt.Errorf("%w: --development is for nodes on loopback alone, as stanchion dev starts them", errUsage)
			}
			return serveNode(c.Context(), config, o, c.OutOrStdout(), os.Stderr)
		},
	}
	serve.Flags().StringVar(&o.config, "config", "", "the node's configuration (required)")
	serve.Flags().BoolVar(&o.bootstrap, "bootstrap", false, "make a new cluster of all nodes in the configuration")
	serve.Flags().BoolVar(&o.development, "development", false, "take declarations and signatures through the operator's socket; on loopback alone")
	_ = serve.Flags().MarkHidden("development")
	_ = serve.MarkFlagRequired("config")
	return serve
}

func serveNode(ctx context.Context, c nodeConfig, o serveOptions, out, logTo io.Writer) error {
	log := slog.New(slog.NewJSONHandler(logTo, nil)).With("node", c.Node)
	credentials, err := raftnode.LoadCredentials(c.TLS.CA, c.TLS.Cert, c.TLS.Key)
	if err != nil {
		return fmt.Errorf("credentials between nodes: %w", err)
	}
	raftProfile, err := profile(c.Profile)
	if err != nil {
		return err
	}
	n := node{
		listen: c.Listen, private: c.Private, admin: filepath.Join(c.Data, adminSocket), dev: o.development, log: log,
		access: c.AccessLog,
		platform: platform.Config{
			Node: raftnode.NodeID(c.Node), Cluster: raftnode.ClusterID(c.Cluster), Data: c.Data, Listen: c.peerListen(),
			Peers: c.peers(), Partitions: c.Partitions, Credentials: credentials, Profile: raftProfile, Bootstrap: o.bootstrap,
			AuditFile: c.Audit.File, AuditBytesMax: c.Audit.BytesMax, Logger: log, Fatal: raftnode.ExitOnFailure(c.Data, log, os.Exit),
		},
	}
	log.Info("effective settings", "config", c.path, "profile", raftProfile, "partitions", c.Partitions)
	g, ctx := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(ctx)
	defer stop()
	g.Go(func() error { defer stop(); return n.run(ctx) })
	if o.bootstrap {
		g.Go(func() error { return printOperatorKey(running, n.admin, out) })
	}
	return g.Wait()
}

// adminSocket is the operator's socket in a node's data folder.
const adminSocket = "admin.sock"

func (c nodeConfig) peers() []platform.Peer {
	peers := make([]platform.Peer, 0, len(c.Nodes))
	for _, m := range c.Nodes {
		peers = append(peers, platform.Peer{ID: raftnode.NodeID(m.ID), Addr: m.Peer, URL: m.URL})
	}
	return peers
}

// peerListen is the address between nodes that the configuration gives this node.
func (c nodeConfig) peerListen() string {
	for _, m := range c.Nodes {
		if m.ID == c.Node {
			return m.Peer
		}
	}
	return ""
}
