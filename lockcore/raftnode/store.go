package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Errors of the store. Each is final: once one was returned, every later call returns it too.
var (
	// ErrStorage wraps the first error of a read, write, sync or delete. What is on disk is unknown; the process must
	// stop, and the node checks its files when it starts again.
	ErrStorage = errors.New("raft storage failed")
	// ErrStorageHung: a write has been in progress for longer than the limit. The disk does not answer.
	ErrStorageHung = errors.New("raft storage hangs")
	// ErrStoreClosed: the store was closed by its owner.
	ErrStoreClosed = errors.New("raft store is closed")
)

// The names under which Raft keeps the parts of its vote, and ours for the whole.
const (
	keyVoteTerm      = "LastVoteTerm"
	keyVoteCandidate = "LastVoteCand"
	keyVote          = "stanchion.vote"
	keyOwner         = "stanchion.owner"
)

// errNotFound has the text by which Raft recognises a missing key.
var errNotFound = errors.New("not found")

// backend is what the store needs from the Bolt file below it.
type backend interface {
	raft.LogStore
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
	Close() error
}

// Store is Raft's log and stable store on one Bolt file. It adds to raft-boltdb what a lock service cannot do without:
// the vote is one record, every record has a checksum, the first error is the last thing the node does, and a write
// that hangs is an error. Safe for concurrent use.
type Store struct {
	below  backend
	limit  time.Duration
	fatal  func(error)
	gate   func(first, last uint64, bytes int64) uint64
	bytes  func() int64 // estimates what the file holds
	absent error        // what below returns for a missing key

	mu          sync.Mutex
	failed      error  // guarded by mu: the first error
	pendingTerm uint64 // guarded by mu: a vote's term, waiting for its candidate
}

var (
	_ raft.LogStore    = (*Store)(nil)
	_ raft.StableStore = (*Store)(nil)
)

func newStore(below backend, absent error, cfg StoreConfig) *Store {
	return &Store{below: below, absent: absent, limit: cfg.WriteLimit, fatal: cfg.Fatal, gate: cfg.Gate,
		bytes: func() int64 { return 0 }}
}

// Close releases the file. Calls after it return ErrStoreClosed; it is not a failure.
func (s *Store) Close() error {
	s.mu.Lock()
	already := s.failed
	if already == nil {
		s.failed = ErrStoreClosed
	}
	s.mu.Unlock()
	if errors.Is(already, ErrStoreClosed) {
		return nil
	}
	if err := s.below.Close(); err != nil {
		return fmt.Errorf("close raft store: %w", err)
	}
	return nil
}

// Err returns the error that stopped the store, or nil.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Bytes estimates what the file holds; see Group.LogBytes.
func (s *Store) Bytes() int64 { return s.bytes() }

// FirstIndex returns the index of the oldest entry, 0 for an empty log.
func (s *Store) FirstIndex() (uint64, error) { return s.readIndex("first index", s.below.FirstIndex) }

// LastIndex returns the index of the newest entry, 0 for an empty log.
func (s *Store) LastIndex() (uint64, error) { return s.readIndex("last index", s.below.LastIndex) }

func (s *Store) readIndex(what string, read func() (uint64, error)) (index uint64, err error) {
	err = s.do("read "+what, func() error {
		index, err = read()
		return err
	})
	return index, err
}

// GetLog reads the entry at index and checks it against its checksum. A missing entry is raft.ErrLogNotFound.
func (s *Store) GetLog(index uint64, entry *raft.Log) error {
	missing := false
	err := s.do("read log entry", func() error {
		err := s.below.GetLog(index, entry)
		if missing = errors.Is(err, raft.ErrLogNotFound); missing {
			return nil
		}
		if err != nil {
			return err
		}
		return openEntry(index, entry)
	})
	if err == nil && missing {
		return raft.ErrLogNotFound
	}
	return err
}

// StoreLog appends one entry, durably.
func (s *Store) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends the entries in one transaction, durably.
func (s *Store) StoreLogs(entries []*raft.Log) error {
	sealed := make([]*raft.Log, len(entries))
	for i, entry := range entries {
		sealed[i] = sealEntry(entry)
	}
	return s.write("append to log", func() error { return s.below.StoreLogs(sealed) })
}

// deletedAtOnceMax bounds the entries that one transaction removes from the front of the log: a gate may let go of
// millions at once, and neither appends nor the watchdog wait for those.
const deletedAtOnceMax = 10_000

// DeleteRange removes the entries first..last. The gate may keep the newer part of what a snapshot made superfluous;
// it has no say when the end of the log is cut because it conflicts with the leader's. The two are told apart by the log's
// last entry, which only a conflict removes: a snapshot leaves at least one trailing entry.
func (s *Store) DeleteRange(first, last uint64) error {
	end, err := s.LastIndex()
	if err != nil {
		return err
	}
	if last >= end {
		return s.delete(first, last) // in one piece: half of it would leave a hole
	}
	if s.gate != nil {
		last = min(last, s.gate(first, last, s.Bytes()))
	}
	for first <= last {
		until := min(last, first+deletedAtOnceMax-1)
		if err := s.delete(first, until); err != nil {
			return err
		}
		first = until + 1
	}
	return nil
}

func (s *Store) delete(first, last uint64) error {
	return s.write("truncate log", func() error { return s.below.DeleteRange(first, last) })
}

// Set stores a record durably. The candidate of a vote is stored together with the term announced before it.
func (s *Store) Set(key, value []byte) error {
	if string(key) == keyVoteCandidate {
		return s.setVote(value)
	}
	return s.put(key, value)
}

func (s *Store) setVote(candidate []byte) error {
	s.mu.Lock()
	term := s.pendingTerm
	s.pendingTerm = 0
	s.mu.Unlock()
	if term == 0 {
		return s.fail(fmt.Errorf("store vote: %w: a candidate without a term", ErrStorage))
	}
	return s.put([]byte(keyVote), vote{term: term, candidate: candidate}.encode())
}

func (s *Store) put(key, value []byte) error {
	return s.write("store "+string(key), func() error { return s.below.Set(key, sealRecord(key, value)) })
}

// Get reads a record; a missing one is an error with the text "not found", as Raft wants it.
func (s *Store) Get(key []byte) ([]byte, error) {
	if string(key) == keyVoteCandidate {
		v, err := s.vote()
		return v.candidate, err
	}
	return s.get(key)
}

func (s *Store) get(key []byte) (value []byte, err error) {
	missing := false
	err = s.do("read "+string(key), func() error {
		sealed, err := s.below.Get(key)
		if missing = errors.Is(err, s.absent); missing {
			return nil
		}
		if err != nil {
			return err
		}
		value, err = openRecord(key, sealed)
		return err
	})
	if err == nil && missing {
		return nil, errNotFound
	}
	return value, err
}

func (s *Store) vote() (vote, error) {
	raw, err := s.get([]byte(keyVote))
	if err != nil {
		return vote{}, err
	}
	v, err := decodeVote(raw)
	if err != nil {
		return vote{}, s.fail(fmt.Errorf("read vote: %w: %w", ErrStorage, err))
	}
	return v, nil
}

// SetUint64 stores a number durably, except the term of a vote: Raft stores the candidate right after it and answers
// nobody in between, so the term waits in memory and both reach the disk in one transaction.
func (s *Store) SetUint64(key []byte, value uint64) error {
	if string(key) != keyVoteTerm {
		return s.put(key, binary.BigEndian.AppendUint64(nil, value))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pendingTerm = value
	return s.failed
}

// GetUint64 reads a number; a missing one is an error with the text "not found".
func (s *Store) GetUint64(key []byte) (uint64, error) {
	if string(key) == keyVoteTerm {
		v, err := s.vote()
		return v.term, err
	}
	raw, err := s.get(key)
	if err != nil {
		return 0, err
	}
	if len(raw) != 8 {
		return 0, s.fail(fmt.Errorf("read %s: %w: a number of %d bytes", key, ErrStorage, len(raw)))
	}
	return binary.BigEndian.Uint64(raw), nil
}

// write is do under the watchdog.
func (s *Store) write(what string, op func() error) error {
	watchdog := time.AfterFunc(s.limit, func() {
		s.fail(fmt.Errorf("%s: %w: no answer for %v", what, ErrStorageHung, s.limit))
	})
	defer watchdog.Stop()
	return s.do(what, op)
}

// do runs op unless the store has failed, and makes the first error, or panic of Bolt, the store's last.
func (s *Store) do(what string, op func() error) error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := recovered(op); err != nil {
		return s.fail(fmt.Errorf("%s: %w: %w", what, ErrStorage, err))
	}
	return s.Err() // a write that came back after the watchdog gave it up is not a success
}

// fail records the first error and tells fatal about it, once; it returns that first error.
func (s *Store) fail(err error) error {
	s.mu.Lock()
	first := s.failed == nil
	if first {
		s.failed = err
	}
	err = s.failed
	s.mu.Unlock()
	if first {
		s.fatal(err)
	}
	return err
}

// recovered turns a panic of op into an error.
func recovered(op func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return op()
}
