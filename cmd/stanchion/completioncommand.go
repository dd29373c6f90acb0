package main

import (
	"github.com/spf13/cobra"
)

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print the script that makes a shell complete stanchion's commands",
		Long: `Print the script that makes a shell complete commands, flags and values: also the classes, keys, tenants and API keys
of the cluster that a command line, the environment or the profile names. What cannot be asked in a second or two is left out.

bash       in this shell:     source <(stanchion completion bash)
           in every new one:  stanchion completion bash > ~/.local/share/bash-completion/completions/stanchion
           (with the package bash-completion; the folder may have to be made)
zsh        in this shell:     source <(stanchion completion zsh)
           in every new one:  stanchion completion zsh > "${fpath[1]}/_stanchion"
           (with 'autoload -U compinit; compinit' in ~/.zshrc)
fish       in this shell:     stanchion completion fish | source
           in every new one:  stanchion completion fish > ~/.config/fish/completions/stanchion.fish
powershell in this shell:     stanchion completion powershell | Out-String | Invoke-Expression
           in every new one:  put that line into the file that $PROFILE names

Begin a new shell after installing it.`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(c *cobra.Command, args []string) error {
			root, out := c.Root(), c.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return root.GenPowerShellCompletionWithDesc(out)
		},
	}
}
