package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// binary is the product, built once for all tests. GOFLAGS reaches the build, so that a run with -race drives a binary
// with -race, out of the same build cache.
var binary string

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stn")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "stanchion")
	// A program with the race detector waits a second before it exits, unless told otherwise.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=20"); err != nil {
		return complain(err)
	}
	build := exec.Command("go", "build", "-o", binary, "github.com/stanchion-locks/stanchion/cmd/stanchion")
	if out, err := build.CombinedOutput(); err != nil {
		return complain(fmt.Errorf("build the binary: %w\n%s", err, out))
	}
	code := m.Run()
	if err := leftBehind(); err != nil {
		return complain(err)
	}
	return code
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// leftBehind ends and reports processes of the product and goroutines of ours that outlived the tests.
func leftBehind() error {
	pids, err := running(binary)
	if err != nil {
		return err
	}
	if len(pids) > 0 {
		for _, pid := range pids {
			kill9(pid)
		}
		return fmt.Errorf("processes were left behind: %v", pids)
	}
	return goleak.Find()
}

// TestScripts runs testdata/script/*.txtar: what the command line says and how it exits.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+e.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a program and wants a certain exit code: exits CODE PROGRAM ARGS…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("run %s: %v", args[1], err)
		}
		code = exit.ExitCode()
	}
	if got := fmt.Sprint(code); got != args[0] {
		ts.Fatalf("%s: exit code %s, want %s", args[1], got, args[0])
	}
}
