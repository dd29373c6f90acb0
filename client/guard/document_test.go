package guard_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/client/guard"
)

const (
	document = "../../docs/guard.md"
	readme   = "../../README.md"
)

// block reads the block of a document that is fenced with an info string.
func block(t *testing.T, file, info string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n```"+info+"\n")
	body, _, ended := strings.Cut(rest, "\n```")
	if !found || !ended {
		t.Fatalf("%s has no block %q", file, info)
	}
	return body + "\n"
}

// command runs a program with a text on its standard input, and its environment added to ours.
func command(t *testing.T, input string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Stdin, c.Env, c.Dir = strings.NewReader(input), append(os.Environ(), env...), t.TempDir()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatalf("run %s (make packages installs what the tests need): %v", name, err)
	}
	return out.String(), err
}

// documented is a database as the document's readers use it: script runs a text for a token as the document says.
type documented struct {
	name    string
	dialect guard.Dialect
	info    string // begins the names of its blocks
	file    string
	script  func(t *testing.T, db, text, token string) (string, error)
	// db makes a database of the test's own; its name and a connection for looking.
	db func(t *testing.T) (string, *sql.DB)
}

var documentedDatabases = []documented{
	{name: "postgres", dialect: guard.Postgres, info: "postgres", file: document, script: psql, db: postgresOwn},
	{name: "postgres in the readme", dialect: guard.Postgres, info: "postgres", file: readme, script: psql, db: postgresOwn},
	{name: "mariadb", dialect: guard.MySQL, info: "mariadb", file: document, script: mariadbClient, db: mariadbOwn},
	{name: "sqlite", dialect: guard.SQLite, info: "sqlite", file: document, script: sqliteStatements, db: func(t *testing.T) (string, *sql.DB) {
		return "", sqlite("_pragma=journal_mode(WAL)")(t)
	}},
}

func postgresOwn(t *testing.T) (string, *sql.DB) {
	name := newName("doc")
	run(t, postgres(t), "CREATE DATABASE "+name)
	return name, pool(t, "pgx", fmt.Sprintf("user=postgres database=%s host=%s", name, postgresServer.socketDir(t)))
}

func psql(t *testing.T, db, text, token string) (string, error) {
	t.Helper()
	return command(t, text, nil, "psql", "-X", "-v", "ON_ERROR_STOP=1", "-v", "token="+token, "-f", "-",
		"-h", postgresServer.socketDir(t), "-U", "postgres", db)
}

func mariadbOwn(t *testing.T) (string, *sql.DB) {
	name := newName("doc")
	run(t, mariadb("")(t), "CREATE DATABASE "+name)
	return name, pool(t, "mysql", fmt.Sprintf("root@unix(%s)/%s", filepath.Join(mariadbServer.socketDir(t), "s"), name))
}

func mariadbClient(t *testing.T, db, text, token string) (string, error) {
	t.Helper()
	return command(t, fmt.Sprintf("SET @token = %s;\n%s", token, text), nil, "mariadb", "--no-defaults",
		"--socket="+filepath.Join(mariadbServer.socketDir(t), "s"), "--user=root", db)
}

// sqliteStatements does what the shell does with -bail: one statement after the other, up to the first error.
func sqliteStatements(t *testing.T, file, text, token string) (string, error) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for statement := range strings.SplitSeq(text, ";\n") {
		if _, err := c.ExecContext(t.Context(), strings.ReplaceAll(statement, ":token", token)); err != nil {
			_, _ = c.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK") // fails where nothing was begun
			return err.Error(), err
		}
	}
	return "", nil
}

func TestDocument_hasTheSchemaOfTheCode(t *testing.T) {
	for _, d := range documentedDatabases {
		want, err := guard.SQL{Dialect: d.dialect, Table: "stanchion_fence"}.Schema()
		if err != nil {
			t.Fatal(err)
		}
		if got := block(t, document, "sql "+d.info+"-schema"); got != want+";\n" {
			t.Errorf("%s: got\n%s\nwant\n%s;", d.name, got, want)
		}
	}
}

// TestDocument_sqlGuards runs the document's transactions as it says they are run: what enters does its work, and what is
// refused fails and leaves nothing behind.
func TestDocument_sqlGuards(t *testing.T) {
	for _, d := range documentedDatabases {
		for _, way := range []string{"enter", "column"} {
			if d.file == readme && way == "column" {
				continue
			}
			t.Run(d.name+" "+way, func(t *testing.T) {
				name, db := d.db(t)
				if name == "" {
					name = sqliteFile(t, db)
				}
				if out, err := d.script(t, name, block(t, document, "sql "+d.info+"-schema"), "1"); err != nil {
					t.Fatalf("schema: %v\n%s", err, out)
				}
				run(t, db, "CREATE TABLE ledger_close (day VARCHAR(10) NOT NULL PRIMARY KEY, closed_by BIGINT NOT NULL, fence BIGINT)",
					"INSERT INTO ledger_close (day, closed_by) VALUES ('2026-06-30', 0)")
				d.tokensEnter(t, name, db, block(t, d.file, "sql "+d.info+"-"+way), way)
			})
		}
	}
}

func sqliteFile(t *testing.T, db *sql.DB) string {
	t.Helper()
	var n int
	var name, file string
	if err := db.QueryRow("PRAGMA database_list").Scan(&n, &name, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

func (d documented) tokensEnter(t *testing.T, name string, db *sql.DB, text, way string) {
	t.Helper()
	closedBy := int64(0)
	for _, step := range []struct {
		token  string
		enters bool
	}{{"0", false}, {"32", true}, {"32", true}, {"33", true}, {"32", false}, {"33", true}, {"0", false}, {"''", false},
		{"9007199254740991", true}, {"9007199254740992", false}} {
		out, err := d.script(t, name, text, step.token)
		// A transaction of SQLite's column form goes on without changing anything: its shell has no way to stop.
		silent := d.dialect == guard.SQLite && way == "column"
		if (err == nil) != (step.enters || silent) {
			t.Fatalf("token %s: got %v, want it to enter: %t\n%s", step.token, err, step.enters, out)
		}
		if step.enters {
			_, _ = fmt.Sscan(step.token, &closedBy)
		}
		if got := number(t, db, "SELECT closed_by FROM ledger_close"); got != closedBy {
			t.Fatalf("after token %s: got closed by %d, want %d", step.token, got, closedBy)
		}
	}
}

func TestDocument_fileGuards(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	script := block(t, document, "sh file") + "guarded '" + file + "' sh -c 'echo \"$STANCHION_TOKEN\" >\"$0\"' '" + file + "'\n"
	written := ""
	for _, step := range []struct {
		token string
		code  int
	}{{"", 2}, {"0", 2}, {"32", 0}, {"33", 0}, {"32", 3}, {"33", 0}, {"-1", 2}, {"034", 2}, {"9007199254740991", 0}, {"12345678901234567", 2}} {
		out, err := command(t, "", []string{"STANCHION_TOKEN=" + step.token}, "sh", "-c", script)
		code := 0
		if exit, ok := err.(*exec.ExitError); ok {
			code = exit.ExitCode()
		}
		if code != step.code {
			t.Fatalf("token %q: got status %d, want %d\n%s", step.token, code, step.code, out)
		}
		if code == 0 {
			written = step.token + "\n"
		}
		if got, _ := os.ReadFile(file); string(got) != written {
			t.Fatalf("after token %q: got %q in the file, want %q", step.token, got, written)
		}
	}
	if err := os.Truncate(file+".fence", 0); err != nil {
		t.Fatal(err)
	}
	if out, err := command(t, "", []string{"STANCHION_TOKEN=33"}, "sh", "-c", script); err == nil {
		t.Errorf("a fence that was damaged: got none, want to be refused\n%s", out)
	}
}

func TestDocument_httpGuards(t *testing.T) {
	server := httptest.NewServer(guarded(guard.EnterOnHeader))
	defer server.Close()
	script := block(t, document, "sh http")
	for _, step := range []struct{ token, says string }{{"33", "33 true\n33 true"}, {"32", "stale_fencing_token"}, {"x", "bad_fencing_token"}} {
		out, err := command(t, "", []string{"url=" + server.URL + "/ledger", "STANCHION_TOKEN=" + step.token}, "sh", "-c", script)
		if !strings.Contains(out, step.says) || (err == nil) != (step.token == "33") {
			t.Errorf("token %s: got %v, %q, want %q", step.token, err, out, step.says)
		}
	}
}

func TestDocument_reports(t *testing.T) {
	s := &service{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := s.take(r)
		if err != nil {
			status = http.StatusBadRequest
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	out, err := command(t, "", []string{"node=" + server.URL, "STANCHION_API_KEY=stn_key"}, "sh", "-c", block(t, document, "sh report"))
	sent := s.deliveries()
	if err != nil || len(sent) != 1 {
		t.Fatalf("got %v, %d reports, want none and 1\n%s", err, len(sent), out)
	}
	d := sent[0]
	if d.path != "POST /v1/guard/reports" || d.key != "Bearer stn_key" || len(d.report.ReportID) != 34 || d.report.Checks != 12 ||
		len(d.report.Rejections) != 1 || d.report.Rejections[0].Count != 1 {
		t.Errorf("report: got %+v", d)
	}
}
