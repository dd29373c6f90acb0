package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/internal/sqlite"
)

// What the file can answer instead of doing what was asked; see the package that opens it. All but ErrDamaged may pass by
// themselves: repeat.
var (
	ErrBusy    = sqlite.ErrBusy
	ErrFull    = sqlite.ErrFull    // nothing was changed; heals when there is space again
	ErrDamaged = sqlite.ErrDamaged // open the store again: the file is set aside then
)

// Config says where a node's audit is. The zero values of BytesMax, Logger and Now are useful.
type Config struct {
	Path        string
	Incarnation uint64 // which life of the cluster's data the logs are of; below 2^63
	BytesMax    int64  // bound of the file; 0: the disk's
	Logger      *slog.Logger
	Now         func() time.Time // when gaps are recorded and damaged files renamed; nil: time.Now
}

// Store is a node's audit. Safe for concurrent use: one writer at a time, a few readers beside it.
type Store struct {
	db          *sqlite.DB
	incarnation uint64
	logger      *slog.Logger
	now         func() time.Time

	prepared map[string]*sql.Stmt // at Open, for every transaction

	writing sync.Mutex        // held by whoever writes, for the whole transaction
	logs    map[Log]*logState // guarded by writing; nil: to be read again

	mu        sync.RWMutex
	published map[Log]extent // guarded by mu: what is committed
}

// Open opens a node's audit, making the file if there is none. A damaged file is set aside and a new one begun: Damaged
// says so, and what the old one had is then a gap for other nodes to fill.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Incarnation > numberMax {
		return nil, fmt.Errorf("open audit: incarnation %d is out of range", c.Incarnation)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	db, err := sqlite.Open(ctx, sqlite.Config{Path: c.Path, BytesMax: c.BytesMax, Logger: c.Logger, Now: c.Now})
	if err != nil {
		return nil, fmt.Errorf("open audit: %w", err)
	}
	s := &Store{db: db, incarnation: c.Incarnation, logger: c.Logger, now: c.Now, published: map[Log]extent{}}
	if err := errors.Join(s.prepare(ctx), s.load(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("open audit: %w", err), db.Close())
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context) (err error) {
	s.prepared = map[string]*sql.Stmt{}
	for _, query := range []string{insertEvent, insertBody, savePosition, saveTimes, saveBlock} {
		if s.prepared[query], err = s.db.Prepare(ctx, query); err != nil {
			return fmt.Errorf("prepare statements: %w", err)
		}
	}
	return nil
}

// Damaged is the path under which a damaged file was set aside at Open; empty: there was none.
func (s *Store) Damaged() string { return s.db.Damaged() }

// Incarnation is the life of the cluster's data that the store was opened for.
func (s *Store) Incarnation() uint64 { return s.incarnation }

// Pragmas are SQLite's settings in effect, for the log at a node's start.
func (s *Store) Pragmas() []sqlite.Pragma { return s.db.Pragmas() }

// SetBytesMax changes the bound of the file; 0: the disk's. A store that was full goes on.
func (s *Store) SetBytesMax(ctx context.Context, bytes int64) error {
	return s.db.SetBytesMax(ctx, bytes)
}

// Bytes is the size of the file in use.
func (s *Store) Bytes(ctx context.Context) (int64, error) { return s.db.Bytes(ctx) }

// Backup writes a whole copy to a path where there is no file yet, while the store goes on.
func (s *Store) Backup(ctx context.Context, path string) error { return s.db.Backup(ctx, path) }

// Close waits for what runs and closes the file. Nothing may be called afterwards.
func (s *Store) Close() error { return s.db.Close() }
