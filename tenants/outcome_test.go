package tenants_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/tenants"
)

// Names go into the audit and into answers: each number has one, and no two the same.
func TestNames_areThereAndDiffer(t *testing.T) {
	for what, c := range map[string]struct {
		first, last int
		name        func(int) fmt.Stringer
	}{
		"reason": {int(tenants.RefusedInvalid), int(tenants.RefusedStaleToken), func(n int) fmt.Stringer { return tenants.Reason(n) }},
		"event":  {int(tenants.EventTenantCreated), int(tenants.EventRefused), func(n int) fmt.Stringer { return tenants.EventKind(n) }},
		"kind":   {int(tenants.KindPutTenant), int(tenants.KindRecordKeyUses), func(n int) fmt.Stringer { return tenants.Kind(n) }},
		"state":  {int(tenants.KeyActive), int(tenants.KeyRevoked), func(n int) fmt.Stringer { return tenants.KeyState(n) }},
	} {
		seen := map[string]bool{}
		for n := c.first; n <= c.last; n++ {
			name := c.name(n).String()
			if name == "" || strings.Contains(name, "(") || seen[name] {
				t.Errorf("%s %d: got name %q", what, n, name)
			}
			seen[name] = true
		}
		if got, want := c.name(c.last+1).String(), fmt.Sprintf("%s(%d)", what, c.last+1); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := tenants.None.String(); got != "" {
		t.Errorf("no refusal: got %q, want nothing", got)
	}
}
