package audit_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/audit"
)

func offerAll(p *audit.Projector, all ...audit.Entry) {
	for _, e := range all {
		p.Offer(e)
	}
}

func TestProjector_storesWhatIsOffered(t *testing.T) {
	s, twin := open(t), open(t)
	p := run(t, audit.ProjectorConfig{Store: s})
	for _, log := range []audit.Log{0, 1, 2} {
		p.Begin(log, 1)
		offerAll(p, entries(log, 1, 400)...)
	}
	for _, log := range []audit.Log{0, 1, 2} {
		waitDurable(t, p, log, 400)
		appendAll(t, twin, entries(log, 1, 400)...)
		samePosition(t, s, twin, log)
	}
	if n, bytes, full := p.Pending(); n != 0 || bytes != 0 || full {
		t.Errorf("pending: got %d entries, %d bytes, full %v, want nothing", n, bytes, full)
	}
	if err := p.State(); err != nil {
		t.Errorf("state: got %v, want healthy", err)
	}
}

// 50 writers' load, while others page and export: nobody is told that the database is busy, no row is missing or doubled.
func TestProjector_withReadersBesideIt(t *testing.T) {
	const writers, each = 50, 60
	s, twin := open(t), open(t)
	p := run(t, audit.ProjectorConfig{Store: s})
	ctx, cancel := context.WithCancel(context.Background())
	var writing, reading sync.WaitGroup
	for log := audit.Log(1); log <= writers; log++ {
		writing.Go(func() {
			for _, e := range entries(log, 1, each) {
				p.Offer(e)
			}
		})
	}
	var pages, exports atomic.Int64
	reader := func(read func() error, count *atomic.Int64) {
		reading.Go(func() {
			for ctx.Err() == nil {
				if err := read(); err != nil {
					t.Errorf("read: %v", err)
					return
				}
				count.Add(1)
			}
		})
	}
	for _, q := range []audit.Query{{Tenant: acme, Limit: 200}, {Tenant: globex, Text: "worker-3"},
		{AllTenants: true, Limit: 100, Order: audit.Descending}} {
		q.Logs = []audit.Log{0, 1, 2} // as a tenant's page reads: few of many
		reader(func() error { _, err := s.Query(context.Background(), q); return err }, &pages)
	}
	reader(func() error {
		var out bytes.Buffer
		_, err := s.Export(context.Background(), 1, &out)
		return err
	}, &exports)
	writing.Wait()
	for log := audit.Log(1); log <= writers; log++ {
		waitDurable(t, p, log, each)
	}
	await(t, "pages and exports beside the load", func() bool { return pages.Load() > 2 && exports.Load() > 0 })
	cancel()
	reading.Wait()
	if err := p.State(); err != nil {
		t.Errorf("state: got %v, want healthy", err)
	}
	for log := audit.Log(1); log <= writers; log++ {
		appendAll(t, twin, entries(log, 1, each)...)
		samePosition(t, s, twin, log)
	}
	seen := map[audit.RowPosition]int{}
	for _, r := range search(t, s, audit.Query{AllTenants: true, Limit: 1000}) {
		seen[r.Position]++
	}
	for at, n := range seen {
		if n != 1 {
			t.Errorf("%v: got it %d times", at, n)
		}
	}
	if want := writers * each; len(seen) != want {
		t.Errorf("rows: got %d, want %d", len(seen), want)
	}
}

func TestProjector_recordsWhatAFullQueueDropped(t *testing.T) {
	for name, c := range map[string]audit.ProjectorConfig{"entries": {EntriesMax: 8}, "bytes": {BytesMax: 8 << 10}} {
		t.Run(name, func(t *testing.T) {
			s, peer := open(t), open(t)
			c.Store, c.Logger = s, quiet()
			p := audit.NewProjector(c)
			offerAll(p, entries(1, 1, 100)...)
			if _, _, full := p.Pending(); !full {
				t.Error("full: got false")
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			waitDurable(t, p, 1, 100)
			if _, _, full := p.Pending(); full {
				t.Error("full once all is stored: got true")
			}
			offerAll(p, entries(1, 101, 104)...)
			waitDurable(t, p, 1, 104)
			cancel()
			<-ended
			gaps, err := s.Gaps(context.Background())
			if err != nil || len(gaps) != 1 || gaps[0].To != 100 || gaps[0].From < 2 {
				t.Errorf("gaps: got %+v, %v, want one up to 100", gaps, err)
			}
			appendAll(t, peer, entries(1, 1, 104)...)
			fillFrom(t, s, peer, 50)
			samePosition(t, s, peer, 1)
		})
	}
}

func TestProjector_stopsALogWhoseContentDiffers(t *testing.T) {
	s := open(t)
	appendAll(t, s, entries(1, 1, 20)...)
	alarms := make(chan error, 10)
	p := run(t, audit.ProjectorConfig{Store: s, OnAlarm: func(err error) { alarms <- err }})
	other := entry(1, 8, 2)
	other.Events[0].Key = "else"
	offerAll(p, entries(2, 1, 10)...)
	offerAll(p, other)
	offerAll(p, entries(1, 21, 30)...)
	offerAll(p, entries(2, 11, 20)...)
	if err := <-alarms; !errors.Is(err, audit.ErrContentDiffers) {
		t.Errorf("alarm: got %v, want ErrContentDiffers", err)
	}
	waitDurable(t, p, 2, 20)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.WaitDurable(ctx, 1, 30); !errors.Is(err, audit.ErrContentDiffers) {
		t.Errorf("wait for the stopped log: got %v, want ErrContentDiffers", err)
	}
	if err := p.State(); !errors.Is(err, audit.ErrContentDiffers) {
		t.Errorf("state: got %v, want ErrContentDiffers", err)
	}
	offerAll(p, entries(1, 31, 40)...)
	p.SkipTo(1, 50)
	if n, _, _ := p.Pending(); n != 0 || p.Durable(1) != 20 {
		t.Errorf("stopped log: got %d pending, durable %d, want none and 20", n, p.Durable(1))
	}
	if len(alarms) != 0 {
		t.Errorf("alarms: got %d more", len(alarms))
	}
}

func TestProjector_replayIsHarmless(t *testing.T) {
	s, twin := open(t), open(t)
	appendAll(t, s, entries(1, 1, 300)...)
	appendAll(t, s, entries(1, 311, 400)...)
	appendAll(t, twin, entries(1, 1, 500)...)
	p := run(t, audit.ProjectorConfig{Store: s})
	p.Begin(1, 1)
	offerAll(p, entries(1, 1, 500)...) // the replay fills the gap from the node's own log
	waitDurable(t, p, 1, 500)
	samePosition(t, s, twin, 1)
}

func TestProjector_passesOldReplayedEntriesOver(t *testing.T) {
	s := open(t)
	var all []audit.Entry
	for i := uint64(1); i <= 6000; i++ {
		all = append(all, entry(1, i, int(i%7)/6))
	}
	appendAll(t, s, all...)
	p := audit.NewProjector(audit.ProjectorConfig{Store: s, Logger: quiet()}) // nobody stores: what is queued is seen
	offerAll(p, all...)
	if n, _, _ := p.Pending(); n != 4096 {
		t.Errorf("queued: got %d, want the last 4096 to be compared", n)
	}
}

func TestProjector_skipToIsAGap(t *testing.T) {
	s, peer := open(t), open(t)
	appendAll(t, peer, entries(1, 1, 80)...)
	p := run(t, audit.ProjectorConfig{Store: s})
	p.Begin(1, 1)
	offerAll(p, entries(1, 1, 10)...)
	p.SkipTo(1, 40)
	p.SkipTo(1, 50)
	offerAll(p, entries(1, 51, 60)...)
	p.SkipTo(1, 55) // stored already
	offerAll(p, entries(1, 61, 80)...)
	waitDurable(t, p, 1, 80)
	wantGaps(t, s, gapWant{11, 50, false})
	fillFrom(t, s, peer, 100)
	samePosition(t, s, peer, 1)
}

func TestProjector_retriesWhileTheFileIsFull(t *testing.T) {
	ctx := context.Background()
	c := config(filepath.Join(t.TempDir(), "audit.db"))
	c.BytesMax = 512 << 10
	s, twin := openWith(t, c), open(t)
	p := run(t, audit.ProjectorConfig{Store: s})
	var all []audit.Entry
	for i := uint64(1); i <= 400; i++ {
		all = append(all, entry(1, i, 10))
	}
	offerAll(p, all...)
	await(t, "degraded", func() bool { return errors.Is(p.State(), audit.ErrFull) })
	if err := s.SetBytesMax(ctx, 0); err != nil {
		t.Fatal(err)
	}
	waitDurable(t, p, 1, 400)
	await(t, "healthy", func() bool { return p.State() == nil })
	appendAll(t, twin, all...)
	samePosition(t, s, twin, 1)
}

// What retention drops is space for what comes.
func TestProjector_healsByRetention(t *testing.T) {
	c := config(filepath.Join(t.TempDir(), "audit.db"))
	c.BytesMax = 768 << 10
	s := openWith(t, c)
	p := run(t, audit.ProjectorConfig{Store: s})
	next := uint64(1)
	for ; p.State() == nil; next++ {
		e := entry(1, next, 10)
		for i := range e.Events {
			e.Events[i].AtMS = day(int(next)).UnixMilli()
		}
		p.Offer(e)
		waitUnlessFailed(t, p, 1, next)
	}
	if !errors.Is(p.State(), audit.ErrFull) {
		t.Fatalf("state: got %v, want ErrFull", p.State())
	}
	if n, err := s.Retain(context.Background(), func(string) int { return 5 }, day(int(next))); err != nil || n == 0 {
		t.Fatalf("retain: got %d, %v", n, err)
	}
	waitDurable(t, p, 1, next-1)
}

func waitUnlessFailed(t *testing.T, p *audit.Projector, log audit.Log, index uint64) {
	t.Helper()
	await(t, "stored or failed", func() bool { return p.Durable(log) >= index || p.State() != nil })
}

func TestProjector_endsWithItsContext(t *testing.T) {
	p := audit.NewProjector(audit.ProjectorConfig{Store: open(t), Logger: quiet()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run: got %v, want canceled", err)
	}
	waiting, stop := context.WithCancel(context.Background())
	stop()
	if err := p.WaitDurable(waiting, 1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: got %v, want canceled", err)
	}
}

func TestBackup_isAWholeFile(t *testing.T) {
	s := open(t)
	appendAll(t, s, entries(1, 1, 300)...)
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := s.Backup(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	reports, err := audit.VerifyFile(context.Background(), path)
	if err != nil || len(reports) != 1 || !reports[0].Whole() || reports[0].Root != position(t, s, 1).Root {
		t.Errorf("copy: got %+v, %v, want it whole", reports, err)
	}
}
