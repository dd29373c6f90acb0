package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
)

// nameless is a node that knows one API key's name.
type nameless struct{ Platform }

func (nameless) KeyName(_ lockcore.TenantID, id string) string {
	if id == "good" {
		return "ledger service"
	}
	return ""
}

var asOf = time.UnixMilli(1_782_860_400_000)

// ready is what a leader knows of a free lock under a class in force.
func ready() Facts {
	return Facts{At: asOf, Index: 1042, Epoch: 7, SinceContact: -1, Node: "n1", Leader: "n1", Ready: true,
		Tenant: lockcore.TenantState{ID: "acme", Quotas: lockcore.Quotas{Keys: 10, Leases: 10, Waiters: 10, Sessions: 10}},
		Class: &lockcore.Class{Name: "ledger-close", Version: 3, Purpose: lockcore.PurposeCorrectness, Enforcement: lockcore.EnforcementFenced,
			QuorumLoss: lockcore.QuorumLossClosed, LeaseMS: 10_000, HeartbeatMS: 5_000, MaxWaitMS: 30_000, MaxWaiters: 1000},
		Lock:   lockcore.Lock{Class: "ledger-close", Key: "k"},
		Voters: []wire.VoterSeen{{Node: "n1", Answered: true}, {Node: "n2", Answered: true}, {Node: "n3", Answered: true}}}
}

func held(f *Facts) {
	f.Lock.Holder = &lockcore.Lease{State: lockcore.StateHeld, Holder: "host-a:1", APIKey: "good", Token: 33, Epoch: 7, Version: 3,
		LeaseMS: 10_000, HeartbeatMS: 5_000, AtMS: asOf.Add(-192*time.Minute - 7*time.Second).UnixMilli()}
	f.SinceContact = 1200 * time.Millisecond
}

func waiting(f *Facts, n int) {
	f.Lock.Waiters = n
	f.Waiting = []*lockcore.Lease{{State: lockcore.StateWaiting, Holder: "host-b\u202e", WaitMS: lockcore.WaitUnlimited, AtMS: asOf.Add(-90 * time.Second).UnixMilli()}}
}

// unsigned is a class without a version in force.
func unsigned(f *Facts, c *classFacts) { f.Class, c.signed = nil, 0 }

func TestFindings_sayEveryCause(t *testing.T) {
	for _, test := range []struct {
		name  string
		facts func(*Facts, *classFacts)
		want  string
	}{
		{"free", func(*Facts, *classFacts) {}, `free: Nobody holds the key and nobody waits for it: the next acquire is granted.
  Acquire it. Should that be refused, the code of the answer says why.`},
		{"held", func(f *Facts, _ *classFacts) { held(f) },
			`held: The key is held by host-a:1 (API key "ledger service") with token 33 for 3h12m; heartbeats come, the last 1.2s ago: it works, or it hangs.
  Ask its team, or force-release it with token 33 and a reason.`},
		{"held by a key without a name", func(f *Facts, _ *classFacts) {
			held(f)
			f.Lock.Holder.APIKey, f.Lock.Holder.Holder = "gone", "\x1b[2J"
		}, `held: The key is held by "\x1b[2J" with token 33 for 3h12m; heartbeats come, the last 1.2s ago: it works, or it hangs.
  Ask its team, or force-release it with token 33 and a reason.`},
		{"silent", func(f *Facts, _ *classFacts) {
			held(f)
			f.SinceContact, f.Lock.Holder.LockDelayMS = 8*time.Second, 2000
		}, `holder_silent: The key is held by host-a:1 (API key "ledger service") with token 33 for 3h12m, and its holder was last heard of 8s ago, though it is to be heard of every 5s.
  Wait: unless it is heard of again, its lease ends within 3s, and then for the lock delay of 2s.`},
		{"ending", func(f *Facts, _ *classFacts) {
			held(f)
			f.Lock.Holder.Ending = lockcore.MaxHold
		}, `ending: The key is held by host-a:1 (API key "ledger service") with token 33 for 3h12m, and the hold is being ended (max_hold).
  Wait for its release, or for its lease of 10s to run out. With now, a force-release does not wait, which is outside the promise of mutual exclusion.`},
		{"lock delay", func(f *Facts, _ *classFacts) { f.Lock.DelayToken, f.Lock.DelayMS = 33, 2500 },
			`lock_delay: Nobody holds the key: the hold with token 33 ended without a release, and the key rests for its lock delay of 2.5s.
  Wait: it is granted again within 3.5s.`},
		{"a line", func(f *Facts, _ *classFacts) {
			held(f)
			waiting(f, 2)
		}, `held: …
queue: 2 wait in line; the first, "host-b\u202e", for 1m30s.
  Wait long enough, and keep polling: the line is first come, first served, and who stops polling leaves it.`},
		{"a full line", func(f *Facts, _ *classFacts) {
			held(f)
			waiting(f, 1)
			f.Class.MaxWaiters = 1
		}, `held: …
queue: 1 waits in line; the first, "host-b\u202e", for 1m30s.
…
queue_full: As many wait as the class allows (1): one more is refused.
  Ask again later with a new id, or have max_waiters raised in the class file.`},
		{"no line", func(f *Facts, _ *classFacts) {
			held(f)
			f.Class.Refuses, f.Class.MaxWaiters = true, 0
		}, `held: …
does_not_queue: The class does not queue: while the key is not free, a request is refused at once.
  Ask again later with a new id, or have a version of the class signed whose wait mode is queue.`},
		{"no line, free", func(f *Facts, _ *classFacts) { f.Class.Refuses = true }, `free: …`},
		{"quotas", func(f *Facts, _ *classFacts) {
			f.Tenant.Keys, f.Tenant.Occupied, f.Tenant.Waiting, f.Tenant.Sessions = 10, 11, 9, 10
		}, `quota: The tenant has 10 of 10 keys in use: a request that needs one more is refused.
  Release what is not needed, end sessions that are over, or have the operator raise the quota.
quota: The tenant has 11 of 10 leases in use: …
quota: The tenant has 10 of 10 sessions in use: …`},
		{"suspended", func(f *Facts, _ *classFacts) { f.Tenant.Suspended = true },
			`tenant_suspended: The tenant is suspended: what is held goes on, and nothing new is granted.
  Ask the platform's operator.`},
		{"dropped", func(f *Facts, _ *classFacts) { f.Tenant.Dropped = true },
			`tenant_dropped: The tenant is being dropped: nothing is granted any more.
  Stop what its leases protect.`},
		{"unknown class", func(f *Facts, c *classFacts) { f.Class, *c = nil, classFacts{} },
			`class_unknown: No class ledger-close was ever declared.
  Compare the name, letter by letter, or declare the class and have its owner sign it.`},
		{"awaiting signature", func(f *Facts, c *classFacts) {
			unsigned(f, c)
			c.inReview = []wire.InReview{{Version: 1, Stale: true}, {Version: 2, Missing: []string{"ledger-owners", "old owners"}}}
		}, `awaiting_signature: The class was never signed: its version 2 awaits the signature of group ledger-owners and of group "old owners".
  Have somebody of that group sign it, other than whoever declared it.`},
		{"rejected", func(f *Facts, c *classFacts) {
			unsigned(f, c)
			c.last.State, c.last.Decision = review.StateRejected, review.Decision{By: "owner@dev.test", Reason: "lease too\nshort"}
		}, `never_signed: The class was never signed: its version 3 was rejected by owner@dev.test, who said "lease too\nshort".
  Mend the class file, and declare it again.`},
		{"withdrawn", func(f *Facts, c *classFacts) {
			unsigned(f, c)
			c.last.State = review.StateWithdrawn
		}, `never_signed: The class was never signed, and no version awaits a signature: version 3 is withdrawn.
  Mend the class file, and declare it again.`},
		{"signed just now", func(f *Facts, _ *classFacts) { f.Class = nil },
			`not_in_force_yet: Version 3 of the class is signed, and the partition does not carry it yet.
  Wait a few seconds: the partition's leader puts it in force.`},
		{"signed anew just now", func(_ *Facts, c *classFacts) { c.signed = 4 },
			`not_in_force_yet: Version 4 of the class is signed, and the partition still grants under version 3.
  …`},
		{"retired", func(f *Facts, c *classFacts) { f.Class.Retired, c.retired = true, true },
			`class_retired: The class is retired and grants nothing any more.
  Use another class, or declare a new version of this one and have it signed.`},
		{"retired, the copy of the control log lags", func(f *Facts, _ *classFacts) { f.Class.Retired = true }, `class_retired: …`},
		{"retired, and signed anew", func(f *Facts, c *classFacts) { f.Class.Retired, c.signed = true, 4 }, `not_in_force_yet: Version 4 …`},
		{"no quorum", func(f *Facts, _ *classFacts) {
			held(f)
			f.Stale, f.SinceContact, f.Voters[1].Answered, f.Voters[2].Answered = true, -1, false, false
		}, `no_quorum: No majority of the partition's nodes can be reached from n1: n2, n3 are not answering. Without a majority nothing is granted and no lease is kept. What follows is what n1 knows, up to log entry 1042.
  Holders work on until their local deadlines, and then stop. Operators: bring the nodes, or the network to them, back.
held: The key is held by host-a:1 (API key "ledger service") with token 33 for 3h12m, as far as this node knows; whether its holder is heard of, only the partition's leader knows.
  Ask its team, or ask again when the partition has a leader.`},
		{"between leaders", func(f *Facts, _ *classFacts) { f.Stale, f.Voters[2].Answered = true, false },
			`no_quorum: The partition has no leader that answers, though n1 can reach a majority (n1, n2): an election may be under way. What follows is what n1 knows, up to log entry 1042.
  Ask again in a few seconds. If it stays so, give the operator this answer.`},
		{"a partition that nobody knows", func(f *Facts, c *classFacts) {
			*f, *c = Facts{At: asOf, Stale: true, SinceContact: -1, Node: "n1"}, classFacts{}
		}, `no_quorum: No majority of the partition's nodes can be reached from n1: its voters are unknown, and so not answering.…
  …
class_unknown: …`},
	} {
		f, class := ready(), classFacts{declared: true, signed: 3, last: review.Version{Number: 3, State: review.StateSigned}}
		test.facts(&f, &class)
		w := (&API{platform: nameless{}}).explain(FactsQuery{Tenant: "acme", Class: "ledger-close", Key: "k"}, f, class)
		if got := written(w.Findings); !sayAlike(got, test.want) {
			t.Errorf("%s: found\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

func written(list []wire.Finding) string {
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "%s: %s\n  %s\n", f.Code, f.Text, f.Next)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// sayAlike compares texts, of which the wanted one may leave out parts as …
func sayAlike(got, want string) bool {
	parts := strings.Split(want, "…")
	for i, part := range parts {
		at := strings.Index(got, part)
		if at < 0 || i == 0 && at > 0 {
			return false
		}
		got = got[at+len(part):]
	}
	return got == "" || parts[len(parts)-1] == ""
}

func TestFindings_everyCodeIsListedAndFoundInOrder(t *testing.T) {
	f, class := ready(), classFacts{declared: true, signed: 4}
	held(&f)
	waiting(&f, 1000)
	f.Stale, f.Tenant.Suspended, f.Tenant.Sessions = true, true, 10
	w := (&API{platform: nameless{}}).explain(FactsQuery{Tenant: "acme", Class: "ledger-close", Key: "k"}, f, class)
	var got []wire.FindingCode
	for _, found := range w.Findings {
		got = append(got, found.Code)
	}
	want := []wire.FindingCode{wire.FindingNoQuorum, wire.FindingTenantSuspended, wire.FindingNotInForceYet, wire.FindingHeld, wire.FindingQueue,
		wire.FindingQueueFull, wire.FindingQuota}
	if !slices.Equal(got, want) {
		t.Errorf("found %v; want %v", got, want)
	}
}

func TestExplain_boundsWhenALeaseEnds(t *testing.T) {
	for _, test := range []struct {
		since time.Duration
		epoch lockcore.Epoch
		want  string
	}{
		{0, 7, "11s"}, {5 * time.Second, 7, "6s"}, {11 * time.Second, 7, "0s"}, {time.Hour, 7, "0s"},
		{0, 8, "12s"}, {11 * time.Second, 8, "1s"}, // the leader has changed since the grant
	} {
		f := ready()
		held(&f)
		f.SinceContact, f.Epoch = test.since, test.epoch
		w := (&API{platform: nameless{}}).explain(FactsQuery{}, f, classFacts{})
		if got := w.Holder.ExpiresWithin.String(); got != test.want {
			t.Errorf("heard of %v ago in epoch %d, the lease of 10 s ends within %s; want %s", test.since, test.epoch, got, test.want)
		}
	}
}

func TestSpoken_isNoFinerThanPeopleCareFor(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0s", 1249 * time.Millisecond: "1.2s", 59 * time.Second: "59s",
		time.Minute: "1m0s", 90 * time.Second: "1m30s", time.Hour: "1h0m", 192 * time.Minute: "3h12m", 47 * time.Hour: "47h0m", 50 * time.Hour: "2 days"} {
		if got := spoken(d); got != want {
			t.Errorf("%v is spoken as %s; want %s", d, got, want)
		}
	}
}
