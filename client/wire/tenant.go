package wire

import "time"

// TenantState is what a tenant is at the moment.
type TenantState string

// The states of a tenant.
const (
	TenantLive      TenantState = "live"
	TenantSuspended TenantState = "suspended" // takes no new leases; what it holds goes on
	TenantEnding    TenantState = "ending"    // dropped; its last fencing token is not known yet
	TenantDropped   TenantState = "dropped"   // dropped; it can be made again
)

// Tenant is one tenant, as the platform's operators see it.
type Tenant struct {
	Tenant       string      `json:"tenant"`
	State        TenantState `json:"state"`
	OwnerGroups  []string    `json:"owner_groups"`
	Quotas       Quotas      `json:"quotas"`
	Partition    uint32      `json:"partition"`     // which carries it, from 1
	TokenBase    uint64      `json:"token_base"`    // its fencing tokens count from above it; of a dropped one: the last token
	EarlierLives uint32      `json:"earlier_lives"` // how often the slug was dropped and given again
	CreatedAt    time.Time   `json:"created_at"`
	ChangedAt    time.Time   `json:"changed_at"`
	Use          *TenantUse  `json:"use,omitempty"` // of one tenant asked for by name, unless its partition carries nothing of it
}

// Quotas bound what a tenant may use. In a request a zero is a quota that is not named.
type Quotas struct {
	Keys               int `json:"keys,omitempty"`
	Leases             int `json:"leases,omitempty"`
	Waiters            int `json:"waiters,omitempty"`
	Sessions           int `json:"sessions,omitempty"`
	RequestsPerSecond  int `json:"requests_per_second,omitempty"`
	AuditRetentionDays int `json:"audit_retention_days,omitempty"`
}

// TenantUse is what a tenant uses of its quotas, as the answering node's copy of its partition has it.
type TenantUse struct {
	Keys      int    `json:"keys"`     // held, waited for, or in a lock delay
	Leases    int    `json:"leases"`   // held; a key in its lock delay counts as one
	Waiters   int    `json:"waiters"`  // requests in line
	Sessions  int    `json:"sessions"` // those ended a short while ago count
	LastToken uint64 `json:"last_token"`
	Ending    bool   `json:"ending"` // the partition grants nothing more of it and waits for its leases to end
}

// TenantList is one page of GET /v1/tenants, by slug.
type TenantList struct {
	Tenants    []Tenant `json:"tenants"`
	NextCursor string   `json:"next_cursor,omitempty"` // absent: this was the last page
	CompleteTo uint64   `json:"complete_to"`           // index of the control log that the page reflects
}

// TenantRequest is the body of POST /v1/tenants, and of PATCH /v1/tenants/{tenant}, which names no tenant.
type TenantRequest struct {
	Tenant      string   `json:"tenant,omitempty"`
	OwnerGroups []string `json:"owner_groups,omitempty"`
	Quotas      *Quotas  `json:"quotas,omitempty"`
}

// ReasonRequest is the body of a call that wants to know why.
type ReasonRequest struct {
	Reason string `json:"reason,omitempty"`
}
