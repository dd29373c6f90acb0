package lockcore_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/lockcoretest"
)

// mustStop runs f, which must panic with all of the words.
func mustStop(t *testing.T, f func(), words ...string) {
	t.Helper()
	defer func() {
		t.Helper()
		got := fmt.Sprint(recover())
		for _, w := range words {
			if !strings.Contains(got, w) {
				t.Errorf("stopped with %q, want it to say %q", got, w)
			}
		}
	}()
	f()
	t.Error("went on")
}

func TestApply_stopsAtABrokenLog(t *testing.T) {
	good := encode(t, lockcore.Entry{Commands: []lockcore.Command{lockcore.AdvanceEpoch{Node: "n1"}}})
	unknown, err := cbor.Marshal(map[int]any{1: 1, 2: 0, 3: 0, 4: 0, 5: []any{[]any{999, map[int]any{}}}})
	if err != nil {
		t.Fatal(err)
	}
	later, err := cbor.Marshal(map[int]any{1: 2, 2: 0, 3: 0, 4: 0, 5: []any{[]any{1, map[int]any{1: "n1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		index uint64
		entry []byte
		words []string
	}{
		"unknown kind":            {8, unknown, []string{"entry 8", "kind 999"}},
		"unknown version":         {8, later, []string{"entry 8", "version 2"}},
		"malformed entry":         {8, good[:len(good)-1], []string{"entry 8", "invalid log entry"}},
		"bytes after its end":     {8, append(good[:len(good):len(good)], 0), []string{"entry 8", "invalid log entry"}},
		"empty entry":             {8, nil, []string{"entry 8", "invalid log entry"}},
		"the same index":          {7, good, []string{"entry 7 after entry 7"}},
		"an index that goes back": {6, good, []string{"entry 6 after entry 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := lockcore.New()
			m.Apply(7, good)
			mustStop(t, func() { m.Apply(c.index, c.entry) }, c.words...)
		})
	}
}

func TestApply_stopsAtALevelAboveItsOwn(t *testing.T) {
	p := lockcoretest.NewPlayer()
	play(t, p, "advance-epoch n1")
	mustStop(t, func() { play(t, p, "raise-level level=2") }, "level 2")
}

// TestCheckpoint_isComparedAndTold walks to the first checkpoint and states it rightly and late.
func TestCheckpoint_isComparedAndTold(t *testing.T) {
	m := lockcore.New()
	clock := encode(t, lockcore.Entry{Epoch: 1, Commands: []lockcore.Command{lockcore.LeaseClock{}}})
	apply(t, m, 0, lockcore.AdvanceEpoch{Node: "n1"})
	m.Apply(lockcore.CheckpointEvery-1, clock)
	if c, unsaid := m.UnstatedCheckpoint(); unsaid {
		t.Fatalf("got checkpoint %d before the first is passed", c.Index)
	}
	m.Apply(lockcore.CheckpointEvery, clock)
	c, unsaid := m.UnstatedCheckpoint()
	if !unsaid || c.Index != lockcore.CheckpointEvery || c.Hash != m.Rolling() {
		t.Fatalf("got checkpoint %+v, unstated %t, want the rolling hash at %d", c, unsaid, lockcore.CheckpointEvery)
	}
	m.Apply(lockcore.CheckpointEvery+1, clock)
	state := func(c lockcore.Checkpoint) lockcore.Result {
		results, _ := m.Apply(m.Index()+1, encode(t, lockcore.Entry{Epoch: 1, Commands: []lockcore.Command{c}}))
		return results[0]
	}
	if got := state(lockcore.Checkpoint{Index: c.Index - 1, Hash: c.Hash}); got.Reason != lockcore.RefusedStaleVersion {
		t.Errorf("another index: got %+v, want stale_version", got)
	}
	if got := state(c); got.Outcome != lockcore.Done {
		t.Errorf("the same hash: got %+v, want done", got)
	}
	if _, unsaid := m.UnstatedCheckpoint(); unsaid {
		t.Error("a stated checkpoint is still unstated")
	}
	if d, diverged := m.Divergence(); diverged {
		t.Errorf("got divergence %+v, want none", d)
	}
}

// TestDivergence_isRememberedAndChangesNothing applies one log to two replicas, of which one went another way before it.
func TestDivergence_isRememberedAndChangesNothing(t *testing.T) {
	here, there := lockcore.New(), lockcore.New()
	apply(t, here, 0, lockcore.AdvanceEpoch{Node: "n1"})
	apply(t, there, 0, lockcore.AdvanceEpoch{Node: "n2"})
	state := func(m *lockcore.Machine, index uint64, c lockcore.Command) lockcore.Result {
		results, _ := m.Apply(index, encode(t, lockcore.Entry{Epoch: 1, Commands: []lockcore.Command{c}}))
		return results[0]
	}
	state(here, lockcore.CheckpointEvery, lockcore.LeaseClock{})
	state(there, lockcore.CheckpointEvery, lockcore.LeaseClock{})
	own, _ := here.UnstatedCheckpoint()
	stated, _ := there.UnstatedCheckpoint()
	if got := state(here, lockcore.CheckpointEvery+1, stated); got != (lockcore.Result{Outcome: lockcore.Done}) {
		t.Errorf("a checkpoint that differs: got %+v, want done as everywhere", got)
	}
	want := lockcore.Divergence{Index: lockcore.CheckpointEvery, Here: own.Hash, Stated: stated.Hash}
	if got, diverged := here.Divergence(); !diverged || got != want {
		t.Errorf("got divergence %+v (%t), want %+v", got, diverged, want)
	}
	if _, unsaid := here.UnstatedCheckpoint(); unsaid {
		t.Error("a stated checkpoint is still unstated")
	}
	other := stated
	other.Hash[0]++
	state(here, lockcore.CheckpointEvery+2, other)
	if got, _ := here.Divergence(); got != want {
		t.Errorf("after another one: got divergence %+v, want the first, %+v", got, want)
	}
	restored, err := lockcore.Restore(bytes.NewReader(written(t, here.Snapshot())))
	if err != nil {
		t.Fatal(err)
	}
	if _, diverged := restored.Divergence(); diverged {
		t.Error("a divergence came back from a snapshot")
	}
	for _, m := range []*lockcore.Machine{here, restored} {
		state(m, lockcore.CheckpointEvery+3, stated)
	}
	if restored.Rolling() != here.Rolling() || restored.Hash() != here.Hash() {
		t.Error("the divergence shows in the state")
	}
}

func TestEncode_refusesWhatDecodeWould(t *testing.T) {
	many := make([]lockcore.Command, lockcore.EntryCommandsMax+1)
	for i := range many {
		many[i] = lockcore.LeaseClock{}
	}
	large := make([]lockcore.Command, lockcore.EntryCommandsMax)
	for i := range large {
		large[i] = lockcore.MarkEnding{Tenant: "acme", Note: strings.Repeat("n", lockcore.EntryBytesMax/len(large))}
	}
	for name, commands := range map[string][]lockcore.Command{
		"none":              nil,
		"too many":          many,
		"too large":         large,
		"text that is none": {lockcore.Acquire{Tenant: "acme", Key: "\xff"}},
		"too long a list":   {lockcore.WaiterGone{Tenant: "acme", Leases: make([]lockcore.LeaseID, 1_025)}},
	} {
		if b, err := (lockcore.Entry{Epoch: 1, Commands: commands}).Encode(); err == nil {
			_, err := lockcore.DecodeEntry(b)
			t.Errorf("%s: encoded to %d bytes, which decode with error %v", name, len(b), err)
		}
	}
	if _, err := (lockcore.Entry{Commands: many[1:]}).Encode(); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
}

func TestMachine_grantsNothingBeforeTheFirstEpoch(t *testing.T) {
	p := lockcoretest.NewPlayer()
	for _, line := range []string{"put-tenant acme", "put-class acme jobs", "acquire acme s1.1 jobs k", "lease-clock", "raise-level level=2"} {
		if got := play(t, p, line); got != "refused stale_epoch" {
			t.Errorf("%s: got %q, want stale_epoch", line, got)
		}
	}
}

func TestWaiterGone_passesHoldersOver(t *testing.T) {
	p := lockcoretest.NewPlayer()
	play(t, p, stage+waits+"release acme s1.1\nacquire acme s3.1 jobs k wait=5s")
	play(t, p, "waiter-gone acme s3.1 s2.1")
	lock, _ := p.Machine.Lock("acme", "jobs", "k")
	if lock.Holder == nil || lock.Holder.Token != 2 || lock.Waiters != 0 {
		t.Errorf("got %+v, want s2.1 to hold with token 2 and nobody to wait", lock)
	}
}

// TestLeaseClock_countsFromEachEntrysOwnStamp grants a long lease long after the clock's last tick.
func TestLeaseClock_countsFromEachEntrysOwnStamp(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		lease lockcore.LeaseID
		want  int64
	}{
		"a grant":                   {"lease-clock @ at=5s\nacquire acme s1.1 long k @ at=500s", lockcoretest.LeaseNumber(1, 1), 560_000},
		"a grant at an older stamp": {"lease-clock @ at=500s\nacquire acme s1.1 long k @ at=5s", lockcoretest.LeaseNumber(1, 1), 560_000},
		"a hand-off": {heldLong + "acquire acme s2.1 long k wait=5s\nrelease acme s1.1 @ at=400s",
			lockcoretest.LeaseNumber(2, 1), 412_000},
		"a pick-up": {heldLong + "acquire acme s2.1 long k wait=5s\nrelease acme s1.1 @ at=400s\nextend acme s2.1 token=2 @ at=411s",
			lockcoretest.LeaseNumber(2, 1), 471_000},
		"an extension": {heldLong + "extend acme s1.1 token=1 @ at=155s", lockcoretest.LeaseNumber(1, 1), 215_000},
		"after a stamp of another epoch, which counts for nothing": {heldLong + "advance-epoch n2\nlease-clock @ at=900s epoch=1\nextend acme s1.1 token=1 @ at=101s",
			lockcoretest.LeaseNumber(1, 1), 161_000},
	} {
		t.Run(name, func(t *testing.T) {
			p := lockcoretest.NewPlayer()
			play(t, p, stage+c.lines)
			l, ok := p.Machine.Lease("acme", c.lease)
			if !ok || l.DeadlineMS != c.want {
				t.Errorf("got %+v, want deadline %d", l, c.want)
			}
		})
	}
}

// TestEvents_tellWhatThePeopleAsk checks the texts for people, which transcripts leave out.
func TestEvents_tellWhatThePeopleAsk(t *testing.T) {
	m := loaded(t, 0)
	a := benchAcquire(1, 1, "k")
	entry := encode(t, lockcore.Entry{Epoch: 1, WallMS: 1_700_000_000_123, Commands: []lockcore.Command{a,
		lockcore.MarkEnding{Tenant: "acme", Lease: a.Lease, Token: 1, Cause: lockcore.Forced, By: "dana", Note: "stuck", Now: true}}})
	_, events := m.Apply(m.Index()+1, entry)
	granted := lockcore.Event{Kind: lockcore.EventGranted, Tenant: "acme", Class: "jobs", Key: "k", Lease: a.Lease, Token: 1,
		Epoch: 1, Version: 1, Holder: a.Holder, APIKey: a.APIKey, AtMS: 1_700_000_000_123}
	ending, ended := granted, granted
	ending.Kind, ending.Reason, ending.By, ending.Note = lockcore.EventEnding, lockcore.Forced, "dana", "stuck"
	ended.Kind, ended.Reason = lockcore.EventEnded, lockcore.Forced
	want := []lockcore.Event{granted, ending, ended}
	if fmt.Sprint(events) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", events, want)
	}
}

func TestNames_areAllKnown(t *testing.T) {
	for _, r := range lockcore.Reasons() {
		if s := r.String(); strings.Contains(s, "(") {
			t.Errorf("reason %d has no name", r)
		}
	}
	for _, o := range lockcore.Outcomes() {
		if s := o.String(); strings.Contains(s, "(") {
			t.Errorf("outcome %d has no name", o)
		}
	}
	for k := lockcore.EventEpochAdvanced; k <= lockcore.EventFenced; k++ {
		if s := k.String(); s == "unknown" || s == "" {
			t.Errorf("event kind %d has no name", k)
		}
	}
	for got, want := range map[string]string{
		lockcore.Outcome(0).String(): "outcome(0)", lockcore.Reason(0).String(): "reason(0)", lockcore.EventKind(0).String(): "unknown",
		lockcore.EventKind(200).String(): "unknown", lockcore.Purpose(9).String(): "efficiency",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
