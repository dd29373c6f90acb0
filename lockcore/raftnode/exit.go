package raftnode

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	needsCheckFile = "NEEDS-CHECK"
	// exitPatience is how long a dying process tries to leave its mark on a disk that may hang.
	exitPatience = time.Second
	exitStatus   = 74 // as EX_IOERR
)

// ExitOnFailure returns the fatal function of a production node: the first call logs the error, leaves a mark in the
// data directory so that the next start says why it looks closely, and calls exit with status 74, whether or not the
// disk takes the mark. Safe for concurrent use.
func ExitOnFailure(dir string, logger *slog.Logger, exit func(status int)) func(error) {
	var once sync.Once
	return func(cause error) {
		once.Do(func() {
			told := make(chan struct{})
			go func() { // a hung disk must not keep the process alive; neither must a blocked log
				defer close(told)
				logger.Error("stopping: the node cannot trust its storage or its own progress", "error", cause, "remedy", remedy(cause))
				if err := markNeedsCheck(dir, cause); err != nil {
					logger.Error("cannot mark the data directory", "error", err)
				}
			}()
			select {
			case <-told:
			case <-time.After(exitPatience):
			}
			exit(exitStatus)
		})
	}
}

func markNeedsCheck(dir string, cause error) error {
	return writeFileDurably(filepath.Join(dir, needsCheckFile), []byte(cause.Error()+"\n"))
}

// TakeNeedsCheck returns the mark that a failed node left in its data directory and removes it; empty if there is none.
// Call it once the directory's stores are open: opening checks every page and record, mark or no mark.
func (d *DataDir) TakeNeedsCheck() (cause string, err error) {
	path := filepath.Join(d.path, needsCheckFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return "", fmt.Errorf("remove %s: %w", path, err)
	}
	return string(raw), syncDir(d.path)
}
