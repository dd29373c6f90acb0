package lockcore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/lockcoretest"
)

// stage is where most rules begin: epoch 1, tenant acme, classes of each sort.
const stage = `
advance-epoch n1
put-tenant acme
put-class acme jobs
put-class acme long lease=60s purpose=correctness enforcement=fenced
put-class acme delayed lock-delay=5s
put-class acme refusing refuses max-waiters=0
put-class acme narrow max-waiters=2
put-class acme capped max-wait=30s
`

// rule is one table row: commands before, the command in question, its result, and whether it left the state alone.
type rule struct {
	name   string
	given  string // lines after the stage
	do     string
	want   string
	leaves bool // nothing of any tenant is another afterwards
}

func play(tb testing.TB, p *lockcoretest.Player, lines string) (last string) {
	tb.Helper()
	for l := range strings.Lines(lines) {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		r, _, err := p.Line(l)
		if err != nil {
			tb.Fatalf("line %q: %v", l, err)
		}
		last = lockcoretest.FormatResult(r)
	}
	return last
}

func checkRules(t *testing.T, rules []rule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			p := lockcoretest.NewPlayer()
			play(t, p, stage+r.given)
			before := lockcoretest.TenantDigests(p.Machine)
			if got := play(t, p, r.do); got != r.want {
				t.Errorf("%s: got %q, want %q", r.do, got, r.want)
			}
			if got := fmt.Sprint(lockcoretest.TenantDigests(p.Machine)) == fmt.Sprint(before); got != r.leaves {
				t.Errorf("%s: left the state alone: %t, want %t", r.do, got, r.leaves)
			}
			if err := p.Machine.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAcquire_rules(t *testing.T) {
	const held, waits = "acquire acme s1.1 jobs k\n", "acquire acme s1.1 jobs k\nacquire acme s2.1 jobs k wait=5s\n"
	checkRules(t, []rule{
		{"a free key is granted", "", "acquire acme s1.1 jobs k", "granted token=1", false},
		{"the holder's id again", held, "acquire acme s1.1 jobs k", "granted token=1", true},
		{"the holder's id with another wait", held, "acquire acme s1.1 jobs k wait=9s", "granted token=1", true},
		{"the waiter's id again", waits, "acquire acme s2.1 jobs k wait=5s", "queued", true},
		{"an ended id again", held + "release acme s1.1", "acquire acme s1.1 jobs k", "ended released token=1", true},
		{"a held key, not queueing", held, "acquire acme s2.1 jobs k", "refused held", false},
		{"the refused id again, key held", held + "acquire acme s2.1 jobs k", "acquire acme s2.1 jobs k", "refused held", true},
		{"the refused id again, key free", held + "acquire acme s2.1 jobs k\nrelease acme s1.1", "acquire acme s2.1 jobs k", "refused held", true},
		{"the refused id again, queueing now", held + "acquire acme s2.1 jobs k", "acquire acme s2.1 jobs k wait=5s", "refused held", true},
		{"a second id for a held key", held, "acquire acme s1.2 jobs k wait=5s", "refused already_held", false},
		{"that second id again", held + "acquire acme s1.2 jobs k\nrelease acme s1.1", "acquire acme s1.2 jobs k", "refused already_held", true},
		{"the id with another key", held, "acquire acme s1.1 jobs other", "refused id_conflict", true},
		{"the id with another class", held, "acquire acme s1.1 narrow k", "refused id_conflict", true},
		{"a burned id", "release acme s1.1", "acquire acme s1.1 jobs k", "ended burned", true},
		{"a foreign session", held, "acquire acme s1.2 jobs k2 owner=bob", "refused foreign", true},
		{"a foreign id", held, "acquire acme s1.1 jobs k owner=bob", "refused foreign", true},
		{"an ended session", "end-session acme s1", "acquire acme s1.1 jobs k", "refused session_over", true},
		{"an unknown tenant", "", "acquire birch s1.1 jobs k", "refused unknown", true},
		{"a suspended tenant", "put-tenant acme suspended", "acquire acme s1.1 jobs k", "refused suspended", true},
		{"a suspended tenant, held before", held + "put-tenant acme suspended", "acquire acme s1.1 jobs k", "granted token=1", true},
		{"a dropped tenant", held + "drop-tenant acme", "acquire acme s2.1 jobs k2", "refused dropped", true},
		{"a dropped tenant, held before", held + "drop-tenant acme", "acquire acme s1.1 jobs k", "granted token=1", true},
		{"an unknown class", "", "acquire acme s1.1 other k", "refused not_in_force", true},
		{"a retired class", "retire-class acme jobs", "acquire acme s1.1 jobs k", "refused retired", true},
		{"a stale epoch", "", "acquire acme s1.1 jobs k @ epoch=0", "refused stale_epoch", true},
		{"an epoch to come", "", "acquire acme s1.1 jobs k @ epoch=2", "refused stale_epoch", true},
		{"an id refused for a stale epoch is not used up", "acquire acme s1.1 jobs k @ epoch=0", "acquire acme s1.1 jobs k", "granted token=1", false},
	})
}

func TestAcquire_borders(t *testing.T) {
	three := "acquire acme s1.1 narrow k\nacquire acme s2.1 narrow k wait=5s\n"
	checkRules(t, []rule{
		{"the last place of max_waiters", three, "acquire acme s3.1 narrow k wait=5s", "queued", false},
		{"one above max_waiters", three + "acquire acme s3.1 narrow k wait=5s\n", "acquire acme s4.1 narrow k wait=5s", "refused queue_full", false},
		{"the id refused for max_waiters again", three + "acquire acme s3.1 narrow k wait=5s\nacquire acme s4.1 narrow k wait=5s\nrelease acme s2.1",
			"acquire acme s4.1 narrow k wait=5s", "refused queue_full", true},
		{"after one left", three + "acquire acme s3.1 narrow k wait=5s\nrelease acme s2.1", "acquire acme s4.1 narrow k wait=5s", "queued", false},
		{"a wait below max_wait", "", "acquire acme s1.1 capped k wait=29.999s", "granted token=1", false},
		{"a wait of max_wait", "", "acquire acme s1.1 capped k wait=30s", "granted token=1", false},
		{"a wait above max_wait", "", "acquire acme s1.1 capped k wait=30.001s", "refused wait_too_long", true},
		{"an unlimited wait on a capped class", "", "acquire acme s1.1 capped k wait=-1ms", "refused wait_too_long", true},
		{"an unlimited wait", "acquire acme s1.1 jobs k", "acquire acme s2.1 jobs k wait=-1ms", "queued", false},
		{"no wait on a refusing class", "", "acquire acme s1.1 refusing k", "granted token=1", false},
		{"a wait on a refusing class", "", "acquire acme s1.1 refusing k wait=1ms", "refused wait_too_long", true},
		{"a wait below unlimited", "", "acquire acme s1.1 jobs k wait=-2ms", "refused invalid", true},

		{"the last key of the quota", "put-tenant acme keys=2\nacquire acme s1.1 jobs k1", "acquire acme s1.2 jobs k2", "granted token=2", false},
		{"one key above the quota", "put-tenant acme keys=1\nacquire acme s1.1 jobs k1", "acquire acme s1.2 jobs k2", "refused quota_keys", true},
		{"a queue needs no new key", "put-tenant acme keys=1\nacquire acme s1.1 jobs k1", "acquire acme s2.1 jobs k1 wait=5s", "queued", false},
		{"the last lease of the quota", "put-tenant acme leases=2\nacquire acme s1.1 jobs k1", "acquire acme s1.2 jobs k2", "granted token=2", false},
		{"one lease above the quota", "put-tenant acme leases=1\nacquire acme s1.1 jobs k1", "acquire acme s1.2 jobs k2", "refused quota_leases", true},
		{"a lock delay counts as a lease", "put-tenant acme leases=1\nacquire acme s1.1 delayed k1\nexpire acme s1.1 token=1",
			"acquire acme s1.2 jobs k2", "refused quota_leases", true},
		{"the last waiter of the quota", "put-tenant acme waiters=1\nacquire acme s1.1 jobs k", "acquire acme s2.1 jobs k wait=5s", "queued", false},
		{"one waiter above the quota", "put-tenant acme waiters=1\nacquire acme s1.1 jobs k\nacquire acme s2.1 jobs k wait=5s",
			"acquire acme s3.1 jobs k wait=5s", "refused quota_waiters", true},
		{"an id refused for a quota is not used up", "put-tenant acme keys=1\nacquire acme s1.1 jobs k1\nacquire acme s1.2 jobs k2\nrelease acme s1.1",
			"acquire acme s1.2 jobs k2", "granted token=2", false},
		{"the last session of the quota", "put-tenant acme sessions=2\nacquire acme s1.1 jobs k1", "acquire acme s2.1 jobs k2", "granted token=2", false},
		{"one session above the quota", "put-tenant acme sessions=1\nacquire acme s1.1 jobs k1", "acquire acme s2.1 jobs k2", "refused quota_sessions", true},
		{"an ended session counts", "put-tenant acme sessions=1\nend-session acme s1", "acquire acme s2.1 jobs k2", "refused quota_sessions", true},
		{"a forgotten session does not count", "put-tenant acme sessions=1\nend-session acme s1\nforget-session acme s1",
			"acquire acme s2.1 jobs k2", "granted token=1", false},

		{"the oldest sequence of the window", "acquire acme s1.1025 jobs k1", "acquire acme s1.2 jobs k2", "granted token=2", false},
		{"one below the window", "acquire acme s1.1025 jobs k1", "acquire acme s1.1 jobs k2", "refused too_old", true},
		{"an end at the window's border answers", "acquire acme s1.2 jobs k2\nrelease acme s1.2\nacquire acme s1.1025 jobs k1",
			"acquire acme s1.2 jobs k2", "ended released token=1", true},
		{"an end below the window is forgotten", "acquire acme s1.1 jobs k2\nrelease acme s1.1\nacquire acme s1.1025 jobs k1",
			"acquire acme s1.1 jobs k2", "refused too_old", true},
		{"a held lease below the window answers", "acquire acme s1.1 jobs k2\nacquire acme s1.9000 jobs k1", "acquire acme s1.1 jobs k2", "granted token=1", true},
		{"a waiter below the window answers", "acquire acme s2.1 jobs k\nacquire acme s1.1 jobs k wait=5s\nacquire acme s1.9000 jobs k1",
			"acquire acme s1.1 jobs k", "queued", true},
	})
}

func TestAcquire_valueRanges(t *testing.T) {
	long := strings.Repeat("k", lockcore.KeyBytesMax)
	checkRules(t, []rule{
		{"the longest key", "", "acquire acme s1.1 jobs " + long, "granted token=1", false},
		{"a key too long", "", "acquire acme s1.1 jobs " + long + "k", "refused invalid", true},
		{"an empty key", "", `acquire acme s1.1 jobs ""`, "refused invalid", true},
		{"a control character in the key", "", `acquire acme s1.1 jobs "a\tb"`, "refused invalid", true},
		{"a C1 control character in the key", "", `acquire acme s1.1 jobs "a\u0085b"`, "refused invalid", true},
		{"no control character", "", `acquire acme s1.1 jobs "a\u00a0b"`, "granted token=1", false},
		{"session zero", "", "acquire acme s0.1 jobs k", "refused invalid", true},
		{"sequence zero", "", "acquire acme s1.0 jobs k", "refused invalid", true},
		{"the last sequence", "", "acquire acme s1.9007199254740991 jobs k", "granted token=1", false},
		{"past the last sequence", "", "acquire acme s1.9007199254740992 jobs k", "refused invalid", true},
		{"no owner", "", `acquire acme s1.1 jobs k owner=""`, "refused invalid", true},
		{"the longest owner", "", "acquire acme s1.1 jobs k owner=" + strings.Repeat("o", 64), "granted token=1", false},
		{"an owner too long", "", "acquire acme s1.1 jobs k owner=" + strings.Repeat("o", 65), "refused invalid", true},
		{"the longest holder", "", "acquire acme s1.1 jobs k holder=" + strings.Repeat("h", lockcore.HolderBytesMax), "granted token=1", false},
		{"a holder too long", "", "acquire acme s1.1 jobs k holder=" + strings.Repeat("h", lockcore.HolderBytesMax+1), "refused invalid", true},
	})
}

func TestRelease_rules(t *testing.T) {
	const held, waits = "acquire acme s1.1 jobs k\n", "acquire acme s1.1 jobs k\nacquire acme s2.1 jobs k wait=5s\n"
	checkRules(t, []rule{
		{"ends the hold", held, "release acme s1.1", "ended released token=1", false},
		{"with its token", held, "release acme s1.1 token=1", "ended released token=1", false},
		{"with another token", held, "release acme s1.1 token=2", "refused stale_token", true},
		{"again", held + "release acme s1.1", "release acme s1.1", "ended released token=1", true},
		{"of an expired lease", held + "expire acme s1.1 token=1", "release acme s1.1 token=1", "ended expired token=1", true},
		{"leaves the queue", waits, "release acme s2.1", "ended left", false},
		{"of a waiter with a token", waits, "release acme s2.1 token=1", "refused stale_token", true},
		{"burns an unseen id", held, "release acme s1.2", "ended burned", false},
		{"burns an id of an unseen session", "", "release acme s1.1", "ended burned", false},
		{"of an unseen id with a token", held, "release acme s1.2 token=1", "refused unknown", true},
		{"of an unseen session with a token", "", "release acme s1.1 token=1", "refused unknown", true},
		{"of a refused id", held + "acquire acme s2.1 jobs k", "release acme s2.1", "ended held", true},
		{"of a foreign lease", held, "release acme s1.1 owner=bob", "refused foreign", true},
		{"of a session that ended before", "end-session acme s1", "release acme s1.1", "ended session_ended", true},
		{"below the window", "acquire acme s1.1025 jobs k", "release acme s1.1", "refused too_old", true},
		{"at the window's border", "acquire acme s1.1025 jobs k", "release acme s1.2", "ended burned", false},
		{"a session above the quota", "put-tenant acme sessions=1\n" + held, "release acme s2.1", "refused quota_sessions", true},
		{"sequence zero", "", "release acme s1.0", "refused invalid", true},
		{"no owner", held, `release acme s1.1 owner=""`, "refused invalid", true},
		{"of another tenant's lease", held + "put-tenant birch", "release birch s1.1 token=1", "refused unknown", true},
	})
}
