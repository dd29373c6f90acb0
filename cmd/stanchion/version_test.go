package main

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion_saysWhatTheBinaryIsMadeOf(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "e6ef1ef"}, {Key: "vcs.modified", Value: "true"}}}
	info.Main.Version = "v1.2.3"
	if got := versionOf(info); got.Version != "v1.2.3" || got.Commit != "e6ef1ef" || !got.Modified {
		t.Errorf("got %+v; want release, commit and that it was modified", got)
	}
	info.Main.Version = "(devel)"
	for _, none := range []*debug.BuildInfo{nil, info} {
		if got := versionOf(none); got.Version != "devel" {
			t.Errorf("got %+v; want that it is no release", got)
		}
	}
	out, _, code := executed(t, "version")
	if flag, _, code := executed(t, "--version"); code != 0 || !strings.HasPrefix(flag, "stanchion version ") {
		t.Errorf("--version: exit %d, printed %q", code, flag)
	}
	asJSON, _, _ := executed(t, "version", "--output", "json")
	var v buildVersion
	if err := json.Unmarshal([]byte(asJSON), &v); err != nil || code != 0 || !strings.HasPrefix(v.Go, "go1.") || !strings.Contains(out, v.Go) || !strings.Contains(out, v.Platform) {
		t.Errorf("exit %d, printed\n%s\n%s, %v", code, out, asJSON, err)
	}
}
