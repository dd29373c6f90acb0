package wire

import "strconv"

// HeartbeatRequest is the body of POST /v1/sessions/{session}/heartbeat.
type HeartbeatRequest struct {
	// Leases are the sequences of the leases that the sender wants to keep: at most 10,000, each once. Others are left
	// alone, and absent from the answer.
	Leases []uint64 `json:"leases"`
}

// HeartbeatAnswer says of each lease named whether it is held. Both lists are in the order asked.
type HeartbeatAnswer struct {
	Session string `json:"session"`
	Held    []Held `json:"held"`
	Lost    []Lost `json:"lost"` // repeated until deleted, or the session ends
	Index   uint64 `json:"index"`
}

// Held is a lease that the heartbeat kept.
type Held struct {
	LeaseID       string   `json:"lease_id"`
	Token         uint64   `json:"token"`
	UseWithin     Duration `json:"use_within"`     // counted from when the heartbeat was sent
	ContactWithin Duration `json:"contact_within"` // when the next heartbeat is due, counted likewise
}

// Lost is a lease that the sender does not hold, or must give up.
type Lost struct {
	LeaseID string `json:"lease_id"`
	Code    Code   `json:"code"`   // revoked, ended, session_ended, wait_timeout, too_old or not_found
	Reason  string `json:"reason"` // how it ended
	Ending  bool   `json:"ending"` // not over yet: stop, then release it
	Token   uint64 `json:"token"`  // 0 where there was no grant
}

// SessionEnd answers DELETE /v1/sessions/{session}.
type SessionEnd struct {
	Session string `json:"session"`
	State   State  `json:"state"` // ended
}

// MarshalJSON writes the answer; empty lists are lists, not null.
func (a HeartbeatAnswer) MarshalJSON() ([]byte, error) {
	return a.AppendJSON(make([]byte, 0, 64+160*(len(a.Held)+len(a.Lost)))), nil
}

// AppendJSON appends the answer as JSON and returns the longer slice.
func (a HeartbeatAnswer) AppendJSON(b []byte) []byte {
	b = append(b, `{"session":`...)
	b = appendString(b, a.Session)
	b = append(b, `,"held":[`...)
	for i, h := range a.Held {
		b = h.append(appendComma(b, i))
	}
	b = append(b, `],"lost":[`...)
	for i, l := range a.Lost {
		b = l.append(appendComma(b, i))
	}
	b = appendNumber(b, `],"index":`, a.Index)
	return append(b, '}')
}

func appendComma(b []byte, i int) []byte {
	if i == 0 {
		return b
	}
	return append(b, ',')
}

func (h Held) append(b []byte) []byte {
	b = append(b, `{"lease_id":`...)
	b = appendString(b, h.LeaseID)
	b = appendNumber(b, `,"token":`, h.Token)
	b = appendDuration(b, `,"use_within":`, h.UseWithin)
	b = appendDuration(b, `,"contact_within":`, h.ContactWithin)
	return append(b, '}')
}

func (l Lost) append(b []byte) []byte {
	b = append(b, `{"lease_id":`...)
	b = appendString(b, l.LeaseID)
	b = append(b, `,"code":`...)
	b = appendString(b, string(l.Code))
	b = append(b, `,"reason":`...)
	b = appendString(b, l.Reason)
	b = strconv.AppendBool(append(b, `,"ending":`...), l.Ending)
	b = appendNumber(b, `,"token":`, l.Token)
	return append(b, '}')
}
