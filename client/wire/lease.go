package wire

import "strconv"

// AcquireRequest is the body of PUT /v1/leases/{id}: acquire, poll for, or repeat the request for a lease.
type AcquireRequest struct {
	Class     string    `json:"class"`                // the lock class, 1–63 lower-case letters, digits, hyphens
	Key       string    `json:"key"`                  // the lock in it, 1–512 bytes of UTF-8 without control characters
	Wait      *Duration `json:"wait,omitempty"`       // how long to queue: 0s tries once, up to 24h or Unlimited; nil: as the class says
	Poll      *Duration `json:"poll,omitempty"`       // how long this request may hang, 0s to 10s; nil: as long as the server allows
	Holder    string    `json:"holder,omitempty"`     // label for people, at most 128 bytes
	AllowOpen bool      `json:"allow_open,omitempty"` // accept an unprotected grant while the quorum is lost
}

// State is where a lease request stands.
type State string

// The states of a lease.
const (
	StateGranted State = "granted" // held, until use_within after the request was sent
	StateQueued  State = "queued"  // waiting in line, as long as it polls
	StateEnding  State = "ending"  // held, and being ended from outside: stop and release
	StateEnded   State = "ended"   // over; reason says how
)

// Claim is what a grant guarantees: one sentence and its stable id.
type Claim struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Lease is the answer about one lease. Which fields it has follows from its state: Token, Epoch, Claim, PostureVersion
// and Protected belong to granted and ending, Token also to what ended after a grant; UseWithin to granted; ContactWithin
// to granted and queued; Position to queued; Reason to ending and ended. Class, Key and Holder are absent from an id that
// was given back before it was ever acquired.
type Lease struct {
	LeaseID        string   `json:"lease_id"`
	State          State    `json:"state"`
	Class          string   `json:"class"`
	Key            string   `json:"key"`
	Token          uint64   `json:"token"` // fencing token, below 2^53; 0 only on an unprotected grant
	Epoch          uint64   `json:"epoch"`
	Claim          Claim    `json:"claim"`
	PostureVersion uint64   `json:"posture_version"`
	UseWithin      Duration `json:"use_within"`     // counted from when this very request was sent
	ContactWithin  Duration `json:"contact_within"` // when the next heartbeat or poll is due, counted likewise
	Protected      bool     `json:"protected"`      // false: granted without a quorum
	Position       int      `json:"position"`       // place in line, from 1
	Reason         string   `json:"reason"`
	Holder         string   `json:"holder"`
	Index          uint64   `json:"index"` // log index that the answer reflects
}

// MarshalJSON writes the fields that the state has.
func (l Lease) MarshalJSON() ([]byte, error) { return l.AppendJSON(make([]byte, 0, 512)), nil }

// AppendJSON appends the lease as JSON, with the fields that its state has, and returns the longer slice.
func (l Lease) AppendJSON(b []byte) []byte {
	held := l.State == StateGranted || l.State == StateEnding
	b = append(b, `{"lease_id":`...)
	b = appendString(b, l.LeaseID)
	b = appendText(b, `,"state":`, string(l.State))
	b = appendText(b, `,"class":`, l.Class)
	b = appendText(b, `,"key":`, l.Key)
	if held || l.Token != 0 {
		b = appendNumber(b, `,"token":`, l.Token)
	}
	if held {
		b = l.appendGrant(b)
	}
	if l.State == StateGranted {
		b = appendDuration(b, `,"use_within":`, l.UseWithin)
	}
	if l.State == StateGranted || l.State == StateQueued {
		b = appendDuration(b, `,"contact_within":`, l.ContactWithin)
	}
	if l.State == StateQueued {
		b = appendNumber(b, `,"position":`, uint64(max(l.Position, 0)))
	}
	b = appendText(b, `,"reason":`, l.Reason)
	b = appendText(b, `,"holder":`, l.Holder)
	b = appendNumber(b, `,"index":`, l.Index)
	return append(b, '}')
}

func (l Lease) appendGrant(b []byte) []byte {
	b = appendNumber(b, `,"epoch":`, l.Epoch)
	b = append(b, `,"claim":{"id":`...)
	b = appendString(b, l.Claim.ID)
	b = append(b, `,"text":`...)
	b = appendString(b, l.Claim.Text)
	b = append(b, '}')
	b = appendNumber(b, `,"posture_version":`, l.PostureVersion)
	b = append(b, `,"protected":`...)
	return strconv.AppendBool(b, l.Protected)
}
