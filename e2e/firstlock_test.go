package e2e_test

import (
	"strings"
	"syscall"
	"testing"
)

const firstLock = "../docs/first-lock.md"

// TestFirstLock_walk runs the document's commands as they stand there: a grant with token 1, a waiter, the leader killed and
// nothing lost, a release that hands over with token 2.
func TestFirstLock_walk(t *testing.T) {
	c, folder := documentCluster(t, firstLock, "sh first-lock-nodes")
	blocks := readBlocks(t, firstLock, "sh first-lock", 6)
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
