package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// benchProgress shows how far a measurement is, on a terminal and nowhere else. Its methods are called from one goroutine at
// a time.
type benchProgress struct {
	out *os.File // nil: nobody watches
	bar *progressbar.ProgressBar
}

func newBenchProgress(out *os.File) *benchProgress {
	if !term.IsTerminal(int(out.Fd())) {
		return &benchProgress{}
	}
	return &benchProgress{out: out}
}

const (
	benchBarWidth = 30
	benchBarEvery = 100 * time.Millisecond
)

// Begin shows a new stage in place of the one before.
func (p *benchProgress) Begin(what string, steps int) {
	p.end()
	if p.out == nil {
		return
	}
	p.bar = progressbar.NewOptions(max(steps, 1), progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(benchBarWidth), progressbar.OptionThrottle(benchBarEvery), progressbar.OptionSetPredictTime(false),
		progressbar.OptionClearOnFinish())
	_ = p.bar.RenderBlank() // what cannot be shown is not
}

// Step shows that so many more steps are done.
func (p *benchProgress) Step(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n) // more than all steps is refused, and shows nothing
	}
}

// end takes the bar away.
func (p *benchProgress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
