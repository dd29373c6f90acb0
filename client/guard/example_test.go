package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/stanchion-locks/stanchion/client/guard"
)

// A device that this process alone drives. The token came with the grant of the lock.
func ExampleMemory() {
	ctx := context.Background()
	valves := guard.NewMemory()

	older, err := valves.Enter(ctx, "valve-7", 32)
	if err != nil {
		log.Fatal(err)
	}
	newer, err := valves.Enter(ctx, "valve-7", 33) // the lock has moved on
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(older.Do(ctx, func() error { return errors.New("never runs") }))
	fmt.Println(newer.Do(ctx, func() error { fmt.Println("valve opened"); return nil }))
	// Output:
	// guard: stale fencing token: 32 was presented to valve-7, where 33 has entered
	// valve opened
	// <nil>
}

// closeLedger asks for the proof of having entered, so that nobody can call it without.
func closeLedger(ctx context.Context, entered *guard.Entered) error {
	var open int
	if err := entered.Tx().QueryRowContext(ctx, "SELECT count(*) FROM entry WHERE closed = 0").Scan(&open); err != nil {
		return err
	}
	_, err := entered.Tx().ExecContext(ctx, "UPDATE entry SET closed = 1")
	fmt.Printf("token %d closed %d entries\n", entered.Token(), open)
	return err
}

// A ledger in a database, and the fence beside it. Entering is the transaction's first statement.
func ExampleSQL_Do() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sql.Open("sqlite", filepath.Join(dir, "ledger.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()

	ledgers := guard.SQL{Dialect: guard.SQLite, Table: "stanchion_fence"}
	schema, err := ledgers.Schema()
	if err != nil {
		log.Fatal(err)
	}
	for _, statement := range []string{schema, "CREATE TABLE entry (closed INTEGER NOT NULL)", "INSERT INTO entry VALUES (0), (0)"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			log.Fatal(err)
		}
	}

	work := func(entered *guard.Entered) error { return closeLedger(ctx, entered) }
	fmt.Println(ledgers.Do(ctx, db, "2026-06-30", 33, work))

	err = ledgers.Do(ctx, db, "2026-06-30", 32, work)
	if stale, ok := errors.AsType[*guard.StaleError](err); ok {
		fmt.Println("stop: token", stale.Highest, "has entered")
	}
	// Output:
	// token 33 closed 2 entries
	// <nil>
	// stop: token 33 has entered
}

// A service whose documents live in its memory. Holders say so when they enter, and send their token with each request.
func ExampleHTTP() {
	g := guard.HTTP{
		Memory:   guard.NewMemory(),
		Resource: func(r *http.Request) string { return r.PathValue("document") },
		Enters:   guard.EnterOnHeader,
	}
	mux := http.NewServeMux()
	mux.Handle("/documents/{document}", g.Middleware()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})))

	send := func(method, token, enter string) {
		r := httptest.NewRequest(method, "/documents/minutes", nil)
		r.Header.Set(guard.HeaderToken, token)
		if enter != "" {
			r.Header.Set(guard.HeaderEnter, enter)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(method, token, w.Code)
	}
	send(http.MethodGet, "33", "true") // enters, and reads
	send(http.MethodPut, "32", "")     // stale
	send(http.MethodPut, "33", "")
	// Output:
	// GET 33 204
	// PUT 32 412
	// PUT 33 204
}
