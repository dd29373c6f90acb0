package platform_test

import (
	"encoding/binary"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/internal/platform"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

func TestDamagedStore_stopsItsNodeAlone(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	api, _ := c.furnish(t, classLong)
	api.take(t, newID(), classLong, "before")
	n := c.others(c.leader(t, acmePartition))[0]
	n.stop(t)
	store := filepath.Join(n.dir, acmePartition, "raft.db")
	whole, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	for what, damage := range map[string][]byte{
		"truncated":        whole[:(pageCount(whole)-1)*pageBytes],
		"cut to one page":  whole[:pageBytes],
		"a page flipped":   flipped(whole, rootPage(whole)),
		"its head flipped": flipped(flipped(whole, 0), 1),
	} {
		if err := os.WriteFile(store, damage, 0o600); err != nil {
			t.Fatal(err)
		}
		err := n.open(t, false)
		if !errors.Is(err, raftnode.ErrDamaged) || !strings.Contains(err.Error(), "join again under a new node id") {
			t.Errorf("%s: the node is opened with %v; want ErrDamaged naming the remedy", what, err)
		}
		if n.platform != nil {
			t.Fatalf("%s: the node runs on a damaged store", what)
		}
	}
	if err := os.Remove(store); err != nil {
		t.Fatal(err)
	}
	if err := n.open(t, false); !errors.Is(err, raftnode.ErrDataLost) {
		t.Errorf("without its store the node is opened with %v; want ErrDataLost", err)
	}
	if err := n.open(t, true); err == nil {
		t.Error("without one of its stores the node is bootstrapped as if it were new")
	}
	api.take(t, newID(), classLong, "after")
	if err := os.WriteFile(store, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := n.config(false)
	if err != nil {
		t.Fatal(err)
	}
	config.Partitions--
	if _, err := platform.Open(config); !errors.Is(err, platform.ErrConfig) {
		t.Errorf("with a partition fewer than it carries the node is opened with %v; want ErrConfig", err)
	}
	n.start(t, false)
	c.awaitReady(t)
	c.awaitEqual(t)
}

const pageBytes = 4096

// flipped is a copy with the bits of one page's middle turned.
func flipped(file []byte, page int) []byte {
	out := append([]byte(nil), file...)
	for i := page*pageBytes + 16; i < page*pageBytes+64; i++ {
		out[i] ^= 0xff
	}
	return out
}

// newestMeta is the newer of a Bolt file's two meta pages, after the page's own header.
func newestMeta(file []byte) []byte {
	const header, txid = 16, 48
	first, second := file[header:], file[pageBytes+header:]
	if binary.NativeEndian.Uint64(first[txid:]) > binary.NativeEndian.Uint64(second[txid:]) {
		return first
	}
	return second
}

// rootPage is the page from which all that is alive in the file is found.
func rootPage(file []byte) int { return int(binary.NativeEndian.Uint64(newestMeta(file)[16:])) }

// pageCount is how many pages the file has ever used.
func pageCount(file []byte) int { return int(binary.NativeEndian.Uint64(newestMeta(file)[40:])) }

func TestWipedNode_isNeverANewMember(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	api, _ := c.furnish(t, classLong)
	n := c.others(c.leader(t, acmePartition))[0]
	for _, other := range c.others(n) {
		other.meet(t, n)
	}
	n.stop(t)
	if err := os.RemoveAll(n.dir); err != nil {
		t.Fatal(err)
	}
	if err := n.open(t, false); !errors.Is(err, raftnode.ErrNoIdentity) || !strings.Contains(err.Error(), "--bootstrap") {
		t.Errorf("the wiped node is opened with %v; want ErrNoIdentity naming the way of a first start", err)
	}
	if _, err := os.Stat(n.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the start that was refused left something behind: %v", err)
	}
	for _, other := range c.others(n) { // what they know of its disk is on their own disks, not in their memory alone
		other.stop(t)
	}
	for _, other := range c.others(n) {
		other.start(t, false)
	}
	n.start(t, true)
	for _, other := range c.others(n) {
		other.awaitRefusal(t, "node UUID of "+string(n.id))
	}
	api.take(t, newID(), classLong, "after")
	for _, g := range n.platform.Status(false).Groups {
		if g.Leader != "" || g.Index != 0 || g.Ready {
			t.Errorf("the wiped node has come into %+v; want it kept out", g)
		}
	}
	eventually(t, "the others are ready beside the wiped one", func() bool {
		rest := c.others(n)
		return rest[0].isReady() && rest[1].isReady()
	})
}

// meet makes a connection between two nodes, from which each knows the other's disk.
func (n *testNode) meet(t testing.TB, other *testNode) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+string(other.id)+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := n.platform.Forward(string(other.id)).RoundTrip(request)
	if err != nil {
		t.Fatalf("connect %s to %s: %v", n.id, other.id, err)
	}
	_ = answer.Body.Close()
}
