package review

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrInvalidStatement is returned for bytes that are no posture statement in its canonical form.
var ErrInvalidStatement = errors.New("invalid posture statement")

// ParseStatement reads what [Posture.Canonical] wrote. Anything else, a field that is not known here or another spelling
// included, is ErrInvalidStatement: the digest of what was read is the digest of what is returned.
func ParseStatement(canonical []byte) (Posture, error) {
	var s statement
	d := json.NewDecoder(bytes.NewReader(canonical))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Posture{}, fmt.Errorf("%w: %w", ErrInvalidStatement, err)
	}
	p := s.posture()
	if !p.valid() || !bytes.Equal(p.Canonical(), canonical) {
		return Posture{}, fmt.Errorf("%w: not in its canonical form", ErrInvalidStatement)
	}
	return p, nil
}

func (s statement) posture() Posture {
	return Posture{
		Format: s.Format, Class: s.Class, Description: s.Description, Resource: s.Resource,
		Owner: Group(strings.TrimPrefix(s.Owner, ownerPrefix)), Purpose: s.Purpose, Enforcement: s.Enforcement,
		QuorumLoss: s.QuorumLoss, Guard: s.Guard, LeaseMS: s.LeaseMS, HeartbeatMS: s.HeartbeatMS, LockDelayMS: s.LockDelayMS,
		MaxHoldMS: unbound(s.MaxHoldMS), ReviewBy: s.ReviewBy, WaitMode: s.Wait.Mode,
		MaxWaitMS: unbound(s.Wait.MaxWaitMS), MaxWaiters: s.Wait.MaxWaiters,
	}
}

// unbound is what bound was given; the canonical form tells whether it was another.
func unbound(b any) int64 {
	ms, _ := b.(float64) // limits are far below the numbers that a float64 does not carry
	return int64(ms)
}
