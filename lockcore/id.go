package lockcore

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// TenantID is a tenant's slug: 1–63 lower-case letters, digits and hyphens. A slug is never reused for another tenant.
type TenantID string

// ClassName names a lock class within its tenant: 1–63 lower-case letters, digits and hyphens.
type ClassName string

// Key names one lock within a class: 1–512 bytes of UTF-8 without control characters, compared byte for byte.
type Key string

// OwnerID says whose session it is: the API key that began it, named by the first key of its rotation chain, so that a
// rotated key goes on with its predecessor's sessions.
type OwnerID string

// Token is a fencing token: per tenant from 1, one more for each grant, never reused. Zero is no token.
type Token uint64

// Epoch counts a partition's leaderships. It advances before any grant of a new leader. Zero is before the first.
type Epoch uint64

const (
	// KeyBytesMax bounds a key.
	KeyBytesMax = 512
	// NameBytesMax bounds a tenant's slug and a class name.
	NameBytesMax = 63
	// HolderBytesMax bounds a holder label.
	HolderBytesMax = 128
	// NoteBytesMax bounds the reason that a person gives, for example to force a release.
	NoteBytesMax = 1024
	// TokenBaseMax bounds the base from which a tenant's tokens count, so that no counter can pass 2^53, above which
	// JSON numbers lose digits.
	TokenBaseMax Token = 1 << 52
	// SequenceMax bounds a lease's sequence, again so that JSON carries it exactly.
	SequenceMax = 1<<53 - 1
)

// SessionID is 128 random bits that a client draws for one run of itself.
type SessionID [16]byte

// String is the id in 32 lower-case hexadecimal digits.
func (s SessionID) String() string { return hex.EncodeToString(s[:]) }

// ErrInvalidID is returned for a session or lease id that is not in its one written form.
var ErrInvalidID = errors.New("invalid id")

// ParseSessionID reads 32 lower-case hexadecimal digits. Any other form is ErrInvalidID: an id has one spelling.
func ParseSessionID(s string) (SessionID, error) {
	var id SessionID
	if len(s) != 2*len(id) || strings.ToLower(s) != s {
		return SessionID{}, fmt.Errorf("%w: a session is 32 lower-case hexadecimal digits", ErrInvalidID)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return SessionID{}, fmt.Errorf("%w: a session is 32 lower-case hexadecimal digits", ErrInvalidID)
	}
	return id, nil
}

// LeaseID names one lease request: the session and the number, from 1, that the client gave the request.
type LeaseID struct {
	_        struct{} `cbor:",toarray"`
	Session  SessionID
	Sequence uint64 // 1 .. SequenceMax
}

// String is the id as it travels: session, a dot, the sequence in decimal.
func (l LeaseID) String() string {
	return l.Session.String() + "." + strconv.FormatUint(l.Sequence, 10)
}

// ParseLeaseID reads the form that String writes; leading zeros, signs and spaces are ErrInvalidID.
func ParseLeaseID(s string) (LeaseID, error) {
	session, digits, ok := strings.Cut(s, ".")
	if !ok {
		return LeaseID{}, fmt.Errorf("%w: a lease is <session>.<number>", ErrInvalidID)
	}
	id, err := ParseSessionID(session)
	if err != nil {
		return LeaseID{}, err
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || n > SequenceMax || strconv.FormatUint(n, 10) != digits {
		return LeaseID{}, fmt.Errorf("%w: a lease's number is 1 to 2^53-1 in plain decimal", ErrInvalidID)
	}
	return LeaseID{Session: id, Sequence: n}, nil
}

// row is the lease's place in the tenant's table: session first, then sequence in number order.
func (l LeaseID) row() string {
	var b [24]byte
	copy(b[:16], l.Session[:])
	binary.BigEndian.PutUint64(b[16:], l.Sequence)
	return string(b[:])
}

func (l LeaseID) isZero() bool { return l == LeaseID{} }

// ValidName reports whether s may name a tenant or a class.
func ValidName(s string) bool {
	if s == "" || len(s) > NameBytesMax {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// ValidKey reports whether s may name a lock.
func ValidKey(s string) bool { return s != "" && validText(s, KeyBytesMax) }

// validText reports whether s is UTF-8 of at most bytesMax without control characters. Empty is valid.
func validText(s string, bytesMax int) bool {
	if len(s) > bytesMax || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) {
			return false
		}
	}
	return true
}
