package tenants

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
)

// APIKeyPattern is a regular expression, in RE2 syntax, that finds API keys in text. It is published for secret
// scanners; a hit whose last six characters are the checksum of the rest is an API key for certain.
const APIKeyPattern = `\bstn_[0-9A-Za-z]{10}_[0-9A-Za-z]{49}\b`

const (
	credentialPrefix = "stn_"
	idChars          = 10
	secretChars      = 43 // 256 bits
	checksumChars    = 6  // of base 62: room for 32 bits
	idEnd            = len(credentialPrefix) + idChars
	secretStart      = idEnd + 1
	checksumStart    = secretStart + secretChars
	credentialChars  = checksumStart + checksumChars

	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// APIKeyID is the public part of an API key: 10 letters and digits. It is no secret and may be shown and logged.
type APIKeyID string

// Valid reports whether id has the form of a public id.
func (id APIKeyID) Valid() bool { return len(id) == idChars && isBase62(string(id)) }

// KeyHash is the SHA-256 of a whole API key as presented. The secret in it has 256 random bits, so that a slow hash
// would add nothing.
type KeyHash [sha256.Size]byte

// String hides the hash: it is of no use to people and has no business in a log.
func (KeyHash) String() string { return "[hash]" }

// MarshalBinary is the 32 bytes of the hash.
func (h KeyHash) MarshalBinary() ([]byte, error) { return h[:], nil }

// UnmarshalBinary takes exactly 32 bytes.
func (h *KeyHash) UnmarshalBinary(b []byte) error {
	if len(b) != len(h) {
		return fmt.Errorf("hash of %d bytes: %w", len(b), ErrMalformedCommand)
	}
	copy(h[:], b)
	return nil
}

// ErrMalformedAPIKey is returned for text that cannot be an API key: wrong form or wrong checksum. It says nothing about
// whether the key exists.
var ErrMalformedAPIKey = errors.New("malformed API key")

// Credential is an API key as its holder presents it: stn_<id>_<secret and checksum>. However it is printed, logged or
// marshalled, its secret does not show; only Reveal gives it out.
type Credential struct {
	text string
}

// GenerateCredential draws a new API key from randomness, which must be a cryptographic source. Its errors are those of
// the source.
func GenerateCredential(randomness io.Reader) (Credential, error) {
	drawn, err := drawBase62(randomness, idChars+secretChars)
	if err != nil {
		return Credential{}, fmt.Errorf("draw API key: %w", err)
	}
	body := credentialPrefix + drawn[:idChars] + "_" + drawn[idChars:]
	return Credential{text: body + checksum(body)}, nil
}

// ParseCredential checks form and checksum, looking nothing up. Anything else is ErrMalformedAPIKey.
func ParseCredential(text string) (Credential, error) {
	if len(text) != credentialChars || !strings.HasPrefix(text, credentialPrefix) || text[idEnd] != '_' ||
		!isBase62(text[len(credentialPrefix):idEnd]) || !isBase62(text[secretStart:]) {
		return Credential{}, fmt.Errorf("%w: not of the form stn_<id>_<secret>", ErrMalformedAPIKey)
	}
	if checksum(text[:checksumStart]) != text[checksumStart:] {
		return Credential{}, fmt.Errorf("%w: wrong checksum", ErrMalformedAPIKey)
	}
	return Credential{text: text}, nil
}

// ID is the public part.
func (c Credential) ID() APIKeyID {
	if c.text == "" {
		return ""
	}
	return APIKeyID(c.text[len(credentialPrefix):idEnd])
}

// Hash is what the state keeps of the key.
func (c Credential) Hash() KeyHash { return sha256.Sum256([]byte(c.text)) }

// Reveal is the whole key, secret included: for the one moment in which it is shown to whoever asked for it, and for
// the header in which it is presented.
func (c Credential) Reveal() string { return c.text }

// String is the key with its secret left out.
func (c Credential) String() string {
	if c.text == "" {
		return "stn_[none]"
	}
	return credentialPrefix + string(c.ID()) + "_[redacted]"
}

// Format writes String for every verb and flag, so that no format shows the fields.
func (c Credential) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, c.String()) }

// LogValue is String.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText is String: what is marshalled without thought does not leak.
func (c Credential) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// equal compares in constant time.
func (h KeyHash) equal(other KeyHash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// drawBase62 draws n characters, each of the 62 equally likely.
func drawBase62(randomness io.Reader, n int) (string, error) {
	const fair = 256 / len(alphabet) * len(alphabet) // bytes from here on would favour the first characters
	drawn := make([]byte, 0, n)
	buf := make([]byte, n)
	for len(drawn) < n {
		if _, err := io.ReadFull(randomness, buf); err != nil {
			return "", err
		}
		for _, b := range buf {
			if int(b) < fair && len(drawn) < n {
				drawn = append(drawn, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(drawn), nil
}

// checksum is the CRC-32 (IEEE) of body in base 62, most significant character first, padded with zeros.
func checksum(body string) string {
	var chars [checksumChars]byte
	rest := uint64(crc32.ChecksumIEEE([]byte(body)))
	for i := range chars {
		chars[checksumChars-1-i] = alphabet[rest%uint64(len(alphabet))]
		rest /= uint64(len(alphabet))
	}
	return string(chars[:])
}

func isBase62(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
