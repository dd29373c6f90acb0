package audit_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
)

type gapWant struct {
	from, to uint64
	lost     bool
}

func wantGaps(t *testing.T, s *audit.Store, want ...gapWant) {
	t.Helper()
	gaps, err := s.Gaps(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var got []gapWant
	for _, g := range gaps {
		got = append(got, gapWant{g.From, g.To, g.Unrecoverable})
	}
	if !slices.Equal(got, want) {
		t.Errorf("gaps: got %v, want %v", got, want)
	}
}

func recordGap(t *testing.T, s *audit.Store, log audit.Log, from, to uint64) {
	t.Helper()
	if err := s.RecordGap(context.Background(), log, from, to, "test"); err != nil {
		t.Fatal(err)
	}
}

func TestAppend_recordsIndexesThatDidNotCome(t *testing.T) {
	s := open(t)
	appendAll(t, s, entry(1, 4, 1), entry(1, 5, 1), entry(1, 9, 2))
	wantGaps(t, s, gapWant{1, 3, false}, gapWant{6, 8, false})
	if got := position(t, s, 1); got.Durable != 9 || got.Complete != 0 || got.Rows != 0 || got.Gaps != 2 {
		t.Errorf("position: got %+v, want durable 9, complete 0 and no leaf", got)
	}
	if got := len(search(t, s, audit.Query{AllTenants: true})); got != 4 {
		t.Errorf("rows behind the gap: got %d, want 4", got)
	}
}

func TestAppend_takesEntriesOfRaftsOwnForNoGap(t *testing.T) {
	s := open(t)
	e := entry(1, 4, 1)
	e.First = 1
	appendAll(t, s, e)
	f := entry(1, 9, 1)
	f.First = 5
	appendAll(t, s, f, f)
	wantGaps(t, s)
	if got := position(t, s, 1); got.Durable != 9 || got.Complete != 9 || got.Rows != 2 {
		t.Errorf("position: got %+v, want 9 complete entries with 2 rows", got)
	}
}

func TestBegin_isNoGap(t *testing.T) {
	s := open(t)
	begin := func(index uint64) {
		t.Helper()
		if err := s.Begin(context.Background(), 3, index); err != nil {
			t.Fatal(err)
		}
	}
	begin(7)
	appendAll(t, s, entry(3, 7, 1))
	begin(20)
	appendAll(t, s, entry(3, 8, 1))
	wantGaps(t, s)
	if got := position(t, s, 3); got.Durable != 8 || got.Complete != 8 || got.Rows != 2 {
		t.Errorf("position: got %+v, want 8 complete with 2 rows", got)
	}
}

func TestRecordGap_leavesWhatIsStored(t *testing.T) {
	s := open(t)
	appendAll(t, s, entries(1, 1, 10)...)
	recordGap(t, s, 1, 3, 8)
	wantGaps(t, s)
	recordGap(t, s, 1, 8, 14)
	wantGaps(t, s, gapWant{11, 14, false})
	recordGap(t, s, 1, 15, 20)
	wantGaps(t, s, gapWant{11, 20, false})
	if got := position(t, s, 1); got.Durable != 20 || got.Complete != 10 {
		t.Errorf("position: got %+v, want durable 20, complete 10", got)
	}
}

func TestFill_givesEqualRoots(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 4096} {
		whole, s := open(t), open(t)
		appendAll(t, whole, entries(1, 1, 90)...)
		appendAll(t, s, entries(1, 1, 20)...)
		recordGap(t, s, 1, 21, 40) // a snapshot was installed
		appendAll(t, s, entries(1, 41, 60)...)
		appendAll(t, s, entries(1, 71, 90)...)
		wantGaps(t, s, gapWant{21, 40, false}, gapWant{61, 70, false})
		if got, want := position(t, s, 1).Rows, uint64(21); got != want {
			t.Errorf("leaves before the first gap: got %d, want %d", got, want)
		}
		fillFrom(t, s, whole, limit)
		wantGaps(t, s)
		samePosition(t, s, whole, 1)
		if got, want := keysOf(search(t, s, audit.Query{AllTenants: true})), keysOf(search(t, whole, audit.Query{AllTenants: true})); !slices.Equal(got, want) {
			t.Errorf("rows: got %d, want %d", len(got), len(want))
		}
	}
}

func TestFill_numbersMoreRowsThanOneStep(t *testing.T) {
	whole, s := open(t), open(t)
	var all []audit.Entry
	for i := uint64(1); i <= 60; i++ {
		all = append(all, entry(1, i, 100))
	}
	all = append(all, entry(1, 61, audit.PeerRowsMax+1))
	appendAll(t, whole, all...)
	appendAll(t, s, all[1:]...)
	if got := position(t, s, 1); got.Rows != 0 || got.Gaps != 1 {
		t.Errorf("position: got %+v, want one gap and no leaf", got)
	}
	fillFrom(t, s, whole, 50)
	samePosition(t, s, whole, 1)
}

func TestAppend_fillsAGapFromTheNodesOwnLog(t *testing.T) {
	whole, s := open(t), open(t)
	appendAll(t, whole, entries(1, 1, 40)...)
	appendAll(t, s, entries(1, 1, 10)...)
	recordGap(t, s, 1, 11, 30)
	appendAll(t, s, entries(1, 31, 40)...)
	appendAll(t, s, entries(1, 15, 20)...)
	wantGaps(t, s, gapWant{11, 14, false}, gapWant{21, 30, false})
	appendAll(t, s, entries(1, 1, 40)...)
	wantGaps(t, s)
	samePosition(t, s, whole, 1)
}

func TestPeer_givesOnlyWhatItHas(t *testing.T) {
	s := open(t)
	appendAll(t, s, entries(1, 1, 10)...)
	recordGap(t, s, 1, 11, 20)
	appendAll(t, s, entries(1, 21, 30)...)
	ctx := context.Background()
	for _, c := range []struct {
		from, to, through uint64
		rows              int
	}{{1, 30, 10, 10}, {4, 6, 6, 3}, {21, 99, 30, 9}, {3, 3, 3, 0}} {
		got, err := s.Peer(ctx, 1, c.from, c.to, 100)
		if err != nil || got.Through != c.through || len(got.Rows) != c.rows {
			t.Errorf("%d..%d: got %d rows through %d, %v, want %d through %d", c.from, c.to, len(got.Rows), got.Through, err, c.rows, c.through)
		}
	}
	for _, from := range []uint64{0, 11, 20, 31} {
		if _, err := s.Peer(ctx, 1, from, 99, 100); !errors.Is(err, audit.ErrIncomplete) {
			t.Errorf("from %d: got %v, want ErrIncomplete", from, err)
		}
	}
	if _, err := s.Peer(ctx, 2, 1, 1, 100); !errors.Is(err, audit.ErrIncomplete) {
		t.Errorf("a log that is not known: got %v, want ErrIncomplete", err)
	}
}

func TestFill_refusesRowsThatAreNotWhatTheySay(t *testing.T) {
	whole := open(t)
	appendAll(t, whole, entries(1, 1, 20)...)
	for name, c := range map[string]struct {
		change func(*audit.PeerRows)
		want   error
	}{
		"key":          {func(p *audit.PeerRows) { p.Rows[2].Key = "else" }, audit.ErrWrongHash},
		"token":        {func(p *audit.PeerRows) { p.Rows[2].Token++ }, audit.ErrWrongHash},
		"personal":     {func(p *audit.PeerRows) { p.Rows[2].By = "else" }, audit.ErrWrongHash},
		"salt":         {func(p *audit.PeerRows) { p.Rows[2].Salt[3]++ }, audit.ErrWrongHash},
		"no salt":      {func(p *audit.PeerRows) { p.Rows[2].Salt = nil }, audit.ErrWrongHash},
		"hash":         {func(p *audit.PeerRows) { p.Rows[2].Hash[3]++ }, audit.ErrWrongHash},
		"half erased":  {func(p *audit.PeerRows) { p.Rows[2].Erased = true }, audit.ErrWrongHash},
		"out of order": {func(p *audit.PeerRows) { p.Rows[0], p.Rows[3] = p.Rows[3], p.Rows[0] }, audit.ErrInvalidEntry},
		"ordinal left": {func(p *audit.PeerRows) { p.Rows = slices.Delete(p.Rows, 0, 1) }, audit.ErrInvalidEntry},
		"outside":      {func(p *audit.PeerRows) { p.Through = 12 }, audit.ErrInvalidEntry},
		"incarnation":  {func(p *audit.PeerRows) { p.Incarnation = 7 }, audit.ErrInvalidEntry},
		"another log":  {func(p *audit.PeerRows) { p.Log = 2 }, audit.ErrInvalidEntry},
	} {
		s := open(t)
		recordGap(t, s, 1, 1, 20)
		rows, err := whole.Peer(context.Background(), 1, 11, 20, 100)
		if err != nil {
			t.Fatal(err)
		}
		c.change(&rows)
		if err := s.Fill(context.Background(), rows); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		wantGaps(t, s, gapWant{1, 20, false})
	}
}

func TestFill_refusesRowsThatContradictItsOwn(t *testing.T) {
	other, s := open(t), open(t)
	e := entry(1, 4, 1)
	e.Events[0].Key = "else"
	appendAll(t, other, entry(1, 1, 1), entry(1, 2, 1), entry(1, 3, 1), e, entry(1, 5, 1))
	appendAll(t, s, entry(1, 3, 1), entry(1, 4, 1))
	rows, err := other.Peer(context.Background(), 1, 1, 5, 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Fill(context.Background(), rows); !errors.Is(err, audit.ErrContentDiffers) {
		t.Errorf("got %v, want ErrContentDiffers", err)
	}
	wantGaps(t, s, gapWant{1, 2, false})
	if rows, err = other.Peer(context.Background(), 1, 1, 3, 100); err != nil {
		t.Fatal(err)
	}
	if err := s.Fill(context.Background(), rows); err != nil {
		t.Errorf("up to where they agree: %v", err)
	}
	wantGaps(t, s)
}

func TestGiveUp_isALeafAndStaysForEver(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "audit.db")
	a, b, whole := openAt(t, path), open(t), open(t)
	appendAll(t, whole, entries(1, 1, 40)...)
	for _, s := range []*audit.Store{a, b} {
		appendAll(t, s, entries(1, 1, 10)...)
		recordGap(t, s, 1, 11, 20)
		appendAll(t, s, entries(1, 21, 40)...)
		if err := s.GiveUp(ctx, audit.Gap{Log: 1, From: 5, To: 12}); !errors.Is(err, audit.ErrUnknownGap) {
			t.Errorf("give up what is not open: got %v, want ErrUnknownGap", err)
		}
		if err := s.GiveUp(ctx, audit.Gap{Log: 1, From: 14, To: 16}); err != nil {
			t.Fatal(err)
		}
		wantGaps(t, s, gapWant{11, 13, false}, gapWant{14, 16, true}, gapWant{17, 20, false})
	}
	fillFrom(t, a, whole, 100)
	fillFrom(t, b, whole, 1)
	samePosition(t, a, b, 1)
	if got := position(t, a, 1); got.Complete != 40 || got.Rows != 40-3+1 || got.UnrecoverableGaps != 1 || got.Gaps != 0 {
		t.Errorf("position: got %+v, want 37 rows and a gap as leaves", got)
	}
	appendAll(t, a, entries(1, 1, 50)...) // the log still had them, but the tree has gone on
	wantGaps(t, a, gapWant{14, 16, true})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = openAt(t, path)
	appendAll(t, b, entries(1, 41, 50)...)
	samePosition(t, a, b, 1)
	if reports, err := audit.VerifyFile(ctx, path); err != nil || !reports[0].Whole() || reports[0].Root != position(t, a, 1).Root {
		t.Errorf("file: got %+v, %v, want it whole with its root", reports, err)
	}
}

// stopping is a context that ends after it was looked at a number of times.
type stopping struct {
	context.Context
	left int
}

func (c *stopping) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestAppend_goesOnNumberingWhereAFillWasStopped(t *testing.T) {
	whole, s := open(t), open(t)
	var all []audit.Entry
	for i := uint64(1); i <= 33; i++ {
		all = append(all, entry(1, i, 100))
	}
	appendAll(t, whole, all...)
	appendAll(t, s, all[1:30]...)
	rows, err := whole.Peer(context.Background(), 1, 1, 1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Fill(&stopping{context.Background(), 1}, rows); !errors.Is(err, context.Canceled) {
		t.Fatalf("fill: got %v, want it stopped before it numbers", err)
	}
	wantGaps(t, s)
	if got := position(t, s, 1).Rows; got != 0 {
		t.Errorf("leaves: got %d, want none yet", got)
	}
	appendAll(t, s, all[30])
	appendAll(t, s, all[31])
	appendAll(t, s, all[32])
	samePosition(t, s, whole, 1)
}

func TestNumber_goesOnInALogThatIsAtRest(t *testing.T) {
	whole, s := open(t), open(t)
	var all []audit.Entry
	for i := uint64(1); i <= 50; i++ {
		all = append(all, entry(1, i, 100))
	}
	appendAll(t, whole, all...)
	appendAll(t, s, all[1:]...)
	rows, err := whole.Peer(context.Background(), 1, 1, 1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Fill(&stopping{context.Background(), 1}, rows); !errors.Is(err, context.Canceled) {
		t.Fatalf("fill: got %v, want it stopped before it numbers", err)
	}
	for range 2 { // the second time there is nothing to do
		if err := s.Number(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	samePosition(t, s, whole, 1)
}
