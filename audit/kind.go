package audit

import "slices"

// Kind is a kind of event with what it says.
type Kind struct {
	Name    string
	Meaning string // one sentence
}

// kinds is the closed set. Names are part of the content that the Merkle log commits to, and never reused.
var kinds = []Kind{
	{"granted", "A lease was asked for and granted in one."},
	{"queued", "A request began to wait for the key."},
	{"promoted", "A request that had waited was granted the key."},
	{"refused", "A request or a change was refused; the reason says why."},
	{"timed_out", "A request waited as long as it had asked to and left the queue."},
	{"left", "A request left the queue; the reason says why."},
	{"released", "The holder released its lease."},
	{"expired", "The lease ended because no heartbeat came in time."},
	{"forced", "The lease was ended by a force-release."},
	{"ended", "The lease ended in another way; the reason says how."},
	{"ending", "The holder is being told that its lease ends; the reason says why."},
	{"delay_started", "The key stays ungranted after an end that its holder may not know of."},
	{"delay_ended", "The key may be granted again after such a delay."},
	{"burned", "A lease was released before its request arrived, and will not be granted."},
	{"open_granted", "An arbiter granted without a quorum: token 0, unprotected."},
	{"shipped", "An arbiter's record of unprotected grants reached the log."},
	{"reconciled", "An owner resolved an item of the reconciliation list."},
	{"epoch_advanced", "A leadership of the partition began; by names its node."},
	{"class_in_force", "From here the partition grants by this version of the class."},
	{"class_retired", "From here the partition grants nothing of the class."},
	{"tenant_dropped", "From here the tenant gets nothing more."},
	{"tenant_gone", "The dropped tenant's last lease ended; the token is its final one."},
	{"guard_reported", "A guard told how many tokens it checked."},
	{"fenced", "A guard refused a stale write; the token is the one refused."},
	{"cluster_set", "The cluster was given its identity."},
	{"tenant_created", "A tenant was made."},
	{"tenant_changed", "A tenant's owners, quotas or placement changed."},
	{"tenant_suspended", "A tenant was suspended: it gets no new lease."},
	{"tenant_resumed", "A suspended tenant was let in again."},
	{"final_token_recorded", "The last token of a dropped tenant was recorded, from which a later one of its name goes on."},
	{"api_key_created", "An API key was made."},
	{"api_key_rotated", "An API key was replaced by its successor, named in the detail, and lives on for a while."},
	{"api_key_revoked", "An API key was revoked."},
	{"api_key_overlap_ended", "A rotated API key ended."},
	{"posture_declared", "A version of a class was declared and is in review."},
	{"posture_signature_added", "An owner signed a version, and others still must."},
	{"posture_signed", "The last signature a version needed was given."},
	{"posture_rejected", "An owner rejected a version."},
	{"posture_withdrawn", "A version was withdrawn from review."},
	{"posture_superseded", "A version in review was overtaken by a later declaration."},
	{"posture_in_force", "A version came into force."},
	{"posture_retired", "A class was retired."},
	{"posture_owner_transferred", "An operator gave a class to another owner group."},
}

// Kinds are all kinds of events, in the order in which documents list them.
func Kinds() []Kind { return slices.Clone(kinds) }

var kindNames = func() map[string]bool {
	names := make(map[string]bool, len(kinds))
	for _, k := range kinds {
		names[k.Name] = true
	}
	return names
}()

// ValidKind reports whether there is such a kind of event.
func ValidKind(name string) bool { return kindNames[name] }
