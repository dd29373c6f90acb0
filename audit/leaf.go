package audit

import (
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/mod/sumdb/tlog"
)

// Leaves begin with the version of their encoding and what they are. Both, and every field's place, are part of what the
// Merkle log commits to: a change needs a new version, and the old one goes on being read.
const (
	leafVersion = 1
	leafEvent   = 1
	leafGap     = 2
)

// Hash is a hash of the Merkle log, as golang.org/x/mod/sumdb/tlog has it.
type Hash = tlog.Hash

// RowPosition is where an event came from. Positions of a log are ordered by index, then ordinal.
type RowPosition struct {
	Log     Log
	Index   uint64
	Ordinal uint32 // within the entry, from 0; events that are not for the audit do not count
}

// leafBuilder writes an encoding in which no two lists of fields look alike: numbers have eight bytes, texts their length
// before them.
type leafBuilder []byte

func (b *leafBuilder) number(n uint64)   { *b = binary.BigEndian.AppendUint64(*b, n) }
func (b *leafBuilder) text(s string)     { b.number(uint64(len(s))); *b = append(*b, s...) }
func (b *leafBuilder) bytes(raw ...byte) { *b = append(*b, raw...) }

// eventLeaf is the leaf of an event: everything it says, personal text as its salted hash.
func eventLeaf(incarnation uint64, p RowPosition, e *Event, personal [32]byte) []byte {
	b := make(leafBuilder, 0, 512)
	b.bytes(leafVersion, leafEvent)
	b.number(incarnation)
	b.number(uint64(p.Log))
	b.number(p.Index)
	b.number(uint64(p.Ordinal))
	b.number(uint64(e.AtMS))
	for _, s := range []string{e.Kind, e.Tenant, e.Class, e.Key, e.Request} {
		b.text(s)
	}
	for _, n := range []uint64{e.Token, e.Epoch, e.Version, e.Count} {
		b.number(n)
	}
	for _, s := range []string{e.Reason, e.APIKey, e.Detail} {
		b.text(s)
	}
	b.bytes(oneIf(e.Unprotected))
	b.bytes(personal[:]...)
	return b
}

func oneIf(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// gapLeaf is the leaf of a gap that was given up.
func gapLeaf(incarnation uint64, log Log, from, to uint64) []byte {
	b := make(leafBuilder, 0, 64)
	b.bytes(leafVersion, leafGap)
	b.number(incarnation)
	b.number(uint64(log))
	b.number(from)
	b.number(to)
	return b
}

// rowSalt is the salt of one row: the first half of SHA-256 of the entry's salt and the ordinal. It alone is stored and shown:
// the entry's would open the rows beside it, those that were erased and other tenants' as well.
func rowSalt(entry [16]byte, ordinal uint32) [16]byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(entry[:], ordinal))
	return [16]byte(sum[:16])
}

// personalHash commits to an event's personal text without giving it away, as long as the row's salt is not known.
func personalHash(salt [16]byte, e *Event) [32]byte {
	b := make(leafBuilder, 0, 256)
	b.bytes(salt[:]...)
	for _, s := range []string{e.Holder, e.By, e.Note} {
		b.text(s)
	}
	return sha256.Sum256(b)
}
