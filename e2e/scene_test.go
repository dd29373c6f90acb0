package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

const sceneClass = "ledger"

// TestScene_pausedWorkerIsFencedAtTheResource plays what the product is for. Worker A has a lease with token 32 and has read
// what it is going to change; worker B is in line. A's process is stopped past its lease, its writes already on their way to
// it. B is granted token 33 and enters the resource. A goes on, knows nothing, and writes: the guarded row refuses it, by
// A's own check of the token, and the row's twin without a guard takes it, so that what B wrote there is lost. All of it
// can be read in the audit, on every node.
func TestScene_pausedWorkerIsFencedAtTheResource(t *testing.T) {
	c := newCluster(t)
	c.start("--processes", "--restart-after", "0", "--classes",
		writeClasses(t, classFile(sceneClass, "lease: 10s", "heartbeat: 5s", "wait:", "  max_wait: 30m")))
	s := newScene(c)
	s.useUpTokens(t, 31)
	for _, order := range []sceneOrder{
		{"B has entered when A writes", "2026-06-29", 32, []string{"write unguarded B"}, []string{"write guarded B"}},
		{"B has written when A writes", "2026-06-30", 34, []string{"write guarded B", "write unguarded B"}, nil},
	} {
		t.Run(order.name, func(t *testing.T) {
			s.play(t, order)
			s.wantAudit(t, order)
		})
	}
	c.wantSameAudit()
	c.stop(syscall.SIGTERM)
}

// sceneOrder is in which order A and B write.
type sceneOrder struct {
	name          string
	day           string   // key and row
	token         uint64   // A's; B's is the next one
	before, after []string // what B does before A writes, and after that
}

// scene is what the orders share.
type scene struct {
	cluster  *cluster
	client   *client // the workers' own API key
	auditor  *client
	guardKey string
	database string
}

func newScene(c *cluster) *scene {
	c.t.Helper()
	s := &scene{cluster: c, client: newClient(c.t, c.file), database: filepath.Join(c.t.TempDir(), "ledger.db")}
	admin := s.client.with(c.file.AdminKey)
	s.guardKey = admin.createKey(c.t, "guard", "guard:report")
	s.auditor = s.client.with(admin.createKey(c.t, "auditor", "audit:read"))
	r, err := openSceneResource(s.database, lock{}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.db.Close()
	if _, err := r.db.ExecContext(c.t.Context(), sceneSchema); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// with is the client with another API key.
func (c *client) with(key string) *client { return &client{http: c.http, nodes: c.nodes, key: key} }

// createKey makes an API key that every node knows, and returns it.
func (c *client) createKey(t *testing.T, name string, scopes ...string) string {
	t.Helper()
	a := c.must(t, http.MethodPost, "/v1/api-keys", wire.APIKeyRequest{Name: name, Scopes: scopes, ExpiresIn: wire.Duration(time.Hour)})
	var made wire.APIKeyMade
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated {
		t.Fatalf("make API key %s: got %d %s, %v", name, a.status, a.body, err)
	}
	await(t, "every node knows the API key "+name, func() error {
		for _, node := range c.nodes {
			a, err := c.with(made.Secret).once(t.Context(), attemptTime, node, http.MethodGet, "/v1/api-keys/self", nil)
			if err != nil || a.status != http.StatusOK {
				return errors.Join(err, fmt.Errorf("%s answers %d", node, a.status))
			}
		}
		return nil
	})
	return made.Secret
}

// useUpTokens grants until the next token is n+1.
func (s *scene) useUpTokens(t *testing.T, n uint64) {
	t.Helper()
	session := newSession()
	for i := uint64(1); i <= n; i++ {
		l, _ := s.client.acquire(t, session, i, wire.AcquireRequest{Class: sceneClass, Key: "earlier days"})
		if l.Token != i {
			t.Fatalf("grant %d has token %d", i, l.Token)
		}
		s.client.must(t, http.MethodDelete, leasePath(session, i), nil)
	}
}

func (s *scene) play(t *testing.T, order sceneOrder) {
	l := lock{sceneClass, order.day}
	r, err := openSceneResource(s.database, l, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.db.Close()
	if err := r.makeRow(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, b := s.start(t, "worker A", l), s.start(t, "worker B", l)
	newer := order.token + 1

	a.want(sceneLine{Did: "acquire", Token: order.token}, "acquire")
	a.looksAtTheRow(sceneOpened)
	b.want(sceneLine{Did: "queue", Position: 1}, "acquire")
	a.pause("write guarded A", "write unguarded A")
	b.want(sceneLine{Did: "acquire", Token: newer})
	b.looksAtTheRow(sceneOpened)
	b.doAll(order.before)
	a.wantPaused()

	before := s.rows(t, r)
	signal(t, a.cmd.Process.Pid, syscall.SIGCONT)
	a.wantRefused(sceneStale{Presented: order.token, Highest: newer})
	a.want(sceneLine{Did: "write"}) // the twin takes it
	if got, want := s.rows(t, r), (sceneRows{before.guarded, newer, "opened, A"}); got != want || before.fence != newer {
		t.Errorf("after A's writes: got %+v, want %+v; before them: %+v", got, want, before)
	}
	a.exit()

	b.doAll(order.after)
	b.doAll([]string{"release"})
	b.exit()
	if got, want := s.rows(t, r), (sceneRows{"opened, B", newer, "opened, A"}); got != want {
		t.Errorf("at the end: got %+v, want %+v: B's work where there is a guard, and lost where there is none", got, want)
	}
}

func (s *scene) rows(t *testing.T, r sceneResource) sceneRows {
	t.Helper()
	rows, err := r.rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// sceneProcess is a worker's process.
type sceneProcess struct {
	*process
	t     *testing.T
	name  string
	in    *os.File
	heard int // lines of it that the test has looked at
}

func (s *scene) start(t *testing.T, name string, l lock) *sceneProcess {
	t.Helper()
	spec, err := json.Marshal(sceneSpec{Nodes: s.client.nodes, APIKey: s.client.key, GuardKey: s.guardKey, Holder: name, Lock: l,
		Database: s.database})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	commands, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer commands.Close() // the process has its own
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), sceneVariable+"="+string(spec))
	cmd.Stdin = commands
	p := &sceneProcess{process: start(t, cmd), t: t, name: name, in: in}
	t.Cleanup(func() {
		_ = in.Close()
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // a stopped process minds no other signal; it may have ended
	})
	return p
}

// want sends commands and wants the next line to be this one.
func (p *sceneProcess) want(line sceneLine, commands ...string) {
	p.t.Helper()
	p.send(commands...)
	if got := p.next(); got != line {
		p.t.Fatalf("%s said %+v, want %+v; all of it:\n%s", p.name, got, line, p.out.String())
	}
}

func (p *sceneProcess) send(commands ...string) {
	p.t.Helper()
	for _, command := range commands {
		if _, err := fmt.Fprintln(p.in, command); err != nil {
			p.t.Fatalf("tell %s to %s: %v", p.name, command, err)
		}
	}
}

// next waits for the next line.
func (p *sceneProcess) next() (line sceneLine) {
	p.t.Helper()
	await(p.t, p.name+" answers", func() error {
		lines := p.lines()
		switch {
		case len(lines) > p.heard:
			if err := json.Unmarshal([]byte(lines[p.heard]), &line); err != nil {
				p.t.Fatalf("%s said %q: %v", p.name, lines[p.heard], err)
			}
			p.heard++
			return nil
		case p.ended():
			p.t.Fatalf("%s ended: %v\n%s", p.name, p.cmd.ProcessState, p.out.String())
		}
		return errors.New("it says nothing")
	})
	return line
}

// lines are the whole lines of answers; what it logs is text.
func (p *sceneProcess) lines() []string {
	var lines []string
	for line := range strings.Lines(p.out.String()) {
		if strings.HasPrefix(line, "{") && strings.HasSuffix(line, "\n") {
			lines = append(lines, line)
		}
	}
	return lines
}

// looksAtTheRow enters first, then reads both rows.
func (p *sceneProcess) looksAtTheRow(entries string) {
	p.t.Helper()
	p.want(sceneLine{Did: "enter"}, "enter")
	p.want(sceneLine{Did: "read", Value: entries}, "read guarded")
	p.want(sceneLine{Did: "read", Value: entries}, "read unguarded")
}

// doAll sends commands that must succeed.
func (p *sceneProcess) doAll(commands []string) {
	p.t.Helper()
	for _, command := range commands {
		did, _, _ := strings.Cut(command, " ")
		p.want(sceneLine{Did: did}, command)
	}
}

// pause stops the process, and sends commands that wait in its pipe.
func (p *sceneProcess) pause(commands ...string) {
	p.t.Helper()
	signal(p.t, p.cmd.Process.Pid, syscall.SIGSTOP)
	await(p.t, p.name+" is stopped", p.isStopped)
	p.send(commands...)
}

func (p *sceneProcess) isStopped() error {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return err
	}
	_, state, _ := strings.Cut(string(raw), ") ") // behind the program's name
	if !strings.HasPrefix(state, "T") {
		return fmt.Errorf("its state is %.1s", state)
	}
	return nil
}

// wantPaused checks that the process has been able to do nothing.
func (p *sceneProcess) wantPaused() {
	p.t.Helper()
	if err := p.isStopped(); err != nil || len(p.lines()) != p.heard {
		p.t.Fatalf("%s is to be stopped: %v; it said:\n%s", p.name, err, p.out.String())
	}
}

// wantRefused wants a write to have been refused by the guard, in words that name both tokens.
func (p *sceneProcess) wantRefused(want sceneStale) {
	p.t.Helper()
	got := p.next()
	if got.Stale == nil {
		p.t.Fatalf("%s: the guard accepted its write: %+v", p.name, got)
	}
	want.Error = got.Stale.Error
	for _, token := range []uint64{want.Presented, want.Highest} {
		if *got.Stale != want || !strings.Contains(got.Stale.Error, fmt.Sprint(token)) || !strings.Contains(got.Stale.Error, "stale") {
			p.t.Errorf("%s was refused with %+v; want a stale token, %d, with %d entered, named in the words", p.name, *got.Stale,
				want.Presented, want.Highest)
		}
	}
}

// exit ends the process, which has delivered its guard's reports then.
func (p *sceneProcess) exit() {
	p.t.Helper()
	p.send("exit")
	p.wait(p.t)
	p.wantExit(p.t, 0)
}
