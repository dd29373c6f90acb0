package raftnode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

const damagedEntries = 100

// filledStore writes a store with some pages of every kind, and returns its bytes.
func filledStore(t testing.TB, dir string) []byte {
	path := filepath.Join(dir, "whole.db")
	f := &fatals{}
	s, err := OpenStore(storeConfig(path, f))
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= damagedEntries; i += 20 {
		if err := s.StoreLogs(entries(i, i+19, 3)); err != nil {
			t.Fatal(err)
		}
	}
	big := &raft.Log{Index: damagedEntries + 1, Term: 3, Data: bytes.Repeat([]byte("overflow"), 2000)}
	err = errors.Join(s.StoreLog(big), s.SetUint64([]byte("CurrentTerm"), 3),
		s.SetUint64([]byte(keyVoteTerm), 3), s.Set([]byte(keyVoteCandidate), []byte("n1@a")), s.Close())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// openDamaged opens a copy with these bytes: either it is refused with its remedy, or nothing at all is missing.
func openDamaged(t *testing.T, path string, raw []byte, what string) (refusedIt bool) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fatals{}
	cfg := storeConfig(path, f)
	cfg.Create = false
	s, err := OpenStore(cfg)
	if err != nil {
		refused(t, what, err, ErrDamaged, "remove this node from the cluster and join again under a new node id")
		return true
	}
	defer s.Close()
	for i := uint64(1); i <= damagedEntries+1; i++ {
		var got raft.Log
		if err := s.GetLog(i, &got); err != nil || got.Term != 3 {
			t.Fatalf("%s: opened, but entry %d is %+v, %v", what, i, got, err)
		}
	}
	last, err1 := s.LastIndex()
	term, err2 := s.GetUint64([]byte("CurrentTerm"))
	candidate, err3 := s.Get([]byte(keyVoteCandidate))
	if err := errors.Join(err1, err2, err3); err != nil || last != damagedEntries+1 || term != 3 || string(candidate) != "n1@a" {
		t.Fatalf("%s: opened, but last %d, term %d, candidate %q, %v", what, last, term, candidate, err)
	}
	return false
}

func TestOpenStore_refusesTruncatedFile(t *testing.T) {
	dir := t.TempDir()
	whole := filledStore(t, dir)
	if openDamaged(t, filepath.Join(dir, "copy.db"), whole, "the whole file") {
		t.Fatal("the whole file was refused")
	}
	high, err := readBoltMeta(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	used := int(high.pages) * high.pageSize
	for _, size := range []int{0, 1, 100, 4096, 8191, 8192, used / 2, used - high.pageSize, used - 1} {
		what := fmt.Sprintf("cut to %d of %d bytes", size, used)
		if !openDamaged(t, filepath.Join(dir, "copy.db"), whole[:size], what) {
			t.Errorf("%s: opened, want it refused", what)
		}
	}
}

// Bolt keeps no checksums of its pages. Whatever byte is changed, a node must either see it or lose nothing by it.
func TestOpenStore_refusesChangedPages(t *testing.T) {
	dir := t.TempDir()
	whole := filledStore(t, dir)
	meta, err := readBoltMeta(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	caught := 0
	for page := range int(meta.pages) {
		for _, offset := range []int{0, 8, 10, 17 + page, 64, 1000 + 7*page, 4000} {
			raw := bytes.Clone(whole)
			raw[page*meta.pageSize+offset] ^= 0xA5
			if openDamaged(t, filepath.Join(dir, "copy.db"), raw, fmt.Sprintf("page %d, byte %d", page, offset)) {
				caught++
			}
		}
		raw := bytes.Clone(whole)
		clear(raw[page*meta.pageSize : (page+1)*meta.pageSize])
		if openDamaged(t, filepath.Join(dir, "copy.db"), raw, fmt.Sprintf("page %d zeroed", page)) {
			caught++
		}
	}
	if caught < 20 { // of about a hundred; the rest hit free pages and the room between elements
		t.Errorf("damage caught: got %d cases, want at least 20: the test shows nothing", caught)
	}
}

// Bolt would go on with the older of its two meta pages, and so forget its last acknowledged transaction.
func TestOpenStore_refusesLossOfEitherMetaPage(t *testing.T) {
	dir := t.TempDir()
	whole := filledStore(t, dir)
	for page := range 2 {
		raw := bytes.Clone(whole)
		raw[page*os.Getpagesize()+boltPageHeader+20] ^= 1
		if !openDamaged(t, filepath.Join(dir, "copy.db"), raw, fmt.Sprintf("meta page %d", page)) {
			t.Errorf("meta page %d changed: opened, want it refused", page)
		}
	}
}

func FuzzCheckBolt(f *testing.F) {
	whole := filledStore(f, f.TempDir())
	f.Add(uint32(100), uint64(1), uint32(4096*2+16), uint64(9))
	f.Add(uint32(4096*3+8), uint64(0xffff), uint32(4096*4+20), uint64(1)<<40)
	f.Fuzz(func(t *testing.T, at uint32, value uint64, at2 uint32, value2 uint64) {
		raw := bytes.Clone(whole)
		for pos, v := range map[uint32]uint64{at: value, at2: value2} {
			binary.NativeEndian.PutUint64(raw[int(pos)%(len(raw)-8):], v)
		}
		err := checkBolt(bytes.NewReader(raw), int64(len(raw)), func(_, _, _ []byte) error { return nil })
		if err != nil && !errors.Is(err, errBadPage) {
			t.Errorf("got %v, want nil or %v", err, errBadPage)
		}
	})
}
