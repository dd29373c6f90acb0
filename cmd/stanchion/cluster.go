package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newCluster() *cobra.Command {
	cluster := &cobra.Command{Use: "cluster", Short: "Look at a node's groups"}
	cluster.AddCommand(newClusterStatus())
	return cluster
}

func newClusterStatus() *cobra.Command {
	var socket, output string
	var hashes bool
	status := &cobra.Command{
		Use:   "status",
		Short: "Groups, leaders, indexes and hashes, as one node sees them",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := newAdminClient(socket).status(c.Context(), hashes)
			if err != nil {
				return fmt.Errorf("ask the node at %s: %w", socket, err)
			}
			if output == "json" {
				return printJSON(c.OutOrStdout(), s)
			}
			t := newTable(c.OutOrStdout(), "GROUP", "STATE", "LEADER", "TERM", "EPOCH", "INDEX", "COMMITTED", "ROLLING HASH")
			for _, g := range s.Groups {
				t.row(g.Group, g.State, g.Leader, g.Term, g.Epoch, g.Index, g.CommitIndex, fmt.Sprintf("%.16s", g.RollingHash))
			}
			return t.end()
		},
	}
	status.Flags().StringVar(&socket, "socket", "", "the node's operator socket, admin.sock in its data folder (required)")
	outputFlag(status, &output)
	status.Flags().BoolVar(&hashes, "hashes", false, "with the digest of each whole state, which takes time proportional to it")
	_ = status.MarkFlagRequired("socket")
	return status
}
