package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// oddNames are keys and labels that a terminal might act on, or that look like others, and how they are shown.
var oddNames = map[string]string{
	"@": "@", ":": ":", "#": "#", "?": "?", "%": "%", "&": "&", "@:#?%&": "@:#?%&", "été": "été", "e\u0301": "e\u0301", "🔒": "🔒",
	"🔒\ufe0f": `"🔒\ufe0f"`, "👩\u200d🔧": `"👩\u200d🔧"`, "مفتاح": `"\u0645\u0641\u062a\u0627\u062d"`, "\u202eabc": `"\u202eabc"`,
	"\u2066abc\u2069": `"\u2066abc\u2069"`, "a b": `"a b"`, "a\u00a0b": `"a\u00a0b"`, "\u2028": `"\u2028"`, "a": "a",
	"\x1b[2J\x1b[H": `"\x1b[2J\x1b[H"`, "\u009b31m": `"\u009b31m"`, "\"a\"": `"\"a\""`, "": `""`,
}

// harmless fails the test when text would move a cursor, turn a line or hide something.
func harmless(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r) {
			t.Errorf("the output holds %q:\n%q", r, text)
			return
		}
	}
}

// fakeAPI serves one handler and tells how to reach it.
func fakeAPI(t *testing.T, handle func(w http.ResponseWriter, r *http.Request)) clientOptions {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(handle))
	t.Cleanup(s.Close)
	t.Setenv("STANCHION_API_KEY", "stn_test")
	return clientOptions{endpoints: s.URL, output: "table"}
}

func answerJSON(t *testing.T, w http.ResponseWriter, status int, body any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		t.Error(err)
	}
}

func heldLock(key, label string) wire.Lock {
	at := time.UnixMilli(1_782_860_400_125).UTC()
	return wire.Lock{Class: "ledger-close", Key: key, WaitersTotal: 2, HighestToken: 33,
		Holder: &wire.Holder{Label: label, APIKey: "ledger service", Since: at, LastHeartbeat: &at, Token: 33, Epoch: 7}}
}

func TestLocks_showOddNamesHarmlessly(t *testing.T) {
	for name, shown := range oddNames {
		o := locksOptions{limit: 100}
		o.client = fakeAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(t, w, 200, wire.LockList{Locks: []wire.Lock{heldLock(name, "label of "+name)}})
		})
		api, err := o.validate()
		if err != nil {
			t.Fatal(err)
		}
		list, err := o.list(t.Context(), api)
		if err != nil {
			t.Fatal(err)
		}
		var table, whole bytes.Buffer
		if err := errors.Join(o.print(&table, io.Discard, list), printJSON(&whole, list)); err != nil {
			t.Fatal(err)
		}
		harmless(t, table.String())
		if !strings.Contains(table.String(), "ledger-close  "+shown+"  ") {
			t.Errorf("key %q is shown as\n%swant %s", name, table.String(), shown)
		}
		var back wire.LockList
		if err := json.Unmarshal(whole.Bytes(), &back); err != nil || back.Locks[0].Key != name {
			t.Errorf("key %q is printed as JSON for %q: %v", name, back.Locks[0].Key, err)
		}
	}
}

func TestLocks_showHowTheyStand(t *testing.T) {
	ending, delayed, queued := heldLock("b", "host-b:2"), heldLock("c", ""), heldLock("d", "")
	ending.Holder.Ending, ending.Holder.LastHeartbeat = "forced", nil
	delayed.Holder, delayed.Delay = nil, &wire.Delay{Token: 33, Length: wire.Duration(2500 * time.Millisecond)}
	queued.Holder = nil
	var out, notes bytes.Buffer
	list := wire.LockList{NextCursor: "x", Locks: []wire.Lock{heldLock("a", "host-a:1"), ending, delayed, queued}}
	if err := (locksOptions{}).print(&out, &notes, list); err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Fields(line))
	}
	for i, want := range []string{"CLASS KEY HOLDER", `ledger-close a host-a:1 "ledger service" 2026-06-30T23:00:00Z`,
		`ledger-close b host-b:2 "ledger service" 2026-06-30T23:00:00Z - 33 2 ending: forced`,
		`ledger-close c - - - - 33 2 lock delay of 2.5s`, `ledger-close d - - - - 33 2 waited for`} {
		if line := strings.Join(got[i], " "); !strings.HasPrefix(line, want) {
			t.Errorf("line %d is %s; want it to begin with %s", i, line, want)
		}
	}
	if !strings.Contains(notes.String(), "more than these 4") {
		t.Errorf("of the next page it says %q", notes.String())
	}
}

// pagesOf serves so many locks, page by page, and counts the pages.
func pagesOf(t *testing.T, total int, pages *int) clientOptions {
	return fakeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		*pages++
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || limit > listPageMax || r.URL.Path != "/v1/locks" || r.URL.Query().Get("class") != "c" {
			t.Errorf("asked for %s", r.URL)
		}
		list := wire.LockList{Locks: []wire.Lock{}}
		for i := from; i < min(total, from+limit); i++ {
			list.Locks = append(list.Locks, wire.Lock{Class: "c", Key: strconv.Itoa(i)})
		}
		if from+limit < total {
			list.NextCursor = strconv.Itoa(from + limit)
		}
		answerJSON(t, w, 200, list)
	})
}

func TestLocks_pageUntilThereAreEnough(t *testing.T) {
	for _, test := range []struct {
		total, limit int
		all          bool
		want, pages  int
		more         bool
	}{
		{50, 100, false, 50, 1, false}, {100, 100, false, 100, 1, false}, {101, 100, false, 100, 1, true}, {2500, 1700, false, 1700, 2, true},
		{2500, 100, true, 2500, 3, false}, {0, 100, true, 0, 1, false},
	} {
		pages := 0
		o := locksOptions{class: "c", limit: test.limit, all: test.all}
		o.client = pagesOf(t, test.total, &pages)
		api, err := o.validate()
		if err != nil {
			t.Fatal(err)
		}
		list, err := o.list(t.Context(), api)
		if err != nil || len(list.Locks) != test.want || pages != test.pages || (list.NextCursor != "") != test.more {
			t.Errorf("%+v: %d locks in %d pages, next %q, %v", test, len(list.Locks), pages, list.NextCursor, err)
		}
		for i, l := range list.Locks {
			if l.Key != strconv.Itoa(i) {
				t.Fatalf("%+v: lock %d is %s", test, i, l.Key)
			}
		}
	}
}

// onCall serves one held lock, and keeps what it was told to end.
func onCall(t *testing.T, lock wire.Lock, ended *[]wire.ForceReleaseRequest) clientOptions {
	return fakeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if got := r.URL.Query().Get("key"); got != lock.Key {
				t.Errorf("looked at %q; want %q", got, lock.Key)
			}
			answerJSON(t, w, 200, wire.LockList{Locks: []wire.Lock{lock}})
			return
		}
		var f wire.ForceReleaseRequest
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
			t.Error(err)
		}
		*ended = append(*ended, f)
		if f.Token != lock.Holder.Token {
			p := wire.NewProblem(wire.CodeStaleToken, "The key is held by host-b:2 with token 34, not 33.")
			answerJSON(t, w, p.Status, p)
			return
		}
		answerJSON(t, w, 200, wire.ForceRelease{Class: f.Class, Key: f.Key, Token: f.Token, State: wire.StateEnding, What: "The holder is told."})
	})
}

func TestForceRelease_asksAPersonFirst(t *testing.T) {
	for said, want := range map[string]int{"yes\n": 1, "yes": 1, " yes \n": 1, "y\n": 0, "no\n": 0, "\n": 0, "": 0, "YES\n": 0, "yes, please\n": 0} {
		var ended []wire.ForceReleaseRequest
		key := "\u202e2026-06"
		o := forceOptions{client: onCall(t, heldLock(key, "\x1b[2Jhost"), &ended), token: 33, reason: "host-a was lost"}
		var out, prompts bytes.Buffer
		err := o.run(t.Context(), "ledger-close", key, terminal{in: strings.NewReader(said), out: &out, prompts: &prompts, person: true})
		if len(ended) != want || (err == nil) != (want == 1) || want == 0 && !errors.Is(err, errNotEnded) {
			t.Errorf("said %q: %d holds ended, %v; want %d", said, len(ended), err, want)
		}
		harmless(t, prompts.String()+out.String())
		if !strings.Contains(prompts.String(), `ledger-close/"\u202e2026-06" is held by "\x1b[2Jhost" (API key "ledger service") with token 33`) {
			t.Errorf("asked\n%s", prompts.String())
		}
		if want == 1 && (ended[0] != wire.ForceReleaseRequest{Class: "ledger-close", Key: key, Token: 33, Reason: "host-a was lost"} ||
			!strings.Contains(out.String(), "with token 33: ending. The holder is told.")) {
			t.Errorf("sent %+v, printed %s", ended, out.String())
		}
	}
}

func TestForceRelease_endsNothingUnasked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*forceOptions, *terminal, *wire.Lock)
		usage  bool
	}{
		"without a terminal": {func(_ *forceOptions, i *terminal, _ *wire.Lock) { i.person = false }, true},
		"without a token":    {func(o *forceOptions, _ *terminal, _ *wire.Lock) { o.token = 0 }, true},
		"without a reason":   {func(o *forceOptions, _ *terminal, _ *wire.Lock) { o.reason = "" }, true},
		"with a new holder":  {func(_ *forceOptions, _ *terminal, l *wire.Lock) { l.Holder.Token = 34 }, false},
		"without a holder":   {func(_ *forceOptions, _ *terminal, l *wire.Lock) { l.Holder = nil }, false},
	} {
		var ended []wire.ForceReleaseRequest
		lock := heldLock("k", "host-a:1")
		o, i := forceOptions{token: 33, reason: "r"}, terminal{in: strings.NewReader("yes\n"), out: io.Discard, prompts: io.Discard, person: true}
		test.change(&o, &i, &lock)
		o.client = onCall(t, lock, &ended)
		err := o.run(t.Context(), "ledger-close", "k", i)
		if err == nil || len(ended) != 0 || errors.Is(err, errUsage) != test.usage {
			t.Errorf("%s: %v, ended %+v; want nothing ended", name, err, ended)
		}
	}
}

func TestForceRelease_neverReportsSuccessOfARefusal(t *testing.T) {
	var ended []wire.ForceReleaseRequest
	lock := heldLock("k", "host-b:2")
	lock.Holder.Token = 34
	o := forceOptions{client: onCall(t, lock, &ended), token: 33, reason: "r", now: true, yes: true}
	var out bytes.Buffer
	err := o.run(t.Context(), "ledger-close", "k", terminal{in: strings.NewReader(""), out: &out, prompts: io.Discard})
	if p, refused := errors.AsType[*wire.Problem](err); !refused || p.Code != wire.CodeStaleToken || errors.Is(err, errNotEnded) {
		t.Errorf("refused by the API it returns %v; want stale_token", err)
	}
	if out.Len() != 0 || len(ended) != 1 || !ended[0].Now {
		t.Errorf("printed %q, sent %+v", out.String(), ended)
	}
}

func TestTerminalOf_knowsThatNobodyIsThere(t *testing.T) {
	force := newForceRelease()
	force.SetIn(strings.NewReader("yes\n"))
	if terminalOf(force).person {
		t.Error("a pipe is taken for a person")
	}
}

func TestWhy_printsFindingsFirstAndHarmlessly(t *testing.T) {
	for name, shown := range oddNames {
		age := wire.Duration(1200 * time.Millisecond)
		w := wire.Why{Class: "ledger-close", Key: name, Index: 77, Stale: true, Waiting: 2,
			Findings: []wire.Finding{{Code: wire.FindingNoQuorum, Text: "No majority.", Next: "Wait."}, {Code: wire.FindingHeld, Text: "Held\x1b[2J.", Next: "Ask."}},
			Posture: wire.WhyClass{State: wire.ClassInForce, Version: 3, Purpose: "correctness", Enforcement: "fenced", QuorumLoss: "closed",
				Lease: wire.Duration(10 * time.Second), Heartbeat: wire.Duration(5 * time.Second), WaitMode: "queue", MaxWaiters: 9,
				InReview: []wire.InReview{{Version: 4, Missing: []string{name}}}},
			Holder:  &wire.WhyHolder{Label: name, APIKey: name, Token: 33, Lease: wire.Duration(10 * time.Second), HeartbeatAge: &age, ExpiresWithin: &age},
			Waiters: []wire.WhyWaiter{{Position: 1, Label: name, APIKey: name}},
			Quotas:  []wire.QuotaUse{{Quota: "keys", InUse: 1, Limit: 10}},
			Partition: wire.WhyPartition{Node: "n1", Epoch: 7,
				Voters: []wire.VoterSeen{{Node: "n1", Answered: true}, {Node: "n2"}}}}
		var out bytes.Buffer
		if err := printWhy(&out, w); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		harmless(t, text)
		for _, want := range []string{"ledger-close/" + shown + "\n\n1. No majority. [no_quorum]\n   Wait.\n2. Held\ufffd[2J. [held]\n",
			"in_force, version 3: correctness, fenced, quorum loss closed; lease 10s, heartbeat 5s; queues without limit, at most 9",
			"version 4, awaits the signature of " + shown, fmt.Sprintf("%s (API key %s), token 33, since", shown, shown), "1.2s ago",
			"and 1 more", "1 of 10", "no leader known, epoch 7; answered by n1, NOT confirmed by a majority, up to log entry 77", "n1 answers, n2 does not answer"} {
			if !strings.Contains(text, want) {
				t.Errorf("of %q it prints\n%s\nwithout %q", name, text, want)
			}
		}
	}
}
