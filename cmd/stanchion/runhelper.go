package main

import "github.com/spf13/cobra"

// helperName is the hidden command by which stanchion run starts processes of its own.
const helperName = "run-helper"

func newRunHelper() *cobra.Command {
	helper := &cobra.Command{Use: helperName, Short: "Processes that stanchion run starts for itself", Hidden: true}
	helper.AddCommand(newGateCommand(), newWatchdogCommand())
	return helper
}
