package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/bench"
)

// TestBenchProgress_showsOnATerminalAndNowhereElse: what goes into a file has no bar in it.
func TestBenchProgress_showsOnATerminalAndNowhereElse(t *testing.T) {
	control, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(control) // ends with an error when the other side is closed
		shown <- string(b)
	}()
	stages(newBenchProgress(terminal))
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-shown; !strings.Contains(got, "first stage") || !strings.Contains(got, "second stage") {
		t.Errorf("the terminal got %q, want both stages", got)
	}
	_ = control.Close()

	path := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	stages(newBenchProgress(file))
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || len(got) > 0 {
		t.Errorf("the file got %q, %v; want nothing", got, err)
	}
}

// stages shows two stages, with more steps than there were to be.
func stages(p *benchProgress) {
	p.Begin("first stage", 0)
	p.Step(1)
	p.Begin("second stage", 10)
	p.Step(4)
	p.Step(100)
	p.end()
}

func TestBenchError_saysWhatToDo(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	quota := &bench.Failure{Err: &wire.Problem{Code: wire.CodeQuotaExceeded, Title: "Too much."}, Remedy: "raise it"}
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		is   error
		says string
		todo string
	}{
		"range":         {t.Context(), fmt.Errorf("%w: clients", bench.ErrRange), errUsage, "out of range: clients", ""},
		"interrupted":   {interrupted, errors.New("client 1: cut"), context.Canceled, "given back", ""},
		"left behind":   {interrupted, fmt.Errorf("%w: timeout", bench.ErrNotGivenBack), bench.ErrNotGivenBack, "runs out by itself", ""},
		"restarted":     {t.Context(), bench.ErrRestarted, bench.ErrRestarted, "started again", "measure again"},
		"a problem":     {t.Context(), fmt.Errorf("client 1: %w", quota), quota, "quota_exceeded", "raise it"},
		"anything else": {t.Context(), io.EOF, io.EOF, "EOF", ""},
	} {
		got := benchError(c.ctx, c.err)
		if !errors.Is(got, c.is) || !strings.Contains(got.Error(), c.says) {
			t.Errorf("%s: got %v, want %v that says %q", name, got, c.is, c.says)
		}
		var todo string
		if r, ok := errors.AsType[*remedied](got); ok {
			todo = r.remedy
		}
		if !strings.Contains(todo, c.todo) || (c.todo == "") != (todo == "") {
			t.Errorf("%s: what to do is %q, want %q", name, todo, c.todo)
		}
	}
}
