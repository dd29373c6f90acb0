package wire

import "time"

// KeyState is what an API key is at the moment.
type KeyState string

// The states of an API key.
const (
	KeyActive      KeyState = "active"
	KeyOverlapping KeyState = "overlapping" // rotated, and works until its overlap ends
	KeyRotatedOut  KeyState = "rotated_out"
	KeyExpired     KeyState = "expired"
	KeyRevoked     KeyState = "revoked"
)

// APIKey is what may be known of an API key. Its secret is in no answer but the one that makes it.
type APIKey struct {
	ID            string     `json:"id"`
	Tenant        string     `json:"tenant,omitempty"` // absent: the platform's own
	Name          string     `json:"name"`
	State         KeyState   `json:"state"`
	Scopes        []string   `json:"scopes"`
	May           []string   `json:"may"` // the scopes as sentences
	CreatedAt     time.Time  `json:"created_at"`
	CreatedBy     string     `json:"created_by"` // a person's address, an API key's id, or "platform"
	ExpiresAt     time.Time  `json:"expires_at"`
	LastUsedAt    *time.Time `json:"last_used_at,omitempty"` // to about ten minutes; absent: never, as far as is known
	Lineage       string     `json:"lineage"`                // the first API key of the rotation; sessions belong to it
	Predecessor   string     `json:"predecessor,omitempty"`
	Successor     string     `json:"successor,omitempty"`
	OverlapEndsAt *time.Time `json:"overlap_ends_at,omitempty"` // with a successor: when this one stops
	EndedAt       *time.Time `json:"ended_at,omitempty"`        // when somebody ended it
}

// APIKeyMade answers the creation and the rotation of an API key.
type APIKeyMade struct {
	APIKey
	Secret   string  `json:"api_key"`            // the whole API key, shown this once
	Replaces *APIKey `json:"replaces,omitempty"` // of a rotation: the old one
	Spread
}

// APIKeyEnded answers the revocation of an API key, and the end of an overlap.
type APIKeyEnded struct {
	APIKey
	Spread
}

// Spread says how far a change has got among the nodes at the moment of the answer. It holds on a node from the moment at
// which that node has applied it.
type Spread struct {
	AppliedOn []string `json:"applied_on"`
	NotYetOn  []string `json:"not_yet_on"` // behind, or not to be reached
}

// APIKeyList is one page of API keys, in the order in which they were made.
type APIKeyList struct {
	APIKeys    []APIKey `json:"api_keys"`
	NextCursor string   `json:"next_cursor,omitempty"` // absent: this was the last page
	CompleteTo uint64   `json:"complete_to"`           // index of the control log that the page reflects
}

// APIKeyRequest is the body of POST /v1/api-keys.
type APIKeyRequest struct {
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes"`
	ExpiresIn Duration `json:"expires_in"` // up to 366 days
}

// RotationRequest is the body of a rotation.
type RotationRequest struct {
	ExpiresIn *Duration `json:"expires_in,omitempty"` // of the successor, up to 366 days; nil: as long as the old one was given
	Overlap   *Duration `json:"overlap,omitempty"`    // how long the old one works on, up to 30 days; nil: 24 h
}
