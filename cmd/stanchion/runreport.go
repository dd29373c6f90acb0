package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	reportsMax = 256         // events that wait to be written; more are dropped
	reportTime = time.Second // for what is to be written before the command starts, or this process ends
	columnsMin = 20
	columns    = 80 // of a terminal that does not say how many it has
)

// reporter writes a run's events, in a goroutine of its own: a reader that does not read must not hold up what has to be done by a
// deadline. On a terminal, waiting is one line that is written anew.
type reporter struct {
	out        io.Writer
	json       bool
	columns    func() int // of the terminal; nil: it is none
	class, key string
	queue      chan report // never closed: the SDK may have something to say at the very end

	line bool // owned by the goroutine: the line of progress is shown
}

// report is an event, or a question whether what came before is written.
type report struct {
	event   runEvent
	written chan struct{} // not nil: closed when the line of progress is erased, and all before is written
	last    bool          // nothing after it is written
}

// newReporter starts a reporter; close ends it.
func newReporter(out io.Writer, asJSON bool, class, key string) *reporter {
	r := &reporter{out: out, json: asJSON, class: class, key: key, queue: make(chan report, reportsMax)}
	if !asJSON {
		r.columns = terminalColumns(out)
	}
	go r.run()
	return r
}

// terminalColumns tells how wide a terminal is; nil: it is none on which a line can be written anew.
func terminalColumns(out io.Writer) func() int {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return func() int {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= columnsMin {
			return width
		}
		return columns
	}
}

// live reports whether waiting is shown as a line that is written anew.
func (r *reporter) live() bool { return r.columns != nil }

// say has an event written, now or a little later. It never waits.
func (r *reporter) say(e runEvent) {
	e.Time, e.Class, e.Key = time.Now().UTC(), r.class, r.key
	select {
	case r.queue <- report{event: e}:
	default:
	}
}

// flush waits until everything is written and the line of progress is gone, for a moment.
func (r *reporter) flush() { r.await(report{written: make(chan struct{})}) }

// close writes what is left, for a moment, and nothing after that. A write that hangs is left to the end of the process.
func (r *reporter) close() { r.await(report{written: make(chan struct{}), last: true}) }

func (r *reporter) await(p report) {
	late := time.NewTimer(reportTime)
	defer late.Stop()
	select {
	case r.queue <- p:
	case <-late.C:
		return
	}
	select {
	case <-p.written:
	case <-late.C:
	}
}

func (r *reporter) run() {
	for p := range r.queue {
		switch {
		case p.written != nil:
			r.erase()
			close(p.written)
			if p.last {
				return
			}
		case r.json:
			r.writeJSON(p.event)
		case p.event.Event == eventWaiting && r.live():
			r.progress(p.event.text())
		default:
			r.writeText(p.event.text())
		}
	}
}

func (r *reporter) writeJSON(e runEvent) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(e) == nil { // strings and numbers
		_, _ = r.out.Write(b.Bytes())
	}
}

func (r *reporter) writeText(text string) {
	if text == "" {
		return
	}
	r.erase()
	fmt.Fprintf(r.out, "stanchion: run: %s\n", text)
}

const eraseLine = "\r\x1b[K"

// progress writes the line anew, as much of it as fits.
func (r *reporter) progress(text string) {
	r.line = true
	fmt.Fprint(r.out, eraseLine+fitting("stanchion: run: "+text, r.columns()-1))
}

func (r *reporter) erase() {
	if r.line {
		fmt.Fprint(r.out, eraseLine)
		r.line = false
	}
}

// fitting is as much of a text as a line has room for. What is not ASCII may be two columns wide.
func fitting(text string, room int) string {
	for i, c := range text {
		width := 1
		if c >= utf8.RuneSelf {
			width = 2
		}
		if room -= width; room < 0 {
			return text[:i]
		}
	}
	return text
}
