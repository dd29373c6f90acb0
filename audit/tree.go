package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// ErrNotNumbered says that the Merkle log does not have that many leaves yet, or never will.
var ErrNotNumbered = errors.New("the audit's Merkle log is not that long")

// growTree adds a leaf to a tree of a size, known by its peaks, and returns the hashes to be stored and the new peaks.
func growTree(size uint64, peaks []tlog.Hash, leaf tlog.Hash) (hashes, grown []tlog.Hash, err error) {
	// A new leaf completes a subtree with each of the last peaks, which are just what the library asks for.
	hashes, err = tlog.StoredHashesForRecordHash(int64(size), leaf, tlog.HashReaderFunc(func(places []int64) ([]tlog.Hash, error) {
		return peaks[len(peaks)-len(places):], nil
	}))
	if err != nil {
		return nil, nil, err
	}
	kept := peaks[: len(peaks)-(len(hashes)-1) : len(peaks)-(len(hashes)-1)]
	return hashes, append(kept, hashes[len(hashes)-1]), nil
}

// rootOf is the root of a tree of a size, known by its peaks.
func rootOf(size uint64, peaks []tlog.Hash) (Hash, error) {
	return tlog.TreeHash(int64(size), tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) { return peaks, nil }))
}

// readPeaks reads the hashes that the root of a tree of a size is made of.
func readPeaks(ctx context.Context, tx *sql.Tx, incarnation uint64, log Log, size uint64) (peaks []tlog.Hash, err error) {
	read := hashReader(ctx, tx, incarnation, log)
	_, err = tlog.TreeHash(int64(size), tlog.HashReaderFunc(func(places []int64) ([]tlog.Hash, error) {
		peaks, err = read(places)
		return peaks, err
	}))
	return peaks, err
}

// prove runs f over a log's stored hashes if its Merkle log has at least size leaves.
func (s *Store) prove(ctx context.Context, log Log, size uint64, f func(tlog.HashReader) error) error {
	return s.db.Read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var leaves uint64
		const query = `SELECT leaf_count FROM log_position WHERE incarnation = ? AND log_id = ?`
		err := tx.QueryRowContext(ctx, query, s.incarnation, log).Scan(&leaves)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if size > leaves {
			return fmt.Errorf("%w: it has %d leaves", ErrNotNumbered, leaves)
		}
		return f(hashReader(ctx, tx, s.incarnation, log))
	})
}

// RootAt is the root of the first rows leaves of a log's Merkle log. More than it has is ErrNotNumbered.
func (s *Store) RootAt(ctx context.Context, log Log, rows uint64) (root [32]byte, err error) {
	err = s.prove(ctx, log, rows, func(r tlog.HashReader) error {
		root, err = tlog.TreeHash(int64(rows), r)
		return err
	})
	if err != nil {
		return root, fmt.Errorf("root of log %d at %d: %w", log, rows, err)
	}
	return root, nil
}

// ProveRow proves that the tree of size leaves has the leaf numbered row, from 0. Check it with VerifyRow.
func (s *Store) ProveRow(ctx context.Context, log Log, row, size uint64) (proof tlog.RecordProof, err error) {
	if row >= size {
		return nil, fmt.Errorf("prove row %d of %d of log %d: %w", row, size, log, ErrNotNumbered)
	}
	err = s.prove(ctx, log, size, func(r tlog.HashReader) error {
		proof, err = tlog.ProveRecord(int64(size), int64(row), r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prove row %d of %d of log %d: %w", row, size, log, err)
	}
	return proof, nil
}

// ProvePrefix proves that the tree of newSize leaves begins with all of the tree of oldSize, from 1. Check it with
// VerifyPrefix.
func (s *Store) ProvePrefix(ctx context.Context, log Log, oldSize, newSize uint64) (proof tlog.TreeProof, err error) {
	if oldSize == 0 || oldSize > newSize {
		return nil, fmt.Errorf("prove prefix %d of %d of log %d: %w", oldSize, newSize, log, ErrNotNumbered)
	}
	err = s.prove(ctx, log, newSize, func(r tlog.HashReader) error {
		proof, err = tlog.ProveTree(int64(newSize), int64(oldSize), r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prove prefix %d of %d of log %d: %w", oldSize, newSize, log, err)
	}
	return proof, nil
}

// Position is how far a log is projected on this node.
type Position struct {
	Log               Log
	Durable           uint64   // every entry up to here is rows, or a recorded gap
	Complete          uint64   // no gap is open at or below; those given up count in UnrecoverableGaps
	Rows              uint64   // leaves of the Merkle log: events, and gaps given up
	Root              [32]byte // of the Merkle log
	Gaps              int      // open
	UnrecoverableGaps int
}

// Positions tells of every log that has begun here, by log, from one state of the file.
func (s *Store) Positions(ctx context.Context) (all []Position, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		logs, err := s.readLogs(ctx, tx)
		if err != nil {
			return err
		}
		for _, log := range logs {
			st, err := s.readState(ctx, tx, log)
			if err != nil {
				return err
			}
			root, err := rootOf(st.leaves, st.peaks)
			if err != nil {
				return err
			}
			open := len(st.open())
			all = append(all, Position{Log: log, Durable: st.durable, Complete: st.complete(), Rows: st.leaves, Root: root,
				Gaps: open, UnrecoverableGaps: len(st.gaps) - open})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read audit positions: %w", err)
	}
	return all, nil
}
