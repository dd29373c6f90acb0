package raftnode

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Errors of opening a store. Each message names the file and the remedy.
var (
	// ErrDamaged: the file is not what was written. The node must not run on it, nor start as an empty one.
	ErrDamaged = errors.New("raft store is damaged")
	// ErrStoreInUse: another process has the file open.
	ErrStoreInUse = errors.New("raft store is in use")
	// ErrLogGap: log and snapshots do not meet, so the state cannot be rebuilt.
	ErrLogGap = errors.New("raft log does not reach its snapshot")
)

const (
	storeMmapBytes = 256 << 20 // of address space, not of memory: reads then never wait for the file to be mapped anew
	storeLockWait  = time.Second
	boltLogBucket  = "logs" // raft-boltdb's names
	boltConfBucket = "conf"
)

// StoreConfig says which file to open and what to do in need.
type StoreConfig struct {
	Path string
	// Owner is written into a new file and must match that of an existing one.
	Owner StoreOwner
	// Create allows the file to be absent. Without it an absent or empty file is ErrDamaged.
	Create bool
	// WriteLimit is the longest that one write may take; beyond it the store fails with ErrStorageHung.
	WriteLimit time.Duration
	// Fatal is called once, with the first error; in production it does not return (see ExitOnFailure). It must not
	// call the store.
	Fatal func(error)
	// Gate, when given, is that of GroupConfig.
	Gate func(first, last uint64, bytes int64) uint64
}

// StoreOwner says whose log a file holds.
type StoreOwner struct {
	Cluster  ClusterID `json:"cluster"`
	NodeUUID NodeUUID  `json:"node_uuid"`
	Group    GroupID   `json:"group"`
}

func (c StoreConfig) validate() error {
	switch {
	case c.Path == "":
		return errors.New("store: no path")
	case c.WriteLimit <= 0:
		return errors.New("store: the write limit must be positive")
	case c.Fatal == nil:
		return errors.New("store: no fatal function")
	}
	return nil
}

// OpenStore checks the file, every page and every record, and opens it. It reads the whole file: some hundred
// milliseconds for a full log. Errors: ErrDamaged, ErrForeignData, ErrStoreInUse, ErrCannotWrite.
func OpenStore(cfg StoreConfig) (*Store, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	indexes, fresh, err := inspect(cfg)
	if err != nil {
		return nil, err
	}
	below, err := openBolt(cfg.Path)
	if err != nil {
		return nil, err
	}
	s := newStore(below, raftboltdb.ErrKeyNotFound, cfg)
	s.bytes = func() int64 { return bytesInUse(cfg.Path, below) }
	if fresh {
		err = s.own(cfg)
	} else {
		err = s.verify(cfg, indexes)
	}
	if err != nil {
		return nil, errors.Join(err, below.Close())
	}
	return s, nil
}

// inspect checks the file's pages before Bolt sees them, and returns the indexes of the log entries in it. fresh means
// that there is no file, or only what an interrupted creation left.
func inspect(cfg StoreConfig) (indexes []uint64, fresh bool, err error) {
	file, err := os.Open(cfg.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && cfg.Create:
		return nil, true, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, damaged(cfg.Path, errors.New("the file is gone"))
	case err != nil:
		return nil, false, fmt.Errorf("open raft store: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("open raft store: %w", err)
	}
	if info.Size() == 0 && cfg.Create {
		return nil, true, nil
	}
	records := 0
	err = checkBolt(file, info.Size(), func(bucket, key, _ []byte) error {
		records++
		if string(bucket) != boltLogBucket {
			return nil
		}
		if len(key) != 8 {
			return fmt.Errorf("%w: a log index of %d bytes", errBadPage, len(key))
		}
		indexes = append(indexes, binary.BigEndian.Uint64(key))
		return nil
	})
	if err != nil {
		return nil, false, damaged(cfg.Path, err)
	}
	return indexes, records == 0 && cfg.Create, nil
}

func damaged(path string, cause error) error {
	return fmt.Errorf("%s: %w: %w: do not delete or edit it; keep the file for examination, remove this node from the cluster and join again under a new node id with an empty data directory (the other nodes hold its data)",
		path, ErrDamaged, cause)
}

func openBolt(path string) (below *raftboltdb.BoltStore, err error) {
	err = recovered(func() error {
		below, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{
			Timeout:         storeLockWait,
			NoFreelistSync:  true, // or the whole list is rewritten with each commit
			FreelistType:    bbolt.FreelistMapType,
			InitialMmapSize: storeMmapBytes,
		}})
		return err
	})
	var ofDisk *fs.PathError
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%s: %w: another process runs on this data directory; stop it first", path, ErrStoreInUse)
	case errors.As(err, &ofDisk): // its pages have been checked already
		return nil, cannotWrite(path, err)
	case err != nil:
		return nil, damaged(path, err)
	}
	return below, nil
}

// bytesInUse estimates what a file holds: its size without the pages that Bolt has set free.
func bytesInUse(path string, below *raftboltdb.BoltStore) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0 // the next write will tell
	}
	s := below.Stats()
	return max(0, info.Size()-int64(s.FreePageN+s.PendingPageN)*int64(os.Getpagesize()))
}

// own marks a new file as its owner's and makes its directory entry durable.
func (s *Store) own(cfg StoreConfig) error {
	raw, err := json.Marshal(cfg.Owner)
	if err != nil {
		return fmt.Errorf("encode store owner: %w", err)
	}
	if err := s.put([]byte(keyOwner), raw); err != nil {
		return err
	}
	return syncDir(filepath.Dir(cfg.Path))
}

// verify reads every record of an existing file. It uses the file below directly: a finding is an answer to the
// caller, not yet a failure of a running node.
func (s *Store) verify(cfg StoreConfig, indexes []uint64) error {
	var raw []byte
	err := recovered(func() error {
		for _, index := range indexes {
			var entry raft.Log
			if err := s.below.GetLog(index, &entry); err != nil {
				return fmt.Errorf("log entry %d: %w", index, err)
			}
			if err := openEntry(index, &entry); err != nil {
				return err
			}
		}
		var err error
		raw, err = s.verifyStable()
		return err
	})
	if err != nil {
		return damaged(cfg.Path, err)
	}
	return matchOwner(cfg, raw)
}

// verifyStable checks the few stable records and returns the owner's.
func (s *Store) verifyStable() (owner []byte, err error) {
	for _, key := range []string{"CurrentTerm", keyVote, keyOwner} {
		sealed, err := s.below.Get([]byte(key))
		if errors.Is(err, s.absent) && key != keyOwner {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("record %q: %w", key, err)
		}
		if owner, err = openRecord([]byte(key), sealed); err != nil {
			return nil, err
		}
	}
	return owner, nil
}

func matchOwner(cfg StoreConfig, raw []byte) error {
	var got StoreOwner
	if err := decodeStrictJSON(raw, &got); err != nil {
		return damaged(cfg.Path, fmt.Errorf("owner record: %w", err))
	}
	switch want := cfg.Owner; {
	case got.Cluster != want.Cluster:
		return foreign(cfg.Path, "cluster", string(want.Cluster), string(got.Cluster))
	case got.Group != want.Group:
		return foreign(cfg.Path, "group", string(want.Group), string(got.Group))
	case got.NodeUUID != want.NodeUUID:
		return foreign(cfg.Path, "node UUID", string(want.NodeUUID), string(got.NodeUUID))
	}
	return nil
}

// sanitise prepares the log for Raft. An entry at the newest snapshot's index with another term was never committed,
// and Raft would install snapshots for ever over it: it is cut off with all that follows. Then the log must reach
// from the snapshot to its end without a gap. Errors: ErrLogGap, ErrDamaged when no snapshot can be read.
func (s *Store) sanitise(snapshots raft.SnapshotStore) error {
	meta, err := newestSnapshot(snapshots)
	if err != nil {
		return err
	}
	if err := s.cutDivergent(meta); err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	for index := meta.Index + 1; index <= last; index++ {
		var entry raft.Log
		err := s.GetLog(index, &entry)
		if errors.Is(err, raft.ErrLogNotFound) {
			return fmt.Errorf("%w: snapshot at %d, log to %d, entry %d missing: remove this node from the cluster and join again under a new node id with an empty data directory",
				ErrLogGap, meta.Index, last, index)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) cutDivergent(meta raft.SnapshotMeta) error {
	var entry raft.Log
	err := s.GetLog(meta.Index, &entry)
	if errors.Is(err, raft.ErrLogNotFound) || err == nil && entry.Term == meta.Term {
		return nil
	}
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	return s.DeleteRange(meta.Index, last)
}

// newestSnapshot returns the newest snapshot whose content can be read, which is the one Raft will restore; the zero
// value when there is none.
func newestSnapshot(snapshots raft.SnapshotStore) (raft.SnapshotMeta, error) {
	all, err := snapshots.List()
	if err != nil {
		return raft.SnapshotMeta{}, fmt.Errorf("list snapshots: %w", err)
	}
	var bad error
	for _, candidate := range all { // newest first
		meta, content, err := snapshots.Open(candidate.ID)
		if err != nil {
			bad = errors.Join(bad, fmt.Errorf("snapshot %s: %w", candidate.ID, err))
			continue
		}
		return *meta, content.Close()
	}
	if bad != nil {
		return raft.SnapshotMeta{}, fmt.Errorf("%w: %w: keep the files for examination, remove this node from the cluster and join again under a new node id with an empty data directory", ErrDamaged, bad)
	}
	return raft.SnapshotMeta{}, nil
}
