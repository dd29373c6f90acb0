package raftnode

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func TestFSM_hungApplyIsFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fatals{}
		m := &blocked{entered: make(chan struct{}, 1), release: make(chan struct{})}
		adapter := &fsm{machine: m, limit: ProductionProfile().ApplyLimit, fatal: f.add, stuck: func() {}}
		applied := make(chan any, 1)
		go func() { applied <- adapter.Apply(&raft.Log{Index: 1}) }()
		<-time.After(ProductionProfile().ApplyLimit + time.Millisecond)
		synctest.Wait()
		if got := f.all(); len(got) != 1 || !errors.Is(got[0], ErrApplyHung) {
			t.Errorf("fatal: got %v, want once %v", got, ErrApplyHung)
		}
		close(m.release)
		<-applied
	})
}

// A follower with a divergent log can install one snapshot for ever; only a restart, which cuts the log, ends that.
func TestFSM_thirdInstallInARowAsksForRestart(t *testing.T) {
	asked := 0
	adapter := &fsm{machine: &ledger{}, limit: time.Minute, fatal: func(error) {}, stuck: func() { asked++ }}
	at := snapshotID{index: 7, term: 2}
	restore := func() {
		t.Helper()
		page := readCloser{bytes.NewReader(make([]byte, 16))}
		if err := adapter.Restore(wrapped{namedStream{page, at}}); err != nil {
			t.Fatal(err)
		}
	}
	for ; at.index < 12; at.index++ { // one after the other is no loop
		restore()
	}
	restore()
	restore()
	adapter.Apply(&raft.Log{Index: 1})
	restore()
	restore()
	if asked != 0 {
		t.Errorf("restarts asked for with an entry in between: got %d, want none", asked)
	}
	restore()
	restore()
	if asked != 1 {
		t.Errorf("restarts asked for: got %d, want 1", asked)
	}
}

// wrapped is a stream as Raft hands it on.
type wrapped struct{ io.ReadCloser }

func (w wrapped) WrappedReadCloser() io.ReadCloser { return w.ReadCloser }

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

func TestGroup_leaderThatStoodStillGivesUp(t *testing.T) {
	c := newTestCluster(t, 1, "p1")
	c.start()
	g := c.leader("p1").groups["p1"]
	before := g.live.Load()
	g.checkLag(g.cfg.Profile.LagLimit)
	if len(g.restarts) != 0 {
		t.Error("a lag within the limit asks for a restart")
	}
	g.checkLag(g.cfg.Profile.LagLimit + 1)
	eventually(t, "the group to be restarted", func() bool { now := g.live.Load(); return now != nil && now != before })
	c.leader("p1")

	var lags []time.Duration
	g.cfg.OnLag = func(lag time.Duration) { lags = append(lags, lag) }
	g.checkLag(time.Hour)
	if len(lags) != 1 || lags[0] != time.Hour {
		t.Errorf("lags told: got %v, want one of an hour", lags)
	}
}

func TestLogPump_neverWaitsAndCountsWhatItDrops(t *testing.T) {
	hung := make(chan struct{})
	var out logBook
	pump := newLogPump(hangingThen{hung, slog.NewTextHandler(&out, nil)})
	logger := newRaftLogger(pump, "raft")
	const many = logRecordsMax + 100
	for i := range many { // returns although nothing is written
		logger.With("peer", "n2").Info("a line", "number", i, "formatted", hclog.Fmt("%d-%s", 7, "x"))
	}
	close(hung)
	pump.close(t.Context())
	if !out.has("a line", "component=raft", "peer=n2", "formatted=7-x") {
		t.Errorf("log: got %q, want the line with its attributes", out.buf.String()[:200])
	}
	if got := strings.Count(out.buf.String(), "a line"); got > logRecordsMax+1 || got < logRecordsMax {
		t.Errorf("lines written: got %d, want about %d", got, logRecordsMax)
	}
}

// hangingThen blocks until hung is closed and passes records on from then.
type hangingThen struct {
	hung <-chan struct{}
	slog.Handler
}

func (h hangingThen) Handle(ctx context.Context, r slog.Record) error {
	<-h.hung
	return h.Handler.Handle(ctx, r)
}

func (h hangingThen) WithAttrs(attrs []slog.Attr) slog.Handler {
	return hangingThen{h.hung, h.Handler.WithAttrs(attrs)}
}

func TestLogPump_levels(t *testing.T) {
	pump := newLogPump(slog.NewTextHandler(&logBook{}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	defer pump.close(t.Context())
	logger := newRaftLogger(pump, "raft")
	if logger.IsInfo() || !logger.IsWarn() || logger.GetLevel() != hclog.Warn {
		t.Errorf("level: got %v, want %v", logger.GetLevel(), hclog.Warn)
	}
}

// Two of the library's calls are traps: one confirms leaderships that have ended, the other can leave a node that
// refuses all writes. No Go file of this repository may name them.
func TestRepository_namesNeitherTrap(t *testing.T) {
	trap := regexp.MustCompile(`\b(Verify` + `Leader|Leadership` + `Transfer(ToServer)?)\b`)
	root := repositoryRoot(t)
	files := 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if err == nil && trap.Match(text) {
			t.Errorf("%s: names %s", path, trap.Find(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("files read: got %d, want the whole repository", files)
	}
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above this package")
		}
		dir = parent
	}
}
