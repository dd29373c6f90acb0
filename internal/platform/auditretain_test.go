package platform

import (
	"context"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/audit"
)

// A node that starts has the quotas of its snapshot first, then those of the entries after it.
func TestRetain_dropsNothingByQuotasThatMayBeOld(t *testing.T) {
	const day = 24 * time.Hour
	a := auditNode(t)
	row := oneEvent()
	row.AtMS = time.Now().Add(-60 * day).UnixMilli()
	a.stores(t, 1, 1, 3, row)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked, known := 0, false
	sure := func() bool {
		asked++
		known = asked > 2
		return known
	}
	days := func(string) int {
		defer cancel() // this round is the last
		if !known {
			return 30
		}
		return 90
	}
	if err := a.audit.retain(ctx, days, sure); err != nil || asked != 3 {
		t.Errorf("got %v after %d questions, want nil after 3", err, asked)
	}
	page, err := a.audit.store.Query(t.Context(), audit.Query{Tenant: "acme"})
	if err != nil || len(page.Rows) != 3 {
		t.Errorf("rows: got %d, %v, want 3", len(page.Rows), err)
	}
}
