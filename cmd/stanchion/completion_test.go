package main

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// completed is what a shell is offered for the last word of a command line.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	out, _, err := command(t, append([]string{"__complete"}, words...)...)
	if err != nil {
		t.Errorf("complete %q: %v", words, err)
	}
	return strings.Split(strings.TrimSpace(out), "\n")
}

// completionAPI answers the lists that words are completed from, each only to who asks for it rightly.
func completionAPI(w http.ResponseWriter, r *http.Request, t *testing.T) {
	q := r.URL.Query()
	switch r.URL.Path {
	case "/v1/classes":
		answerJSON(t, w, 200, wire.ClassList{Classes: []wire.Class{{Class: "ledger-close", State: wire.ClassInForce}, {Class: "report-nightly", State: wire.ClassRetired}}})
	case "/v1/locks":
		list := wire.LockList{}
		for _, key := range []string{"2026-06", "2026-07", "a b", "\x1b[2J", "$(reboot)", "-x"} {
			if q.Get("class") == "ledger-close" && strings.HasPrefix(key, q.Get("prefix")) {
				list.Locks = append(list.Locks, wire.Lock{Class: "ledger-close", Key: key})
			}
		}
		answerJSON(t, w, 200, list)
	case "/v1/tenants":
		answerJSON(t, w, 200, wire.TenantList{Tenants: []wire.Tenant{{Tenant: "acme", State: wire.TenantLive}}})
	case "/v1/api-keys":
		answerJSON(t, w, 200, wire.APIKeyList{APIKeys: []wire.APIKey{{ID: "aaaaaaaaaa", Name: "job\x1b[2J"}}})
	case "/v1/tenants/acme/api-keys":
		answerJSON(t, w, 200, wire.APIKeyList{APIKeys: []wire.APIKey{{ID: "bbbbbbbbbb", Name: "of acme"}}})
	default:
		http.NotFound(w, r)
	}
}

// TestCompletion_offersWhatTheClusterHas and what is always the same. A last line with a colon tells the shell what to make of it.
func TestCompletion_offersWhatTheClusterHas(t *testing.T) {
	profiles(t, twoProfiles, 0o600)
	t.Setenv(envAPIKey, "stn_test")
	s := serverOf(t, false, func(w http.ResponseWriter, r *http.Request) { completionAPI(w, r, t) })
	t.Setenv(envEndpoints, s.URL)
	classes := "ledger-close\tin_force|report-nightly\tretired|:4"
	for line, want := range map[string]string{
		"why ":                     classes,
		"why led":                  classes,
		"class show ":              classes,
		"class transfer-owner ":    classes,
		"class wait --version 1 ":  classes,
		"run --class ":             classes,
		"locks --class ":           classes,
		"audit search --class ":    classes,
		"why ledger-close ":        "2026-06|2026-07|:4",
		"why ledger-close 2026-07": "2026-07|:4",
		"why ledger-close k ":      ":4",
		"locks force-release --token 1 --reason r ledger-close ": "2026-06|2026-07|:4",
		"run --class ledger-close --key ":                        "2026-06|2026-07|:4",
		"tenant show ":                                           "acme\tlive|:4",
		"audit search --tenant ":                                 "acme\tlive|:4",
		"api-key revoke ":                                        `aaaaaaaaaa	job\x1b[2J|:4`,
		"api-key show ":                                          `aaaaaaaaaa	job\x1b[2J|self	the API key that asks|:4`,
		"api-key revoke --tenant acme ":                          "bbbbbbbbbb\tof acme|:4",
		"locks --output ":                                        "table|json|:4",
		"class lint --output ":                                   "table|json|annotations|:4",
		"audit search --output ":                                 "table|json|ndjson|csv|:4",
		"audit search --order ":                                  "desc|asc|:4",
		"run --if-held ":                                         "wait|skip|fail|:4",
		"locks --profile ":                                       "default|staging|:4",
		"dev --profile ":                                         "production|dev|test|:4",
		"completion ":                                            "bash|zsh|fish|powershell|:4",
		"class apply ":                                           "yaml|yml|json|:8",
		"class lint a.yaml ":                                     "yaml|yml|json|:8",
		"serve --config ":                                        "yaml|yml|:8",
		"dev --data ":                                            ":16",
		"locks --api-key-file ":                                  ":0",
		"class retire ledger-close --reason ":                    ":4",
		"run --class ledger-close --key k -- ls -":               ":0",
	} {
		if got := strings.Join(completed(t, strings.Split(line, " ")...), "|"); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	for line, want := range map[string]string{"audit search --kind ": "granted\t", "audit search --kind granted,": "granted,expired\t",
		"api-key create --scope ": "locks:\t", "cl": "class\t", "class ": "apply\t"} {
		if got := completed(t, strings.Split(line, " ")...); !strings.Contains("\n"+strings.Join(got, "\n"), "\n"+want) {
			t.Errorf("%q: got %q, want %q among them", line, got, want)
		}
	}
}

// TestCompletion_failsSilentlyAndSoon: a shell is told that there is nothing to offer, whatever is wrong.
func TestCompletion_failsSilentlyAndSoon(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, prepare := range map[string]func(){
		"no cluster is named": func() {},
		"nobody listens":      func() { t.Setenv(envEndpoints, "http://127.0.0.1:1") },
		"no answer":           func() { t.Setenv(envEndpoints, serverOf(t, false, hang).URL) },
		"a refusal": func() {
			t.Setenv(envEndpoints, serverOf(t, false, answerProblem(wire.NewProblem(wire.CodeForbidden, ""))).URL)
		},
		"a broken profile file": func() { profiles(t, "nonsense", 0o600) },
	} {
		bare(t)
		t.Setenv(envAPIKey, "stn_test")
		prepare()
		root := newRoot()
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(&strings.Builder{})
		root.SetArgs([]string{"__complete", "why", ""})
		ctx, cancel := context.WithTimeout(t.Context(), apiAttemptTime/2)
		err := root.ExecuteContext(ctx)
		if err != nil || out.String() != ":4\n" || ctx.Err() != nil {
			t.Errorf("%s: offered %q, %v, and the time is over: %v; want nothing, soon", name, out.String(), err, ctx.Err())
		}
		cancel()
	}
	if completionTime > 2*time.Second {
		t.Errorf("a shell waits for %s; nobody who types does", completionTime)
	}
}

// TestCompletion_knowsNoFlagThatDoesNotExist, nor an argument: what was renamed would be completed no more.
func TestCompletion_knowsNoFlagThatDoesNotExist(t *testing.T) {
	flags, arguments := map[string]bool{}, map[string]bool{}
	for _, c := range commandsUnder(newRoot()) {
		c.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		for _, argument := range argumentsOf(c) {
			arguments[argument] = true
		}
	}
	for name := range flagCompleters {
		if !flags[name] {
			t.Errorf("there is no --%s", name)
		}
	}
	for name := range argumentCompleters {
		if !arguments[name] {
			t.Errorf("no command takes %s", name)
		}
	}
}

// TestCompletion_scriptsAreTaken by bash itself, and are there for the other shells.
func TestCompletion_scriptsAreTaken(t *testing.T) {
	script, _, err := command(t, "completion", "bash")
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), "bash", "--norc", "-c", `source "$1" && complete -p stanchion`, "bash", writeFile(t, "completion.sh", script)).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "-F __start_stanchion stanchion") {
		t.Errorf("bash says %s, %v", said, err)
	}
	for shell, want := range map[string]string{"zsh": "#compdef stanchion", "fish": "complete -c stanchion", "powershell": "Register-ArgumentCompleter -CommandName 'stanchion'"} {
		if out, _, err := command(t, "completion", shell); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v; want a script with %q", shell, err, want)
		}
	}
	for _, line := range []string{"completion", "completion tcsh"} {
		if _, _, code := executed(t, strings.Fields(line)...); code != exitUsage {
			t.Errorf("%s: exit %d, want 2", line, code)
		}
	}
}

// TestCompletion_helpTellsHowToInstallIt for each shell.
func TestCompletion_helpTellsHowToInstallIt(t *testing.T) {
	out, _, err := command(t, "completion", "--help")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if err != nil || strings.Count(out, "stanchion completion "+shell) < 1 {
			t.Errorf("the help lacks how to install it for %s: %v", shell, err)
		}
	}
}
