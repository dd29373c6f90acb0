package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// commonFields are those of every event.
var commonFields = []string{"time", "event", "class", "key"}

// TestRunEvents_areTheDocumented: the page has the events that the code has, with their fields, and no other.
func TestRunEvents_areTheDocumented(t *testing.T) {
	documented := map[eventName][]string{}
	for _, row := range tableUnder(t, runPage(t), "What it says") {
		var fields []string
		for f := range strings.SplitSeq(row[2], ",") {
			fields = append(fields, strings.Trim(f, " `"))
		}
		documented[eventName(strings.Trim(row[0], "`"))] = fields
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if got, want := documented[name], eventFields[name]; !slices.Equal(got, want) {
			t.Errorf("fields of %s: docs/run.md has %v, want %v", name, got, want)
		}
	}
	for name := range eventFields {
		if documented[name] == nil {
			t.Errorf("docs/run.md does not have the event %s", name)
		}
	}
}

// TestRunEvent_hasNoOtherFields: every field of the object belongs to some event.
func TestRunEvent_hasNoOtherFields(t *testing.T) {
	known := slices.Clone(commonFields)
	for _, fields := range eventFields {
		known = append(known, fields...)
	}
	for f := range reflect.TypeFor[runEvent]().Fields() {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && !slices.Contains(known, tag) {
			t.Errorf("field %s belongs to no event", tag)
		}
	}
}

// lines is a writer that can be read while it is written to.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestReporter_tellsOneObjectALine: in order, with the lock and the time, and exit code 0 as well.
func TestReporter_tellsOneObjectALine(t *testing.T) {
	var out lines
	r := newReporter(&out, true, "c", "k\n\x1b[2J")
	r.say(runEvent{Event: eventWaiting, Place: 2, Holder: "<a>"})
	r.say(runEvent{Event: eventExited, Token: 7, ExitCode: new(0)})
	r.close()
	var got []map[string]any
	for line := range strings.Lines(out.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if at, err := time.Parse(time.RFC3339Nano, e["time"].(string)); err != nil || at.Location() != time.UTC {
			t.Errorf("time: got %v, %v, want UTC", e["time"], err)
		}
		delete(e, "time")
		got = append(got, e)
	}
	want := []map[string]any{{"event": "waiting", "class": "c", "key": "k\n\x1b[2J", "place": 2.0, "holder": "<a>"},
		{"event": "exited", "class": "c", "key": "k\n\x1b[2J", "token": 7.0, "exit_code": 0.0}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestReporter_erasesTheLineBeforeAnythingElse: the line is written anew in its place, cut to the terminal, and gone after a flush.
func TestReporter_erasesTheLineBeforeAnythingElse(t *testing.T) {
	var out lines
	r := newReporter(&out, false, "c", "k")
	r.columns = func() int { return 40 }
	r.say(runEvent{Event: eventWaiting, Place: 2})
	r.say(runEvent{Event: eventWaiting, Place: 1})
	r.flush()
	r.say(runEvent{Event: eventWaiting, Place: 1})
	r.say(runEvent{Event: eventDoubt, Cause: "no answer"})
	r.close()
	const line = eraseLine + "stanchion: run: waiting for c k, place"
	want := line + " " + line + " " + eraseLine + line + " " + eraseLine +
		"stanchion: run: the lease may not be renewed; nodes are asked on: no answer\n"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// stuck never takes what is written to it, until it is let go.
type stuck struct{ free chan struct{} }

func (s stuck) Write([]byte) (int, error) {
	<-s.free
	return 0, errors.New("the reader has gone")
}

// TestReporter_waitsForNoReader: one who does not read loses events, and holds nothing up.
func TestReporter_waitsForNoReader(t *testing.T) {
	out := stuck{make(chan struct{})}
	r := newReporter(out, true, "c", "k")
	for range 10 * reportsMax {
		r.say(runEvent{Event: eventDoubt})
	}
	close(out.free)
	r.close()
}

// TestFitting_neverFillsMoreThanTheLine: wide characters count double.
func TestFitting_neverFillsMoreThanTheLine(t *testing.T) {
	for _, c := range []struct {
		text string
		room int
		want string
	}{{"short", 10, "short"}, {"exactly", 7, "exactly"}, {"too long", 3, "too"}, {"日本", 3, "日"}, {"a", 0, ""}} {
		if got := fitting(c.text, c.room); got != c.want {
			t.Errorf("%q in %d columns: got %q, want %q", c.text, c.room, got, c.want)
		}
	}
}

// TestWaitingText_showsForeignTextEscaped: a label may not act on the terminal.
func TestWaitingText_showsForeignTextEscaped(t *testing.T) {
	since := time.Date(2026, 6, 30, 1, 2, 3, 0, time.UTC)
	e := runEvent{Event: eventWaiting, Class: "c", Key: "k", Place: 3, Holder: "a\x1b[2Jb", HolderKey: "n\nm",
		HeldSince: &since, WaitedMS: new(int64(61_000))}
	want := `waiting for c k, place 3 in line, for 1m1s; held by a\x1b[2Jb (API key n\nm) since 2026-06-30T01:02:03Z`
	if got := e.text(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
