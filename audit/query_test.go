package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/audit"
)

func TestQuery_filters(t *testing.T) {
	s := open(t)
	odd := granted(1, 2, 0, acme)
	odd.Kind, odd.Reason, odd.Class, odd.Key, odd.APIKey, odd.Token = "forced", "forced", "batch", "naïve/%_x", "ak2", 77
	odd.Holder, odd.By, odd.Note = "w:1", "op@dev.test", "stuck since noon"
	appendAll(t, s, entry(1, 1, 2), audit.Entry{Log: 1, Index: 2, Salt: salt(1, 2), Events: []audit.Event{odd}}, entry(1, 3, 2))
	appendAll(t, s, entry(2, 4, 0), entry(2, 5, 2))
	platform := audit.Event{Kind: "cluster_set", AtMS: startMS}
	appendAll(t, s, audit.Entry{Log: 0, Index: 1, Events: []audit.Event{platform}})
	for name, c := range map[string]struct {
		q    audit.Query
		want int
	}{
		"a tenant":              {audit.Query{Tenant: acme}, 4},
		"another tenant":        {audit.Query{Tenant: globex}, 3},
		"a tenant that is not":  {audit.Query{Tenant: "initech"}, 0},
		"all":                   {audit.Query{AllTenants: true}, 8},
		"one log":               {audit.Query{AllTenants: true, Logs: []audit.Log{2}}, 2},
		"a log twice":           {audit.Query{AllTenants: true, Logs: []audit.Log{2, 2, 0}}, 3},
		"a log that is not":     {audit.Query{AllTenants: true, Logs: []audit.Log{9}}, 0},
		"class":                 {audit.Query{Tenant: acme, Class: "batch"}, 1},
		"key":                   {audit.Query{Tenant: acme, Key: "naïve/%_x"}, 1},
		"key of another class":  {audit.Query{Tenant: acme, Key: "naïve/%_x", Class: "ledger"}, 0},
		"key of another tenant": {audit.Query{Tenant: globex, Key: "naïve/%_x"}, 0},
		"key for all":           {audit.Query{AllTenants: true, Key: "naïve/%_x"}, 1},
		"prefix":                {audit.Query{Tenant: acme, KeyPrefix: "naï"}, 1},
		"prefix within a rune":  {audit.Query{Tenant: acme, KeyPrefix: "na\xc3"}, 1},
		"prefix of no pattern":  {audit.Query{Tenant: acme, KeyPrefix: "%"}, 0},
		"holder":                {audit.Query{Tenant: acme, Holder: "w:1"}, 1},
		"token":                 {audit.Query{Tenant: acme, Token: 77}, 1},
		"token elsewhere":       {audit.Query{Tenant: globex, Token: 77}, 0},
		"kind":                  {audit.Query{Tenant: acme, Kinds: []string{"forced"}}, 1},
		"kinds":                 {audit.Query{AllTenants: true, Kinds: []string{"forced", "cluster_set"}}, 2},
		"API key":               {audit.Query{Tenant: acme, APIKey: "ak2"}, 1},
		"text in the note":      {audit.Query{Tenant: acme, Text: "since n"}, 1},
		"text in the key":       {audit.Query{Tenant: acme, Text: "/%_"}, 1},
		"text in the class":     {audit.Query{Tenant: acme, Text: "bat"}, 1},
		"text in the holder":    {audit.Query{Tenant: acme, Text: "w:"}, 1},
		"text in by":            {audit.Query{Tenant: acme, Text: "op@"}, 1},
		"text in the reason":    {audit.Query{Tenant: acme, Text: "orce"}, 1},
		"all at once": {audit.Query{Tenant: acme, Class: "batch", Key: "naïve/%_x", KeyPrefix: "n", Holder: "w:1", Token: 77,
			Kinds: []string{"forced"}, APIKey: "ak2", Text: "noon", From: time.UnixMilli(startMS), To: time.UnixMilli(startMS + 1000)}, 1},
	} {
		for _, order := range []audit.Order{audit.Ascending, audit.Descending} {
			c.q.Order = order
			if got := search(t, s, c.q); len(got) != c.want {
				t.Errorf("%s, %s: got %d rows, want %d", name, order, len(got), c.want)
			}
		}
	}
}

func TestQuery_timeStartsIncludedAndEndsExcluded(t *testing.T) {
	s := open(t)
	var all []audit.Entry
	for i := uint64(1); i <= 5000; i++ {
		e := entry(1, i, 1)
		e.Events[0].AtMS = startMS + int64(i)
		all = append(all, e)
	}
	all[10].Events[0].AtMS = startMS + 4000 // a leader's clock was ahead
	appendAll(t, s, all...)
	at := func(ms int64) time.Time { return time.UnixMilli(startMS + ms) }
	for _, c := range []struct {
		from, to time.Time
		want     int
	}{
		{at(100), at(200), 100},
		{at(100), at(101), 1},
		{at(100), at(100), 0},
		{at(4000), at(4001), 2},
		{at(4000).Add(time.Microsecond), at(4002), 1},
		{at(4000), at(4001).Add(time.Microsecond), 3},
		{at(4901), time.Time{}, 100},
		{time.Time{}, at(21), 19},
		{at(6000), time.Time{}, 0},
	} {
		for _, order := range []audit.Order{audit.Ascending, audit.Descending} {
			if got := search(t, s, audit.Query{AllTenants: true, From: c.from, To: c.to, Order: order}); len(got) != c.want {
				t.Errorf("%v to %v, %s: got %d, want %d", c.from, c.to, order, len(got), c.want)
			}
		}
	}
}

// Nodes write in their own zones while clocks go back an hour: what is stored is an instant, to the millisecond.
func TestQuery_timesRoundTripOverAChangeOfClocks(t *testing.T) {
	s := open(t)
	var zones []*time.Location
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Pacific/Chatham", "UTC"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones = append(zones, zone)
	}
	change := time.Date(2026, 10, 25, 0, 59, 59, 998_000_000, time.UTC) // Berlin's 02:59 comes twice
	var want []int64
	for i := uint64(1); i <= 8; i++ {
		at := change.Add(time.Duration(i) * time.Millisecond).In(zones[i%4])
		e := entry(1, i, 1)
		e.Events[0].AtMS = at.UnixMilli()
		want = append(want, at.UnixMilli())
		appendAll(t, s, e)
	}
	var got []int64
	for _, r := range search(t, s, audit.Query{AllTenants: true}) {
		got = append(got, r.Event.AtMS)
	}
	if !slices.Equal(got, want) {
		t.Errorf("times: got %v, want %v", got, want)
	}
	for _, zone := range zones {
		from := change.Add(3 * time.Millisecond).In(zone)
		if got := len(search(t, s, audit.Query{AllTenants: true, From: from, To: from.Add(2 * time.Millisecond)})); got != 2 {
			t.Errorf("from %v: got %d rows, want 2", from, got)
		}
	}
}

// 500 events of one millisecond, paged in both directions while more of the same millisecond arrive.
func TestQuery_pagesEachRowOnceWhileRowsArrive(t *testing.T) {
	for _, order := range []audit.Order{audit.Ascending, audit.Descending} {
		s := open(t)
		arrive := func(from, to uint64) {
			var all []audit.Entry
			for i := from; i <= to; i++ {
				for _, log := range []audit.Log{0, 1, 2} {
					e := entry(log, i, 2)
					for n := range e.Events {
						e.Events[n].AtMS, e.Events[n].Tenant = startMS, acme
					}
					all = append(all, e)
				}
			}
			appendAll(t, s, all...)
		}
		arrive(1, 84)
		seen := map[audit.RowPosition]int{}
		last := map[audit.Log]audit.RowPosition{}
		q := audit.Query{Tenant: acme, Order: order, Limit: 50}
		for next := uint64(85); ; next++ {
			page, err := s.Query(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Rows {
				seen[r.Position]++
				before, known := last[r.Position.Log]
				up := before.Index < r.Position.Index || (before.Index == r.Position.Index && before.Ordinal < r.Position.Ordinal)
				if known && up != (order == audit.Ascending) {
					t.Errorf("%s: %v follows %v", order, r.Position, before)
				}
				last[r.Position.Log] = r.Position
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
			if next <= 95 {
				arrive(next, next)
			}
		}
		upTo := uint64(84)
		if order == audit.Ascending {
			upTo = 95
		}
		for log := audit.Log(0); log <= 2; log++ {
			for i := uint64(1); i <= upTo; i++ {
				for n := range uint32(2) {
					if p := (audit.RowPosition{Log: log, Index: i, Ordinal: n}); seen[p] != 1 {
						t.Errorf("%s: %v came %d times, want once", order, p, seen[p])
					}
				}
			}
		}
		if want := int(upTo) * 6; len(seen) != want {
			t.Errorf("%s: got %d rows, want %d", order, len(seen), want)
		}
	}
}

// A word that only the oldest of many rows has is found, in steps of bounded work.
func TestQuery_searchesTextOverTheWholeRange(t *testing.T) {
	s := open(t)
	var all []audit.Entry
	for i := uint64(1); i <= 450; i++ {
		e := entry(1, i, 100)
		for n := range e.Events {
			e.Events[n].Tenant = acme
		}
		all = append(all, e)
	}
	all[0].Events[3].Note = "the needle"
	appendAll(t, s, all...)
	for _, order := range []audit.Order{audit.Ascending, audit.Descending} {
		for _, q := range []audit.Query{{Tenant: acme}, {AllTenants: true}} {
			q.Order, q.Text, q.Limit = order, "needle", 50
			pages, rows := 0, 0
			for {
				page, err := s.Query(context.Background(), q)
				if err != nil {
					t.Fatal(err)
				}
				pages, rows = pages+1, rows+len(page.Rows)
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			if rows != 1 || pages != 3 {
				t.Errorf("%s: got %d rows on %d pages, want 1 on 3: a page looks at %d rows", order, rows, pages, audit.PageScanMax)
			}
		}
	}
}

func TestQuery_mergesLogsByTime(t *testing.T) {
	s := open(t)
	at := map[audit.Log][]int64{0: {5, 10, 10, 40}, 1: {1, 10, 30, 29, 50}, 2: {7}}
	for log, times := range at {
		for i, ms := range times {
			e := entry(log, uint64(i+1), 1)
			e.Events[0].AtMS = startMS + ms
			appendAll(t, s, e)
		}
	}
	var whole []string
	for limit := 1; limit <= 11; limit++ {
		var got []string
		for _, r := range search(t, s, audit.Query{AllTenants: true, Limit: limit}) {
			got = append(got, fmt.Sprintf("%d/%d", r.Position.Log, r.Event.AtMS-startMS))
		}
		want := []string{"1/1", "0/5", "2/7", "0/10", "0/10", "1/10", "1/30", "1/29", "0/40", "1/50"}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %v, want %v", limit, got, want)
		}
		var down []string
		for _, r := range search(t, s, audit.Query{AllTenants: true, Limit: limit, Order: audit.Descending}) {
			down = append(down, fmt.Sprintf("%d/%d", r.Position.Log, r.Event.AtMS-startMS))
		}
		if whole == nil {
			whole = down
		}
		if !slices.Equal(down, whole) || len(down) != 10 || down[0] != "1/50" {
			t.Errorf("down in pages of %d: got %v, want %v", limit, down, whole)
		}
	}
}

func TestQuery_saysWhatIsMissing(t *testing.T) {
	s := open(t)
	appendAll(t, s, entries(1, 1, 20)...)
	recordGap(t, s, 1, 21, 30)
	appendAll(t, s, entries(1, 31, 60)...)
	recordGap(t, s, 1, 61, 65)
	appendAll(t, s, entries(0, 1, 5)...)
	find := func(q audit.Query) audit.Page {
		t.Helper()
		q.AllTenants = true
		page, err := s.Query(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	page := find(audit.Query{})
	if len(page.Gaps) != 2 || page.CompleteTo[1] != 20 || page.CompleteTo[0] != 5 {
		t.Errorf("all: got gaps %+v, complete to %v", page.Gaps, page.CompleteTo)
	}
	first := find(audit.Query{Logs: []audit.Log{1}, Limit: 10})
	if len(first.Gaps) != 0 {
		t.Errorf("a page before the gap: got gaps %+v", first.Gaps)
	}
	across := find(audit.Query{Logs: []audit.Log{1}, Limit: 20, Cursor: first.Next})
	if len(across.Gaps) != 1 || across.Gaps[0].From != 21 || across.Gaps[0].Unrecoverable {
		t.Errorf("a page over the gap: got gaps %+v", across.Gaps)
	}
	last := find(audit.Query{Logs: []audit.Log{1}, Limit: 5, Order: audit.Descending})
	if len(last.Gaps) != 1 || last.Gaps[0].From != 61 {
		t.Errorf("the newest page: got gaps %+v", last.Gaps)
	}
	if got := find(audit.Query{Logs: []audit.Log{0}}); len(got.Gaps) != 0 {
		t.Errorf("another log: got gaps %+v", got.Gaps)
	}
}

func TestQuery_refusesWhatMakesNoSense(t *testing.T) {
	s := open(t)
	appendAll(t, s, entries(1, 1, 20)...)
	ctx := context.Background()
	page, err := s.Query(ctx, audit.Query{Tenant: acme, Limit: 2})
	if err != nil || page.Next == "" {
		t.Fatalf("got %+v, %v", page, err)
	}
	for name, c := range map[string]struct {
		q     audit.Query
		field string
	}{
		"nobody":               {audit.Query{}, "tenant"},
		"somebody and all":     {audit.Query{Tenant: acme, AllTenants: true}, "tenant"},
		"limit":                {audit.Query{Tenant: acme, Limit: audit.LimitMax + 1}, "limit"},
		"negative limit":       {audit.Query{Tenant: acme, Limit: -1}, "limit"},
		"kind":                 {audit.Query{Tenant: acme, Kinds: []string{"heartbeat"}}, "kind"},
		"order":                {audit.Query{Tenant: acme, Order: "up"}, "order"},
		"time":                 {audit.Query{Tenant: acme, From: time.UnixMilli(2), To: time.UnixMilli(1)}, "time"},
		"logs":                 {audit.Query{Tenant: acme, Logs: make([]audit.Log, audit.LogsMax+1)}, "logs"},
		"cursor":               {audit.Query{Tenant: acme, Cursor: "x"}, "cursor"},
		"cursor of another":    {audit.Query{Tenant: globex, Cursor: page.Next}, "cursor"},
		"cursor the other way": {audit.Query{Tenant: acme, Order: audit.Descending, Cursor: page.Next}, "cursor"},
		"cursor with a filter": {audit.Query{Tenant: acme, Token: 3, Cursor: page.Next}, "cursor"},
		"cursor of other logs": {audit.Query{Tenant: acme, Logs: []audit.Log{0}, Cursor: page.Next}, "cursor"},
	} {
		_, err := s.Query(ctx, c.q)
		var field *audit.QueryError
		if !errors.Is(err, audit.ErrInvalidQuery) || !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: got %v, want ErrInvalidQuery at %s", name, err, c.field)
		}
	}
}

func TestRow_isItsTenantsAlone(t *testing.T) {
	s := open(t)
	appendAll(t, s, entry(1, 1, 2)) // the first is globex's
	ctx := context.Background()
	at := audit.RowPosition{Log: 1, Index: 1}
	for _, tenant := range []string{globex, ""} {
		if got, err := s.Row(ctx, tenant, at); err != nil || got.Event != granted(1, 1, 0, globex) || got.Leaf == nil || *got.Leaf != 0 {
			t.Errorf("row for %q: got %+v, %v", tenant, got, err)
		}
	}
	if _, err := s.Row(ctx, acme, at); !errors.Is(err, audit.ErrUnknownRow) {
		t.Errorf("for another tenant: got %v, want ErrUnknownRow", err)
	}
	if _, err := s.Row(ctx, "", audit.RowPosition{Log: 1, Index: 2}); !errors.Is(err, audit.ErrUnknownRow) {
		t.Errorf("nowhere: got %v, want ErrUnknownRow", err)
	}
}

func FuzzCursor_isReadInOneFormOnly(f *testing.F) {
	s := open(f)
	appendAll(f, s, entries(1, 1, 20)...)
	appendAll(f, s, entries(2, 1, 20)...)
	page, err := s.Query(context.Background(), audit.Query{Tenant: acme, Limit: 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(page.Next)
	f.Add("")
	f.Add("AQ")
	f.Add(page.Next[:len(page.Next)-1])
	f.Fuzz(func(t *testing.T, text string) {
		again, err := audit.CheckCursor(audit.Query{Tenant: acme, Cursor: text})
		if err == nil && again != text {
			t.Errorf("got %q written again, want %q", again, text)
		}
		if err != nil && !errors.Is(err, audit.ErrInvalidQuery) {
			t.Errorf("got %v, want ErrInvalidQuery", err)
		}
	})
}
