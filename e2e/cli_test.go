package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// completeInBash has bash complete the last word of a command line, by the script that the product prints. What a shell gets from the
// package bash-completion stands in the script itself, so that the test needs no more than bash.
const completeInBash = `
source <(stanchion completion bash)
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; }
unset -f _init_completion
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_TYPE=9
__start_stanchion 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
`

// TestCLI_profileAndCompletionReachARunningCluster: with nothing but a profile file, commands find the cluster, a command under a
// lock is started, and bash completes what the cluster has at the moment.
func TestCLI_profileAndCompletionReachARunningCluster(t *testing.T) {
	c := newCluster(t)
	c.start()
	config := profileOf(t, c)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Env = append(withoutOwnVariables(), "XDG_CONFIG_HOME="+config, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
		var told bytes.Buffer
		cmd.Stderr = &told
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out, told.String())
		}
		return strings.TrimSpace(string(out))
	}
	var list wire.ClassList
	if err := json.Unmarshal([]byte(run("class", "list", "--output", "json")), &list); err != nil || len(list.Classes) != len(c.file.Classes) {
		t.Errorf("class list: %+v, %v; want the cluster's %d classes", list, err, len(c.file.Classes))
	}
	words := []string{"stanchion", "why", "ledger-close", "cli-"}
	held := run(append([]string{"run", "--class", "ledger-close", "--key", "cli-2026", "--", "bash", "--norc", "-c", completeInBash, "bash"}, words...)...)
	if held != "cli-2026" {
		t.Errorf("bash completes the key of the lock that is held as %q", held)
	}
	shown := run("profile", "show")
	if !strings.Contains(shown, "profile default in "+config) || strings.Contains(shown, c.file.APIKey) {
		t.Errorf("profile show prints\n%s\nwant the profile, and never the API key", shown)
	}
	c.stop(syscall.SIGTERM)
}

// profileOf writes a profile file for the cluster's administrator, and gives the folder that XDG_CONFIG_HOME is to be.
func profileOf(t *testing.T, c *cluster) string {
	t.Helper()
	folder := t.TempDir()
	var urls []string
	for _, n := range c.file.Nodes {
		urls = append(urls, n.URL)
	}
	text := fmt.Sprintf("profiles:\n  default:\n    endpoints: [%s]\n    api_key_file: admin.key\n", strings.Join(urls, ", "))
	own := filepath.Join(folder, "stanchion")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"profiles.yaml": text, "admin.key": c.file.AdminKey + "\n"} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// withoutOwnVariables is this process's environment with nothing in it that says how to reach a cluster.
func withoutOwnVariables() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STANCHION_") })
}
