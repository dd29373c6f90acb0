package main

import (
	"cmp"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func newProfile() *cobra.Command {
	profiles := &cobra.Command{
		Use:   "profile",
		Short: "How commands find their cluster: profiles, and what is in effect",
		Long: `Profiles say how to reach a cluster, so that it need not be said with every command. They are in
$XDG_CONFIG_HOME/stanchion/profiles.yaml, by default ~/.config/stanchion/profiles.yaml:

  profiles:
    default:
      endpoints: [https://n1.example.com:8420, https://n2.example.com:8420]
      api_key_file: default.key   # beside this file; or api_key, and then the file must be its owner's alone
      ca_file: ca.pem
    staging:
      endpoints: [http://localhost:8420]

Choose one with --profile or STANCHION_PROFILE; without either it is "default". Each value is taken by itself, from the first of:
its flag, the profile that --profile names, its environment variable, the profile that STANCHION_PROFILE names or the default one.`,
	}
	profiles.AddCommand(newProfileList(), newProfileShow())
	return profiles
}

// shownProfile is a profile without its secret.
type shownProfile struct {
	Profile    string   `json:"profile"`
	InEffect   bool     `json:"in_effect"` // where no value is given otherwise
	Endpoints  []string `json:"endpoints"`
	APIKey     string   `json:"api_key,omitempty"` // its id
	APIKeyFile string   `json:"api_key_file,omitempty"`
	CAFile     string   `json:"ca_file,omitempty"`
}

func newProfileList() *cobra.Command {
	var o clientOptions
	list := &cobra.Command{
		Use:   "list",
		Short: "The profiles in the profile file",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			file, err := readProfiles(profilePath())
			if err != nil {
				return err
			}
			name, by := o.named()
			_, chosen, err := file.choose(name, by)
			if err != nil {
				return err
			}
			return printProfiles(c.OutOrStdout(), file, chosen, o.json())
		},
	}
	outputFlag(list, &o.output)
	list.Flags().StringVar(&o.profile, "profile", "", "mark this profile as the one in effect (default $STANCHION_PROFILE)")
	return list
}

func printProfiles(out io.Writer, file profileFile, chosen string, asJSON bool) error {
	all := []shownProfile{}
	for _, name := range file.names() {
		one := file.Profiles[name]
		s := settings{apiKey: setting{value: one.APIKey}}
		all = append(all, shownProfile{Profile: name, InEffect: name == chosen, Endpoints: append([]string{}, one.Endpoints...),
			APIKey: s.shownKey(), APIKeyFile: one.APIKeyFile, CAFile: one.CAFile})
	}
	if asJSON {
		return printJSON(out, map[string]any{"file": file.path, "profiles": all})
	}
	t := newTable(out, "PROFILE", "IN EFFECT", "ENDPOINTS", "API KEY", "CA FILE")
	for _, p := range all {
		effect := ""
		if p.InEffect {
			effect = "yes"
		}
		t.row(p.Profile, effect, orDash(strings.Join(p.Endpoints, ", ")), cmp.Or(p.APIKey, p.APIKeyFile, "-"), orDash(p.CAFile))
	}
	return t.end()
}

// shownSetting is a value in effect, and where it came from.
type shownSetting struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	Source  string `json:"source"` // empty: it is not set
}

func newProfileShow() *cobra.Command {
	var o clientOptions
	show := &cobra.Command{
		Use:   "show",
		Short: "What is in effect, and where each value came from",
		Long: `What is in effect for a command with the same flags in the same environment, and where each value came from.
Of the API key only the part that names it is shown.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := o.settings()
			if err != nil {
				return err
			}
			return printSettings(c.OutOrStdout(), s, o.json())
		},
	}
	o.flags(show, true)
	return show
}

func printSettings(out io.Writer, s settings, asJSON bool) error {
	key := s.apiKey.source
	if s.keyFile != "" {
		key = s.keyFile + ", named by " + key
	}
	all := []shownSetting{{"endpoints", s.endpoints.value, s.endpoints.source}, {"api_key", s.shownKey(), key},
		{"ca_file", s.caFile.value, s.caFile.source}}
	if asJSON {
		return printJSON(out, map[string]any{"file": s.file, "profile": s.profile, "settings": all})
	}
	t := newTable(out, "SETTING", "VALUE", "FROM")
	file := orDash(s.file)
	if !isThere(s.file) {
		file += ", which is not there"
	}
	t.row("profile", orDash(s.profile), file)
	for _, one := range all {
		t.row(one.Setting, orDash(one.Value), orDash(one.Source))
	}
	return t.end()
}
