package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/stanchion-locks/stanchion/internal/sqlite"
)

// ProblemsMax bounds the problems that a report lists.
const ProblemsMax = 100

// LogReport is what verifying one log of a file or of an export found.
type LogReport struct {
	Incarnation uint64
	Log         Log
	Rows        uint64 // events looked at
	Recomputed  uint64 // of them, those whose hash follows from what they say
	Erased      uint64 // of those, without their personal text
	Dropped     uint64 // events of which retention left the hash alone
	Unnumbered  uint64 // events that wait for a gap to be filled
	Leaves      uint64 // leaves of the Merkle log, gaps given up included
	Root        [32]byte
	RootKnown   bool     // false: an export that is no whole Merkle log from leaf 0 on
	Gaps        []Gap    // of a file
	Problems    []string // at most ProblemsMax; none: whole
}

// Whole reports whether nothing is wrong. Gaps are nothing wrong: they are known.
func (r *LogReport) Whole() bool { return len(r.Problems) == 0 }

func (r *LogReport) problem(format string, args ...any) {
	if len(r.Problems) < ProblemsMax {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// tally recomputes a record and adds its leaf to the tree, if it is numbered.
type tally struct {
	report LogReport
	peaks  []tlog.Hash
	onLeaf func(leaf uint64, hashes []tlog.Hash) // nil: nobody looks
}

func (t *tally) add(r *Record) {
	if err := r.Verify(); err != nil {
		t.report.problem("%v", err)
	}
	if r.GapTo == 0 {
		t.report.Rows++
		switch {
		case r.Dropped:
			t.report.Dropped++
		case r.Erased:
			t.report.Erased++
			fallthrough
		default:
			t.report.Recomputed++
		}
	}
	if r.Leaf == nil {
		t.report.Unnumbered++
		return
	}
	if *r.Leaf != t.report.Leaves {
		t.report.problem("log %d, entry %d, event %d: leaf %d where %d follows", r.Log, r.Index, r.Ordinal, *r.Leaf, t.report.Leaves)
	}
	hashes, peaks, err := growTree(t.report.Leaves, t.peaks, r.Hash)
	if err != nil {
		t.report.problem("log %d, leaf %d: %v", r.Log, t.report.Leaves, err)
		return
	}
	if t.onLeaf != nil {
		t.onLeaf(t.report.Leaves, hashes)
	}
	t.peaks = peaks
	t.report.Leaves++
}

func (t *tally) finish() LogReport {
	root, err := rootOf(t.report.Leaves, t.peaks)
	if err != nil {
		t.report.problem("root: %v", err)
	}
	t.report.Root, t.report.RootKnown = root, err == nil
	return t.report
}

// VerifyFile recomputes a store's file, which a node may have open or not: the hash of every event from what it says, where
// that is still there, the numbering, every hash of every Merkle log and its root. It changes nothing. An error means that the
// file could not be read; what is wrong with what was read is in the reports, one for each incarnation and log.
func VerifyFile(ctx context.Context, path string) ([]LogReport, error) {
	pool, err := sqlite.OpenReadOnly(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("verify audit: %w", err)
	}
	reports, err := verifyAll(ctx, pool)
	if err = errors.Join(sqlite.Translate(err), pool.Close()); err != nil {
		return nil, fmt.Errorf("verify audit %s: %w", path, err)
	}
	return reports, nil
}

// life is a log in one incarnation, with what the file says about its length.
type life struct {
	incarnation     uint64
	log             Log
	durable, leaves uint64
}

func verifyAll(ctx context.Context, pool *sql.DB) ([]LogReport, error) {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // it only reads
	const query = `SELECT incarnation, log_id, durable_index, leaf_count FROM log_position ORDER BY incarnation, log_id`
	lives, err := collect(ctx, tx, func(rows *sql.Rows) (l life, err error) {
		return l, rows.Scan(&l.incarnation, &l.log, &l.durable, &l.leaves)
	}, query)
	if err != nil {
		return nil, err
	}
	var reports []LogReport
	for _, l := range lives {
		report, err := verifyLife(ctx, tx, l)
		if err != nil {
			return nil, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}

func verifyLife(ctx context.Context, tx *sql.Tx, l life) (LogReport, error) {
	t := &tally{report: LogReport{Incarnation: l.incarnation, Log: l.log}}
	stored, err := openTreeWalk(ctx, tx, l)
	if err != nil {
		return LogReport{}, err
	}
	defer stored.Close()
	t.onLeaf = func(leaf uint64, hashes []tlog.Hash) { stored.compare(&t.report, leaf, hashes) }
	gaps, err := walkLife(ctx, tx, l, t.add)
	if err != nil {
		return LogReport{}, err
	}
	for _, g := range gaps {
		t.report.Gaps = append(t.report.Gaps, g.gap(l.log))
	}
	report := t.finish()
	if report.Leaves != l.leaves {
		report.problem("log %d: the file says %d leaves, there are %d", l.log, l.leaves, report.Leaves)
	}
	stored.end(&report)
	return report, stored.Err()
}

// walkStep is how many rows are read at a time.
const walkStep = 1024

// walkLife calls f with every row of a log and every gap given up, in order of position, a gap at its first index. It returns
// all gaps.
func walkLife(ctx context.Context, tx *sql.Tx, l life, f func(*Record)) ([]gapState, error) {
	gaps, err := readGaps(ctx, tx, l.incarnation, l.log)
	if err != nil {
		return nil, err
	}
	lost := lostRecords(l.incarnation, l.log, gaps)
	for next := uint64(1); next <= l.durable; {
		rows, through, err := wholeEntries(ctx, tx, l.incarnation, l.log, span{next, l.durable}, walkStep)
		if err != nil {
			return nil, err
		}
		next = through + 1
		for i := range rows {
			for len(lost) > 0 && lost[0].Index < rows[i].Index {
				f(&lost[0])
				lost = lost[1:]
			}
			f(&rows[i])
		}
	}
	for i := range lost {
		f(&lost[i])
	}
	return gaps, nil
}

// lostRecords are the records of the gaps given up.
func lostRecords(incarnation uint64, log Log, gaps []gapState) []Record {
	var lost []Record
	for _, g := range gaps {
		if g.givenUp {
			lost = append(lost, Record{Incarnation: incarnation, Log: log, Index: g.from, GapTo: g.to, Leaf: g.gap(log).Leaf,
				Hash: tlog.RecordHash(gapLeaf(incarnation, log, g.from, g.to))})
		}
	}
	return lost
}

// treeWalk reads the stored hashes of a tree in their order, beside the leaves.
type treeWalk struct {
	*sql.Rows
	log    Log
	hashes []byte // of the block just read, those that are still to come
	blocks int64  // read
}

func openTreeWalk(ctx context.Context, tx *sql.Tx, l life) (*treeWalk, error) {
	const query = `SELECT block, hashes FROM tree_block WHERE incarnation = ? AND log_id = ? ORDER BY block`
	rows, err := tx.QueryContext(ctx, query, l.incarnation, l.log)
	return &treeWalk{Rows: rows, log: l.log}, err
}

// next is the next hash stored; false: there is none, or it is not where it belongs.
func (w *treeWalk) next() (hash Hash, ok bool) {
	if len(w.hashes) == 0 {
		var block int64
		if !w.Next() || w.Scan(&block, &w.hashes) != nil || block != w.blocks {
			return Hash{}, false
		}
		w.blocks++
	}
	ok = len(w.hashes) >= len(hash)
	n := copy(hash[:], w.hashes)
	w.hashes = w.hashes[n:]
	return hash, ok
}

// compare holds the hashes that a leaf led to against the next ones stored.
func (w *treeWalk) compare(report *LogReport, leaf uint64, hashes []tlog.Hash) {
	for _, want := range hashes {
		got, ok := w.next()
		if !ok {
			report.problem("log %d, leaf %d: a hash of the tree is missing", w.log, leaf)
			return
		}
		if got != want {
			report.problem("log %d, leaf %d: the tree has %v, its leaves make %v", w.log, leaf, got, want)
		}
	}
}

// end sees that nothing more is stored.
func (w *treeWalk) end(report *LogReport) {
	if _, more := w.next(); more {
		report.problem("log %d: the tree has more hashes than leaves make", w.log)
	}
}

// VerifyRow checks that the record is what its hash commits to and that a tree of size leaves with the given root has it as
// its leaf. Proofs come from ProveRow. What is wrong is ErrWrongHash.
func VerifyRow(r Record, proof tlog.RecordProof, size uint64, root [32]byte) error {
	if err := r.Verify(); err != nil {
		return err
	}
	if r.Leaf == nil {
		return r.wrong("it has no number in the Merkle log")
	}
	if size > numberMax || *r.Leaf >= size {
		return r.wrong(fmt.Sprintf("leaf %d of a tree of %d", *r.Leaf, size))
	}
	if err := tlog.CheckRecord(proof, int64(size), root, int64(*r.Leaf), r.Hash); err != nil {
		return r.wrong(fmt.Sprintf("the proof does not lead to the root: %v", err))
	}
	return nil
}

// VerifyPrefix checks that the tree of newSize leaves with newRoot begins with all of the tree of oldSize with oldRoot. Proofs
// come from ProvePrefix. What is wrong is ErrWrongHash.
func VerifyPrefix(proof tlog.TreeProof, oldSize uint64, oldRoot [32]byte, newSize uint64, newRoot [32]byte) error {
	if oldSize == 0 || oldSize > newSize || newSize > numberMax {
		return fmt.Errorf("%w: no tree of %d leaves begins with one of %d", ErrWrongHash, newSize, oldSize)
	}
	if err := tlog.CheckTree(proof, int64(newSize), newRoot, int64(oldSize), oldRoot); err != nil {
		return fmt.Errorf("%w: the first %d of %d leaves are not those of before: %v", ErrWrongHash, oldSize, newSize, err)
	}
	return nil
}
