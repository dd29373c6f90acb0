package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/stanchion-locks/stanchion/client"
)

// helperVariable makes this test's program a process that does what it says.
const helperVariable = "STANCHION_E2E_HELPER"

// helper is a process beside the test: it holds a key until it is killed or, without a key, takes all processor time that it gets.
type helper struct {
	Nodes  []string `json:"nodes"`
	APIKey string   `json:"api_key"`
	Class  string   `json:"class"`
	Key    string   `json:"key"`
}

func init() {
	spec := os.Getenv(helperVariable)
	if spec == "" {
		return
	}
	if err := help(spec, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// help does what a process beside the test is for, until in ends.
func help(spec string, in io.Reader, out io.Writer) error {
	var h helper
	if err := json.Unmarshal([]byte(spec), &h); err != nil {
		return err
	}
	if h.Key == "" {
		stop := spin()
		defer stop()
	} else {
		s, err := sdk.New(h.Nodes, h.APIKey)
		if err != nil {
			return err
		}
		l, err := s.Acquire(context.Background(), h.Class, h.Key)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "token %d\n", l.Token())
	}
	bufio.NewScanner(in).Scan()
	return nil
}

// spin keeps all processors busy until it is stopped.
func spin() (stop func()) {
	var over atomic.Bool
	var wait sync.WaitGroup
	for range runtime.NumCPU() {
		wait.Go(func() {
			for !over.Load() {
			}
		})
	}
	return func() {
		over.Store(true)
		wait.Wait()
	}
}

// startHelper starts a process beside the test, which ends when the returned function is called.
func startHelper(t *testing.T, h helper) (p *process, end func()) {
	t.Helper()
	spec, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() // the process has its own
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), helperVariable+"="+string(spec))
	cmd.Stdin = in
	p = start(t, cmd)
	return p, func() {
		_ = hold.Close()
		p.wait(t)
	}
}

// takeFromTheDead kills a process that has held a lease for a while. Another client tries for its key each second: it is refused because the key is
// held, until it is granted with a higher token.
func takeFromTheDead(t *testing.T, c *cluster) {
	ctx := c.caseContext()
	p, end := startHelper(t, helper{Nodes: c.urls(), APIKey: c.file.APIKey, Class: classShort, Key: "dead"})
	defer end()
	var token uint64
	await(t, "the process to hold its key", func() error {
		_, err := fmt.Sscanf(p.out.String(), "token %d", &token)
		return err
	})
	s := c.member(c.urls(), nil)
	await(t, "its lease to be renewed", func() error {
		now, err := s.Leader(ctx, classShort, "dead")
		if err == nil && (now.Token != token || now.LastHeartbeat.Sub(now.Since) < time.Second) {
			return fmt.Errorf("got %+v", now)
		}
		return err
	})
	kill9(p.cmd.Process.Pid)
	killed := time.Now()
	l, tries := tryEachSecond(ctx, t, s, "dead")
	t.Logf("granted %v after the holder was killed, at try %d", time.Since(killed).Round(time.Millisecond), tries)
	if l.Token() <= token {
		t.Errorf("tokens: got %d after %d, want a higher one", l.Token(), token)
	}
	if err := l.Release(ctx); err != nil && !errors.Is(err, sdk.ErrDeadline) {
		t.Error(err)
	}
}

// tryEachSecond tries for a key until it is granted.
func tryEachSecond(ctx context.Context, t *testing.T, s *sdk.Client, key string) (l *sdk.Lease, tries int) {
	t.Helper()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for tries = 1; ; tries++ {
		l, err := s.TryAcquire(ctx, classShort, key)
		if err == nil {
			return l, tries
		}
		if !errors.Is(err, sdk.ErrHeld) {
			t.Fatalf("try %d: got %v, want ErrHeld", tries, err)
		}
		<-again.C
	}
}

const (
	pressedKeys   = 20
	pressedGrants = 3                       // of each key, at least
	pressedHold   = 2500 * time.Millisecond // longer than a lease
	pressedLook   = 20 * time.Millisecond
)

// pressed is a key under contention and everybody who has held it.
type pressed struct {
	key    string
	judge  *judge
	enough context.CancelFunc // called when it was used often enough

	mu   sync.Mutex
	had  []*sdk.Lease // guarded by mu
	used int          // guarded by mu; holds that were used
}

// holdUnderPressure has three clients contend for each of twenty keys while this process and another one take all processor time. Whoever looks
// at its lease and finds it held is alone; who was granted the key before knows by then that it has lost it.
func holdUnderPressure(t *testing.T, c *cluster) {
	const clients = 3
	ctx := c.caseContext()
	_, endHelper := startHelper(t, helper{})
	defer endHelper()
	defer spin()()
	j := newJudge()
	keys := make([]*pressed, pressedKeys)
	members := make([]*sdk.Client, clients)
	for i := range members {
		members[i] = c.member(c.urls(), nil)
	}
	var wait sync.WaitGroup
	for i := range keys {
		open, enough := context.WithCancel(ctx)
		defer enough()
		k := &pressed{key: fmt.Sprintf("pressed-%d", i), judge: j, enough: enough}
		keys[i] = k
		for _, s := range members {
			wait.Go(func() { k.contend(open, s) })
		}
	}
	wait.Wait()
	for _, found := range j.verdict() {
		t.Error(found)
	}
	for _, k := range keys {
		if k.used < pressedGrants {
			t.Errorf("%s: used under %d leases, want %d at least", k.key, k.used, pressedGrants)
		}
	}
	t.Logf("%d leases were used; lost at their deadlines: %d", j.granted(), lostOf(keys))
}

// lostOf counts the leases that were not released.
func lostOf(keys []*pressed) (n int) {
	for _, k := range keys {
		for _, l := range k.had {
			if !errors.Is(l.Err(), sdk.ErrReleased) {
				n++
			}
		}
	}
	return n
}

// contend acquires the key and uses it, again and again until ctx ends. A machine that has no time may be refused it too.
func (k *pressed) contend(ctx context.Context, s *sdk.Client) {
	for ctx.Err() == nil {
		l, err := s.Acquire(ctx, classPressed, k.key)
		if err != nil {
			wait(ctx, pauseMax)
			continue
		}
		k.granted(l)
		k.use(l)
		_ = l.Release(context.WithoutCancel(ctx)) // a loss is told by the lease, and judged
	}
}

// granted checks that whoever was granted the key before knows that its hold is over.
func (k *pressed) granted(l *sdk.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, before := range k.had {
		if before.Token() < l.Token() && before.Err() == nil {
			k.judge.find("%s: token %d was granted while token %d is held", k.key, l.Token(), before.Token())
		}
	}
	k.had = append(k.had, l)
}

// use looks at the lease again and again, and tells the judge from when to when it was found held.
func (k *pressed) use(l *sdk.Lease) {
	look := time.NewTicker(pressedLook)
	defer look.Stop()
	began := time.Now()
	for now := began; now.Sub(began) < pressedHold; <-look.C {
		now = time.Now() // before the look: held then
		if l.Err() != nil {
			return
		}
		if k.found(l, now) {
			k.count()
		}
	}
}

func (k *pressed) count() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used++
	if k.used == pressedGrants {
		k.enough()
	}
}

// found tells the judge that a lease was held at a time, and reports whether that was the first time.
func (k *pressed) found(l *sdk.Lease, now time.Time) (first bool) {
	k.judge.note(l.ID(), func(c *claim) {
		if first = c.from.IsZero(); first {
			c.key, c.asked, c.from, c.token = k.key, now, now, l.Token()
		}
		c.to = now
	})
	return first
}
