package audit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stanchion-locks/stanchion/audit"
)

// model is what a store ought to hold of one log, as a list.
type model struct {
	durable uint64
	has     map[uint64]bool // entries that are rows
	lost    map[uint64]bool // entries given up
}

func (m *model) missing(i uint64) bool { return i <= m.durable && !m.has[i] && !m.lost[i] }

// gaps are the model's gaps as ranges; entries given up apart from the others are gaps apart.
func (m *model) open() (all []gapWant) {
	for i := uint64(1); i <= m.durable; i++ {
		if !m.missing(i) {
			continue
		}
		if n := len(all); n > 0 && all[n-1].to == i-1 {
			all[n-1].to = i
			continue
		}
		all = append(all, gapWant{i, i, false})
	}
	return all
}

func (m *model) complete() uint64 {
	for i := uint64(1); i <= m.durable; i++ {
		if m.missing(i) {
			return i - 1
		}
	}
	return m.durable
}

// step is one call of the store beside one of the model.
type step struct {
	s, peer *audit.Store
	m       *model
	last    uint64 // of the log
}

func (x *step) append(t *rapid.T) {
	from := rapid.Uint64Range(1, x.last).Draw(t, "from")
	to := min(from+rapid.Uint64Range(0, 6).Draw(t, "more"), x.last)
	if err := x.s.Append(context.Background(), entries(1, from, to)); err != nil {
		t.Fatalf("append %d..%d: %v", from, to, err)
	}
	for i := from; i <= to; i++ {
		if !x.m.lost[i] {
			x.m.has[i] = true
		}
	}
	x.m.durable = max(x.m.durable, to)
}

func (x *step) appendOther(t *rapid.T) {
	if len(x.m.has) == 0 {
		return
	}
	known := make([]uint64, 0, len(x.m.has))
	for i := range x.m.has {
		known = append(known, i)
	}
	slices.Sort(known)
	i := rapid.SampledFrom(known).Draw(t, "index")
	e := entry(1, i, int(i%3)+1)
	if err := x.s.Append(context.Background(), []audit.Entry{e}); !errors.Is(err, audit.ErrContentDiffers) {
		t.Fatalf("other content at %d: got %v, want ErrContentDiffers", i, err)
	}
}

func (x *step) recordGap(t *rapid.T) {
	from := rapid.Uint64Range(1, x.last).Draw(t, "from")
	to := min(from+rapid.Uint64Range(0, 9).Draw(t, "more"), x.last)
	if err := x.s.RecordGap(context.Background(), 1, from, to, "test"); err != nil {
		t.Fatalf("record gap: %v", err)
	}
	x.m.durable = max(x.m.durable, to)
}

func (x *step) fill(t *rapid.T) {
	from := rapid.Uint64Range(1, x.last).Draw(t, "from")
	rows, err := x.peer.Peer(context.Background(), 1, from, from+rapid.Uint64Range(0, 12).Draw(t, "more"), rapid.IntRange(1, 9).Draw(t, "limit"))
	if err != nil {
		t.Fatalf("peer: %v", err)
	}
	if err := x.s.Fill(context.Background(), rows); err != nil {
		t.Fatalf("fill: %v", err)
	}
	for i := from; i <= min(rows.Through, x.m.durable); i++ {
		if !x.m.lost[i] {
			x.m.has[i] = true
		}
	}
}

func (x *step) giveUp(t *rapid.T) {
	gaps := x.m.open()
	if len(gaps) == 0 || len(x.m.lost) > 4 {
		return
	}
	g := rapid.SampledFrom(gaps).Draw(t, "gap")
	i := rapid.Uint64Range(g.from, g.to).Draw(t, "index")
	if err := x.s.GiveUp(context.Background(), audit.Gap{Log: 1, From: i, To: i}); err != nil {
		t.Fatalf("give up %d: %v", i, err)
	}
	x.m.lost[i] = true
}

func (x *step) check(t *rapid.T) {
	ctx := context.Background()
	want := []string{}
	leaves := 0
	for i := uint64(1); i <= x.m.durable; i++ {
		if x.m.lost[i] && i <= x.m.complete() {
			leaves++
		}
		if !x.m.has[i] {
			continue
		}
		for n := range int(i % 3) {
			want = append(want, fmt.Sprintf("key-%d-%d", i, n))
			if i <= x.m.complete() {
				leaves++
			}
		}
	}
	q := audit.Query{AllTenants: true, Limit: rapid.IntRange(1, 20).Draw(t, "limit"), Logs: []audit.Log{1}}
	got := []string{}
	for {
		page, err := x.s.Query(ctx, q)
		if err != nil {
			t.Fatalf("query: %v", err)
		}
		got = append(got, keysOf(page.Rows)...)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("rows: got %v, want %v", got, want)
	}
	positions, err := x.s.Positions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(positions) == 0 {
		positions = []audit.Position{{Log: 1}}
	}
	p := positions[0]
	if p.Durable != x.m.durable || p.Complete != x.m.complete() || p.Rows != uint64(leaves) || p.UnrecoverableGaps != len(x.m.lost) {
		t.Fatalf("position: got %+v, want durable %d, complete %d, %d leaves, %d given up", p, x.m.durable, x.m.complete(), leaves, len(x.m.lost))
	}
	gaps, err := x.s.Gaps(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var open []gapWant // neighbours of different causes are one to the model
	for _, g := range gaps {
		if n := len(open); g.Unrecoverable {
			continue
		} else if n > 0 && open[n-1].to == g.From-1 {
			open[n-1].to = g.To
		} else {
			open = append(open, gapWant{g.From, g.To, false})
		}
	}
	if !slices.Equal(open, x.m.open()) {
		t.Fatalf("gaps: got %v, want %v", open, x.m.open())
	}
}

func TestStore_isItsModel(t *testing.T) {
	const last = 60
	peer := open(t)
	appendAll(t, peer, entries(1, 1, last)...)
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprintf("%d.db", n))
		s, err := audit.Open(context.Background(), config(path))
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		x := &step{s: s, peer: peer, m: &model{has: map[uint64]bool{}, lost: map[uint64]bool{}}, last: last}
		steps := []func(*rapid.T){x.append, x.append, x.append, x.appendOther, x.recordGap, x.fill, x.fill, x.giveUp}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			rapid.SampledFrom(steps).Draw(rt, "step")(rt)
			x.check(rt)
		}
		reports, err := audit.VerifyFile(context.Background(), path)
		if err != nil || (len(reports) > 0 && !reports[0].Whole()) {
			rt.Fatalf("file: got %+v, %v, want it whole", reports, err)
		}
	})
}
