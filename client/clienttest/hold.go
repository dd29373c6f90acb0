package clienttest

import (
	"strings"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// The reasons for which a hold is revoked.
const (
	ReasonForced        = "forced"         // somebody ended it
	ReasonMaxHold       = "max_hold"       // it was held longer than its class allows
	ReasonClassRetired  = "class_retired"  // its class was retired
	ReasonTenantDropped = "tenant_dropped" // its tenant was dropped
)

// Revoke ends the hold of a lock from outside, for one of the reasons above: its holder's heartbeats are answered "lost",
// code revoked, and renew nothing. The lock is granted again when the holder has released, or its lease has run out.
// False: nobody holds it.
func (p *Platform) Revoke(class, key, reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holder(class, key)
	if h == nil {
		return false
	}
	h.state, h.ended = wire.StateEnding, end{reason: reason, code: wire.CodeRevoked}
	p.index++
	p.change()
	return true
}

// Expire ends the hold of a lock at once, as if its lease had run out, and grants the lock to the next in line. Its
// holder may be at work still: until its next heartbeat, which says "lost", or its local deadline. False: nobody holds
// it.
func (p *Platform) Expire(class, key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holder(class, key)
	if h == nil {
		return false
	}
	p.finish(h, endExpired)
	p.change()
	return true
}

// EndSession ends a session, named by its id or by the id of one of its leases: all that it holds and waits for ends, and it
// is granted nothing more. False: there is no such session.
func (p *Platform) EndSession(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessionOf(id)
	if s == nil {
		return false
	}
	p.overSession(s)
	p.change()
	return true
}

// ForgetSession has the platform know nothing of a session any more, named as for EndSession. What it held and waited for
// ends; its heartbeats are answered not_found.
func (p *Platform) ForgetSession(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessionOf(id)
	if s == nil {
		return false
	}
	p.overSession(s)
	delete(p.sessions, s.id)
	p.change()
	return true
}

func (p *Platform) sessionOf(id string) *session {
	session, _, _ := strings.Cut(id, ".")
	return p.sessions[session]
}
