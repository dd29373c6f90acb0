package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stanchion-locks/stanchion/client/guard"
)

func TestMemory_entersAfterOlderActionsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard.NewMemory()
		older, err := g.Enter(t.Context(), "device", 32)
		if err != nil {
			t.Fatal(err)
		}
		release, acted := make(chan struct{}), make(chan error, 1)
		go func() { acted <- older.Do(t.Context(), func() error { <-release; return nil }) }()
		synctest.Wait()
		entered, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := g.Enter(t.Context(), "device", 33)
			entered <- err
		}()
		synctest.Wait()
		go func() { second <- older.Do(t.Context(), func() error { t.Error("a stale action ran"); return nil }) }()
		synctest.Wait()
		select {
		case err := <-entered:
			t.Fatalf("33 while 32 acts: got %v, want to wait", err)
		default:
		}
		close(release)
		if err := errors.Join(<-acted, <-entered); err != nil {
			t.Errorf("32's action and 33's entering: got %v, want none", err)
		}
		wantStale(t, "32's second action", <-second, 32, 33)
	})
}

func TestMemory_givesUpEnteringWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard.NewMemory()
		older, err := g.Enter(t.Context(), "device", 32)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = older.Do(t.Context(), func() error {
			entered := make(chan error, 1)
			go func() {
				_, err := g.Enter(ctx, "device", 33)
				entered <- err
			}()
			synctest.Wait()
			cancel()
			return <-entered
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("33 whose context ended: got %v, want context.Canceled", err)
		}
		if err := older.Do(t.Context(), func() error { return nil }); err != nil {
			t.Errorf("32 afterwards: got %v, want none, because 33 has not entered", err)
		}
	})
}

func TestMemory_letsGoWhenAnActionPanics(t *testing.T) {
	g := guard.NewMemory()
	entry, err := g.Enter(t.Context(), "device", 32)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = entry.Do(t.Context(), func() error { panic("broken device") })
	}()
	if _, err := g.Enter(t.Context(), "device", 33); err != nil {
		t.Errorf("33 after the panic: got %v, want none", err)
	}
}

func TestMemory_forgetsNoFenceToMakeRoom(t *testing.T) {
	g := &guard.Memory{ResourcesMax: 2}
	for i, want := range []error{nil, nil, guard.ErrTooManyResources} {
		if _, err := g.Enter(t.Context(), fmt.Sprint(i), 33); !errors.Is(err, want) {
			t.Errorf("resource %d: got %v, want %v", i, err, want)
		}
	}
	if _, err := g.Enter(t.Context(), "0", 32); !errors.Is(err, guard.ErrStale) {
		t.Errorf("the first resource: got %v, want ErrStale", err)
	}
}

func TestMemory_losesNothingInTheInterleaving(t *testing.T) {
	balance := int64(100)
	g := guard.NewMemory()
	got, letIn := interleaving{read: func() int64 { return balance },
		enter: func(token uint64) error {
			_, err := g.Enter(t.Context(), "ledger", token)
			return err
		},
		change: func(token uint64, b int64) error {
			return g.Do(t.Context(), "ledger", token, func() error { balance = b; return nil })
		}}.run(t)
	if got != 101 || letIn != 0 {
		t.Errorf("got balance %d, stale writes %d, want 101 and 0", got, letIn)
	}
}

func TestParseToken_takesOneSpelling(t *testing.T) {
	for text, want := range map[string]uint64{"1": 1, "33": 33, "9007199254740991": guard.TokenMax} {
		if got, err := guard.ParseToken(text); got != want || err != nil {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "00", "01", "+1", "-1", " 1", "1 ", "1.0", "1e3", "0x1", "１", "1,2", "9007199254740992",
		"18446744073709551616", "99999999999999999999999"} {
		if got, err := guard.ParseToken(text); !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("%q: got %d, %v, want ErrNoToken", text, got, err)
		}
	}
}

func BenchmarkMemory_enter(b *testing.B) {
	g := guard.NewMemory()
	token := uint64(0)
	for b.Loop() {
		token++
		if _, err := g.Enter(b.Context(), "device", token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemory_do(b *testing.B) {
	g := guard.NewMemory()
	entry, err := g.Enter(b.Context(), "device", 33)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := entry.Do(b.Context(), func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSQL_enter(b *testing.B) {
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) {
			db := d.open(b)
			g := d.fences(b, db)
			token := uint64(0)
			for b.Loop() {
				token++
				if err := enterAlone(b, g, db, token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
