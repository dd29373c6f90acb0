package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// bare takes everything away that would say how to reach a cluster.
func bare(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, name := range []string{envEndpoints, envAPIKey, envCAFile, envProfile} {
		t.Setenv(name, "")
	}
}

// executed runs a command line as main does.
func executed(t *testing.T, args ...string) (out, said string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRoot()
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = execute(t.Context(), root, args, &stderr)
	return stdout.String(), stderr.String(), code
}

// serverOf is a server of a test, https or not, whose own log nobody reads.
func serverOf(t *testing.T, secure bool, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handle)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func answerProblem(p *wire.Problem) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p) // whoever hung up does not need it
	}
}

// authorityFile is a file with the certificate that a server of a test signed itself.
func authorityFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return writeFile(t, "ca.pem", string(text))
}

// TestFailure_saysWhatToDoNext: each way in which a call fails has its own second line, which names a flag, a file or a command.
func TestFailure_saysWhatToDoNext(t *testing.T) {
	forbidden := wire.NewProblem(wire.CodeForbidden, "This needs tenant:admin.")
	forbidden.Scope = "tenant:admin"
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, c := range []struct {
		name       string
		secure     bool
		handle     http.HandlerFunc
		change     func(t *testing.T, s *httptest.Server, o *clientOptions)
		code       string
		what, todo string // SERVER and FOLDER stand for the server's address and the test's configuration
	}{
		{name: "an unknown API key", handle: answerProblem(wire.NewProblem(wire.CodeUnauthorized, "")), code: "unauthorized",
			what: "unauthorized: There is no valid API key in the request.",
			todo: "the API key (STANCHION_API_KEY) is unknown, expired or revoked: name another with --api-key-file, STANCHION_API_KEY or a profile; an administrator makes one with 'stanchion api-key create'"},
		{name: "an API key without the right", handle: answerProblem(forbidden), code: "forbidden", what: "forbidden: This needs tenant:admin.",
			todo: "name an API key with the scope tenant:admin with --api-key-file, STANCHION_API_KEY or a profile; 'stanchion api-key show self' says what this one (STANCHION_API_KEY) may do"},
		{name: "any other problem", handle: answerProblem(wire.NewProblem(wire.CodeAPIKeyEnded, "")), code: "api_key_ended",
			what: "api_key_ended: The API key is expired, revoked or rotated out already.", todo: "Create a new one."},
		{name: "nobody listens", handle: hang, code: "connection_refused", what: "connection refused",
			change: func(_ *testing.T, s *httptest.Server, _ *clientOptions) { s.Close() },
			todo:   "start the cluster, or name nodes that run with --endpoints; the addresses came from --endpoints; 'stanchion dev' runs a cluster to try things on"},
		{name: "a certificate of an unknown authority", secure: true, handle: hang, code: "unknown_authority", what: "certificate signed by unknown authority",
			todo: "name the file with the authority's certificate with --ca-file, STANCHION_CA_FILE, or ca_file in the profile default in FOLDER/stanchion/profiles.yaml"},
		{name: "a certificate for another name", secure: true, handle: hang, code: "other_name", what: "certificate",
			change: func(t *testing.T, s *httptest.Server, o *clientOptions) {
				o.endpoints, o.caFile = strings.Replace(s.URL, "127.0.0.1", "localhost", 1), authorityFile(t, s)
			},
			todo: "name the node with --endpoints as its certificate does; the addresses came from --endpoints"},
		{name: "https where http is spoken", handle: hang, code: "no_tls", what: "server gave HTTP response to HTTPS client",
			change: func(_ *testing.T, s *httptest.Server, o *clientOptions) {
				o.endpoints = strings.Replace(s.URL, "http:", "https:", 1)
			},
			todo: "write http:// in --endpoints, or have the node speak TLS; the addresses came from --endpoints"},
		{name: "http where https is spoken", secure: true, handle: hang, code: "foreign_answer", what: "this is no answer of Stanchion: status 400",
			change: func(_ *testing.T, s *httptest.Server, o *clientOptions) {
				o.endpoints = strings.Replace(s.URL, "https:", "http:", 1)
			},
			todo: "check the addresses, or name others with --endpoints; the addresses came from --endpoints"},
		{name: "a redirect", handle: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.test/", http.StatusMovedPermanently)
		}, code: "redirected", what: `sends to "https://elsewhere.test/"`,
			todo: "name the nodes themselves with --endpoints, each with the scheme that it speaks; the addresses came from --endpoints"},
		{name: "another server's page", handle: http.NotFound, code: "foreign_answer", what: "this is no answer of Stanchion: status 404 Not Found from ",
			todo: "check the addresses, or name others with --endpoints; the addresses came from --endpoints"},
		{name: "no answer", handle: hang, code: "timeout", what: "context deadline exceeded",
			todo: "repeat the command; on a node's machine 'stanchion cluster status --socket DATA/admin.sock' says how it stands; name others with --endpoints; the addresses came from --endpoints"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bare(t)
			t.Setenv(envAPIKey, "stn_test")
			s := serverOf(t, c.secure, c.handle)
			o := clientOptions{endpoints: s.URL}
			if c.change != nil {
				c.change(t, s, &o)
			}
			api, err := o.client()
			if err != nil {
				t.Fatal(err)
			}
			api.patience = 0
			if c.code == "timeout" {
				api.answerTime = 50 * time.Millisecond
			}
			_, err = api.call(t.Context(), apiRequest{method: http.MethodGet, path: "/v1/locks"}, &wire.LockList{})
			f := explain(err, newRoot(), true)
			var text strings.Builder
			if err := f.print(&text, false); err != nil {
				t.Fatal(err)
			}
			want := "\nwhat to do: " + strings.ReplaceAll(c.todo, "FOLDER", os.Getenv("XDG_CONFIG_HOME")) + "\n"
			if f.Code != c.code || !strings.HasPrefix(text.String(), "stanchion: ") || !strings.Contains(text.String(), c.what) || !strings.HasSuffix(text.String(), want) {
				t.Errorf("code %s, printed\n%swant code %s, %q, and last\n%s", f.Code, text.String(), c.code, c.what, want)
			}
		})
	}
}

// TestFailure_ofACommandLineSaysWhatToGive: exit 2, and nothing is asked.
func TestFailure_ofACommandLineSaysWhatToGive(t *testing.T) {
	for line, want := range map[string]string{
		"locks":                      "stanchion: usage: no cluster is named\nwhat to do: give --endpoints, set STANCHION_ENDPOINTS to the nodes' addresses, or put them into the profile default in FOLDER/stanchion/profiles.yaml\n",
		"locks --endpoints http://a": "stanchion: usage: no API key is given\nwhat to do: set STANCHION_API_KEY, give --api-key-file, or put api_key_file into the profile default in FOLDER/stanchion/profiles.yaml\n",
		"locks --profile staging":    "stanchion: usage: --profile names the profile staging, and there are none\nwhat to do: make the file FOLDER/stanchion/profiles.yaml with 'profiles:' and under it the name, with endpoints, api_key_file and ca_file\n",
		"clas":                       "stanchion: usage: unknown command \"clas\" for \"stanchion\"\nwhat to do: did you mean class? Otherwise see 'stanchion --help'\n",
		"class lsit":                 "stanchion: usage: unknown command \"lsit\" for \"stanchion class\"\nwhat to do: did you mean lint, list or wait? Otherwise see 'stanchion class --help'\n",
		"locks force-relase":         "stanchion: usage: unknown command \"force-relase\" for \"stanchion locks\"\nwhat to do: did you mean force-release? Otherwise see 'stanchion locks --help'\n",
		"locks --clas ledger":        "stanchion: usage: unknown flag: --clas\nwhat to do: did you mean --class? Otherwise see 'stanchion locks --help'\n",
		"locks --nothing-like-it":    "stanchion: usage: unknown flag: --nothing-like-it\nwhat to do: see 'stanchion locks --help'\n",
		"locks --output xml":         "stanchion: usage: --output xml is none of table, json\nwhat to do: see 'stanchion locks --help'\n",
		"class lint --output x f":    "stanchion: usage: --output x is none of table, json, annotations\nwhat to do: see 'stanchion class lint --help'\n",
		"audit search --order up":    "stanchion: usage: --order up is none of desc, asc\nwhat to do: see 'stanchion audit search --help'\n",
		"why ledger-close":           "stanchion: accepts 2 arg(s), received 1\nwhat to do: see 'stanchion why --help'\n",
	} {
		bare(t)
		out, said, code := executed(t, strings.Fields(line)...)
		if want = strings.ReplaceAll(want, "FOLDER", os.Getenv("XDG_CONFIG_HOME")); said != want || out != "" || code != exitUsage {
			t.Errorf("%s: exit %d, printed %q and\n%swant exit 2 and\n%s", line, code, out, said, want)
		}
	}
}

// TestFailure_ofTheOperatorsSocketSaysWhereItIs: there is no such socket, or nobody listens at it.
func TestFailure_ofTheOperatorsSocketSaysWhereItIs(t *testing.T) {
	bare(t)
	_, said, code := executed(t, "cluster", "status", "--socket", filepath.Join(t.TempDir(), "admin.sock"))
	want := "what to do: start the node, or name with --socket the admin.sock in the data folder of one that runs on this machine\n"
	if code != exitFailed || !strings.HasSuffix(said, want) {
		t.Errorf("exit %d,\n%swant exit 1 and\n%s", code, said, want)
	}
}

// TestFailure_ofAPortThatIsTakenIsNoMissingCluster: a node that cannot listen is not told to look for nodes.
func TestFailure_ofAPortThatIsTakenIsNoMissingCluster(t *testing.T) {
	err := fmt.Errorf("listen: %w", &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)})
	if f := explain(err, newRoot(), true); f.Code != "address_in_use" || strings.Contains(f.Remedy, "--endpoints") {
		t.Errorf("got %+v", f)
	}
}

// TestFailure_isAnObjectForPrograms: with --output json standard error has one object, and standard output nothing.
func TestFailure_isAnObjectForPrograms(t *testing.T) {
	for _, c := range []struct {
		line, code string
		exit       int
	}{
		{"locks --output json", "unauthorized", exitFailed}, {"class list --output=json", "unauthorized", exitFailed},
		{"locks --output json --clas x", "usage", exitUsage}, {"locks --clas x --output json", "usage", exitUsage},
		{"why a --output json", "usage", exitUsage}, {"profile show --profile none --output json", "usage", exitUsage},
		{"class lint missing.yaml --output json", "no_file", exitFailed},
	} {
		bare(t)
		p := wire.NewProblem(wire.CodeUnauthorized, "")
		p.RequestID = "r1"
		t.Setenv(envEndpoints, serverOf(t, false, answerProblem(p)).URL)
		t.Setenv(envAPIKey, "stn_test")
		out, said, code := executed(t, strings.Fields(c.line)...)
		var got struct {
			Error failure `json:"error"`
		}
		d := json.NewDecoder(strings.NewReader(said))
		d.DisallowUnknownFields()
		err := d.Decode(&got)
		_, rest := d.Token()
		if err != nil || !errors.Is(rest, io.EOF) || got.Error.Code != c.code || got.Error.Title == "" || got.Error.Detail == "" || got.Error.Remedy == "" ||
			out != "" || code != c.exit {
			t.Errorf("%s: exit %d, printed %q and %s (%v); want exit %d and one object with %s", c.line, code, out, said, err, c.exit, c.code)
		}
		if c.code == "unauthorized" && (got.Error.Status != http.StatusUnauthorized || got.Error.RequestID != "r1") {
			t.Errorf("%s: %+v lacks the status or the request", c.line, got.Error)
		}
	}
}

func TestFailure_printsNothingThatActsOnATerminal(t *testing.T) {
	var text strings.Builder
	f := explain(withRemedy(errors.New("a\x1b[2Jb\nc"), "d\x1be"), newRoot(), true)
	if err := f.print(&text, false); err != nil || text.String() != "stanchion: a\ufffd[2Jb\nc\nwhat to do: d\ufffde\n" {
		t.Errorf("printed %q, %v", text.String(), err)
	}
}

// TestCall_isGivenUpWhereNothingWouldChange: what is the same every time is not tried for half a minute.
func TestCall_isGivenUpWhereNothingWouldChange(t *testing.T) {
	for name, test := range map[string]struct {
		secure bool
		handle http.HandlerFunc
	}{
		"an unknown authority": {true, func(http.ResponseWriter, *http.Request) {}}, "another server's page": {false, http.NotFound},
	} {
		bare(t)
		t.Setenv(envAPIKey, "stn_test")
		api, err := (&clientOptions{endpoints: serverOf(t, test.secure, test.handle).URL}).client()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), apiCallTime)
		_, err = api.call(ctx, apiRequest{method: http.MethodGet, path: "/v1/locks"}, &wire.LockList{})
		if err == nil || ctx.Err() != nil || strings.Contains(err.Error(), "no node decided") {
			t.Errorf("%s: %v, and the time is over: %v; want an error at once", name, err, ctx.Err())
		}
		cancel()
	}
}

// TestCall_goesOnToANodeThatAnswers: one address that leads nowhere, or elsewhere, ends nothing.
func TestCall_goesOnToANodeThatAnswers(t *testing.T) {
	bare(t)
	t.Setenv(envAPIKey, "stn_test")
	node := serverOf(t, false, func(w http.ResponseWriter, _ *http.Request) { answerJSON(t, w, http.StatusOK, wire.LockList{}) })
	page := serverOf(t, false, http.NotFound)
	untrusted := serverOf(t, true, http.NotFound)
	api, err := (&clientOptions{endpoints: strings.Join([]string{"http://127.0.0.1:1", page.URL, untrusted.URL, node.URL}, ",")}).client()
	if err != nil {
		t.Fatal(err)
	}
	api.patience = 0
	if _, err := api.locks(t.Context(), nil); err != nil {
		t.Errorf("got %v; want the last node's answer", err)
	}
}

// TestCall_isRepeatedWhileItMayHelp: half a minute while nodes answer, some seconds while none takes a connection.
func TestCall_isRepeatedWhileItMayHelp(t *testing.T) {
	notLeader, err := json.Marshal(wire.NewProblem(wire.CodeNotLeader, ""))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		answer   func() (*http.Response, error)
		patience time.Duration
	}{
		"no node leads": {func() (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(bytes.NewReader(notLeader))}, nil
		}, apiCallTime},
		"nobody listens": {func() (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}, apiAbsentTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := &apiClient{endpoints: []string{"http://a.test", "http://b.test"}, patience: apiCallTime, answerTime: 2 * apiCallTime}
			api.http = &http.Client{Transport: answering(test.answer)}
			began := time.Now()
			_, err := api.call(t.Context(), apiRequest{method: http.MethodGet, path: "/v1/locks"}, nil)
			if took := time.Since(began); err == nil || took < test.patience || took > test.patience+apiPauseMax {
				t.Errorf("%s: given up after %s of virtual time, %v; want %s and at most a pause more", name, took, err, test.patience)
			}
		})
	}
}

// answering answers requests without a server.
type answering func() (*http.Response, error)

func (f answering) RoundTrip(*http.Request) (*http.Response, error) { return f() }
