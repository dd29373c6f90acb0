package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// blockHashes is how many neighbouring hashes of a tree share a row of tree_block. The schema says so too.
const blockHashes = 64

// treeTail is the end of a log's stored tree, with what a transaction has added to it.
type treeTail struct {
	first  int64 // block of the first hash
	hashes []byte
}

// growTail adds hashes to a log's stored tree, the first of them at place, which is where it ends.
func (w *write) growTail(log Log, place int64, hashes []Hash) error {
	tail, begun := w.trees[log]
	if !begun {
		var err error
		if tail, err = w.readTail(log, place); err != nil {
			return err
		}
		w.trees[log] = tail
	}
	for i := range hashes {
		tail.hashes = append(tail.hashes, hashes[i][:]...)
	}
	return nil
}

// readTail reads the block that place is in, up to place.
func (w *write) readTail(log Log, place int64) (*treeTail, error) {
	tail := &treeTail{first: place / blockHashes}
	within := place % blockHashes
	if within == 0 {
		return tail, nil
	}
	const query = `SELECT hashes FROM tree_block WHERE incarnation = ? AND log_id = ? AND block = ?`
	err := w.tx.QueryRowContext(w.ctx, query, w.incarnation, log, tail.first).Scan(&tail.hashes)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read the tree of log %d: %w", log, err)
	}
	if int64(len(tail.hashes)) != within*tlog.HashSize {
		return nil, fmt.Errorf("%w: the tree of log %d does not end where its leaves do", ErrDamaged, log)
	}
	return tail, nil
}

const saveBlock = `INSERT INTO tree_block (incarnation, log_id, block, hashes) VALUES (?, ?, ?, ?)
	ON CONFLICT (incarnation, log_id, block) DO UPDATE SET hashes = excluded.hashes`

// saveTrees stores what the transaction has added to the trees.
func (w *write) saveTrees() error {
	for _, log := range slices.Sorted(maps.Keys(w.trees)) {
		block := w.trees[log].first
		for part := range slices.Chunk(w.trees[log].hashes, blockHashes*tlog.HashSize) {
			if _, err := w.exec(saveBlock, w.incarnation, log, block, part); err != nil {
				return fmt.Errorf("store the tree of log %d: %w", log, err)
			}
			block++
		}
	}
	return nil
}

// hashReader reads stored hashes of a log's tree.
func hashReader(ctx context.Context, tx *sql.Tx, incarnation uint64, log Log) tlog.HashReaderFunc {
	return func(places []int64) ([]tlog.Hash, error) {
		if len(places) == 0 {
			return nil, nil
		}
		blocks, err := readBlocks(ctx, tx, incarnation, log, places)
		if err != nil {
			return nil, err
		}
		hashes := make([]tlog.Hash, len(places))
		for i, p := range places {
			block, at := blocks[p/blockHashes], int(p%blockHashes)*tlog.HashSize
			if len(block) < at+tlog.HashSize {
				return nil, fmt.Errorf("%w: hash %d of log %d's tree is missing", ErrDamaged, p, log)
			}
			copy(hashes[i][:], block[at:])
		}
		return hashes, nil
	}
}

// readBlocks reads the blocks that the places are in.
func readBlocks(ctx context.Context, tx *sql.Tx, incarnation uint64, log Log, places []int64) (map[int64][]byte, error) {
	found := make(map[int64][]byte, len(places))
	args := []any{incarnation, log}
	for _, p := range places {
		if _, asked := found[p/blockHashes]; !asked {
			found[p/blockHashes] = nil
			args = append(args, p/blockHashes)
		}
	}
	query := `SELECT block, hashes FROM tree_block WHERE incarnation = ? AND log_id = ? AND block IN (?` +
		strings.Repeat(", ?", len(found)-1) + `)`
	_, err := collect(ctx, tx, func(rows *sql.Rows) (struct{}, error) {
		var block int64
		var hashes []byte
		err := rows.Scan(&block, &hashes)
		found[block] = hashes
		return struct{}{}, err
	}, query, args...)
	return found, err
}
