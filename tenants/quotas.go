package tenants

// Quotas bound what a tenant may use. All are compulsory; see QuotasDefault for the values of a tenant that asks for
// nothing else.
type Quotas struct {
	Keys               int `cbor:"1,keyasint"` // lock keys with a holder, a queue or a lock delay; 1 .. 100,000,000
	Leases             int `cbor:"2,keyasint"` // 1 .. 100,000,000
	Waiters            int `cbor:"3,keyasint"` // 1 .. 100,000,000
	Sessions           int `cbor:"4,keyasint"` // those ended a short while ago count; 1 .. 100,000,000
	RequestsPerSecond  int `cbor:"5,keyasint"` // over all nodes; 1 .. 1,000,000
	AuditRetentionDays int `cbor:"6,keyasint"` // 1 .. 3,650
}

const (
	countMax         = 100_000_000
	requestsMax      = 1_000_000
	retentionDaysMax = 3_650
)

// QuotasDefault is what suits a team's service: 100,000 keys, 50,000 leases, 50,000 waiters, 10,000 sessions, 1,000
// requests per second, 400 days of audit.
func QuotasDefault() Quotas {
	return Quotas{Keys: 100_000, Leases: 50_000, Waiters: 50_000, Sessions: 10_000, RequestsPerSecond: 1_000,
		AuditRetentionDays: 400}
}

// OrDefaults is q with the default in place of every zero.
func (q Quotas) OrDefaults() Quotas { return q.or(QuotasDefault()) }

// or is q with d's in place of every zero.
func (q Quotas) or(d Quotas) Quotas {
	for _, f := range [...]struct{ value, fallback *int }{
		{&q.Keys, &d.Keys}, {&q.Leases, &d.Leases}, {&q.Waiters, &d.Waiters}, {&q.Sessions, &d.Sessions},
		{&q.RequestsPerSecond, &d.RequestsPerSecond}, {&q.AuditRetentionDays, &d.AuditRetentionDays},
	} {
		if *f.value == 0 {
			*f.value = *f.fallback
		}
	}
	return q
}

// wrongField names the first quota out of its range, as the API spells it, or is empty.
func (q Quotas) wrongField() string {
	for _, f := range [...]struct {
		name        string
		value, most int
	}{
		{"quotas.keys", q.Keys, countMax},
		{"quotas.leases", q.Leases, countMax},
		{"quotas.waiters", q.Waiters, countMax},
		{"quotas.sessions", q.Sessions, countMax},
		{"quotas.requests_per_second", q.RequestsPerSecond, requestsMax},
		{"quotas.audit_retention_days", q.AuditRetentionDays, retentionDaysMax},
	} {
		if f.value < 1 || f.value > f.most {
			return f.name
		}
	}
	return ""
}
