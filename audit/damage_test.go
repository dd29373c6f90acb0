package audit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
)

// flip changes a byte in every page of a part of the file.
func flip(t *testing.T, path string, from, to float64) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := int(from * float64(len(text))); at < int(to*float64(len(text))); at += 512 {
		text[at] ^= 0xff
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpen_setsADamagedFileAsideAndIsRefilled(t *testing.T) {
	for name, damage := range map[string]func(*testing.T, string){
		"header": func(t *testing.T, path string) { flip(t, path, 0, 0.01) },
		"middle": func(t *testing.T, path string) { flip(t, path, 0.4, 0.5) },
		"truncated": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, info.Size()/2); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			path := filepath.Join(t.TempDir(), "audit.db")
			peer, s := open(t), openAt(t, path)
			appendAll(t, peer, entries(1, 1, 600)...)
			appendAll(t, s, entries(1, 1, 600)...)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			damage(t, path)
			s = openAt(t, path)
			if !strings.HasPrefix(s.Damaged(), path+".damaged-2027") {
				t.Errorf("damaged: got %q, want the file's name with a time", s.Damaged())
			}
			if _, err := os.Stat(s.Damaged()); err != nil {
				t.Errorf("the damaged file: %v", err)
			}
			if got := position(t, s, 1); got.Durable != 0 {
				t.Errorf("position: got %+v, want a store that begins", got)
			}
			recordGap(t, s, 1, 1, 550) // the node's snapshot
			appendAll(t, s, entries(1, 551, 600)...)
			fillFrom(t, s, peer, 100)
			samePosition(t, s, peer, 1)
			if reports, err := audit.VerifyFile(ctx, path); err != nil || !reports[0].Whole() {
				t.Errorf("file: got %+v, %v, want it whole", reports, err)
			}
		})
	}
}

func TestOpen_ofAWholeFileSetsNothingAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	s := openAt(t, path)
	appendAll(t, s, entries(1, 1, 50)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s = openAt(t, path); s.Damaged() != "" || position(t, s, 1).Durable != 50 {
		t.Errorf("got damaged %q, position %+v", s.Damaged(), position(t, s, 1))
	}
}

// A full file refuses, changes nothing, and goes on by itself once there is space.
func TestAppend_toAFullFileHeals(t *testing.T) {
	ctx := context.Background()
	c := config(filepath.Join(t.TempDir(), "audit.db"))
	c.BytesMax = 512 << 10
	s := openWith(t, c)
	next := uint64(1)
	var err error
	for ; err == nil; next++ {
		if next > 10_000 {
			t.Fatal("the file is never full")
		}
		err = s.Append(ctx, []audit.Entry{entry(1, next, 20)})
	}
	next--
	if !errors.Is(err, audit.ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	full := position(t, s, 1)
	if full.Durable != next-1 {
		t.Errorf("position: got %+v, want durable %d", full, next-1)
	}
	if rows := search(t, s, audit.Query{AllTenants: true, Limit: 1000}); len(rows) != int(next-1)*20 {
		t.Errorf("rows: got %d, want %d", len(rows), (next-1)*20)
	}
	if err := s.Append(ctx, []audit.Entry{entry(1, next, 20)}); !errors.Is(err, audit.ErrFull) {
		t.Errorf("again: got %v, want ErrFull", err)
	}
	if err := s.SetBytesMax(ctx, 2<<20); err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, entry(1, next, 20), entry(1, next+1, 20))
	if got := position(t, s, 1); got.Durable != next+1 || got.Gaps != 0 {
		t.Errorf("position: got %+v, want durable %d", got, next+1)
	}
}
