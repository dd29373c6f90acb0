package wire

import "time"

// Lock is one key that somebody holds or waits for, or that is in its lock delay. A free key is not listed.
type Lock struct {
	Class        string   `json:"class"`
	Key          string   `json:"key"`
	Holder       *Holder  `json:"holder"`        // null: nobody holds it
	Waiters      []Waiter `json:"waiters"`       // in line, the first of them only
	WaitersTotal int      `json:"waiters_total"` // all of them
	HighestToken uint64   `json:"highest_token"` // of the last grant of this key
	Delay        *Delay   `json:"delay,omitempty"`
}

// Holder is who holds a lock, as far as a list tells: never the session's id, which is a secret of its client.
type Holder struct {
	Label          string     `json:"holder"`  // as the client gave it, may be empty
	APIKey         string     `json:"api_key"` // the API key's name
	Since          time.Time  `json:"since"`
	LastHeartbeat  *time.Time `json:"last_heartbeat,omitempty"` // absent: none under this leader yet
	Token          uint64     `json:"token"`
	Epoch          uint64     `json:"epoch"`
	PostureVersion uint64     `json:"posture_version"`
	Ending         string     `json:"ending,omitempty"` // why it is being ended from outside
}

// Waiter is one queued request.
type Waiter struct {
	Position int       `json:"position"` // from 1
	Label    string    `json:"holder"`
	APIKey   string    `json:"api_key"`
	Since    time.Time `json:"since"`
}

// Delay is the pause after an expiry or a force-release, in which the key is granted to nobody.
type Delay struct {
	Token  uint64   `json:"token"` // of the grant that it follows
	Length Duration `json:"length"`
}

// LockList is one page of GET /v1/locks.
type LockList struct {
	Locks      []Lock `json:"locks"`
	NextCursor string `json:"next_cursor,omitempty"` // absent: this was the last page
	CompleteTo uint64 `json:"complete_to"`           // log index that the page reflects
}

// Readiness answers GET /readyz when the node is ready.
type Readiness struct {
	Ready bool   `json:"ready"`
	Parts []Part `json:"parts"`
}

// Part is one part of a node and whether it is ready.
type Part struct {
	Part  string `json:"part"`
	Ready bool   `json:"ready"`
	Why   string `json:"why,omitempty"` // what it waits for
}
