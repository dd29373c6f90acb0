package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/tenants"
)

// nobodysKey is of the form of an API key: the part that may be shown, and the whole.
func nobodysKey(t *testing.T) (id, key string) {
	t.Helper()
	credential, err := tenants.GenerateCredential(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(credential.ID()), credential.Reveal()
}

// profiles writes the profile file of the test and gives its path.
func profiles(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	bare(t)
	path := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), profileFileInFolder)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the process's mask takes away
		t.Fatal(err)
	}
	return path
}

const twoProfiles = `profiles:
  default:
    endpoints: [http://d1:1, http://d2:1]
    api_key_file: d.key
  staging:
    endpoints: [http://s:1]
    ca_file: /etc/ca.pem
`

// TestProfile_eachValueComesFromTheFirstThatGivesIt: a flag, the profile of --profile, the environment, the profile of
// STANCHION_PROFILE, the default one.
func TestProfile_eachValueComesFromTheFirstThatGivesIt(t *testing.T) {
	for _, c := range []struct {
		name        string
		options     clientOptions
		environment map[string]string
		want        [3]string // endpoints, API key, authorities
		from        string    // of the endpoints; FILE is the profile file
	}{
		{"the default profile", clientOptions{}, nil, [3]string{"http://d1:1,http://d2:1", "stn_d", ""}, "profile default in FILE"},
		{"a profile of the environment", clientOptions{}, map[string]string{envProfile: "staging"}, [3]string{"http://s:1", "", "/etc/ca.pem"}, "profile staging in FILE"},
		{"the environment over it", clientOptions{}, map[string]string{envProfile: "staging", envEndpoints: "http://e:1", envAPIKey: "stn_e", envCAFile: "e.pem"},
			[3]string{"http://e:1", "stn_e", "e.pem"}, envEndpoints},
		{"a profile of the command line over that", clientOptions{profile: "staging"}, map[string]string{envEndpoints: "http://e:1", envAPIKey: "stn_e"},
			[3]string{"http://s:1", "stn_e", "/etc/ca.pem"}, "profile staging in FILE"},
		{"flags over all", clientOptions{profile: "staging", endpoints: "http://f:1", caFile: "f.pem"}, map[string]string{envEndpoints: "http://e:1"},
			[3]string{"http://f:1", "", "f.pem"}, "--endpoints"},
	} {
		path := profiles(t, twoProfiles, 0o644)
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "d.key"), []byte("stn_d\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, value := range c.environment {
			t.Setenv(name, value)
		}
		s, err := c.options.settings()
		got := [3]string{s.endpoints.value, s.apiKey.value, s.caFile.value}
		if err != nil || got != c.want || s.endpoints.source != strings.ReplaceAll(c.from, "FILE", path) {
			t.Errorf("%s: got %q from %q, %v; want %q from %q", c.name, got, s.endpoints.source, err, c.want, c.from)
		}
	}
}

// TestProfile_fileThatIsWrongIsRefusedWithItsPlace: also by a command that would do without it, so that nothing is mistaken.
func TestProfile_fileThatIsWrongIsRefusedWithItsPlace(t *testing.T) {
	_, key := nobodysKey(t)
	withKey := "profiles:\n  default:\n    api_key: " + key + "\n"
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		says, todo string // of the error; empty: there is none
	}{
		{"an unknown field", "profiles:\n  default:\n    endpoint: [http://a]\n", 0o600, "line 3", "a profile has endpoints, api_key or api_key_file, and ca_file"},
		{"a field twice", "profiles:\n  default:\n    ca_file: a\n    ca_file: b\n", 0o600, "line 4", "mend the file"},
		{"no list", "profiles:\n  default:\n    endpoints: {a: b}\n", 0o600, "line 3", "mend the file"},
		{"another top", "default:\n  endpoints: [http://a]\n", 0o600, "line 1", "mend the file"},
		{"two keys", withKey + "    api_key_file: b\n", 0o600, `profile "default" in FILE has both`, "take one of them out"},
		{"a key that the group may read", withKey, 0o640, "others may read it: its mode is 0640", "run: chmod 600 FILE"},
		{"a key that all may read", withKey, 0o604, "others may read it: its mode is 0604", "run: chmod 600 FILE"},
		{"a key of its owner's alone", withKey, 0o600, "", ""},
		{"an empty file", "\n", 0o644, "", ""},
		{"too much", strings.Repeat("#", profileFileBytesMax+1), 0o600, "larger than", ""},
	} {
		path := profiles(t, c.text, c.mode)
		_, said, code := executed(t, "profile", "list")
		if c.says == "" && code != 0 || c.says != "" && code == 0 || !strings.Contains(said, strings.ReplaceAll(c.says, "FILE", path)) ||
			!strings.Contains(said, strings.ReplaceAll(c.todo, "FILE", path)) || strings.Contains(said, key) {
			t.Errorf("%s: exit %d, said\n%swant %q, %q and never the key", c.name, code, said, c.says, c.todo)
		}
	}
}

func TestProfile_thatIsNotThereIsRefused(t *testing.T) {
	profiles(t, twoProfiles, 0o600)
	_, said, code := executed(t, "locks", "--profile", "prod")
	if code != exitUsage || !strings.Contains(said, "--profile names the profile prod, which is not in ") || !strings.Contains(said, "take one of default, staging") {
		t.Errorf("exit %d, said\n%swant 2 and which there are", code, said)
	}
}

// TestProfileShow_tellsWhereEachValueCameFromAndNoSecret in both forms.
func TestProfileShow_tellsWhereEachValueCameFromAndNoSecret(t *testing.T) {
	id, key := nobodysKey(t)
	path := profiles(t, "profiles:\n  default:\n    endpoints: [http://d:1]\n    ca_file: ca.pem\n    api_key: "+key+"\n", 0o600)
	for _, output := range []string{"table", "json"} {
		for _, command := range []string{"show", "list"} {
			out, said, code := executed(t, "profile", command, "--output", output)
			if code != 0 || said != "" || strings.Contains(out, key[len("stn_")+len(id)+1:]) {
				t.Errorf("profile %s, %s: exit %d, %s%s; want no secret", command, output, code, out, said)
			}
			for _, want := range []string{"http://d:1", filepath.Join(filepath.Dir(path), "ca.pem"), "stn_" + id + "_[redacted]", path} {
				if !strings.Contains(out, want) && (output == "json" || command == "show" || want != path) {
					t.Errorf("profile %s, %s: %s lacks %s", command, output, out, want)
				}
			}
		}
	}
}

// TestCAFile_letsAPrivateAuthorityBeTrusted by flag, environment and profile; what is no certificate is refused before anything is asked.
func TestCAFile_letsAPrivateAuthorityBeTrusted(t *testing.T) {
	s := serverOf(t, true, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(wire.LockList{Locks: []wire.Lock{}}) // whoever hung up does not need it
	})
	ca := authorityFile(t, s)
	for name, set := range map[string]func() []string{
		"--ca-file": func() []string { return []string{"--ca-file", ca} },
		envCAFile:   func() []string { t.Setenv(envCAFile, ca); return nil },
		"a profile": func() []string {
			path := profiles(t, "profiles: {default: {ca_file: near.pem}}\n", 0o644)
			raw, err := os.ReadFile(ca)
			if err == nil {
				err = os.WriteFile(filepath.Join(filepath.Dir(path), "near.pem"), raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			return nil
		},
	} {
		bare(t)
		args := append([]string{"locks", "--output", "json", "--endpoints", s.URL}, set()...)
		t.Setenv(envAPIKey, "stn_test")
		if out, said, code := executed(t, args...); code != 0 || !strings.Contains(out, `"locks": []`) {
			t.Errorf("%s: exit %d, %s%s", name, code, out, said)
		}
	}
	bare(t)
	t.Setenv(envAPIKey, "stn_test")
	_, said, code := executed(t, "locks", "--endpoints", s.URL, "--ca-file", writeFile(t, "ca.pem", "none"))
	if code != exitFailed || !strings.Contains(said, "named by --ca-file: there is no certificate in PEM in it\nwhat to do: ") {
		t.Errorf("exit %d, said\n%swant that the file has no certificate", code, said)
	}
}
