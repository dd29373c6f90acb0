package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/review"
)

const closeFile = `format: 1
class: ledger-close
resource: postgres:ledger
owner: group:ledger-owners
purpose: correctness
enforcement: fenced
quorum_loss: closed
guard: column fence
`

// classServer answers as a test says, and keeps what it was asked.
type classServer struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string                               // guarded by mu: method, address, type and body
	answer func(r *http.Request, body string) any // a *wire.Problem is answered as one
}

func newClassServer(t *testing.T, answer func(r *http.Request, body string) any) *classServer {
	t.Helper()
	s := &classServer{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Content-Type")))
		s.mu.Unlock()
		out := s.answer(r, string(body))
		if p, refused := out.(*wire.Problem); refused {
			w.WriteHeader(p.Status)
		}
		if err := json.NewEncoder(w).Encode(out); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// class runs `stanchion class` and returns what it printed and its exit code.
func (s *classServer) class(t *testing.T, args ...string) (string, int) {
	t.Helper()
	t.Setenv("STANCHION_ENDPOINTS", s.URL)
	t.Setenv("STANCHION_API_KEY", "stn_test")
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(append([]string{"class"}, args...))
	err := root.ExecuteContext(t.Context())
	var code exitError
	switch {
	case err == nil:
		return out.String(), 0
	case errors.As(err, &code):
		return out.String(), int(code)
	case errors.Is(err, errUsage):
		return err.Error(), exitUsage
	}
	return err.Error(), exitFailed
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClassApply_saysWhatBecameOfEachFileByExitCode(t *testing.T) {
	refusal := wire.NewProblem(wire.CodePurposeFixed, "The purpose is correctness.")
	refusal.Findings = []wire.FileFinding{{File: "ledger-close", Line: 5, Column: 10, Rule: "purpose-changed", Severity: "error",
		Message: "for ever", Remedy: "choose another name"}}
	declaration := func(change func(*wire.ClassDeclaration)) *wire.ClassDeclaration {
		d := &wire.ClassDeclaration{Class: "ledger-close", Version: 3, State: wire.VersionInReview, MissingSignatures: []string{"ledger-owners"},
			ReviewURL: "http://n1.test/v3"}
		change(d)
		return d
	}
	for _, c := range []struct {
		name string
		args []string
		put  any
		get  any // of the version, when it is waited for
		code int
		says []string
		asks int // 0: any number
	}{
		{"in review", nil, declaration(func(*wire.ClassDeclaration) {}), nil, 3,
			[]string{": ledger-close: declared version 3; to be signed by ledger-owners: http://n1.test/v3\n"}, 1},
		{"still in review", []string{"--wait", "1ms"}, declaration(func(*wire.ClassDeclaration) {}), wire.ClassVersion{State: wire.VersionInReview, MissingSignatures: []string{"a", "b"}}, 3,
			[]string{": declared version 3; to be signed by a and b"}, 0},
		{"a rival was signed while it waits", []string{"--wait", "1m"}, declaration(func(*wire.ClassDeclaration) {}), wire.ClassVersion{State: wire.VersionInReview, Stale: true}, 1,
			[]string{": version 3 cannot be signed any more"}, 2},
		{"in review already", nil, declaration(func(d *wire.ClassDeclaration) { d.Unchanged = true }), nil, 3,
			[]string{": unchanged, version 3; to be signed by ledger-owners"}, 1},
		{"in force already", nil, declaration(func(d *wire.ClassDeclaration) { d.Unchanged, d.State = true, wire.VersionInForce }), nil, 0,
			[]string{": unchanged, version 3 is in force\n"}, 1},
		{"signed while it waits", []string{"--wait", "1m"}, declaration(func(*wire.ClassDeclaration) {}), wire.ClassVersion{Version: 3, State: wire.VersionInForce}, 0,
			[]string{": declared version 3; in force\n"}, 2},
		{"rejected while it waits", []string{"--wait", "1m"}, declaration(func(*wire.ClassDeclaration) {}),
			wire.ClassVersion{Version: 3, State: wire.VersionRejected, Decision: &wire.ClassDecision{By: "owner@dev.test", Reason: "no guard\x1b[2J"}}, 1,
			[]string{`: version 3 is rejected by owner@dev.test: no guard\x1b[2J`}, 2},
		{"dry run", []string{"--dry-run"}, declaration(func(d *wire.ClassDeclaration) { d.DryRun, d.ReviewURL = true, "" }), nil, 0,
			[]string{": would be version 3; to be signed by ledger-owners\n"}, 1},
		{"refused", nil, refusal, nil, 1, []string{"FILE:5:10: error[purpose-changed]: for ever; choose another name\n", ": refused: purpose_fixed: "}, 1},
		{"refused in a CI job", []string{"--output", "annotations"}, refusal, nil, 1, []string{"::error file=FILE,line=5,col=10,title=purpose-changed::for ever"}, 1},
		{"with its source", []string{"--source-repo", "acme/ledger", "--source-url", "https://git.test/1"}, declaration(func(d *wire.ClassDeclaration) { d.State = wire.VersionInForce }), nil, 0, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newClassServer(t, func(r *http.Request, _ string) any {
				if r.Method == http.MethodPut {
					return c.put
				}
				return c.get
			})
			file := writeFile(t, "ledger.yaml", closeFile)
			out, code := s.class(t, append(append([]string{"apply"}, c.args...), file)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, out)
			}
			for _, want := range c.says {
				if !strings.Contains(strings.ReplaceAll(out, file, "FILE"), want) {
					t.Errorf("said %q, want %q", out, want)
				}
			}
			if c.asks > 0 && len(s.asked) != c.asks || !strings.HasPrefix(s.asked[0], "PUT /v1/classes/ledger-close") || !strings.HasSuffix(s.asked[0], " application/yaml") {
				t.Errorf("asked %q; want %d requests, the first a declaration", s.asked, c.asks)
			}
			if c.name == "with its source" && !strings.Contains(s.asked[0], "?source_repo=acme%2Fledger&source_url=https%3A%2F%2Fgit.test%2F1 ") {
				t.Errorf("asked %q; want the source in it", s.asked)
			}
		})
	}
}

func TestClassApply_declaresNothingWhenAFileIsRefused(t *testing.T) {
	s := newClassServer(t, func(*http.Request, string) any { return nil })
	good, bad := writeFile(t, "good.yaml", closeFile), writeFile(t, "bad.yaml", strings.Replace(closeFile, "purpose: correctness\n", "", 1))
	out, code := s.class(t, "apply", good, bad)
	if code != exitFailed || !strings.Contains(out, bad+":1:1: error[missing-field]") || len(s.asked) != 0 {
		t.Errorf("exit code %d, said %q, asked %q; want 1, where it is wrong, and nothing asked", code, out, s.asked)
	}
	for _, args := range [][]string{{"apply", good, good}, {"apply", "--output", "xml", good}, {"apply", "--wait", "-1s", good},
		{"apply", "--dry-run", "--wait", "1s", good}, {"apply", "--source-url", "ftp://x", good}, {"retire", "ledger-close"},
		{"wait", "--timeout", "-1s", "ledger-close"}, {"list", "--output", "xml"}} {
		if out, code := s.class(t, args...); code != exitUsage || len(s.asked) != 0 {
			t.Errorf("class %v: exit code %d, said %q, asked %q; want 2 and nothing asked", args, code, out, s.asked)
		}
	}
}

func TestClassDiff_saysFieldByFieldWhatAFileWouldChange(t *testing.T) {
	parsed, found := review.Parse("f", []byte(closeFile), review.Options{})
	if found.Err() != nil {
		t.Fatal(found.Err())
	}
	signed := wire.Class{Class: "ledger-close", State: wire.ClassInForce, SignedVersion: 2, Posture: parsed.Canonical()}
	retired := signed
	retired.State = wire.ClassRetired
	changed := strings.Replace(closeFile, "enforcement: fenced", "enforcement: advisory", 1) + "lease: 20s\n"
	for _, c := range []struct {
		name, file string
		class      any
		code       int
		says       []string
	}{
		{"the same", "# spelled otherwise\n" + closeFile, signed, 0, []string{": ledger-close: the same as version 2\n"}},
		{"other fields", changed, signed, exitDiffers, []string{"differs from version 2\n", "  lease: 10s → 20s\n    a key whose holder died stays taken for 20s\n",
			"  enforcement: fenced → advisory\n", "    holder pauses: double write possible (was: stale write rejected)\n", "to be ticked by who signs: advisory-no-delay: "}},
		{"no such class", closeFile, wire.NewProblem(wire.CodeNotFound, ""), exitDiffers, []string{"all of it is new", "  holder pauses: stale write rejected\n"}},
		{"a retired class", closeFile, retired, exitDiffers, []string{"retired with version 2; this would bring it back"}},
		{"a file that is refused", "format: 1\n", signed, exitFailed, []string{"error[missing-field]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newClassServer(t, func(*http.Request, string) any { return c.class })
			out, code := s.class(t, "diff", writeFile(t, "f.yaml", c.file))
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, out)
			}
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("said %q, want %q", out, want)
				}
			}
		})
	}
}

func TestClassWait_exitsByHowTheVersionStands(t *testing.T) {
	for _, c := range []struct {
		version wire.ClassVersion
		code    int
		says    string
	}{
		{wire.ClassVersion{State: wire.VersionInForce}, 0, "version 7 is in force"},
		{wire.ClassVersion{State: wire.VersionInReview, MissingSignatures: []string{"ledger-owners"}}, exitAwaiting, "to be signed by ledger-owners"},
		{wire.ClassVersion{State: wire.VersionSigned}, exitAwaiting, "signed and not in force yet"},
		{wire.ClassVersion{State: wire.VersionInReview, Stale: true}, exitFailed, "declare it again"},
		{wire.ClassVersion{State: wire.VersionRejected, Decision: &wire.ClassDecision{By: "owner@dev.test", Reason: "not yet"}}, exitFailed, "rejected by owner@dev.test: not yet"},
		{wire.ClassVersion{State: wire.VersionWithdrawn, Decision: &wire.ClassDecision{By: "key"}}, exitFailed, "withdrawn by key"},
		{wire.ClassVersion{State: wire.VersionSuperseded}, exitFailed, "superseded"},
	} {
		c.version.Class, c.version.Version = "ledger-close", 7
		s := newClassServer(t, func(r *http.Request, _ string) any {
			if r.URL.Query().Get("version") == "" {
				return wire.Class{Class: "ledger-close", LatestVersion: 7}
			}
			return c.version
		})
		out, code := s.class(t, "wait", "ledger-close", "--timeout", "0s")
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d, said %q; want %d and %q", c.version.State, code, out, c.code, c.says)
		}
	}
}

func TestClassTransferOwner_sendsWhoAndWhy(t *testing.T) {
	var sent string
	s := newClassServer(t, func(_ *http.Request, body string) any {
		sent = body
		return wire.Class{Class: "ledger-close", Owner: "finance"}
	})
	all := []string{"--tenant", "acme", "--from", "ledger-owners", "--to", "finance", "--reason", "dissolved"}
	out, code := s.class(t, append([]string{"transfer-owner", "ledger-close"}, all...)...)
	if code != 0 || sent != `{"from":"ledger-owners","to":"finance","reason":"dissolved"}` || out != "ledger-close: the next version is to be signed by finance\n" ||
		s.asked[0] != "POST /v1/tenants/acme/classes/ledger-close/transfer-owner application/json" {
		t.Errorf("exit code %d, said %q, asked %q with %s", code, out, s.asked, sent)
	}
	for i := 0; i < len(all); i += 2 {
		without := append(append([]string{"transfer-owner", "ledger-close"}, all[:i]...), all[i+2:]...)
		if out, code := s.class(t, without...); code != exitUsage || len(s.asked) != 1 {
			t.Errorf("without %s: exit code %d, said %q; want 2 and nothing asked", all[i], code, out)
		}
	}
}

func TestClassRetire_sendsTheReason(t *testing.T) {
	var sent string
	s := newClassServer(t, func(_ *http.Request, body string) any {
		sent = body
		return wire.ClassRetirement{Class: "ledger-close", State: wire.ClassRetired, Version: 2}
	})
	out, code := s.class(t, "retire", "ledger-close", "--reason", "moved")
	if code != 0 || sent != `{"reason":"moved"}` || out != "ledger-close: retired with version 2\n" || s.asked[0] != "DELETE /v1/classes/ledger-close application/json" {
		t.Errorf("exit code %d, said %q, asked %q with %s", code, out, s.asked, sent)
	}
}
