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

// readmeBlocks reads the README's commands.
func readmeBlocks(t *testing.T, info string, want int) []string {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	blocks := fenced(string(text), info)
	if len(blocks) != want {
		t.Fatalf("%s has %d blocks %q, want %d", readme, len(blocks), info, want)
	}
	return blocks
}

// shell is a command for sh in a folder. `go run ./cmd/stanchion` runs the binary under test.
func shell(t *testing.T, dir, script string) *exec.Cmd {
	t.Helper()
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\n[ \"$1 $2\" = 'run ./cmd/stanchion' ] || exit 97\nshift 2\nexec '%s' \"$@\"\n", binary)
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return cmd
}

// TestReadme_firstLock runs the README's five minutes as they stand there: a grant with token 1, a waiter, the leader
// killed and nothing lost, a release that hands over with token 2.
func TestReadme_firstLock(t *testing.T) {
	if err := portsFree(readmePort); err != nil {
		t.Fatalf("the README's commands need ports %d to %d, and something else is using them: %v", readmePort, readmePort+2, err)
	}
	c := newCluster(t)
	folder := c.dir
	c.dir = filepath.Join(folder, "stanchion-data") // as the README has it
	c.follow(start(t, shell(t, folder, "exec "+readmeBlocks(t, "sh first-lock-nodes", 1)[0])))

	blocks := readmeBlocks(t, "sh first-lock", 6)
	const mark = "=== next block ==="
	script := start(t, shell(t, folder, strings.Join(blocks, "\necho '"+mark+"'\n")))
	script.wait(t)
	script.wantExit(t, 0)
	said := strings.Split(script.out.String(), mark)
	if len(said) != len(blocks) {
		t.Fatalf("%d blocks were run, want %d; they said:\n%s", len(said), len(blocks), script.out.String())
	}
	for block, want := range map[int][]string{
		1: {`"state":"granted"`, `"token":1,`, `"claim":{"id":"exclusion-at-resource"`},
		2: {`"held":[{"lease_id":"`, `"token":1,`, `"lost":[]`},
		3: {`"state":"queued"`, `"position":1,`, `"holder":{"holder":"first"`, `"waiters_total":1`},
		4: {`"holder":{"holder":"first"`, `"token":1,`, `"waiters_total":1`, `"highest_token":1`},
		5: {`"state":"ended"`, `"reason":"released"`, `"state":"granted"`, `"token":2,`, `"lost":[]`},
	} {
		for _, words := range want {
			if !strings.Contains(said[block], words) {
				t.Errorf("block %d said:\n%s\nwant words: %s", block+1, said[block], words)
			}
		}
	}
	if ended := strings.Count(said[5], `"reason":"released"`); ended != 2 {
		t.Errorf("releases in the last block: got %d, want 2:\n%s", ended, said[5])
	}
	c.wantSaid("ended: signal: killed")
	c.stop(syscall.SIGINT)
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
