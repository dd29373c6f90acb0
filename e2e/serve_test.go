package e2e_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestServe_bootstrapIsSaidOnce: a node without data does not start by accident, and one with data is not made anew.
func TestServe_bootstrapIsSaidOnce(t *testing.T) {
	c := newCluster(t)
	c.start("--processes")
	c.stop(syscall.SIGTERM)
	config := filepath.Join(c.dir, "n1", "node.yaml")

	stanchion(t, "serve", "--config", config, "--bootstrap").wantExit(t, 1, "belongs to a cluster already", "start without --bootstrap")

	cmd := exec.Command(binary, "serve", "--config", config)
	cmd.Env = append(os.Environ(), "STANCHION_DATA="+filepath.Join(c.dir, "lost"))
	p := start(t, cmd)
	p.wait(t)
	p.wantExit(t, 1, "--bootstrap", filepath.Join(c.dir, "lost"))
	if _, err := os.Stat(filepath.Join(c.dir, "lost", "control")); !os.IsNotExist(err) {
		t.Errorf("a refused start made data: %v", err)
	}
}

// TestServe_firstOperatorsKeyIsPrintedOnce: by one node of a new cluster, and by none that starts later.
func TestServe_firstOperatorsKeyIsPrintedOnce(t *testing.T) {
	c := newCluster(t)
	c.start("--processes")
	printed := func() (n int) {
		for _, node := range []string{"n1", "n2", "n3"} {
			log, err := os.ReadFile(filepath.Join(c.dir, node, "node.log"))
			if err != nil {
				t.Fatal(err)
			}
			n += bytes.Count(log, []byte(`"operator_api_key":"stn_`))
		}
		return n
	}
	await(t, "a node prints the operator's key", func() error {
		if printed() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	c.stop(syscall.SIGTERM)
	c.start("--processes")
	c.stop(syscall.SIGTERM)
	if got := printed(); got != 1 {
		t.Errorf("the first operator's key was printed %d times, want once", got)
	}
}

// TestServe_dataBelongsToOneProcess: a second process on the same folder is refused while the first one runs.
func TestServe_dataBelongsToOneProcess(t *testing.T) {
	c := newCluster(t)
	c.start("--processes", "--restart-after", "0")
	cmd := exec.Command(binary, "serve", "--config", filepath.Join(c.dir, "n1", "node.yaml"))
	cmd.Env = append(os.Environ(), "STANCHION_LISTEN=localhost:0")
	p := start(t, cmd)
	p.wait(t)
	p.wantExit(t, 1, filepath.Join(c.dir, "n1"))
	c.stop(syscall.SIGTERM)
}

// TestServe_stopsCleanly: a node stops with exit code 0 on both signals, and its data opens again.
func TestServe_stopsCleanly(t *testing.T) {
	c := newCluster(t)
	c.start("--processes", "--restart-after", "0")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		kill9(c.pid("n3"))
		c.startAgain("n3")
		c.awaitReady("n3", 1)
		c.own["n3"].stop(t, s)
		c.own["n3"].wantExit(t, 0)
	}
	c.stop(syscall.SIGTERM)
}
