package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const readme = "../README.md"

// readmePort is where `stanchion dev` listens when nobody says otherwise, as the README's commands do.
const readmePort = 8420

// fenced returns the blocks of a Markdown text that are fenced with an info string, in order.
func fenced(text, info string) []string {
	var blocks []string
	for _, rest := range strings.Split(text, "\n```"+info+"\n")[1:] {
		block, _, _ := strings.Cut(rest, "\n```")
		blocks = append(blocks, block+"\n")
	}
	return blocks
}

// readBlocks reads so many blocks of a document that are fenced with an info string.
func readBlocks(t *testing.T, document, info string, want int) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	blocks := fenced(string(text), info)
	if len(blocks) != want {
		t.Fatalf("%s has %d blocks %q, want %d", document, len(blocks), info, want)
	}
	return blocks
}

// readmeBlock reads one of the README's blocks.
func readmeBlock(t *testing.T, info string) string {
	t.Helper()
	return readBlocks(t, readme, info, 1)[0]
}

// shell is a command for sh in a folder. `go run ./cmd/stanchion` runs the binary under test.
func shell(t *testing.T, dir, script string) *exec.Cmd {
	t.Helper()
	return shellWith(t, dir, script, nil)
}

// shellWith is shell, where `go run NAME` runs programs[NAME] as well.
func shellWith(t *testing.T, dir, script string, programs map[string]string) *exec.Cmd {
	t.Helper()
	wrapper := fmt.Sprintf("#!/bin/sh\ncase \"$1 $2\" in\n'run ./cmd/stanchion') program='%s' ;;\n", binary)
	for name, program := range programs {
		wrapper += fmt.Sprintf("'run %s') program='%s' ;;\n", name, program)
	}
	wrapper += "*) exit 97 ;;\nesac\nshift 2\nexec \"$program\" \"$@\"\n"
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return cmd
}

// documentCluster runs the command with which a document starts its nodes, in a folder of the test's own, and returns that.
func documentCluster(t *testing.T, document, info string) (c *cluster, folder string) {
	t.Helper()
	if err := portsFree(readmePort); err != nil {
		t.Fatalf("the commands of %s need ports %d to %d, and something else is using them: %v", document, readmePort, readmePort+2, err)
	}
	c = newCluster(t)
	folder = c.dir
	c.dir = filepath.Join(folder, "stanchion-data") // as the documents have it
	c.follow(start(t, shell(t, folder, "exec "+readBlocks(t, document, info, 1)[0])))
	return c, folder
}

// TestReadme_firstLock runs the README's ways to a first lock as they stand there, one after the other on the same nodes: each lets the key go,
// and the token grows from one to the next.
func TestReadme_firstLock(t *testing.T) {
	c, folder := documentCluster(t, readme, "sh first-lock-nodes")
	programs := map[string]string{"stanchion-data/first.go": buildBlock(t, readmeBlock(t, "go first-lock-go"), "first.go")}
	environment := readmeBlock(t, "sh first-lock-env")
	write(t, filepath.Join(c.dir, "first.py"), readmeBlock(t, "python first-lock-python"))
	linkClients(t, folder)

	for _, way := range []struct {
		info string
		says []string
	}{
		{"sh first-lock-run", []string{"token 1\n"}},
		{"sh first-lock-curl", []string{`"state":"granted"`, `"token":2,`, `"held":[{"lease_id":"`, `"lost":[]`, `"reason":"released"`}},
		{"sh first-lock-go-run", []string{"ledger closed with token 3\nledger closed with token 4\n",
			"stale fencing token: 3 was presented to 2026-06-30, where 4 has entered\n"}},
		{"sh first-lock-python-run", []string{"held with token 5\nthe other one: acquire ledger-close '2026-06-30': somebody else holds the key",
			"\nreleased\n"}},
	} {
		script := start(t, shellWith(t, folder, "set -e\n"+environment+readmeBlock(t, way.info), programs))
		script.wait(t)
		script.wantExit(t, 0, way.says...)
	}
	c.stop(syscall.SIGINT)
}

// buildBlock builds a document's Go program, with the flags and in the build cache of the tests, and returns the binary.
func buildBlock(t *testing.T, text, name string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, name), text)
	program := filepath.Join(dir, "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, filepath.Join(dir, name))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return program
}

// linkClients has a folder look like the repository's own to who looks for the client.
func linkClients(t *testing.T, folder string) {
	t.Helper()
	here, err := filepath.Abs(filepath.Join("..", "client"))
	if err == nil {
		err = os.Symlink(here, filepath.Join(folder, "client"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantSaid checks what `stanchion dev` has printed.
func (c *cluster) wantSaid(words string) {
	c.t.Helper()
	if got := c.dev.out.String(); !strings.Contains(got, words) {
		c.t.Errorf("stanchion dev said:\n%s\nwant words: %s", got, words)
	}
}

// TestReadme_greetingWorks runs the command that `stanchion dev` prints as the next step.
func TestReadme_greetingWorks(t *testing.T) {
	c := newCluster(t)
	c.start()
	_, next, found := strings.Cut(c.dev.out.String(), "in another terminal:\n")
	command, _, ended := strings.Cut(next, "\n\n")
	if !found || !ended {
		t.Fatalf("stanchion dev prints no next step:\n%s", c.dev.out.String())
	}
	curl := start(t, shell(t, c.dir, command))
	curl.wait(t)
	curl.wantExit(t, 0, `"state":"granted"`, `"token":1,`)
	c.stop(syscall.SIGTERM)
}
