package tenants

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
)

// ErrUnauthorized is the one answer to an API key that is not accepted, whatever the cause: the caller must not learn,
// nor tell, whether it is malformed, unknown, wrong, expired, rotated out or revoked.
var ErrUnauthorized = errors.New("unauthorized")

// Principal is whom an accepted API key speaks for.
type Principal struct {
	Tenant  TenantID // Platform for an operator's key
	KeyID   APIKeyID
	Lineage APIKeyID // the first key of the rotation; sessions belong to it
	KeyName string
	Scopes  Scopes
	Makers  []Person // who counts as the author of what the key declares
}

// Actor is the principal as the origin of a command.
func (p Principal) Actor() Actor { return ByAPIKey(p.KeyID) }

// noCredential is hashed in place of what has not even the form of an API key, and noKey is compared in place of a key
// that is not there; no hash is all zeros, as nobody knows text with that hash.
var (
	noCredential = strings.Repeat("0", credentialChars)
	noKey        keyRow
)

// Authenticate accepts an API key as presented, at a moment in milliseconds since the Unix epoch, or returns
// ErrUnauthorized. Every refusal costs the same: one hash over as many bytes and one comparison in constant time. A
// suspended tenant's keys are accepted, as what it holds runs on.
func (s *State) Authenticate(presented string, nowMS int64) (Principal, error) {
	return s.authenticate(presented, nowMS, work{hash: sha256.Sum256, equal: KeyHash.equal})
}

// work is all of authentication that takes time which could tell something. A test counts it.
type work struct {
	hash  func([]byte) [sha256.Size]byte
	equal func(a, b KeyHash) bool
}

func (s *State) authenticate(presented string, nowMS int64, do work) (Principal, error) {
	credential, err := ParseCredential(presented)
	text, row, known := presented, &noKey, false
	switch {
	case err != nil:
		text = noCredential
	default:
		if found, ok := s.keys.Get(credential.ID()); ok {
			row, known = found, true
		}
	}
	right := do.equal(row.Hash, do.hash([]byte(text)))
	if works := row.APIKey.State(nowMS).Works(); !right || !known || !works {
		return Principal{}, ErrUnauthorized
	}
	k := row.APIKey
	return Principal{Tenant: k.Tenant, KeyID: k.ID, Lineage: k.Lineage, KeyName: k.Name, Scopes: slices.Clone(k.Scopes),
		Makers: slices.Clone(k.Makers)}, nil
}
