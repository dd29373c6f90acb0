package audit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/audit"
)

// startMS is when the first entry of a log happened.
const startMS = 1_800_000_000_000

const (
	acme   = "acme"
	globex = "globex"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func config(path string) audit.Config {
	return audit.Config{Path: path, Incarnation: 1, Logger: quiet(), Now: func() time.Time { return time.UnixMilli(startMS) }}
}

// open opens a store in a file of its own.
func open(t testing.TB) *audit.Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "audit.db"))
}

func openAt(t testing.TB, path string) *audit.Store {
	t.Helper()
	return openWith(t, config(path))
}

func openWith(t testing.TB, c audit.Config) *audit.Store {
	t.Helper()
	s, err := audit.Open(context.Background(), c)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() }) // some tests close it themselves
	return s
}

// salt is the salt of an entry, the same on every node.
func salt(log audit.Log, index uint64) [16]byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte{byte(log)}, index))
	return [16]byte(sum[:16])
}

// granted is an event with every field that a grant has, telling which it is.
func granted(log audit.Log, index uint64, ordinal int, tenant string) audit.Event {
	return audit.Event{Kind: "granted", Tenant: tenant, Class: "ledger", Key: fmt.Sprintf("key-%d-%d", index, ordinal),
		Request: "0123456789abcdef.1", Token: index*100 + uint64(ordinal) + 1, Epoch: 3, Version: 2, APIKey: "ak1",
		Detail: fmt.Sprintf("log=%d", log), Holder: fmt.Sprintf("worker-%d:7", index), By: "owner@dev.test", Note: "nightly run",
		AtMS: startMS + int64(index)*10}
}

// entry is a log entry with n events, by turns of two tenants.
func entry(log audit.Log, index uint64, n int) audit.Entry {
	e := audit.Entry{Log: log, Index: index, Salt: salt(log, index)}
	for i := range n {
		e.Events = append(e.Events, granted(log, index, i, []string{acme, globex}[(int(index)+i)%2]))
	}
	return e
}

// entries are those of a range, with 0, 1, 2, 0, … events.
func entries(log audit.Log, from, to uint64) []audit.Entry {
	var all []audit.Entry
	for i := from; i <= to; i++ {
		all = append(all, entry(log, i, int(i%3)))
	}
	return all
}

func appendAll(t testing.TB, s *audit.Store, all ...audit.Entry) {
	t.Helper()
	for part := range slices.Chunk(all, 200) {
		if err := s.Append(context.Background(), part); err != nil {
			t.Fatalf("append: %v", err)
		}
	}
}

func position(t testing.TB, s *audit.Store, log audit.Log) audit.Position {
	t.Helper()
	all, err := s.Positions(context.Background())
	if err != nil {
		t.Fatalf("positions: %v", err)
	}
	for _, p := range all {
		if p.Log == log {
			return p
		}
	}
	return audit.Position{Log: log}
}

// samePosition compares two nodes.
func samePosition(t testing.TB, a, b *audit.Store, log audit.Log) {
	t.Helper()
	if x, y := position(t, a, log), position(t, b, log); x != y {
		t.Errorf("positions of log %d: got %+v, want %+v", log, x, y)
	}
}

// search pages through a whole query and returns its rows.
func search(t testing.TB, s *audit.Store, q audit.Query) []audit.Row {
	t.Helper()
	var rows []audit.Row
	for {
		page, err := s.Query(context.Background(), q)
		if err != nil {
			t.Fatalf("query %+v: %v", q, err)
		}
		rows = append(rows, page.Rows...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return rows
		}
	}
}

func keysOf(rows []audit.Row) []string {
	var keys []string
	for _, r := range rows {
		keys = append(keys, r.Event.Key)
	}
	return keys
}

// fillFrom closes every open gap of a store from a peer's rows, as they travel.
func fillFrom(t testing.TB, s, peer *audit.Store, limit int) {
	t.Helper()
	ctx := context.Background()
	gaps, err := s.Gaps(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gaps {
		for next := g.From; !g.Unrecoverable && next <= g.To; {
			rows, err := peer.Peer(ctx, g.Log, next, g.To, limit)
			if err != nil {
				t.Fatalf("peer: %v", err)
			}
			if err := s.Fill(ctx, overTheWire(t, rows)); err != nil {
				t.Fatalf("fill: %v", err)
			}
			next = rows.Through + 1
		}
	}
}

func overTheWire(t testing.TB, rows audit.PeerRows) (got audit.PeerRows) {
	t.Helper()
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	decode := json.NewDecoder(bytes.NewReader(text))
	decode.DisallowUnknownFields()
	if err := decode.Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

// run runs a projector until the test ends.
func run(t testing.TB, c audit.ProjectorConfig) *audit.Projector {
	t.Helper()
	if c.Logger == nil {
		c.Logger = quiet()
	}
	if c.RetryMin == 0 {
		c.RetryMin = time.Millisecond
	}
	p := audit.NewProjector(c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run: got %v, want canceled", err)
		}
	})
	return p
}

func waitDurable(t testing.TB, p *audit.Projector, log audit.Log, index uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.WaitDurable(ctx, log, index); err != nil {
		t.Fatalf("wait for entry %d of log %d: %v; state %v", index, log, err, p.State())
	}
}

// await waits for a condition.
func await(t testing.TB, what string, met func() bool) {
	t.Helper()
	look, late := time.NewTicker(time.Millisecond), time.After(time.Minute)
	defer look.Stop()
	for !met() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}
