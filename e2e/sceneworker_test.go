package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stanchion-locks/stanchion/client/guard"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// sceneVariable makes this test's program a worker of the scene: it says which.
const sceneVariable = "STANCHION_E2E_SCENE"

func init() {
	spec := os.Getenv(sceneVariable)
	if spec == "" {
		return
	}
	if err := workInScene(spec, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scene worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// sceneSpec is who a worker of the scene is and what it works on.
type sceneSpec struct {
	Nodes    []string `json:"nodes"`
	APIKey   string   `json:"api_key"`
	GuardKey string   `json:"guard_api_key"`
	Holder   string   `json:"holder"`
	Lock     lock     `json:"lock"` // its key names the row as well
	Database string   `json:"database"`
}

// sceneLine is what a worker says after a command. An acquire that has to wait says its position first.
type sceneLine struct {
	Did      string      `json:"did"`
	Position int         `json:"position,omitempty"`
	Token    uint64      `json:"token,omitempty"`
	Value    string      `json:"value,omitempty"`
	Stale    *sceneStale `json:"stale,omitempty"` // the guard refused it
}

type sceneStale struct {
	Error     string `json:"error"`
	Presented uint64 `json:"presented"`
	Highest   uint64 `json:"highest"`
}

// sceneWorker is a worker that is naive about time: it never looks at its deadline, nor listens to what its heartbeats are
// told. That is what a pause between looking and writing makes of every worker.
type sceneWorker struct {
	sceneSpec
	caller   caller
	session  string
	token    uint64 // of its grant, which it believes in for ever
	resource sceneResource
	seen     map[string]string // what it has read, by table
	group    errgroup.Group
	out      *json.Encoder
}

const (
	sceneBeatEvery   = 2 * time.Second // the lease is of ten
	sceneReportEvery = 200 * time.Millisecond
)

// workInScene carries out commands, one a line, until exit or the end of in. Nil says that every report of its guard was
// delivered too.
func workInScene(spec string, in io.Reader, out io.Writer) error {
	var s sceneSpec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	reporter, err := guard.NewReporter(guard.ReporterConfig{Endpoints: s.Nodes, APIKey: s.GuardKey, Interval: sceneReportEvery,
		FinalTime: awaitTime / 2, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	resource, err := openSceneResource(s.Database, s.Lock, reporter)
	if err != nil {
		return err
	}
	defer resource.db.Close()
	w := &sceneWorker{sceneSpec: s, caller: caller{client: &client{http: &http.Client{}, nodes: s.Nodes, key: s.APIKey}},
		session: newSession(), resource: resource, seen: map[string]string{}, out: json.NewEncoder(out)}
	ctx, stop := context.WithCancel(context.Background())
	w.group.Go(func() error { return reporter.Run(ctx) })
	err = w.obey(ctx, in)
	stop()
	err = errors.Join(err, w.group.Wait())
	if lost := reporter.Lost(); lost != (guard.Lost{}) {
		err = errors.Join(err, fmt.Errorf("reports were lost: %+v", lost))
	}
	return err
}

func (w *sceneWorker) obey(ctx context.Context, in io.Reader) error {
	commands := bufio.NewScanner(in)
	for commands.Scan() {
		command, rest, _ := strings.Cut(commands.Text(), " ")
		if command == "exit" {
			return nil
		}
		line, err := w.carryOut(ctx, command, rest)
		if err != nil {
			return fmt.Errorf("%s: %w", commands.Text(), err)
		}
		line.Did = command
		if err := w.out.Encode(line); err != nil {
			return err
		}
	}
	return commands.Err()
}

// carryOut does what is said: acquire, enter, read TABLE, write TABLE WHAT, release.
func (w *sceneWorker) carryOut(ctx context.Context, command, rest string) (line sceneLine, err error) {
	switch command {
	case "acquire":
		line.Token, err = w.acquire(ctx)
	case "enter":
		line.Stale, err = refusal(w.resource.enter(ctx, w.token))
	case "read":
		line.Value, err = w.resource.read(ctx, rest)
		w.seen[rest] = line.Value
	case "write":
		table, what, _ := strings.Cut(rest, " ")
		line.Stale, err = refusal(w.write(ctx, table, what))
	case "release":
		_, err = w.caller.call(ctx, attemptTime, http.MethodDelete, leasePath(w.session, 1), nil)
	default:
		err = errors.New("no such command")
	}
	return line, err
}

// write adds to a row: behind the guard to what stands there, without it to what was read a while ago.
func (w *sceneWorker) write(ctx context.Context, table, what string) error {
	if table == sceneGuarded {
		return w.resource.addGuarded(ctx, w.token, what)
	}
	return w.resource.replaceUnguarded(ctx, w.seen[table]+", "+what)
}

// refusal tells the guard's no from what went wrong.
func refusal(err error) (*sceneStale, error) {
	if stale, ok := errors.AsType[*guard.StaleError](err); ok {
		return &sceneStale{err.Error(), stale.Presented, stale.Highest}, nil
	}
	return nil, err
}

// acquire queues until the lock is granted, and keeps it from then on.
func (w *sceneWorker) acquire(ctx context.Context) (token uint64, err error) {
	request := wire.AcquireRequest{Class: w.Lock.Class, Key: w.Lock.Key, Holder: w.Holder, Poll: new(wire.Duration(0))}
	for queued := false; ; request.Poll = nil {
		a, err := w.caller.call(ctx, pollTime, http.MethodPut, leasePath(w.session, 1), request)
		if err != nil {
			return 0, err
		}
		l, err := a.lease()
		switch {
		case err != nil:
			return 0, err
		case l.State == wire.StateGranted:
			w.token = l.Token
			w.group.Go(func() error { return w.keep(ctx) })
			return l.Token, nil
		case !queued:
			queued = true
			if err := w.out.Encode(sceneLine{Did: "queue", Position: l.Position}); err != nil {
				return 0, err
			}
		}
	}
}

// keep sends heartbeats until ctx ends. What they are told changes nothing.
func (w *sceneWorker) keep(ctx context.Context) error {
	beats := caller{client: w.caller.client}
	for {
		_, err := beats.call(ctx, attemptTime, http.MethodPost, "/v1/sessions/"+w.session+"/heartbeat", wire.HeartbeatRequest{Leases: []uint64{1}})
		if err != nil || !wait(ctx, sceneBeatEvery) {
			return nil // ctx has ended: nothing else ends a call without an answer
		}
	}
}
