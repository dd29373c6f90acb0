package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// companions are the files beside a database that belong to it.
var companions = []string{"", "-wal", "-shm"}

// setDamagedAside checks a file that is there. One that is damaged is renamed, its companions with it, and the new path
// returned; empty: it is whole, or there is none.
func setDamagedAside(ctx context.Context, c Config) (string, error) {
	info, err := os.Stat(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return c.setOrphansAside()
	}
	if err != nil {
		return "", fmt.Errorf("open database %s: %w", c.Path, err)
	}
	if info.Size() == 0 { // made, and never written: as good as none
		return c.setOrphansAside()
	}
	fault, err := check(ctx, c)
	if err != nil {
		return "", fmt.Errorf("check database %s: %w", c.Path, err)
	}
	if fault == "" {
		return "", nil
	}
	aside := c.asideName()
	c.Logger.Error("database is damaged and set aside", "path", c.Path, "aside", aside, "fault", fault)
	return aside, c.rename(aside)
}

// setOrphansAside takes care of a write-ahead log without its database: SQLite would play it into a new one.
func (c Config) setOrphansAside() (string, error) {
	info, err := os.Stat(c.Path + "-wal")
	if err != nil || info.Size() == 0 {
		return "", nil
	}
	aside := c.asideName()
	c.Logger.Error("database is missing and what is left of it set aside", "path", c.Path, "aside", aside)
	return aside, c.rename(aside)
}

func (c Config) asideName() string {
	return c.Path + ".damaged-" + c.Now().UTC().Format("20060102T150405.000Z")
}

// rename moves the file and its companions.
func (c Config) rename(aside string) error {
	for _, suffix := range companions {
		err := os.Rename(c.Path+suffix, aside+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set damaged database aside: %w", err)
		}
	}
	return nil
}

// check finds what is wrong with the file's structure; empty: nothing, as far as there was time to look. An error is no
// finding: the file may be whole.
func check(ctx context.Context, c Config) (string, error) {
	pool, err := connect(c.writerName(), 1)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, c.CheckTime)
	defer cancel()
	fault, err := quickCheck(limited, pool)
	if err != nil && limited.Err() != nil && ctx.Err() == nil { // or whoever has a large file could not start any more
		c.Logger.Warn("database is too large to be checked whole; no damage was found so far", "path", c.Path, "time", c.CheckTime)
		err = nil
	}
	return fault, errors.Join(err, pool.Close())
}

// faultsShown bounds how many findings are asked for.
const faultsShown = 5

func quickCheck(ctx context.Context, pool *sql.DB) (string, error) {
	rows, err := pool.QueryContext(ctx, fmt.Sprintf("PRAGMA quick_check(%d)", faultsShown))
	if err != nil {
		return asFault(err)
	}
	defer rows.Close()
	var faults []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return asFault(err)
		}
		if line != "ok" {
			faults = append(faults, line)
		}
	}
	if err := rows.Err(); err != nil {
		return asFault(err)
	}
	return strings.Join(faults, "; "), nil
}

// asFault tells an error that means damage from one that only kept the check from being made.
func asFault(err error) (string, error) {
	err = translate(err)
	if errors.Is(err, ErrDamaged) {
		return err.Error(), nil
	}
	return "", err
}
