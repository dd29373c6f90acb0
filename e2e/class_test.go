package e2e_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// class runs `stanchion class` against the cluster as a CI job would, and wants its exit code and pieces of what it says.
func (c *cluster) class(exit int, says []string, args ...string) {
	c.t.Helper()
	c.command(c.file.APIKey, exit, says, append([]string{"class"}, args...)...)
}

// command runs the product against the cluster with an API key, wants its exit code and pieces of what it says, and returns
// its standard output.
func (c *cluster) command(key string, exit int, says []string, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), binary, args...)
	var urls []string
	for _, n := range c.file.Nodes {
		urls = append(urls, n.URL)
	}
	cmd.Env = append(os.Environ(), "STANCHION_ENDPOINTS="+strings.Join(urls, ","), "STANCHION_API_KEY="+key)
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	code := 0
	if err := cmd.Run(); err != nil {
		exited, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			c.t.Fatalf("%v: %v", args, err)
		}
		code = exited.ExitCode()
	}
	all := out.String() + told.String()
	if code != exit {
		c.t.Errorf("%v: exit code %d, want %d:\n%s", args, code, exit, all)
	}
	for _, want := range says {
		if !strings.Contains(all, want) {
			c.t.Errorf("%v: said\n%s\nwant %q in it", args, all, want)
		}
	}
	return strings.TrimSpace(out.String())
}

// A class goes from its file over a CI job and its owner's signature into force, and out of it. The owner of a development
// cluster signs what is in review when the cluster is started with that file.
func TestClass_isDeclaredFromCIAndSignedByItsOwner(t *testing.T) {
	c := newCluster(t)
	dir := writeClasses(t, classFile("ledger", "lease: 10s"))
	file := filepath.Join(dir, "class0.yaml")
	c.start("--classes", dir)
	c.class(0, []string{"unchanged, version 1 is in force"}, "apply", file)
	c.class(0, []string{"the same as version 1"}, "diff", file)
	c.class(0, []string{"ledger", "in_force", "correctness", "test-owners"}, "list")

	if err := os.WriteFile(file, []byte(classFile("ledger", "lease: 20s")), 0o600); err != nil {
		t.Fatal(err)
	}
	c.class(4, []string{"differs from version 1", "lease: 10s → 20s", "a key whose holder died stays taken for 20s"}, "diff", file)
	c.class(0, []string{"would be version 2; to be signed by test-owners"}, "apply", "--dry-run", file)
	c.class(3, []string{"declared version 2; to be signed by test-owners: http://localhost:"}, "apply", "--source-repo", "acme/ledger", file)
	c.class(3, []string{"unchanged, version 2; to be signed by test-owners"}, "apply", file)
	c.class(3, []string{"version 2 is still to be signed by test-owners"}, "wait", "ledger", "--timeout", "1s")
	c.class(0, []string{"version 1 is in force"}, "wait", "ledger", "--version", "1")
	c.class(0, []string{"in force on n1", "in force on n2", "in force on n3"}, "show", "ledger")
	c.class(0, []string{"acme/ledger", "to be signed by", "test-owners", "lease: 20s"}, "show", "ledger", "--version", "2")
	c.class(1, []string{"refused: purpose_fixed", "error[purpose-changed]"}, "apply",
		filepath.Join(writeClasses(t, strings.Replace(classFile("ledger"), "purpose: correctness", "purpose: efficiency", 1)), "class0.yaml"))
	c.class(1, []string{"refused: unknown_owner_group"}, "apply",
		filepath.Join(writeClasses(t, strings.Replace(classFile("other"), "test-owners", "strangers", 1)), "class0.yaml"))
	c.stop(syscall.SIGTERM)

	c.start("--classes", dir)
	c.class(0, []string{"version 2 is in force"}, "wait", "ledger", "--timeout", "1m")
	c.class(0, []string{"unchanged, version 2 is in force"}, "apply", file)
	c.class(0, []string{"signed by", "owner@dev.test for test-owners"}, "show", "ledger", "--version", "2")
	client := newClient(t, c.file)
	if l, _ := client.acquire(t, newSession(), 1, wire.AcquireRequest{Class: "ledger", Key: "k"}); l.PostureVersion != 2 {
		t.Errorf("granted under version %d; want 2", l.PostureVersion)
	}

	c.class(0, []string{"retired with version 2"}, "retire", "ledger", "--reason", "moved to another system")
	c.class(1, []string{"version 2 is retired", "moved to another system"}, "wait", "ledger", "--version", "2")
	c.class(4, []string{"retired with version 2; this would bring it back"}, "diff", file)
	await(t, "nothing is granted any more", func() error {
		a := client.must(t, "PUT", leasePath(newSession(), 1), wire.AcquireRequest{Class: "ledger", Key: "other"})
		if p := a.problem(); p == nil || p.Code != wire.CodeClassRetired {
			return errors.New(string(a.body))
		}
		return nil
	})
	c.stop(syscall.SIGTERM)
}
