package guard_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	code := m.Run()
	if err := stopServers(); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		return 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		return 1
	}
	return code
}
