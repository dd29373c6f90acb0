package platform_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/internal/platform"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/lockcoretest"
	"github.com/stanchion-locks/stanchion/web/api"
)

// heldIn is a machine in which one key after another is held: of each class so many.
func heldIn(t *testing.T, keys int, classes ...string) *lockcore.Machine {
	t.Helper()
	p := lockcoretest.NewPlayer()
	lines := []string{"advance-epoch n1", "put-tenant acme"}
	for i, class := range classes {
		lines = append(lines, "put-class acme "+class)
		for k := range keys {
			lines = append(lines, fmt.Sprintf("acquire acme s%d.%d %s k%d", i+1, k+1, class, k))
		}
	}
	for _, line := range lines {
		if _, _, err := p.Line(line); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return p.Machine
}

// A cursor is readable: it must not name a lock of a class that the API key's scopes do not take in.
func TestLocksList_tellsNothingOfClassesThatAreNotAllowed(t *testing.T) {
	m := heldIn(t, 3, "ledger", "ledger-close", "ledgers", "payroll", "zebra")
	q := api.LockQuery{Tenant: "acme", Allows: func(c lockcore.ClassName) bool { return c == "ledger" || c == "ledgers" || c == "zebra" }}
	var want []string
	for _, class := range []string{"ledger", "ledgers", "zebra"} {
		want = append(want, class+"/k0", class+"/k1", class+"/k2")
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []string
		q.From, q.Limit = api.LockPosition{}, limit
		for range len(want) + 1 {
			page := platform.ReadPage(m, q)
			for _, l := range page.Locks {
				got = append(got, string(l.Class)+"/"+string(l.Key))
			}
			if q.From = page.Next; page.Next == (api.LockPosition{}) {
				break
			}
			if !q.Allows(page.Next.Class) {
				t.Errorf("pages of %d: a cursor names %+v", limit, page.Next)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d list %s; want %s", limit, strings.Join(got, " "), strings.Join(want, " "))
		}
	}
}
