package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// transcriptLimit is for anything in a transcript that must come about, on the busiest machine.
const transcriptLimit = 30 * time.Second

// transcripts reads the scripts, by name.
func transcripts(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("transcripts: got %v, %v", files, err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".txt")] = string(text)
	}
	return all
}

// playAll plays every transcript with a driver.
func playAll(t *testing.T, drive driver) {
	scripts := transcripts(t)
	played := together(slices.Sorted(maps.Keys(scripts)), func(name string) error {
		return play(t.Context(), scripts[name], drive, transcriptLimit)
	})
	for name, err := range played {
		t.Run(name, func(t *testing.T) {
			if err != nil {
				t.Error(err)
			}
		})
	}
}

const playsMax = 4 // transcripts that are played at a time; they wait more than they work

// together plays some at a time, and gives how each went, in order.
func together(names []string, play func(name string) error) iter.Seq2[string, error] {
	errs := make([]error, len(names))
	var group errgroup.Group
	group.SetLimit(playsMax)
	for i, name := range names {
		group.Go(func() error {
			errs[i] = play(name)
			return nil
		})
	}
	_ = group.Wait() // none fails
	return func(yield func(string, error) bool) {
		for i, name := range names {
			if !yield(name, errs[i]) {
				return
			}
		}
	}
}

// program is a driver that is a process of its own. What it complains of goes to the test's output.
func program(t *testing.T, name string, args ...string) driver {
	return func(ctx context.Context, commands io.Reader, reports io.Writer) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		complaints := &strings.Builder{}
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = reports, complaints, time.Second
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		_, _ = io.Copy(in, commands) // ends with the script, or with the program
		_ = in.Close()
		err = cmd.Wait()
		if err != nil {
			t.Logf("%s: %v\n%s", cmd, err, complaints)
		}
		return err
	}
}

const python = "python3"

// TestTranscripts_pythonClientKeepsThem plays every transcript with the Python client.
func TestTranscripts_pythonClientKeepsThem(t *testing.T) {
	playAll(t, program(t, python, "python/transcriptdriver.py"))
}

// TestTranscripts_goClientKeepsThem plays every transcript with this package.
func TestTranscripts_goClientKeepsThem(t *testing.T) { playAll(t, driveGo) }

// TestTranscripts_otherClientKeepsThem plays them with the client that STANCHION_TRANSCRIPT_DRIVER names, a command for sh. Without it,
// that is the Python client once more, started as such a command is.
func TestTranscripts_otherClientKeepsThem(t *testing.T) {
	command := os.Getenv("STANCHION_TRANSCRIPT_DRIVER")
	if command == "" {
		command = "exec " + python + " python/transcriptdriver.py"
		name := "grant-and-release"
		if err := play(t.Context(), transcripts(t)[name], program(t, "sh", "-c", command), transcriptLimit); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	playAll(t, program(t, "sh", "-c", command))
}

// TestTranscripts_findWrongClients plays transcripts with clients that break one rule each, and wants each to be found by the
// transcript that is about the rule.
func TestTranscripts_findWrongClients(t *testing.T) {
	list, err := exec.CommandContext(t.Context(), python, "-B", "python/wrongdriver.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	scripts, about := transcripts(t), map[string]string{}
	for line := range strings.Lines(string(list)) {
		wrong, script, _ := strings.Cut(strings.TrimSpace(line), " ")
		about[wrong] = script
	}
	played := together(slices.Sorted(maps.Keys(about)), func(wrong string) error {
		return play(t.Context(), scripts[about[wrong]], program(t, python, "python/wrongdriver.py", wrong), wrongLimit)
	})
	for wrong, err := range played {
		t.Run(wrong, func(t *testing.T) {
			switch {
			case scripts[about[wrong]] == "":
				t.Errorf("there is no transcript %q", about[wrong])
			case err == nil:
				t.Errorf("%s: got no error for a client that does this: %s", about[wrong], wrong)
			case strings.Contains(err.Error(), "is broken"):
				t.Errorf("%s: the client is broken, rather than wrong: %v", about[wrong], err)
			}
			t.Logf("%s: %v", about[wrong], err)
		})
	}
}

// wrongLimit is for what a wrong client is to leave out: some of these tests wait for it.
const wrongLimit = 3 * time.Second

// TestTranscript_isRefusedIfItMakesNoSense wants mistakes in a transcript to be told.
func TestTranscript_isRefusedIfItMakesNoSense(t *testing.T) {
	for name, text := range map[string]string{
		"continues nothing":   "  {}",
		"no such statement":   "shout one",
		"nothing to answer":   "answer 200",
		"no such command":     "tell dance one",
		"a report not said":   "report granted one",
		"a request not made":  "request PUT /v1/leases/$SESSION.1",
		"more than requested": "tell acquire one {\"class\": \"jobs\", \"key\": \"nightly\"}\nquiet 5s",
		"unread JSON":         "tell acquire one {class}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := play(t.Context(), text, driveGo, time.Second); err == nil {
				t.Error("got no error")
			}
		})
	}
}

// TestPython_unitTestsPass runs the Python client's own tests.
func TestPython_unitTestsPass(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), python, "-B", "-m", "unittest", "test_stanchion")
	cmd.Dir = "python"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}

// goDriver drives this package's client for the transcripts.
type goDriver struct {
	client *client.Client
	out    *json.Encoder
	work   sync.WaitGroup // commands under way

	mu       sync.Mutex // guards out and what follows
	leases   map[string]*client.Lease
	cancels  map[string]context.CancelFunc
	proceeds map[string]chan struct{} // closed when slow work has stopped
}

// command is one line of what a driver is told.
type command struct {
	Do         string         `json:"do"`
	Lease      string         `json:"lease"`
	Endpoints  []string       `json:"endpoints"`
	APIKey     string         `json:"api_key"`
	Class      string         `json:"class"`
	Key        string         `json:"key"`
	Wait       *wire.Duration `json:"wait"`
	StopSlowly bool           `json:"stop_slowly"`
}

// driveGo is the driver of this package's client.
func driveGo(ctx context.Context, commands io.Reader, reports io.Writer) error {
	d := &goDriver{out: json.NewEncoder(reports), leases: map[string]*client.Lease{}, cancels: map[string]context.CancelFunc{},
		proceeds: map[string]chan struct{}{}}
	lines := json.NewDecoder(commands)
	for {
		var c command
		if err := lines.Decode(&c); err != nil {
			return d.end(ctx, err)
		}
		if err := d.do(ctx, c); err != nil {
			return errors.Join(err, d.end(ctx, io.EOF))
		}
	}
}

// end stops everything; err is why there are no more commands.
func (d *goDriver) end(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	d.mu.Lock()
	for _, cancel := range d.cancels {
		cancel()
	}
	for lease := range d.proceeds {
		d.proceed(lease)
	}
	d.mu.Unlock()
	if d.client != nil {
		ctx, cancel := context.WithTimeout(ctx, transcriptLimit)
		defer cancel()
		_ = d.client.Close(ctx) // the script is over
	}
	d.work.Wait()
	return err
}

func (d *goDriver) do(ctx context.Context, c command) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch c.Do {
	case "start":
		d.client, err = client.New(c.Endpoints, c.APIKey, client.WithHolder("driver"))
	case "acquire":
		ctx, cancel := context.WithCancel(ctx)
		d.cancels[c.Lease], d.proceeds[c.Lease] = cancel, make(chan struct{})
		d.work.Go(func() { d.acquire(ctx, c) })
	case "cancel":
		d.cancels[c.Lease]()
	case "proceed":
		d.proceed(c.Lease)
	case "check":
		d.work.Go(func() { d.check(c.Lease) })
	case "release":
		d.work.Go(func() { d.release(ctx, c.Lease) })
	case "close":
		d.work.Go(func() { d.close(ctx) })
	default:
		err = fmt.Errorf("there is no command %q", c.Do)
	}
	return err
}

// proceed has slow work be over; with mu held.
func (d *goDriver) proceed(lease string) {
	select {
	case <-d.proceeds[lease]:
	default:
		close(d.proceeds[lease])
	}
}

func (d *goDriver) lease(name string) *client.Lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leases[name]
}

func (d *goDriver) say(event, lease string, fields map[string]any) {
	all := map[string]any{"event": event, "lease": lease}
	maps.Copy(all, fields)
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.out.Encode(all) // nobody listens when the script has failed
}

func (d *goDriver) acquire(ctx context.Context, c command) {
	var opts []client.AcquireOption
	if c.Wait != nil {
		opts = append(opts, client.Wait(c.Wait.Std()))
	}
	opts = append(opts, client.OnQueued(func(p client.Place) { d.say("queued", c.Lease, map[string]any{"position": p.Position}) }))
	l, err := d.client.Acquire(ctx, c.Class, c.Key, opts...)
	if err != nil {
		d.say("refused", c.Lease, map[string]any{"reason": wordOf(err)})
		return
	}
	d.mu.Lock()
	d.leases[c.Lease] = l
	proceed := d.proceeds[c.Lease]
	d.mu.Unlock()
	l.OnDoubt(func(error) { d.say("doubt", c.Lease, nil) })
	l.OnLost(func(cause error) {
		d.say("lost", c.Lease, map[string]any{"cause": wordOf(cause)})
		if c.StopSlowly {
			<-proceed
		}
	})
	d.say("granted", c.Lease, map[string]any{"token": l.Token(), "epoch": l.Epoch(), "posture_version": l.PostureVersion(),
		"claim": l.Claim().ID, "protected": l.Protected()})
}

func (d *goDriver) check(lease string) {
	err := d.lease(lease).Err()
	fields := map[string]any{"held": err == nil}
	if err != nil {
		fields["cause"] = wordOf(err)
	}
	d.say("checked", lease, fields)
}

func (d *goDriver) release(ctx context.Context, lease string) {
	if err := d.lease(lease).Release(ctx); err != nil {
		d.say("not_released", lease, map[string]any{"reason": wordOf(err)})
		return
	}
	d.say("released", lease, nil)
}

func (d *goDriver) close(ctx context.Context) {
	if err := d.client.Close(ctx); err != nil {
		d.say("not_closed", "", nil)
		return
	}
	d.say("closed", "", nil)
}

// wordOf is the transcripts' name of an error.
func wordOf(err error) string {
	for _, named := range []struct {
		word string
		err  error
	}{{"deadline", client.ErrDeadline}, {"revoked", client.ErrRevoked}, {"expired", client.ErrExpired}, {"released", client.ErrReleased},
		{"held", client.ErrHeld}, {"wait_timeout", client.ErrWaitTimeout}, {"queue_full", client.ErrQueueFull},
		{"already_held", client.ErrAlreadyHeld}, {"not_in_force", client.ErrNotInForce}, {"unavailable", client.ErrUnavailable},
		{"closed", client.ErrClosed}, {"cancelled", context.Canceled}} {
		if errors.Is(err, named.err) {
			return named.word
		}
	}
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		return string(p.Code)
	}
	return "other"
}
