package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/stanchion-locks/stanchion/client/guard"
)

// model is what a guard must do, one call after another: the highest token that has entered.
type model struct{ highest uint64 }

// answer is an answer's kind.
type answer string

const (
	yes        answer = "accepted"
	stale      answer = "stale"
	noToken    answer = "no token"
	notEntered answer = "not entered"
)

func answerOf(err error) answer {
	switch {
	case err == nil:
		return yes
	case errors.Is(err, guard.ErrStale):
		return stale
	case errors.Is(err, guard.ErrNoToken):
		return noToken
	case errors.Is(err, guard.ErrNotEntered):
		return notEntered
	}
	return answer("error: " + err.Error())
}

func (m *model) enter(token uint64) answer {
	switch {
	case token == 0 || token > 1<<53-1:
		return noToken
	case token < m.highest:
		return stale
	}
	m.highest = token
	return yes
}

func (m *model) check(token uint64) answer {
	switch {
	case token == 0 || token > 1<<53-1:
		return noToken
	case token < m.highest:
		return stale
	case token > m.highest:
		return notEntered
	}
	return yes
}

// step is one call, in a transaction that is committed or rolled back.
type step struct {
	enter  bool
	token  uint64
	commit bool
}

func steps() *rapid.Generator[[]step] {
	token := rapid.OneOf(rapid.Uint64Range(0, 6), rapid.Uint64Range(1<<53-3, 1<<53+1), rapid.Uint64())
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{rapid.Bool().Draw(t, "enter"), token.Draw(t, "token"), rapid.IntRange(0, 3).Draw(t, "roll back") > 0}
	}), 1, 12)
}

func TestMemory_isTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, m := guard.NewMemory(), map[string]*model{"a": {}, "b": {}}
		accepted := map[string]uint64{}
		for _, s := range steps().Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "resource")
			var got, want answer
			if s.enter {
				_, err := g.Enter(context.Background(), name, s.token)
				got, want = answerOf(err), m[name].enter(s.token)
			} else {
				acted := false
				err := g.Do(context.Background(), name, s.token, func() error { acted = true; return nil })
				got, want = answerOf(err), m[name].check(s.token)
				if looked := answerOf(g.Check(name, s.token)); looked != want || acted != (want == yes) {
					t.Fatalf("%s %+v: check answers %s, acted %t, want %s", name, s, looked, acted, want)
				}
			}
			if got != want {
				t.Fatalf("%s %+v: got %s, want %s", name, s, got, want)
			}
			if got == yes && s.token < accepted[name] {
				t.Fatalf("%s accepted %d after %d", name, s.token, accepted[name])
			}
			if got == yes {
				accepted[name] = s.token
			}
		}
	})
}

// TestSQL_isTheModel checks the table of fences and the column, with transactions that are rolled back between the others.
func TestSQL_isTheModel(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		table, column := d.fences(t, db), d.ledger(t, db)
		row := 1
		rapid.Check(t, func(rt *rapid.T) {
			row++
			run(t, db, fmt.Sprintf("INSERT INTO %s (id, balance) VALUES (%d, 0)", column.Table, row))
			inTable, inColumn := &model{}, &model{}
			for _, s := range steps().Draw(rt, "steps") {
				ctx := t.Context()
				tx := d.begin(t, db)
				before := *inTable
				var err, err2 error
				var want, want2 answer
				if s.enter {
					_, err = table.Enter(ctx, tx, fmt.Sprint(row), s.token)
					_, err2 = column.Enter(ctx, tx, row, s.token)
					want, want2 = inTable.enter(s.token), inColumn.enter(s.token)
				} else {
					_, err = table.Check(ctx, tx, fmt.Sprint(row), s.token)
					_, err2 = column.Check(ctx, tx, row, s.token)
					want, want2 = inTable.check(s.token), inColumn.check(s.token)
				}
				if got, got2 := answerOf(err), answerOf(err2); got != want || got2 != want2 {
					rt.Fatalf("%+v: got %s by table and %s by column, want %s and %s", s, got, got2, want, want2)
				}
				end := tx.Commit
				if !s.commit {
					end, *inTable, *inColumn = tx.Rollback, before, before
				}
				if err := end(); err != nil {
					rt.Fatalf("end the transaction: %v", err)
				}
			}
		})
	})
}

// TestMemory_neverGoesBackUnderConcurrency has holders enter and act at once; what they do, in the order in which it was
// done, carries tokens that never fall.
func TestMemory_neverGoesBackUnderConcurrency(t *testing.T) {
	g := guard.NewMemory()
	var mu sync.Mutex
	var done []uint64
	concurrently(8, func(holder int) {
		for round := range 50 {
			token := uint64(1 + (round*7+holder*13)%100)
			entry, err := g.Enter(t.Context(), "device", token)
			if err == nil {
				err = entry.Do(t.Context(), func() error {
					mu.Lock()
					defer mu.Unlock()
					done = append(done, token)
					return nil
				})
			}
			if err != nil && !errors.Is(err, guard.ErrStale) {
				t.Errorf("token %d: got %v, want none or ErrStale", token, err)
			}
		}
	})
	neverFalls(t, done)
}

// TestSQL_neverGoesBackUnderConcurrency does the same with transactions, which number their writes one after another.
func TestSQL_neverGoesBackUnderConcurrency(t *testing.T) {
	inEach(t, func(t *testing.T, d database, db *sql.DB) {
		g := d.fences(t, db)
		writes := newName("written")
		run(t, db, "CREATE TABLE "+writes+" (n BIGINT NOT NULL PRIMARY KEY, token BIGINT NOT NULL)")
		concurrently(4, func(holder int) {
			for round := range 6 {
				token := uint64(1 + (round*7+holder*13)%30)
				err := untilDecided(t, func() error {
					return g.Do(t.Context(), db, thirty, token, func(e *guard.Entered) error {
						_, err := e.Tx().Exec(fmt.Sprintf("INSERT INTO %s SELECT coalesce(max(n), 0) + 1, %d FROM %s", writes, token, writes))
						return err
					})
				})
				if err != nil && !errors.Is(err, guard.ErrStale) {
					t.Errorf("token %d: got %v, want none or ErrStale", token, err)
				}
			}
		})
		rows, err := db.Query("SELECT token FROM " + writes + " ORDER BY n")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		var done []uint64
		for rows.Next() {
			var token uint64
			if err := rows.Scan(&token); err != nil {
				t.Fatal(err)
			}
			done = append(done, token)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		neverFalls(t, done)
	})
}

func concurrently(n int, work func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { work(i) })
	}
	all.Wait()
}

func neverFalls(t *testing.T, tokens []uint64) {
	t.Helper()
	if len(tokens) == 0 {
		t.Fatal("nobody was let in: nothing was tested")
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] < tokens[i-1] {
			t.Fatalf("accepted %d after %d, in %v", tokens[i], tokens[i-1], tokens)
		}
	}
}
