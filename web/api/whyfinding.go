package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/review"
)

// findings draws from what is known of a lock why somebody does not get it, the most decisive cause first, and what to do.
func findings(w wire.Why, f Facts, class classFacts) []wire.Finding {
	list := []wire.Finding{}
	for _, find := range []func(wire.Why, Facts, classFacts) *wire.Finding{
		findQuorum, findTenant, findClass, findNewVersion, findHolder, findDelay, findQueue, findQueueFull, findRefusing,
	} {
		if found := find(w, f, class); found != nil {
			list = append(list, *found)
		}
	}
	list = append(list, findQuotas(w)...)
	if len(list) == 0 {
		list = append(list, *because(wire.FindingFree, "Acquire it. Should that be refused, the code of the answer says why.",
			"Nobody holds the key and nobody waits for it: the next acquire is granted."))
	}
	return list
}

// because is a finding, with its text made as Sprintf does.
func because(code wire.FindingCode, next, format string, args ...any) *wire.Finding {
	return &wire.Finding{Code: code, Text: fmt.Sprintf(format, args...), Next: next}
}

func findQuorum(_ wire.Why, f Facts, _ classFacts) *wire.Finding {
	if !f.Stale {
		return nil
	}
	var here, away []string
	for _, v := range f.Voters {
		if v.Answered {
			here = append(here, v.Node)
		} else {
			away = append(away, v.Node)
		}
	}
	known := fmt.Sprintf("What follows is what %s knows, up to log entry %d.", f.Node, f.Index)
	if len(here) > len(f.Voters)/2 {
		return because(wire.FindingNoQuorum, "Ask again in a few seconds. If it stays so, give the operator this answer.",
			"The partition has no leader that answers, though %s can reach a majority (%s): an election may be under way. %s",
			f.Node, strings.Join(here, ", "), known)
	}
	return because(wire.FindingNoQuorum, "Holders work on until their local deadlines, and then stop. "+
		"Operators: bring the nodes, or the network to them, back.",
		"No majority of the partition's nodes can be reached from %s: %s not answering. "+
			"Without a majority nothing is granted and no lease is kept. %s", f.Node, nodesAre(away), known)
}

func nodesAre(nodes []string) string {
	switch len(nodes) {
	case 0:
		return "its voters are unknown, and so"
	case 1:
		return nodes[0] + " is"
	}
	return strings.Join(nodes, ", ") + " are"
}

func findTenant(_ wire.Why, f Facts, _ classFacts) *wire.Finding {
	switch {
	case f.Tenant.Dropped:
		return because(wire.FindingTenantDropped, "Stop what its leases protect.",
			"The tenant is being dropped: nothing is granted any more.")
	case f.Tenant.Suspended:
		return because(wire.FindingTenantSuspended, "Ask the platform's operator.",
			"The tenant is suspended: what is held goes on, and nothing new is granted.")
	}
	return nil
}

const putsInForce = "Wait a few seconds: the partition's leader puts it in force."

// findClass says why the class grants nothing, if it does not.
func findClass(w wire.Why, _ Facts, class classFacts) *wire.Finding {
	switch w.Posture.State {
	case wire.ClassUnknown:
		return because(wire.FindingClassUnknown,
			"Compare the name, letter by letter, or declare the class and have its owner sign it.",
			"No class %s was ever declared.", w.Class)
	case wire.ClassNeverSigned:
		return findUnsigned(w, class)
	case wire.ClassRetired:
		return because(wire.FindingClassRetired,
			"Use another class, or declare a new version of this one and have it signed.",
			"The class is retired and grants nothing any more.")
	case wire.ClassSigned:
		return because(wire.FindingNotInForceYet, putsInForce,
			"Version %d of the class is signed, and the partition does not carry it yet.", class.signed)
	}
	return nil
}

func findUnsigned(w wire.Why, class classFacts) *wire.Finding {
	for _, open := range w.Posture.InReview {
		if !open.Stale {
			return because(wire.FindingAwaitingSignature,
				"Have somebody of that group sign it, other than whoever declared it.",
				"The class was never signed: its version %d awaits the signature of %s.", open.Version, groups(open.Missing))
		}
	}
	const next = "Mend the class file, and declare it again."
	last := class.last
	if last.State == review.StateRejected {
		return because(wire.FindingNeverSigned, next,
			"The class was never signed: its version %d was rejected by %s, who said %s.",
			last.Number, wire.Shown(last.Decision.By), wire.Shown(last.Decision.Reason))
	}
	return because(wire.FindingNeverSigned, next,
		"The class was never signed, and no version awaits a signature: version %d is %s.", last.Number, last.State)
}

func groups(names []string) string {
	shown := make([]string, 0, len(names))
	for _, name := range names {
		shown = append(shown, "group "+wire.Shown(name))
	}
	return strings.Join(shown, " and of ")
}

// findNewVersion says that the class grants under an older version than the one signed last.
func findNewVersion(w wire.Why, _ Facts, class classFacts) *wire.Finding {
	if w.Posture.State != wire.ClassInForce || class.signed <= w.Posture.Version {
		return nil
	}
	return because(wire.FindingNotInForceYet, putsInForce,
		"Version %d of the class is signed, and the partition still grants under version %d.", class.signed, w.Posture.Version)
}

func findHolder(w wire.Why, f Facts, _ classFacts) *wire.Finding {
	h := w.Holder
	if h == nil {
		return nil
	}
	who := wire.Shown(h.Label)
	if h.APIKey != "" {
		who += " (API key " + wire.Shown(h.APIKey) + ")"
	}
	held := fmt.Sprintf("The key is held by %s with token %d for %s", who, h.Token, spoken(f.At.Sub(h.Since)))
	switch {
	case h.Ending != "":
		return because(wire.FindingEnding, fmt.Sprintf("Wait for its release, or for its lease of %s to run out%s. With now, a "+
			"force-release does not wait, which is outside the promise of mutual exclusion.", h.Lease, delayAfter(f)),
			"%s, and the hold is being ended (%s).", held, h.Ending)
	case h.HeartbeatAge == nil:
		return because(wire.FindingHeld, "Ask its team, or ask again when the partition has a leader.",
			"%s, as far as this node knows; whether its holder is heard of, only the partition's leader knows.", held)
	case silent(h):
		return because(wire.FindingHolderSilent,
			fmt.Sprintf("Wait: unless it is heard of again, its lease ends within %s%s.", h.ExpiresWithin, delayAfter(f)),
			"%s, and its holder was last heard of %s ago, though it is to be heard of every %s.",
			held, spoken(h.HeartbeatAge.Std()), h.Heartbeat)
	}
	return because(wire.FindingHeld,
		fmt.Sprintf("Ask its team, or force-release it with token %d and a reason.", h.Token),
		"%s; heartbeats come, the last %s ago: it works, or it hangs.", held, spoken(h.HeartbeatAge.Std()))
}

// silent reports whether a heartbeat is overdue by half of its interval.
func silent(h *wire.WhyHolder) bool { return *h.HeartbeatAge > h.Heartbeat+h.Heartbeat/2 }

// delayAfter says what follows when the holder's lease runs out.
func delayAfter(f Facts) string {
	if ms := f.Lock.Holder.LockDelayMS; ms > 0 {
		return fmt.Sprintf(", and then for the lock delay of %s", millis(ms))
	}
	return ""
}

func findDelay(w wire.Why, _ Facts, _ classFacts) *wire.Finding {
	if w.Delay == nil {
		return nil
	}
	return because(wire.FindingLockDelay, fmt.Sprintf("Wait: it is granted again within %s.", w.Delay.EndsWithin),
		"Nobody holds the key: the hold with token %d ended without a release, and the key rests for its lock delay of %s.",
		w.Delay.Token, w.Delay.Length)
}

func findQueue(w wire.Why, _ Facts, _ classFacts) *wire.Finding {
	if w.Waiting == 0 || len(w.Waiters) == 0 {
		return nil
	}
	first, verb := w.Waiters[0], "wait"
	if w.Waiting == 1 {
		verb = "waits"
	}
	return because(wire.FindingQueue,
		"Wait long enough, and keep polling: the line is first come, first served, and who stops polling leaves it.",
		"%d %s in line; the first, %s, for %s.", w.Waiting, verb, wire.Shown(first.Label), spoken(first.Waited.Std()))
}

func findQueueFull(w wire.Why, _ Facts, _ classFacts) *wire.Finding {
	if w.Posture.MaxWaiters == 0 || w.Waiting < w.Posture.MaxWaiters {
		return nil
	}
	return because(wire.FindingQueueFull, "Ask again later with a new id, or have max_waiters raised in the class file.",
		"As many wait as the class allows (%d): one more is refused.", w.Posture.MaxWaiters)
}

func findRefusing(w wire.Why, f Facts, _ classFacts) *wire.Finding {
	if f.Class == nil || !f.Class.Refuses || w.Holder == nil && w.Delay == nil {
		return nil
	}
	return because(wire.FindingDoesNotQueue,
		"Ask again later with a new id, or have a version of the class signed whose wait mode is queue.",
		"The class does not queue: while the key is not free, a request is refused at once.")
}

func findQuotas(w wire.Why) []wire.Finding {
	var list []wire.Finding
	for _, q := range w.Quotas {
		if q.InUse >= q.Limit {
			list = append(list, *because(wire.FindingQuota,
				"Release what is not needed, end sessions that are over, or have the operator raise the quota.",
				"The tenant has %d of %d %s in use: a request that needs one more is refused.", q.InUse, q.Limit, q.Quota))
		}
	}
	return list
}

// spoken is a duration as people say it: no finer than they care for.
func spoken(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return wire.Duration(d.Round(100 * time.Millisecond)).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
