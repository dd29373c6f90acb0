package lockcore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/lockcoretest"
)

func TestQuotas_ranges(t *testing.T) {
	for _, c := range []struct {
		quota string
		most  int
	}{
		{"keys", 100_000_000}, {"leases", 100_000_000}, {"waiters", 100_000_000}, {"sessions", 100_000_000},
		{"per-session", lockcore.PerSessionMax}, {"ends", 100_000_000},
	} {
		put := func(n int) string { return fmt.Sprintf("put-tenant birch %s=%d", c.quota, n) }
		checkRules(t, []rule{
			{c.quota + " below the least", "", put(0), "refused invalid", true},
			{c.quota + " at the least", "", put(1), "done", false},
			{c.quota + " at the most", "", put(c.most), "done", false},
			{c.quota + " above the most", "", put(c.most + 1), "refused invalid", true},
		})
	}
}

func TestPerSession_rules(t *testing.T) {
	const two = "put-tenant acme per-session=2\nacquire acme s1.1 jobs k1\n"
	const full = two + "acquire acme s2.1 jobs k2\nacquire acme s1.2 jobs k2 wait=5s\n" // s1 holds k1 and waits for k2
	checkRules(t, []rule{
		{"the last one of the quota", two, "acquire acme s1.2 jobs k3", "granted token=2", false},
		{"one above, of a free key", full, "acquire acme s1.3 jobs k3", "refused quota_session", true},
		{"one above, of a held key", full, "acquire acme s1.3 jobs k2 wait=5s", "refused quota_session", true},
		{"one above, not queueing", full, "acquire acme s1.3 jobs k2", "refused quota_session", true},
		{"another session", full, "acquire acme s3.1 jobs k3", "granted token=3", false},
		{"the held one again", full, "acquire acme s1.1 jobs k1", "granted token=1", true},
		{"the waiting one again", full, "acquire acme s1.2 jobs k2 wait=5s", "queued", true},
		{"the refused id is not used up", full + "acquire acme s1.3 jobs k3\nrelease acme s1.1", "acquire acme s1.3 jobs k3", "granted token=3", false},
		{"ends do not count", two + "release acme s1.1\nrelease acme s1.2\nacquire acme s1.3 jobs k3", "acquire acme s1.4 jobs k4", "granted token=3", false},
		{"a quota lowered below what is held", full + "put-tenant acme per-session=1", "acquire acme s1.1 jobs k1", "granted token=1", true},
		{"a hand-off to one at the quota", full, "release acme s2.1", "ended released token=2", false},
	})
}

// TestEnds_rules: a session that would exceed the quota of ends forgets its own oldest, and takes no id at or below them.
func TestEnds_rules(t *testing.T) {
	ended := func(ids ...string) string {
		var b strings.Builder
		for _, id := range ids {
			fmt.Fprintf(&b, "acquire acme %s jobs k\nrelease acme %s\n", id, id)
		}
		return b.String()
	}
	const two = "put-tenant acme ends=2\n"
	live := two + "acquire acme s1.1 jobs live\n"
	idle := two + ended("s2.1", "s2.2")
	checkRules(t, []rule{
		{"at the quota the oldest answers", two + ended("s1.1", "s1.2"), "acquire acme s1.1 jobs k", "ended released token=1", true},
		{"above it the oldest is forgotten", two + ended("s1.1", "s1.2", "s1.3"), "acquire acme s1.1 jobs k", "refused too_old", true},
		{"and its release too", two + ended("s1.1", "s1.2", "s1.3"), "release acme s1.1", "refused too_old", true},
		{"above it the others answer", two + ended("s1.1", "s1.2", "s1.3"), "acquire acme s1.2 jobs k", "ended released token=2", true},
		{"an unused id below the floor", two + ended("s1.2", "s1.3", "s1.4"), "acquire acme s1.1 jobs k", "refused too_old", true},
		{"an unused id above the floor", two + ended("s1.1", "s1.3", "s1.4"), "acquire acme s1.2 jobs k", "granted token=4", false},
		{"a held id below the floor answers", live + ended("s1.2", "s1.3", "s1.4"), "acquire acme s1.1 jobs live", "granted token=1", true},
		{"a held id below the floor is released", live + ended("s1.2", "s1.3", "s1.4"), "release acme s1.1", "ended released token=1", false},
		{"and then forgotten", live + ended("s1.2", "s1.3", "s1.4") + "release acme s1.1", "acquire acme s1.1 jobs live", "refused too_old", true},
		{"a waiting id below the floor answers", "acquire acme s2.1 jobs live\nacquire acme s1.1 jobs live wait=5s\n" + two + ended("s1.2", "s1.3", "s1.4"),
			"acquire acme s1.1 jobs live", "queued", true},
		{"an idle session keeps its ends", idle + ended("s1.1"), "acquire acme s2.1 jobs k", "ended released token=1", true},
		{"the one that acts keeps none", idle + ended("s1.1"), "acquire acme s1.1 jobs k", "refused too_old", true},
		{"and goes on with the next", idle + ended("s1.1"), "acquire acme s1.2 jobs k", "granted token=4", false},
		{"a burned id that is not kept", idle + "release acme s1.1", "acquire acme s1.1 jobs k", "refused too_old", true},
		{"a refused id that is not kept", idle + "acquire acme s3.1 jobs k\nacquire acme s1.1 jobs k\nrelease acme s3.1", "acquire acme s1.1 jobs k", "refused too_old", true},
		{"room after an idle session is forgotten", idle + "forget-session acme s2\n" + ended("s1.1"), "acquire acme s1.1 jobs k", "ended released token=3", true},
		{"room after the window passed", "put-tenant acme ends=1\n" + ended("s2.1") + "acquire acme s2.1025 jobs k2\n" + ended("s1.1"),
			"acquire acme s1.1 jobs k", "ended released token=3", true},
		{"a lowered quota takes nothing at once", ended("s1.1", "s1.2", "s1.3") + "put-tenant acme ends=1", "acquire acme s1.1 jobs k", "ended released token=1", true},
		{"a lowered quota takes all above it at the next end", ended("s1.1", "s1.2", "s1.3") + "put-tenant acme ends=1\n" + ended("s1.4"),
			"acquire acme s1.3 jobs k", "refused too_old", true},
		{"and leaves what it allows", ended("s1.1", "s1.2", "s1.3") + "put-tenant acme ends=1\n" + ended("s1.4"), "acquire acme s1.4 jobs k", "ended released token=4", true},
		{"an expired one counts", "put-tenant acme ends=1\nacquire acme s1.1 jobs k\nexpire acme s1.1 token=1\n" + ended("s1.2"),
			"acquire acme s1.1 jobs k", "refused too_old", true},
		{"one that left the queue counts", "put-tenant acme ends=1\nacquire acme s2.1 jobs k\nacquire acme s1.1 jobs k wait=5s\nleave acme s1.1 disconnected\nrelease acme s1.2",
			"acquire acme s1.1 jobs k", "refused too_old", true},
	})
}

// TestEnds_areCountedAndNameNobody looks at the rows themselves.
func TestEnds_areCountedAndNameNobody(t *testing.T) {
	p := lockcoretest.NewPlayer()
	play(t, p, stage+`put-tenant acme ends=3
		acquire acme s1.1 jobs k holder=host:1 api-key=key1
		acquire acme s2.1 jobs k wait=5s holder=host:2 api-key=key2
		acquire acme s3.1 jobs k holder=host:3 api-key=key3
		release acme s2.1
		release acme s1.1`)
	for n := range uint16(3) {
		l, ok := p.Machine.Lease("acme", lockcoretest.LeaseNumber(n+1, 1))
		if !ok || l.State != lockcore.StateEnded || l.Holder != "" || l.APIKey != "" || l.Class != "jobs" || l.Key != "k" {
			t.Errorf("got %+v, want an end that keeps class and key and names nobody", l)
		}
	}
	play(t, p, "release acme s1.2\nrelease acme s1.3")
	if got, _ := p.Machine.Tenant("acme"); got.Ends != 3 {
		t.Errorf("got %d ends, want 3", got.Ends)
	}
	s, _ := p.Machine.Session("acme", lockcoretest.SessionNumber(1))
	if s.Floor != 2 || s.High != 3 || s.Ends != 1 || s.Forgot(3) || !s.Forgot(2) {
		t.Errorf("got %+v, want floor 2, highest 3, one end", s)
	}
}

// TestEndSession_atTheQuotaOfEnds ends as much as a session may have, under the smallest quota of ends.
func TestEndSession_atTheQuotaOfEnds(t *testing.T) {
	p := lockcoretest.NewPlayer()
	play(t, p, stage+"put-tenant acme keys=10000 leases=10000 per-session=10000 ends=1")
	for i := range lockcore.PerSessionMax {
		play(t, p, fmt.Sprintf("acquire acme s1.%d jobs k%d", i+1, i))
	}
	if got := play(t, p, "acquire acme s1.10001 jobs more"); got != "refused quota_session" {
		t.Errorf("one more: got %s", got)
	}
	play(t, p, "end-session acme s1")
	s, _ := p.Machine.Session("acme", lockcoretest.SessionNumber(1))
	if s.Live != 0 || s.Ends != 1 || s.Floor != lockcore.PerSessionMax-1 {
		t.Errorf("got %+v, want nothing live and one end above floor %d", s, lockcore.PerSessionMax-1)
	}
	if err := p.Machine.Check(); err != nil {
		t.Error(err)
	}
}

// TestPosition_isExactToItsBorder lets ten of the front of a line of 150 go, behind its head.
func TestPosition_isExactToItsBorder(t *testing.T) {
	p := lockcoretest.NewPlayer()
	play(t, p, stage+"put-tenant acme waiters=1000 sessions=1000\nput-class acme jobs version=2 max-waiters=1000\nacquire acme s1.1 jobs k")
	for i := range 150 {
		play(t, p, fmt.Sprintf("acquire acme s%d.1 jobs k wait=5s", 100+i))
	}
	for i := range 10 {
		play(t, p, fmt.Sprintf("release acme s%d.1", 105+i))
	}
	for i, l := range p.Machine.Waiters("acme", "jobs", "k", 150) {
		got, exact := p.Machine.Position("acme", l), i+1
		if exact <= 100 && got != exact || exact > 100 && got != exact+10 {
			t.Errorf("waiter %d: got position %d", exact, got)
		}
	}
}
