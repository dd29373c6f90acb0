package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

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
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(s)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "GROUP\tSTATE\tLEADER\tTERM\tEPOCH\tINDEX\tCOMMITTED\tROLLING HASH")
			for _, g := range s.Groups {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%.16s\n", g.Group, g.State, g.Leader, g.Term, g.Epoch, g.Index,
					g.CommitIndex, g.RollingHash)
			}
			return w.Flush()
		},
	}
	status.Flags().StringVar(&socket, "socket", "", "the node's operator socket, admin.sock in its data folder (required)")
	status.Flags().StringVar(&output, "output", "table", "table or json")
	status.Flags().BoolVar(&hashes, "hashes", false, "with the digest of each whole state, which takes time proportional to it")
	_ = status.MarkFlagRequired("socket")
	return status
}
