package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// RequestName names a lease request to people without giving its session away: the first 16 hexadecimal digits of the
// SHA-256 of the session id as it is written, a dot, the sequence. The zero id has no name.
func RequestName(id lockcore.LeaseID) string {
	if id == (lockcore.LeaseID{}) {
		return ""
	}
	sum := sha256.Sum256([]byte(id.Session.String()))
	return hex.EncodeToString(sum[:8]) + "." + strconv.FormatUint(id.Sequence, 10)
}

// lockKinds says what each kind of the core's events is called here, by the core's own name. An empty one is no event for
// the audit: the control log tells tenant_put, the ends of its leases tell session_ended, and the others concern nobody.
var lockKinds = map[string]string{
	"epoch_advanced": "epoch_advanced", "tenant_put": "", "tenant_dropped": "tenant_dropped", "tenant_gone": "tenant_gone",
	"class_in_force": "class_in_force", "class_retired": "class_retired", "queued": "queued", "granted": "granted",
	"promoted": "promoted", "refused": "refused", "left": "left", "ending": "ending", "ended": "ended",
	"delay_started": "delay_started", "delay_ended": "delay_ended", "burned": "burned", "session_ended": "",
	"session_forgotten": "", "level_raised": "", "guard_reported": "guard_reported", "fenced": "fenced",
}

// lockKind is the kind of an event of the core here. Ends that people look for by name have kinds of their own.
func lockKind(e lockcore.Event) string {
	switch {
	case e.Kind == lockcore.EventEnded && e.Reason == lockcore.Released:
		return "released"
	case e.Kind == lockcore.EventEnded && e.Reason == lockcore.Expired:
		return "expired"
	case e.Kind == lockcore.EventEnded && e.Reason == lockcore.Forced:
		return "forced"
	case e.Kind == lockcore.EventLeft && e.Reason == lockcore.WaitTimeout:
		return "timed_out"
	}
	return lockKinds[e.Kind.String()]
}

// FromLock is an event of a partition as the audit has it; false: it is none for the audit.
func FromLock(e lockcore.Event) (Event, bool) {
	kind := lockKind(e)
	if kind == "" {
		return Event{}, false
	}
	out := Event{Kind: kind, Tenant: string(e.Tenant), Class: string(e.Class), Key: string(e.Key), Request: RequestName(e.Lease),
		Token: uint64(e.Token), Epoch: uint64(e.Epoch), Version: e.Version, APIKey: e.APIKey, Count: e.Count,
		Holder: e.Holder, By: e.By, Note: e.Note, AtMS: e.AtMS}
	if e.Reason != 0 {
		out.Reason = e.Reason.String()
	}
	switch e.Kind {
	case lockcore.EventClassInForce: // its note is the digest, which is nobody's text
		out.Detail, out.Note = e.Note, ""
	case lockcore.EventFenced:
		out.Detail = "highest=" + strconv.FormatUint(uint64(e.Highest), 10)
	}
	return out, true
}
