package lockcore_test

import (
	"strings"
	"testing"
)

const (
	held      = "acquire acme s1.1 jobs k\n"
	waits     = held + "acquire acme s2.1 jobs k wait=5s\n"
	heldLong  = "acquire acme s1.1 long k @ at=100s\n" // until 160s
	heldDelay = "acquire acme s1.1 delayed k\n"
)

func TestExpire_rules(t *testing.T) {
	handedLong := heldLong + "acquire acme s2.1 long k wait=5s\nrelease acme s1.1\n" // pick-up window: 12s, until 112s
	checkRules(t, []rule{
		{"ends the hold", held, "expire acme s1.1 token=1", "ended expired token=1", false},
		{"with another token", held, "expire acme s1.1 token=2", "refused stale_token", true},
		{"without a token", held, "expire acme s1.1", "refused stale_token", true},
		{"again", held + "expire acme s1.1 token=1", "expire acme s1.1 token=1", "refused ended", true},
		{"of an unseen id", held, "expire acme s1.2 token=1", "refused unknown", true},
		{"of a waiter", waits, "expire acme s2.1 token=1", "refused not_held", true},
		{"missed, of one asked for and granted at once", held, "expire acme s1.1 token=1 missed", "ended expired token=1", false},
		{"missed, of one handed over", waits + "release acme s1.1", "expire acme s2.1 token=2 missed", "ended pickup_missed token=2", false},
		{"not missed, of one handed over", waits + "release acme s1.1", "expire acme s2.1 token=2", "ended expired token=2", false},
		{"a long lease, a millisecond early", heldLong, "expire acme s1.1 token=1 @ at=159.999s", "refused not_due", true},
		{"a long lease, at its deadline", heldLong, "expire acme s1.1 token=1 @ at=160s", "ended expired token=1", false},
		{"a long lease, after its deadline", heldLong, "expire acme s1.1 token=1 @ at=160.001s", "ended expired token=1", false},
		{"a long lease by the clock of a stale entry", heldLong, "expire acme s1.1 token=1 @ at=161s epoch=0", "refused stale_epoch", true},
		{"a long pick-up window, early", handedLong, "expire acme s2.1 token=2 @ at=111.999s", "refused not_due", true},
		{"a long pick-up window, at its end", handedLong, "expire acme s2.1 token=2 @ at=112s", "ended pickup_missed token=2", false},
		{"a long lease after it was taken up", handedLong + "extend acme s2.1 token=2\n", "expire acme s2.1 token=2 @ at=160s", "ended expired token=2", false},
		{"of a hold that is being ended", held + "mark-ending acme s1.1 forced token=1", "expire acme s1.1 token=1", "ended forced token=1", false},
		{"a lease of one millisecond below long", "put-class acme jobs version=2 lease=29.999s\n" + held, "expire acme s1.1 token=1", "ended expired token=1", false},
		{"a lease of exactly long", "put-class acme jobs version=2 lease=30s\n" + held, "expire acme s1.1 token=1", "refused not_due", true},
	})
}

func TestExtend_rules(t *testing.T) {
	checkRules(t, []rule{
		{"a long lease", heldLong, "extend acme s1.1 token=1 @ at=110s", "granted token=1", false},
		{"a long lease at the same moment", heldLong, "extend acme s1.1 token=1", "granted token=1", true},
		{"with another token", heldLong, "extend acme s1.1 token=2", "refused stale_token", true},
		{"a short lease", held, "extend acme s1.1 token=1", "refused not_long", true},
		{"a waiter", waits, "extend acme s2.1 token=1", "refused not_held", true},
		{"an ended one", heldLong + "release acme s1.1", "extend acme s1.1 token=1", "refused ended", true},
		{"an unseen one", "", "extend acme s1.1 token=1", "refused unknown", true},
		{"one that is being ended", heldLong + "mark-ending acme s1.1 max_hold token=1", "extend acme s1.1 token=1", "refused ending", true},
	})
}

func TestEndDelay_rules(t *testing.T) {
	const delayed = heldDelay + "expire acme s1.1 token=1\n"
	checkRules(t, []rule{
		{"ends the delay", delayed, "end-delay acme delayed k token=1", "done", false},
		{"again", delayed + "end-delay acme delayed k token=1", "end-delay acme delayed k token=1", "refused not_delayed", true},
		{"of another grant", delayed, "end-delay acme delayed k token=2", "refused not_delayed", true},
		{"of no grant", "", "end-delay acme delayed k", "refused not_delayed", true},
		{"of a held key", heldDelay, "end-delay acme delayed k token=1", "refused not_delayed", true},
		{"a key in its delay is held", delayed, "acquire acme s2.1 delayed k", "refused held", false},
		{"a key in its delay has a queue", delayed, "acquire acme s2.1 delayed k wait=5s", "queued", false},
		{"the last holder's session may queue", delayed, "acquire acme s1.2 delayed k wait=5s", "queued", false},
		{"none after a release", heldDelay + "release acme s1.1", "acquire acme s2.1 delayed k", "granted token=2", false},
		{"none after the end of a session", heldDelay + "end-session acme s1", "acquire acme s2.1 delayed k", "granted token=2", false},
		{"none after a missed pick-up", heldDelay + "acquire acme s2.1 delayed k wait=5s\nrelease acme s1.1\nexpire acme s2.1 token=2 missed",
			"acquire acme s3.1 delayed k", "granted token=3", false},
		{"after a force-release", heldDelay + "mark-ending acme s1.1 forced token=1 now", "acquire acme s2.1 delayed k", "refused held", false},
		{"after max_hold", heldDelay + "mark-ending acme s1.1 max_hold token=1 now", "acquire acme s2.1 delayed k", "refused held", false},
		{"of the length granted under", heldDelay + "put-class acme delayed version=2\nexpire acme s1.1 token=1", "acquire acme s2.1 delayed k", "refused held", false},
	})
}

func TestLeaveAndWaiterGone_rules(t *testing.T) {
	checkRules(t, []rule{
		{"leave", waits, "leave acme s2.1 disconnected", "ended disconnected", false},
		{"leave for a cause that is none", waits, "leave acme s2.1 silent", "refused invalid", true},
		{"leave of a holder", held, "leave acme s1.1 disconnected", "refused not_waiting", true},
		{"leave of one granted meanwhile", waits + "release acme s1.1", "leave acme s2.1 wait_timeout", "refused not_waiting", true},
		{"leave of an ended one", held + "release acme s1.1", "leave acme s1.1 wait_timeout", "refused not_waiting", true},
		{"leave of an unseen one", "", "leave acme s1.1 wait_timeout", "refused unknown", true},
		{"gone", waits, "waiter-gone acme s2.1", "done", false},
		{"gone, a holder", held, "waiter-gone acme s1.1", "done", true},
		{"gone, granted meanwhile", waits + "release acme s1.1", "waiter-gone acme s2.1", "done", true},
		{"gone, unseen", "", "waiter-gone acme s1.1", "done", true},
		{"gone, twice in one", waits, "waiter-gone acme s2.1 s2.1 s1.1", "done", false},
		{"gone, nobody", waits, "waiter-gone acme", "refused invalid", true},
		{"gone, as many as may be", waits, "waiter-gone acme" + strings.Repeat(" s2.1", 256), "done", false},
		{"gone, too many", waits, "waiter-gone acme" + strings.Repeat(" s2.1", 257), "refused invalid", true},
	})
}

func TestMarkEnding_rules(t *testing.T) {
	const ending = held + "mark-ending acme s1.1 forced token=1\n"
	checkRules(t, []rule{
		{"marks", held, "mark-ending acme s1.1 forced token=1", "done", false},
		{"marks once", ending, "mark-ending acme s1.1 max_hold token=1", "refused ending", true},
		{"now, when marked", ending, "mark-ending acme s1.1 max_hold token=1 now", "ended max_hold token=1", false},
		{"now", held, "mark-ending acme s1.1 forced token=1 now", "ended forced token=1", false},
		{"with another token", held, "mark-ending acme s1.1 forced token=2", "refused stale_token", true},
		{"a waiter", waits, "mark-ending acme s2.1 forced token=1", "refused not_held", true},
		{"an ended one", held + "release acme s1.1", "mark-ending acme s1.1 forced token=1", "refused ended", true},
		{"an unseen one", "", "mark-ending acme s1.1 forced token=1", "refused unknown", true},
		{"for a cause that is none", held, "mark-ending acme s1.1 expired token=1", "refused invalid", true},
		{"the longest note", held, "mark-ending acme s1.1 forced token=1 note=" + strings.Repeat("n", 1024), "done", false},
		{"a note too long", held, "mark-ending acme s1.1 forced token=1 note=" + strings.Repeat("n", 1025), "refused invalid", true},
		{"the holder's own release goes first", ending, "release acme s1.1", "ended released token=1", false},
		{"the holder's id still says held", ending, "acquire acme s1.1 jobs k", "granted token=1", true},
	})
}

func TestSession_rules(t *testing.T) {
	checkRules(t, []rule{
		{"ends a session", held, "end-session acme s1", "done", false},
		{"ends it again", held + "end-session acme s1", "end-session acme s1", "done", true},
		{"burns an unseen one", "", "end-session acme s1", "done", false},
		{"of another owner", held, "end-session acme s1 owner=bob", "refused foreign", true},
		{"session zero", "", "end-session acme s0", "refused invalid", true},
		{"no owner", "", `end-session acme s1 owner=""`, "refused invalid", true},
		{"an unseen one above the quota", "put-tenant acme sessions=1\n" + held, "end-session acme s2", "refused quota_sessions", true},
		{"a seen one at the quota", "put-tenant acme sessions=1\n" + held, "end-session acme s1", "done", false},
		{"forgets", held + "release acme s1.1", "forget-session acme s1", "done", false},
		{"forgets no holder", held, "forget-session acme s1", "refused busy", true},
		{"forgets no waiter", waits, "forget-session acme s2", "refused busy", true},
		{"forgets no unseen one", "", "forget-session acme s1", "refused unknown", true},
		{"forgets one whose requests were all refused", held + "acquire acme s2.1 jobs k", "forget-session acme s2", "done", false},
	})
}

func TestPartition_rules(t *testing.T) {
	checkRules(t, []rule{
		{"the lease clock", "", "lease-clock @ at=5s", "done", true},
		{"the level in force", "", "raise-level level=1", "refused stale_version", true},
		{"level zero", "", "raise-level level=0", "refused stale_version", true},
		{"a checkpoint that was not passed", "", "checkpoint index=10000", "refused stale_version", true},
		{"the token base's limit", "", "put-tenant birch base=4503599627370496", "done", false},
		{"above the token base's limit", "", "put-tenant birch base=4503599627370497", "refused invalid", true},
		{"a name that is none", "", "put-tenant Birch", "refused invalid", true},
		{"a quota of zero", "", "put-tenant birch leases=0", "refused invalid", true},
		{"the largest quota", "", "put-tenant birch leases=100000000", "done", false},
		{"a quota too large", "", "put-tenant birch leases=100000001", "refused invalid", true},
		{"a tenant that is being dropped", held + "drop-tenant acme", "put-tenant acme", "refused busy", true},
		{"dropped twice", held + "drop-tenant acme", "drop-tenant acme", "done", true},
		{"dropped and gone", "drop-tenant acme", "drop-tenant acme", "refused unknown", true},
	})
}

func TestPutClass_rules(t *testing.T) {
	checkRules(t, []rule{
		{"the next version", "", "put-class acme jobs version=2", "done", false},
		{"a later version", "", "put-class acme jobs version=9", "done", false},
		{"the same version", "", "put-class acme jobs version=1", "refused stale_version", true},
		{"an older version", "put-class acme jobs version=3", "put-class acme jobs version=2", "refused stale_version", true},
		{"version zero", "", "put-class acme new version=0", "refused invalid", true},
		{"another purpose", "", "put-class acme jobs version=2 purpose=correctness", "refused purpose_fixed", true},
		{"another purpose of a retired name", "retire-class acme jobs", "put-class acme jobs version=2 purpose=correctness", "refused purpose_fixed", true},
		{"efficiency and open", "", "put-class acme new quorum-loss=open", "done", false},
		{"correctness and open", "", "put-class acme new purpose=correctness quorum-loss=open", "refused posture", true},
		{"no purpose", "", "put-class acme new purpose=unknown", "refused invalid", true},
		{"no enforcement", "", "put-class acme new enforcement=unknown", "refused invalid", true},
		{"no quorum loss", "", "put-class acme new quorum-loss=unknown", "refused invalid", true},
		{"the shortest lease", "", "put-class acme new lease=1s", "done", false},
		{"a lease too short", "", "put-class acme new lease=999ms heartbeat=1ms", "refused invalid", true},
		{"the longest lease", "", "put-class acme new lease=1h", "done", false},
		{"a lease too long", "", "put-class acme new lease=1h0m0.001s", "refused invalid", true},
		{"a heartbeat of half the lease", "", "put-class acme new heartbeat=5s", "done", false},
		{"a heartbeat above half the lease", "", "put-class acme new heartbeat=5.001s", "refused invalid", true},
		{"no heartbeat", "", "put-class acme new heartbeat=0s", "refused invalid", true},
		{"the longest lock delay", "", "put-class acme new lock-delay=60s", "done", false},
		{"a lock delay too long", "", "put-class acme new lock-delay=60.001s", "refused invalid", true},
		{"the longest max_wait", "", "put-class acme new max-wait=24h", "done", false},
		{"a max_wait too long", "", "put-class acme new max-wait=24h0m0.001s", "refused invalid", true},
		{"no waiters on a queueing class", "", "put-class acme new max-waiters=0", "refused invalid", true},
		{"the most waiters", "", "put-class acme new max-waiters=100000", "done", false},
		{"too many waiters", "", "put-class acme new max-waiters=100001", "refused invalid", true},
		{"a negative max_hold", "", "put-class acme new max-hold=-1ms", "refused invalid", true},
		{"born retired", "", "put-class acme new retired", "refused invalid", true},
		{"a name that is none", "", "put-class acme New", "refused invalid", true},
		{"retire", "", "retire-class acme jobs", "done", false},
		{"retire twice", "retire-class acme jobs", "retire-class acme jobs", "done", true},
		{"retire what never was", "", "retire-class acme new", "refused not_in_force", true},
		{"again after it was retired", "retire-class acme jobs", "put-class acme jobs version=2", "done", false},
		{"again while somebody holds", held + "retire-class acme jobs", "put-class acme jobs version=2", "refused busy", true},
		{"again while somebody waits", waits + "retire-class acme jobs\nrelease acme s1.1", "put-class acme jobs version=2", "refused busy", true},
		{"again while a lock delay runs", heldDelay + "expire acme s1.1 token=1\nretire-class acme delayed", "put-class acme delayed version=2", "refused busy", true},
	})
}
