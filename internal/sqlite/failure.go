package sqlite

import (
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// What the file can answer instead of doing what was asked. Errors of this package match one of them with errors.Is, or
// are the caller's context's error, or something that has no name here.
var (
	// ErrBusy: another connection held a lock for longer than the busy timeout. Repeat.
	ErrBusy = errors.New("database is busy")
	// ErrFull: the disk, or the file's own bound, is full. Nothing was changed; repeat when there is space again.
	ErrFull = errors.New("no space for the database")
	// ErrDamaged: the file is not what was written. Close it and open it again: it is set aside then.
	ErrDamaged = errors.New("database is damaged")
	// ErrConstraint: a key, a check or a trigger refuses the change. Repeating does not help.
	ErrConstraint = errors.New("database refuses the change")
	// ErrReadOnly: the file or its folder may not be written.
	ErrReadOnly = errors.New("database cannot be written")
	// ErrIO: the operating system refused to read or write. Repeat; the disk may be failing.
	ErrIO = errors.New("database input or output failed")
	// ErrSchema: the file's migrations are not those that this program has.
	ErrSchema = errors.New("database has another schema")
)

// meanings maps primary result codes to errors.
var meanings = map[int]error{
	lib.SQLITE_BUSY: ErrBusy, lib.SQLITE_LOCKED: ErrBusy, lib.SQLITE_FULL: ErrFull, lib.SQLITE_CORRUPT: ErrDamaged,
	lib.SQLITE_NOTADB: ErrDamaged, lib.SQLITE_CONSTRAINT: ErrConstraint, lib.SQLITE_READONLY: ErrReadOnly,
	lib.SQLITE_CANTOPEN: ErrReadOnly, lib.SQLITE_PERM: ErrReadOnly, lib.SQLITE_IOERR: ErrIO,
}

// translate gives an error of the driver its meaning; others pass.
func translate(err error) error {
	var code *driver.Error
	if err == nil || !errors.As(err, &code) {
		return err
	}
	meaning, ok := meanings[code.Code()&0xff]
	if !ok || errors.Is(err, meaning) {
		return err
	}
	return fmt.Errorf("%w: %w", meaning, err)
}
