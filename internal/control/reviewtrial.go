package control

import (
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// TrialDeclare is what Apply would answer to a declaration. It changes nothing and is in no audit.
func (m *Machine) TrialDeclare(d review.Declare) Result {
	if reason := m.inadmissible(d, tenants.TenantID(d.Tenant)); reason != "" {
		return Result{Reason: reason}
	}
	r := m.reviews.Trial(d)
	if r.Refused != "" {
		return Result{Reason: string(r.Refused)}
	}
	return reviewResult(r)
}

func reviewResult(r review.Result) Result {
	return Result{OK: true, Unchanged: r.Unchanged, Version: r.Version, State: r.State, Missing: r.Missing}
}
