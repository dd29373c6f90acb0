package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
)

func TestAudit_eventHasEveryFieldThatItSpeaksOf(t *testing.T) {
	s := openAudit(t)
	full := audit.Event{Kind: "fenced", Tenant: "acme", Class: "ledger-close", Key: "2026-06", Request: "c0ffee0123456789.1", Token: 32,
		Epoch: 7, Version: 3, Reason: "stale_token", APIKey: "guard", Count: 2, Unprotected: true, Detail: "highest=33",
		Holder: "host-a:4711", By: "owner@dev.test", Note: "<b>&", AtMS: auditTime}
	project(t, s, 0, 1)
	project(t, s, 1, 1, full)
	project(t, s, 1, 2, audit.Event{Kind: "epoch_advanced", AtMS: auditTime + 875})
	project(t, s, 2, 1)
	n := auditWorld(t, s)
	want := `{"events":[{"position":"partition-1/2/0","row":1,"at":"2026-06-30T23:00:01.000Z","kind":"epoch_advanced"},` +
		`{"position":"partition-1/1/0","row":0,"at":"2026-06-30T23:00:00.125Z","kind":"fenced","tenant":"acme","class":"ledger-close",` +
		`"key":"2026-06","request":"c0ffee0123456789.1","token":32,"epoch":7,"version":3,"reason":"stale_token","api_key":"guard","count":2,` +
		`"unprotected":true,"detail":"highest=33","holder":"host-a:4711","by":"owner@dev.test","note":"<b>&"}],` +
		`"complete_to":{"control":1,"partition-1":2,"partition-2":1},"gaps":[]}` + "\n"
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit", key: operatorKey})
	if out.status != 200 || string(out.body) != want {
		t.Errorf("%d %s\nwant 200 %s", out.status, out.body, want)
	}
	if got := n.search(t, unscopedKey, ""); len(got.Events) != 1 || got.Events[0].Kind != "fenced" {
		t.Errorf("acme sees %v; want its own event alone", got.Events)
	}
}

// TestAudit_everyEventOfOneMillisecondComesOnce: 500 events in two logs with one time, in pages of 50, while others come.
func TestAudit_everyEventOfOneMillisecondComesOnce(t *testing.T) {
	const events = 500
	for _, order := range []string{"asc", "desc"} {
		s := openAudit(t)
		var first []string
		var entries []audit.Entry
		for i := range uint64(events / 2) {
			for log := range audit.Log(2) {
				entries = append(entries, entryOf(log+1, i+1, grantOf("k", i+1, auditTime)))
				first = append(first, fmt.Sprintf("partition-%d/%d/0", log+1, i+1))
			}
		}
		if err := s.Append(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
		n := auditWorld(t, s)
		next := uint64(events/2 + 1)
		got := positions(n.searchAll(t, goodKey, "limit=50&order="+order, func() {
			if next <= events/2+20 { // else going up would never end
				project(t, s, 1, next, grantOf("k", next, auditTime))
				next++
			}
		}))
		seen := map[string]int{}
		for _, p := range got {
			seen[p]++
		}
		for _, p := range first {
			if seen[p] != 1 {
				t.Errorf("%s: %s came %d times", order, p, seen[p])
			}
		}
		for p, times := range seen {
			if times != 1 {
				t.Errorf("%s: %s came %d times", order, p, times)
			}
		}
		if order == "desc" && len(got) != events {
			t.Errorf("desc: %d events; want the %d that there were", len(got), events)
		}
	}
}

func TestAudit_findsTextFarFromTheFirstPage(t *testing.T) {
	s := openAudit(t)
	var entries []audit.Entry
	for i := range uint64(2050) { // more than 40 pages of 50
		e := grantOf("k", i+1, auditTime+int64(i))
		if i == 7 {
			e.Holder = "the-needle:1"
		}
		entries = append(entries, entryOf(1, i+1, e))
	}
	if err := s.Append(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	n := auditWorld(t, s)
	for _, query := range []string{"q=needle&limit=50", "q=needle&limit=1&order=asc", "q=needle&kind=granted,released&kind=fenced",
		"holder=the-needle:1", "token=8"} {
		got := n.searchAll(t, goodKey, query, nil)
		if len(got) != 1 || got[0].Position != "partition-1/8/0" {
			t.Errorf("%s finds %v; want partition-1/8/0", query, positions(got))
		}
	}
	if got := n.searchAll(t, goodKey, "q=haystack", nil); len(got) != 0 {
		t.Errorf("what is nowhere is found: %v", got)
	}
}

// TestAudit_timesAreMomentsInAnyZone: events of every quarter of an hour around the end of summer time in central Europe,
// 2026-10-25T01:00Z, when clocks there show 02:00 to 02:59 twice.
func TestAudit_timesAreMomentsInAnyZone(t *testing.T) {
	s := openAudit(t)
	began := time.Date(2026, 10, 24, 23, 0, 0, 125e6, time.UTC)
	var want []string
	for i := range 16 {
		at := began.Add(time.Duration(i) * 15 * time.Minute)
		project(t, s, 1, uint64(i+1), grantOf("k", uint64(i+1), at.UnixMilli()))
		want = append(want, at.Format("2006-01-02T15:04:05.000Z"))
	}
	n := auditWorld(t, s)
	var got []string
	for _, e := range n.searchAll(t, goodKey, "order=asc&limit=5", nil) {
		got = append(got, e.At.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("times\n%v\nwant\n%v", got, want)
	}
	for query, tokens := range map[string][]uint64{
		"from=2026-10-25T02:00:00%2B02:00&to=2026-10-25T03:00:00%2B02:00":       {5, 6, 7, 8}, // the hour, in summer time
		"from=2026-10-25T02:00:00%2B01:00&to=2026-10-25T03:00:00%2B01:00":       {9, 10, 11, 12},
		"from=2026-10-25T01:00:00Z&to=2026-10-25T02:00:00Z":                     {9, 10, 11, 12},
		"from=2026-10-25T00:30:00.125Z&to=2026-10-25T01:00:00.125Z":             {7, 8}, // start included, end not
		"from=2026-10-25T00:30:00.1251Z&to=2026-10-25T01:00:00.1251Z":           {8, 9},
		"from=2026-10-24T20:30:00.125-04:00&to=2026-10-25T10:00:00.125%2B09:00": {7, 8},
	} {
		var got []uint64
		for _, e := range n.searchAll(t, goodKey, "order=asc&"+query, nil) {
			got = append(got, e.Token)
		}
		if !slices.Equal(got, tokens) {
			t.Errorf("%s finds tokens %v; want %v", query, got, tokens)
		}
	}
}

func TestAudit_showsNobodyElsesEvents(t *testing.T) {
	s := openAudit(t)
	theirs := grantOf("k", 1, auditTime)
	theirs.Tenant = "globex"
	project(t, s, 1, 1, grantOf("k", 1, auditTime))
	project(t, s, 1, 2, theirs)
	project(t, s, 0, 1, audit.Event{Kind: "cluster_set", AtMS: auditTime})
	n := auditWorld(t, s)
	tenantsOf := func(key, query string) []string {
		var all []string
		for _, e := range n.searchAll(t, key, query, nil) {
			all = append(all, e.Tenant)
		}
		slices.Sort(all)
		return all
	}
	for _, test := range []struct {
		key, query string
		want       []string
	}{
		{goodKey, "", []string{"acme"}}, {goodKey, "tenant=acme", []string{"acme"}}, {foreignKey, "", []string{"globex"}},
		{operatorKey, "", []string{"", "acme", "globex"}}, {operatorKey, "tenant=globex", []string{"globex"}},
		{goodKey, "key=k&limit=1", []string{"acme"}}, {goodKey, "q=k&kind=granted", []string{"acme"}},
	} {
		if got := tenantsOf(test.key, test.query); !slices.Equal(got, test.want) {
			t.Errorf("%s with ?%s sees events of %q; want %q", test.key, test.query, got, test.want)
		}
	}
	for _, tenant := range []string{"globex", "nobody"} { // that there is one is told to nobody either
		out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?tenant=" + tenant, key: goodKey})
		if p := out.problem(t); p.Code != wire.CodeForbidden || p.Scope != "platform:operator" {
			t.Errorf("acme asks for %s: %s", tenant, out.body)
		}
	}
	if out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?tenant=nobody", key: operatorKey}); out.status != 404 {
		t.Errorf("an operator asks for a tenant that is none: %d %s; want 404", out.status, out.body)
	}
	for _, format := range []string{"ndjson", "csv"} {
		out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?format=" + format, key: goodKey})
		if strings.Contains(string(out.body), "globex") || !strings.Contains(string(out.body), "acme") {
			t.Errorf("acme's export as %s:\n%s", format, out.body)
		}
	}
}

func TestAudit_namesComeBackByteForByte(t *testing.T) {
	s := openAudit(t)
	keys := append(slices.Clone(awkwardKeys), "=1+1", "+1", "-1", "@a", "'a", "a,b", `a"b`, "a:?#%&@", "é@:#?%&", "שלום")
	for i, key := range keys {
		e := grantOf(key, uint64(i+1), auditTime)
		e.Holder, e.Note = key, "line\r\nand \ttab "+key
		project(t, s, 1, uint64(i+1), e)
	}
	n := auditWorld(t, s)
	check := func(form string, events []wire.AuditEvent) {
		if len(events) != len(keys) {
			t.Fatalf("%s: %d events; want %d", form, len(events), len(keys))
		}
		for i, e := range events {
			if e.Key != keys[i] || e.Holder != keys[i] || e.Note != "line\r\nand \ttab "+keys[i] {
				t.Errorf("%s: key %q comes back as %q, %q, %q", form, keys[i], e.Key, e.Holder, e.Note)
			}
		}
	}
	check("json", n.search(t, goodKey, "order=asc&limit=1000").Events)
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?order=asc&format=ndjson", key: goodKey})
	events, _ := exported(t, out.body)
	check("ndjson", events)
	out = n.do(t, request{method: http.MethodGet, path: "/v1/audit?order=asc&format=csv", key: goodKey})
	check("csv", eventsOfCSV(t, out.body))
	for i, key := range keys {
		got := n.search(t, goodKey, "key="+url.QueryEscape(key)).Events
		if len(got) != 1 || got[0].Token != uint64(i+1) {
			t.Errorf("key %q finds %v", key, positions(got))
		}
	}
}

// eventsOfCSV reads an export in CSV as its documentation says. The standard library's reader changes line breaks, so this
// is one of its own.
func eventsOfCSV(t *testing.T, body []byte) []wire.AuditEvent {
	t.Helper()
	var events []wire.AuditEvent
	for _, record := range recordsOfCSV(string(body)) {
		cell := func(i int) string {
			if text, marked := strings.CutPrefix(record[i], "'"); marked {
				return text
			}
			return record[i]
		}
		if len(record) != 20 {
			t.Fatalf("a record of %d cells: %q", len(record), record)
		}
		if record[0] != "position" && record[0] != "trailer" {
			events = append(events, wire.AuditEvent{Position: cell(0), Key: cell(6), Holder: cell(16), Note: cell(18)})
		}
	}
	return events
}

// recordsOfCSV reads RFC 4180.
func recordsOfCSV(text string) [][]string {
	var records [][]string
	var record []string
	var cell strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' && quoted && i+1 < len(text) && text[i+1] == '"':
			cell.WriteByte('"')
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '\r'):
			record = append(record, cell.String())
			cell.Reset()
			if c == '\r' {
				records, record = append(records, record), nil
				i++
			}
		default:
			cell.WriteByte(c)
		}
	}
	return records
}
