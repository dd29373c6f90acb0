package audit_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/audit"
)

// years makes a store whose rows are a day apart.
func days(t *testing.T, s *audit.Store, n uint64) {
	t.Helper()
	var all []audit.Entry
	for i := uint64(1); i <= n; i++ {
		e := entry(1, i, 2)
		for k := range e.Events {
			e.Events[k].AtMS = startMS + int64(i)*24*3600*1000
		}
		all = append(all, e)
	}
	appendAll(t, s, all...)
}

func day(n int) time.Time { return time.UnixMilli(startMS).Add(time.Duration(n) * 24 * time.Hour) }

func TestRetain_keepsHashesRootsAndProofs(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "audit.db")
	s, twin := openAt(t, path), open(t)
	days(t, s, 1500)
	days(t, twin, 1500)
	proof, err := s.ProveRow(ctx, 1, 5, 3000)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(tenant string) int { return map[string]int{acme: 100, globex: 0}[tenant] }
	n, err := s.Retain(ctx, keep, day(1500))
	if err != nil || n != 1399 {
		t.Errorf("dropped: got %d, %v, want 1399", n, err)
	}
	if n, err = s.Retain(ctx, keep, day(1500)); err != nil || n != 0 {
		t.Errorf("dropped again: got %d, %v, want none", n, err)
	}
	samePosition(t, s, twin, 1)
	if again, err := s.ProveRow(ctx, 1, 5, 3000); err != nil || !slices.Equal(again, proof) {
		t.Errorf("proof: got another one, %v", err)
	}
	if got := len(search(t, s, audit.Query{Tenant: acme})); got != 101 {
		t.Errorf("rows left: got %d, want 101", got)
	}
	if got := len(search(t, s, audit.Query{Tenant: globex})); got != 1500 {
		t.Errorf("rows of who keeps them: got %d, want 1500", got)
	}
	page, err := s.Query(ctx, audit.Query{Tenant: acme})
	if err != nil || !page.DroppedBefore.Equal(day(1400)) {
		t.Errorf("dropped before: got %v, %v, want %v", page.DroppedBefore, err, day(1400))
	}
	reports, err := audit.VerifyFile(ctx, path)
	if err != nil || !reports[0].Whole() || reports[0].Dropped != 1399 || reports[0].Root != position(t, twin, 1).Root {
		t.Errorf("file: got %+v, %v, want it whole", reports, err)
	}
	days(t, s, 1500) // a replay brings nothing back
	if got := len(search(t, s, audit.Query{Tenant: acme})); got != 101 {
		t.Errorf("rows after a replay: got %d, want 101", got)
	}
}

func TestRetain_findsOldRowsBehindYoungOnes(t *testing.T) {
	s := open(t)
	young, old := entry(1, 1, 1), entry(1, 2, 1)
	young.Events[0].AtMS, old.Events[0].AtMS = day(300).UnixMilli(), day(10).UnixMilli()
	young.Events[0].Tenant, old.Events[0].Tenant = acme, acme
	appendAll(t, s, young, old)
	if n, err := s.Retain(context.Background(), func(string) int { return 30 }, day(301)); n != 1 || err != nil {
		t.Errorf("dropped: got %d, %v, want the old one", n, err)
	}
	if rows := search(t, s, audit.Query{Tenant: acme}); len(rows) != 1 || rows[0].Position.Index != 1 {
		t.Errorf("rows: got %+v, want the young one", rows)
	}
}

func TestFill_takesRowsThatRetentionDropped(t *testing.T) {
	ctx := context.Background()
	peer, s := open(t), open(t)
	days(t, peer, 200)
	if _, err := peer.Retain(ctx, func(string) int { return 50 }, day(200)); err != nil {
		t.Fatal(err)
	}
	recordGap(t, s, 1, 1, 200)
	fillFrom(t, s, peer, 64)
	samePosition(t, s, peer, 1)
	if got := len(search(t, s, audit.Query{AllTenants: true})); got != 102 {
		t.Errorf("rows: got %d, want 102", got)
	}
}

func TestFill_tellsWhatRetentionDroppedElsewhere(t *testing.T) {
	ctx := context.Background()
	whole, s := open(t), open(t)
	days(t, whole, 30)
	if _, err := whole.Retain(ctx, func(tenant string) int { return map[string]int{acme: 10}[tenant] }, day(30)); err != nil {
		t.Fatal(err)
	}
	recordGap(t, s, 1, 1, 30)
	fillFrom(t, s, whole, 7)
	for tenant, want := range map[string]time.Time{acme: day(20), globex: {}} {
		page, err := s.Query(ctx, audit.Query{Tenant: tenant})
		if err != nil || !page.DroppedBefore.Equal(want) {
			t.Errorf("%s dropped before: got %v, %v, want %v", tenant, page.DroppedBefore, err, want)
		}
	}
}

func TestEraseText_leavesTheRest(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "audit.db")
	s, twin := openAt(t, path), open(t)
	all := entries(1, 1, 60)
	all[1].Events[0].By, all[1].Events[0].Tenant = "someone@dev.test", acme
	all[4].Events[0].Holder, all[4].Events[0].Tenant = "someone@dev.test", acme
	all[7].Events[0].By, all[7].Events[0].Tenant = "someone@dev.test", globex
	appendAll(t, s, all...)
	appendAll(t, twin, all...)
	if n, err := s.EraseText(ctx, acme, "someone@dev.test"); n != 2 || err != nil {
		t.Errorf("erased: got %d, %v, want 2", n, err)
	}
	for _, r := range search(t, s, audit.Query{Tenant: acme, Logs: []audit.Log{1}}) {
		erased := r.Position == audit.RowPosition{Log: 1, Index: 2} || r.Position == audit.RowPosition{Log: 1, Index: 5}
		e := r.Event
		if r.Erased != erased || erased != (e.By == "" && e.Holder == "" && e.Note == "") || e.Key == "" {
			t.Errorf("%v: got %+v, erased %v, want erased %v", r.Position, e, r.Erased, erased)
		}
	}
	if got := len(search(t, s, audit.Query{Tenant: globex, Text: "someone@"})); got != 1 {
		t.Errorf("rows of another tenant: got %d, want 1", got)
	}
	samePosition(t, s, twin, 1)
	reports, err := audit.VerifyFile(ctx, path)
	if err != nil || !reports[0].Whole() || reports[0].Erased != 2 || reports[0].Recomputed != reports[0].Rows {
		t.Errorf("file: got %+v, %v, want it whole with 2 rows erased", reports, err)
	}
	appendAll(t, s, all...)
	late := open(t)
	recordGap(t, late, 1, 1, 60)
	fillFrom(t, late, s, 100)
	samePosition(t, late, s, 1)
	if got := len(search(t, late, audit.Query{Tenant: acme, Text: "someone@"})); got != 0 {
		t.Errorf("rows that a peer got: got %d with the text, want none", got)
	}
}
