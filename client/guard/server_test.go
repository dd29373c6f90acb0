package guard_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Limits of a database server's life in a test.
const (
	startPatience   = 2 * time.Minute
	stopPatience    = 30 * time.Second
	socketBytesMax  = 100 // of a Unix socket's path
	logLinesInError = 20
)

// server is a database server of this test run, started when a test first asks for it, stopped by stopServers.
type server struct {
	name    string
	program func() (string, error)
	// prepare makes the data in dir and returns the command that serves it, and whom to run it as; ready is in the log
	// line that says that it serves.
	prepare func(program, dir string, as *syscall.SysProcAttr) (*exec.Cmd, error)
	account string // to run as where the tests run as root
	ready   string

	once   sync.Once
	err    error
	dir    string
	ended  chan struct{} // closed when the process has ended and its log is read
	signal func(os.Signal) error
	halt   os.Signal // asks for a quick end
}

var (
	postgresServer = &server{name: "PostgreSQL", program: findPostgres, prepare: preparePostgres, account: "postgres",
		ready: "database system is ready to accept connections", halt: syscall.SIGINT}
	mariadbServer = &server{name: "MariaDB", program: findMariaDB, prepare: prepareMariaDB, account: "mysql",
		ready: "ready for connections", halt: syscall.SIGTERM}
)

// socketDir starts the server, unless it runs, and returns the folder of its Unix socket.
func (s *server) socketDir(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.err = s.start() })
	if s.err != nil {
		t.Fatalf("start %s: %v", s.name, s.err)
	}
	return s.dir
}

func (s *server) start() error {
	program, err := s.program()
	if err != nil {
		return fmt.Errorf("%w; install what the tests need: make packages", err)
	}
	if s.dir, err = os.MkdirTemp("", "stn"); err != nil {
		return err
	}
	if len(s.dir)+len("/.s.PGSQL.5432") > socketBytesMax {
		return fmt.Errorf("the path %s is too long for a Unix socket; set TMPDIR to a shorter one", s.dir)
	}
	as, err := s.attributes()
	if err != nil {
		return err
	}
	cmd, err := s.prepare(program, s.dir, as)
	if err != nil {
		return err
	}
	return s.run(cmd)
}

// attributes let the server die with the tests, and run as its own account where the tests run as root.
func (s *server) attributes() (*syscall.SysProcAttr, error) {
	as := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		return as, nil
	}
	account, err := user.Lookup(s.account)
	if err != nil {
		return nil, fmt.Errorf("%w; install what the tests need: make packages", err)
	}
	uid, err := strconv.Atoi(account.Uid)
	gid, err2 := strconv.Atoi(account.Gid)
	if err := errors.Join(err, err2, os.Chown(s.dir, uid, gid)); err != nil {
		return nil, err
	}
	as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return as, nil
}

// run starts the server and waits until its log says that it serves.
func (s *server) run(cmd *exec.Cmd) error {
	logged, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = w, w
	s.ended = make(chan struct{})
	started, serves, lines := make(chan error, 1), make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(s.ended)
		runtime.LockOSThread() // Pdeathsig follows the thread, which ends with this goroutine
		err := cmd.Start()
		_ = w.Close()
		started <- err
		if err != nil {
			_ = logged.Close()
			return
		}
		lines <- followLog(logged, s.ready, serves)
		_ = cmd.Wait() // a server that was told to end
	}()
	if err := <-started; err != nil {
		return err
	}
	s.signal = cmd.Process.Signal
	select {
	case <-serves:
		return nil
	case last := <-lines:
		return fmt.Errorf("it ended before it served:\n%s", last)
	case <-time.After(startPatience):
		return errors.Join(errors.New("it did not serve in time"), s.signal(syscall.SIGKILL))
	}
}

// followLog reads a log to its end, closes serves at the line that says so, and returns the last lines.
func followLog(log io.ReadCloser, ready string, serves chan<- struct{}) string {
	defer func() { _ = log.Close() }()
	var last []string
	open := true
	for scan := bufio.NewScanner(log); scan.Scan(); {
		last = append(last[max(0, len(last)-logLinesInError):], scan.Text())
		if open && strings.Contains(scan.Text(), ready) {
			close(serves)
			open = false
		}
	}
	return strings.Join(last, "\n")
}

// stop ends the server and removes its data.
func (s *server) stop() error {
	if s.dir == "" {
		return nil
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	if s.signal == nil {
		return nil
	}
	_ = s.signal(s.halt) // it may have ended already
	select {
	case <-s.ended:
		return nil
	case <-time.After(stopPatience):
		return errors.Join(fmt.Errorf("%s did not end in time", s.name), s.signal(syscall.SIGKILL))
	}
}

func stopServers() error {
	closePools()
	return errors.Join(postgresServer.stop(), mariadbServer.stop())
}

// findPostgres finds the newest server that Debian's packages have put beside the path.
func findPostgres() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return exec.LookPath("postgres")
	}
	slices.SortFunc(found, func(a, b string) int { return postgresRelease(a) - postgresRelease(b) })
	return found[len(found)-1], nil
}

func postgresRelease(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program))))
	return n
}

func preparePostgres(program, dir string, as *syscall.SysProcAttr) (*exec.Cmd, error) {
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(filepath.Dir(program), "initdb"), "--pgdata="+data, "--username=postgres", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as.Credential}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	cmd := exec.Command(program, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=100",
		"-c", "shared_buffers=16MB", "-c", "deadlock_timeout=100ms", "-c", "log_min_messages=log", "-c", "log_min_error_statement=panic")
	cmd.Dir, cmd.SysProcAttr = dir, as
	return cmd, nil
}

func findMariaDB() (string, error) {
	for _, place := range []string{"mariadbd", "/usr/sbin/mariadbd"} {
		if found, err := exec.LookPath(place); err == nil {
			return found, nil
		}
	}
	return "", errors.New("there is no mariadbd")
}

func prepareMariaDB(program, dir string, as *syscall.SysProcAttr) (*exec.Cmd, error) {
	data := filepath.Join(dir, "data")
	install := exec.Command("mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=16M")
	install.Dir, install.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as.Credential}
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	cmd := exec.Command(program, "--no-defaults", "--datadir="+data, "--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"),
		"--skip-networking", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M",
		"--innodb-log-file-size=16M", "--max-connections=100", "--character-set-server=utf8mb4")
	cmd.Dir, cmd.SysProcAttr = dir, as
	return cmd, nil
}
