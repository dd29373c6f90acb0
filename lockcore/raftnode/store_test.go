package raftnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// fatals records what the store reports as fatal.
type fatals struct {
	mu   sync.Mutex
	errs []error
}

func (f *fatals) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

func (f *fatals) all() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errs
}

func storeConfig(path string, f *fatals) StoreConfig {
	return StoreConfig{
		Path: path, Create: true, WriteLimit: time.Minute, Fatal: f.add,
		Owner: StoreOwner{Cluster: "c", NodeUUID: "u", Group: "p1"},
	}
}

func openTestStore(t *testing.T, path string) *Store {
	t.Helper()
	f := &fatals{}
	s, err := OpenStore(storeConfig(path, f))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if got := f.all(); len(got) > 0 {
			t.Errorf("fatal was called: %v", got)
		}
	})
	return s
}

func entries(first, last, term uint64) []*raft.Log {
	var logs []*raft.Log
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Data: fmt.Appendf(nil, "entry %d of term %d", i, term)})
	}
	return logs
}

func mustStore(t *testing.T, s *Store, logs []*raft.Log) {
	t.Helper()
	if err := s.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
}

func TestStore_keepsEntriesAndRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), storeFile)
	s := openTestStore(t, path)
	if _, err := s.GetUint64([]byte("CurrentTerm")); err == nil || err.Error() != "not found" {
		t.Errorf("missing record: got %v, want an error with the text Raft looks for", err)
	}
	in := entries(1, 3, 7)
	mustStore(t, s, in)
	if in[0].Extensions != nil {
		t.Error("storing changed the caller's entry")
	}
	if err := s.SetUint64([]byte("CurrentTerm"), 7); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTestStore(t, path)
	var got raft.Log
	if err := s.GetLog(2, &got); err != nil || !bytes.Equal(got.Data, in[1].Data) || got.Term != 7 || got.Extensions != nil {
		t.Errorf("entry 2: got %+v, %v, want %+v", got, err, in[1])
	}
	if err := s.GetLog(9, &got); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("missing entry: got %v, want %v", err, raft.ErrLogNotFound)
	}
	if term, err := s.GetUint64([]byte("CurrentTerm")); term != 7 || err != nil {
		t.Errorf("term: got %d, %v, want 7", term, err)
	}
}

// A crash between the two halves of a vote must leave the whole former vote: a new term beside the old candidate would
// let that candidate be voted for without a look at its log.
func TestStore_voteIsOneRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), storeFile)
	s := openTestStore(t, path)
	cast := func(term uint64, candidate string) {
		t.Helper()
		if err := errors.Join(s.SetUint64([]byte(keyVoteTerm), term), s.Set([]byte(keyVoteCandidate), []byte(candidate))); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, term uint64, candidate string) {
		t.Helper()
		gotTerm, err1 := s.GetUint64([]byte(keyVoteTerm))
		gotCandidate, err2 := s.Get([]byte(keyVoteCandidate))
		if gotTerm != term || string(gotCandidate) != candidate || err1 != nil || err2 != nil {
			t.Errorf("vote %s: got %d for %q (%v, %v), want %d for %q", when, gotTerm, gotCandidate, err1, err2, term, candidate)
		}
	}
	cast(5, "n1@a")
	if err := s.SetUint64([]byte(keyVoteTerm), 6); err != nil {
		t.Fatal(err)
	}
	check("half cast", 5, "n1@a")
	if err := s.Close(); err != nil { // the crash
		t.Fatal(err)
	}
	s = openTestStore(t, path)
	check("after the crash", 5, "n1@a")
	cast(6, "n2@b")
	check("cast whole", 6, "n2@b")
}

func TestStore_gateHoldsBackCompactionOnly(t *testing.T) {
	f := &fatals{}
	cfg := storeConfig(filepath.Join(t.TempDir(), storeFile), f)
	var asked []string
	cfg.Gate = func(first, last uint64, bytes int64) uint64 {
		asked = append(asked, fmt.Sprint(first, last, bytes > 0))
		return 4
	}
	s, err := OpenStore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustStore(t, s, entries(1, 10, 1))
	bounds := func(when string, first, last uint64) {
		t.Helper()
		gotFirst, _ := s.FirstIndex()
		gotLast, _ := s.LastIndex()
		if gotFirst != first || gotLast != last {
			t.Errorf("%s: got %d..%d, want %d..%d", when, gotFirst, gotLast, first, last)
		}
	}
	for range 2 {
		if err := s.DeleteRange(1, 8); err != nil {
			t.Fatal(err)
		}
		bounds("after compaction", 5, 10)
	}
	if err := s.DeleteRange(7, 10); err != nil {
		t.Fatal(err)
	}
	bounds("after a conflict", 5, 6)
	if err := s.DeleteRange(5, 6); err != nil {
		t.Fatal(err)
	}
	bounds("after a conflict of all that was left", 0, 0)
	if got, want := fmt.Sprint(asked), "[1 8 true 1 8 true]"; got != want {
		t.Errorf("the gate was asked about %s, want %s", got, want)
	}
}

// countedDeletes is a backend that notes what is removed.
type countedDeletes struct {
	backend
	ranges []string
}

func (c *countedDeletes) DeleteRange(first, last uint64) error {
	c.ranges = append(c.ranges, fmt.Sprintf("%d-%d", first, last))
	return c.backend.DeleteRange(first, last)
}

// What a gate lets go of at once goes in pieces, from the front: a log is whole after each.
func TestStore_compactsInPiecesAndCutsInOne(t *testing.T) {
	s := openTestStore(t, filepath.Join(t.TempDir(), storeFile))
	const end = 2*deletedAtOnceMax + 20
	mustStore(t, s, entries(1, end, 1))
	counted := &countedDeletes{backend: s.below}
	s.below = counted
	if err := s.DeleteRange(1, deletedAtOnceMax+5); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteRange(deletedAtOnceMax+6, end); err != nil {
		t.Fatal(err)
	}
	want := []string{"1-10000", "10001-10005", "10006-20020"}
	if !slices.Equal(counted.ranges, want) {
		t.Errorf("removed %v, want %v", counted.ranges, want)
	}
}

func TestStore_bytesFollowWhatTheLogHolds(t *testing.T) {
	const each, slack = 10_000, 17 << 20 // Bolt allots 16 MiB at a time
	path := filepath.Join(t.TempDir(), storeFile)
	s := openTestStore(t, path)
	if got := s.Bytes(); got <= 0 || got > slack {
		t.Errorf("empty: got %d bytes, want 1..%d", got, slack)
	}
	var all []*raft.Log
	for index := uint64(1); index <= 1000; index++ {
		all = append(all, &raft.Log{Index: index, Term: 1, Data: make([]byte, each)})
	}
	for len(all) > 0 {
		mustStore(t, s, all[:100])
		all = all[100:]
	}
	full := s.Bytes()
	if full < 1000*each || full > 2*1000*each+slack {
		t.Errorf("with 1,000 entries of %d bytes: got %d", each, full)
	}
	if err := s.DeleteRange(1, 900); err != nil {
		t.Fatal(err)
	}
	if got := s.Bytes(); got > full-800*each {
		t.Errorf("with 100 of them left: got %d bytes, with all %d", got, full)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again := openTestStore(t, path).Bytes(); again > full-800*each {
		t.Errorf("opened again: got %d bytes, with all %d", again, full)
	}
}

// A divergent entry at the snapshot's index makes Raft install the snapshot for ever.
func TestStore_sanitiseCutsDivergentTail(t *testing.T) {
	for name, c := range map[string]struct{ term, wantLast uint64 }{
		"divergent": {term: 2, wantLast: 4},
		"the same":  {term: 3, wantLast: 8},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTestStore(t, filepath.Join(t.TempDir(), storeFile))
			mustStore(t, s, entries(1, 8, c.term))
			if err := s.sanitise(snapshotAt(t, 5, 3)); err != nil {
				t.Fatal(err)
			}
			if last, err := s.LastIndex(); last != c.wantLast || err != nil {
				t.Errorf("last index: got %d, %v, want %d", last, err, c.wantLast)
			}
		})
	}
}

func TestStore_sanitiseRefusesGap(t *testing.T) {
	s := openTestStore(t, filepath.Join(t.TempDir(), storeFile))
	mustStore(t, s, append(entries(1, 3, 1), entries(7, 9, 1)...))
	err := s.sanitise(snapshotAt(t, 4, 1))
	refused(t, "entries 5 and 6 missing", err, ErrLogGap, "join again under a new node id")
	if err := s.sanitise(snapshotAt(t, 6, 1)); err != nil {
		t.Errorf("a gap below the snapshot: got %v, want no error", err)
	}
}

func snapshotAt(t *testing.T, index, term uint64) raft.SnapshotStore {
	t.Helper()
	snapshots := raft.NewInmemSnapshotStore()
	_, trans := raft.NewInmemTransport("")
	sink, err := snapshots.Create(1, index, term, raft.Configuration{}, 1, trans)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	return snapshots
}

// faultyBackend is a store below that can be told to fail or hang.
type faultyBackend struct {
	*raft.InmemStore
	err   error
	hang  chan struct{}
	panic bool
}

func (b *faultyBackend) fault() error {
	if b.hang != nil {
		<-b.hang
	}
	if b.panic {
		panic("page 7 is not a page")
	}
	return b.err
}

func (b *faultyBackend) StoreLogs(logs []*raft.Log) error {
	if err := b.fault(); err != nil {
		return err
	}
	return b.InmemStore.StoreLogs(logs)
}

func (b *faultyBackend) DeleteRange(first, last uint64) error {
	if err := b.fault(); err != nil {
		return err
	}
	return b.InmemStore.DeleteRange(first, last)
}

func (b *faultyBackend) Set(key, value []byte) error {
	if err := b.fault(); err != nil {
		return err
	}
	return b.InmemStore.Set(key, value)
}

func (b *faultyBackend) Close() error { return nil }

func TestStore_firstErrorIsItsLast(t *testing.T) {
	disk := errors.New("input/output error")
	for name, op := range map[string]func(*Store) error{
		"append":   func(s *Store) error { return s.StoreLogs(entries(3, 4, 1)) },
		"truncate": func(s *Store) error { return s.DeleteRange(1, 1) },
		"record":   func(s *Store) error { return s.SetUint64([]byte("CurrentTerm"), 2) },
		"vote": func(s *Store) error {
			return errors.Join(s.SetUint64([]byte(keyVoteTerm), 2), s.Set([]byte(keyVoteCandidate), []byte("n1")))
		},
	} {
		for _, panics := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s panics %v", name, panics), func(t *testing.T) {
				f := &fatals{}
				below := &faultyBackend{InmemStore: raft.NewInmemStore()}
				s := newStore(below, errNotFound, storeConfig("", f))
				mustStore(t, s, entries(1, 2, 1))
				below.err, below.panic = disk, panics
				if err := op(s); !errors.Is(err, ErrStorage) {
					t.Errorf("failing write: got %v, want %v", err, ErrStorage)
				}
				below.err, below.panic = nil, false // the disk seems well again; it must not be believed
				first := s.Err()
				for what, again := range map[string]error{
					"append": s.StoreLogs(entries(3, 3, 1)), "read": s.GetLog(1, &raft.Log{}), "vote term": s.SetUint64([]byte(keyVoteTerm), 9),
				} {
					if again != first {
						t.Errorf("%s afterwards: got %v, want the first error again", what, again)
					}
				}
				if got := f.all(); len(got) != 1 || got[0] != first {
					t.Errorf("fatal calls: got %v, want one, with the first error", got)
				}
			})
		}
	}
}

func TestStore_hungWriteIsFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fatals{}
		below := &faultyBackend{InmemStore: raft.NewInmemStore(), hang: make(chan struct{})}
		cfg := storeConfig("", f)
		cfg.WriteLimit = ProductionProfile().WriteLimit
		s := newStore(below, errNotFound, cfg)
		returned := make(chan error, 1)
		go func() { returned <- s.StoreLogs(entries(1, 1, 1)) }()
		<-time.After(cfg.WriteLimit - time.Millisecond)
		synctest.Wait()
		if got := f.all(); len(got) != 0 {
			t.Errorf("fatal before the limit: %v", got)
		}
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		if got := f.all(); len(got) != 1 || !errors.Is(got[0], ErrStorageHung) {
			t.Errorf("fatal after the limit: got %v, want once %v", got, ErrStorageHung)
		}
		if err := s.GetLog(1, &raft.Log{}); !errors.Is(err, ErrStorageHung) {
			t.Errorf("a read while it hangs: got %v, want %v", err, ErrStorageHung)
		}
		close(below.hang)
		if err := <-returned; !errors.Is(err, ErrStorageHung) {
			t.Errorf("the write that came back late: got %v, want %v", err, ErrStorageHung)
		}
	})
}

func TestStore_corruptedRecordIsFatal(t *testing.T) {
	f := &fatals{}
	below := &faultyBackend{InmemStore: raft.NewInmemStore()}
	s := newStore(below, errNotFound, storeConfig("", f))
	bad := sealEntry(entries(1, 1, 1)[0])
	bad.Data = []byte("something else")
	if err := below.InmemStore.StoreLog(bad); err != nil {
		t.Fatal(err)
	}
	if err := s.GetLog(1, &raft.Log{}); !errors.Is(err, errBadChecksum) || len(f.all()) != 1 {
		t.Errorf("changed entry: got %v with %d fatal calls, want %v with one", err, len(f.all()), errBadChecksum)
	}
}

func TestExitOnFailure_marksAndExitsOnce(t *testing.T) {
	d := newDataDir(t)
	var exits []int
	fatal := ExitOnFailure(d.Path(), quiet(), func(status int) { exits = append(exits, status) })
	fatal(fmt.Errorf("append to log: %w", ErrStorage))
	fatal(errors.New("a second finding"))
	if len(exits) != 1 || exits[0] != exitStatus {
		t.Errorf("exits: got %v, want one with %d", exits, exitStatus)
	}
	cause, err := d.TakeNeedsCheck()
	if err != nil || !strings.Contains(cause, ErrStorage.Error()) {
		t.Errorf("mark: got %q, %v, want the first error", cause, err)
	}
	if cause, err := d.TakeNeedsCheck(); cause != "" || err != nil {
		t.Errorf("mark taken twice: got %q, %v, want none", cause, err)
	}
}

func TestExitOnFailure_exitsThoughDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		defer close(hung)
		exited := make(chan int, 1)
		fatal := ExitOnFailure(t.TempDir(), hangingLogger(hung), func(status int) { exited <- status })
		go fatal(ErrStorageHung)
		select {
		case <-exited:
		case <-time.After(2 * exitPatience):
			t.Error("the process did not exit while its log hangs")
		}
	})
}

func TestStore_refusesSecondProcessAndForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), storeFile)
	s := openTestStore(t, path)
	f := &fatals{}
	_, err := OpenStore(storeConfig(path, f))
	refused(t, "a second opening", err, ErrStoreInUse, "stop it first")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := storeConfig(path, f)
	cfg.Owner.Group = "p2"
	_, err = OpenStore(cfg)
	refused(t, "another group's file", err, ErrForeignData, "point the node at its own directory")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	cfg.Create = false
	_, err = OpenStore(cfg)
	refused(t, "a missing file", err, ErrDamaged, "join again under a new node id")
}

// hangingLogger blocks each record until hung is closed.
func hangingLogger(hung <-chan struct{}) *slog.Logger {
	return slog.New(hangingHandler{slog.DiscardHandler, hung})
}

type hangingHandler struct {
	slog.Handler
	hung <-chan struct{}
}

func (hangingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h hangingHandler) Handle(context.Context, slog.Record) error {
	<-h.hung
	return nil
}
