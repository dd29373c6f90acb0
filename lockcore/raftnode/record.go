package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// Bolt keeps no checksum of what it stores, so every log entry and every stable record carries one of ours.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBadChecksum means that a stored record is not what was written.
var errBadChecksum = errors.New("checksum does not match")

const checksumBytes = 4

// sealRecord returns value with its checksum, which covers the key too.
func sealRecord(key, value []byte) []byte {
	sealed := make([]byte, 0, len(value)+checksumBytes)
	return binary.BigEndian.AppendUint32(append(sealed, value...), recordSum(key, value))
}

// openRecord returns what was sealed, or errBadChecksum.
func openRecord(key, sealed []byte) ([]byte, error) {
	n := len(sealed) - checksumBytes
	if n < 0 || binary.BigEndian.Uint32(sealed[n:]) != recordSum(key, sealed[:n]) {
		return nil, fmt.Errorf("record %q: %w", key, errBadChecksum)
	}
	return sealed[:n:n], nil
}

func recordSum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// sealEntry returns a copy of the entry with its checksum in Extensions, a field that Raft stores and sends along but
// does not use. The caller's entry is left alone: Raft keeps it in memory.
func sealEntry(entry *raft.Log) *raft.Log {
	sealed := *entry
	sealed.Extensions = binary.BigEndian.AppendUint32(nil, entrySum(entry))
	return &sealed
}

// openEntry checks the entry read at index and takes the checksum off it.
func openEntry(index uint64, entry *raft.Log) error {
	ext := entry.Extensions
	entry.Extensions = nil
	if entry.Index != index || len(ext) != checksumBytes || binary.BigEndian.Uint32(ext) != entrySum(entry) {
		return fmt.Errorf("log entry %d: %w", index, errBadChecksum)
	}
	return nil
}

func entrySum(entry *raft.Log) uint32 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[0:], entry.Index)
	binary.BigEndian.PutUint64(head[8:], entry.Term)
	head[16] = byte(entry.Type)
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, entry.Data)
}

// vote is the last vote cast: term and candidate in one record, so that no crash can leave a new term beside an old
// candidate (who would then be granted a vote without a look at his log).
type vote struct {
	term      uint64
	candidate []byte
}

func (v vote) encode() []byte {
	return append(binary.BigEndian.AppendUint64(nil, v.term), v.candidate...)
}

func decodeVote(raw []byte) (vote, error) {
	if len(raw) < 8 {
		return vote{}, fmt.Errorf("vote record of %d bytes: %w", len(raw), errBadChecksum)
	}
	return vote{term: binary.BigEndian.Uint64(raw), candidate: raw[8:]}, nil
}
