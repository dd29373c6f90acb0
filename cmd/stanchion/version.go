package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// buildVersion is what this binary was made of.
type buildVersion struct {
	Version  string `json:"version"`  // of the module; "devel" if it is no release
	Commit   string `json:"commit"`   // empty: the build does not know it
	Modified bool   `json:"modified"` // the commit is not all that was built
	Go       string `json:"go"`       // version of Go
	Platform string `json:"platform"` // such as linux/amd64
}

// versionOf reads what the linker put into the binary.
func versionOf(info *debug.BuildInfo) buildVersion {
	v := buildVersion{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// thisBuild is the version of the running binary.
func thisBuild() buildVersion {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

func newVersion() *cobra.Command {
	var output string
	version := &cobra.Command{
		Use:   "version",
		Short: "Which release this is, of which commit, and the Go that built it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v := thisBuild()
			if output == "json" {
				return printJSON(c.OutOrStdout(), v)
			}
			commit := cmp.Or(v.Commit, "-")
			if v.Modified {
				commit += ", modified"
			}
			return printRows(c.OutOrStdout(), [][2]string{{"version", v.Version}, {"commit", commit}, {"go", v.Go}, {"platform", v.Platform}})
		},
	}
	outputFlag(version, &output)
	return version
}
