package lockcore

// Command is one change that the leader proposes. Commands of an entry share the entry's epoch and lease clock.
type Command interface{ kind() Kind }

// Kind numbers a command in the log. Numbers are never reused.
type Kind uint16

// The command kinds. All of them belong to level 1.
const (
	KindAdvanceEpoch Kind = iota + 1
	KindPutTenant
	KindDropTenant
	KindPutClass
	KindRetireClass
	KindAcquire
	KindRelease
	KindExpire
	KindEndDelay
	KindLeave
	KindWaiterGone
	KindMarkEnding
	KindEndSession
	KindForgetSession
	KindLeaseClock
	KindExtend
	KindCheckpoint
	KindRaiseLevel
	KindReportGuard
)

// AdvanceEpoch is a new leader's first entry. The number is assigned when it is applied; it travels alone and is the
// only command that no epoch fences.
type AdvanceEpoch struct {
	Node string `cbor:"1,keyasint"` // the leader's node id, for people
}

// PutTenant makes a tenant known to the partition, or changes its quotas. Its tokens go on above the larger of TokenBase
// and what the slug has reached, also as a tenant that was dropped. A Revision below the highest seen of the slug is
// RefusedStaleVersion, and so is one not above it of a slug that is gone: a leader whose copy of the control log lags
// never takes back what an earlier leader put.
type PutTenant struct {
	Tenant    TenantID `cbor:"1,keyasint"`
	TokenBase Token    `cbor:"2,keyasint,omitempty"` // 0 .. TokenBaseMax
	Quotas    Quotas   `cbor:"3,keyasint"`
	Suspended bool     `cbor:"4,keyasint,omitempty"` // takes no new acquire; what is held or queued runs on
	Revision  uint64   `cbor:"5,keyasint,omitempty"` // of the control log, from which the command was made
}

// PerSessionMax bounds Quotas.PerSession, and with it what one EndSession ends.
const PerSessionMax = 10_000

// quotaMax bounds the other quotas.
const quotaMax = 100_000_000

// Quotas bound what a tenant may keep in a partition. Each is at least 1 and, but for PerSession, at most 100,000,000.
type Quotas struct {
	Keys     int `cbor:"1,keyasint"` // keys with a holder, a queue or a lock delay
	Leases   int `cbor:"2,keyasint"` // keys with a holder or a lock delay
	Waiters  int `cbor:"3,keyasint"`
	Sessions int `cbor:"4,keyasint"` // ended ones count until they are forgotten

	PerSession int `cbor:"5,keyasint"` // leases held and requests waiting of one session: 1 .. PerSessionMax
	Ends       int `cbor:"6,keyasint"` // remembered ends; a session that would exceed them forgets its own oldest
}

// DropTenant grants nothing and takes no class of the tenant from now on; what is held may be given back. When its last
// lease and waiter are gone, nothing of it stays but its final token and its revision. A Revision below the highest seen
// of the slug is RefusedStaleVersion.
type DropTenant struct {
	Tenant   TenantID `cbor:"1,keyasint"`
	By       string   `cbor:"2,keyasint,omitempty"`
	Revision uint64   `cbor:"3,keyasint,omitempty"` // of the control log, from which the command was made
}

// PutClass puts a signed version of a class in force.
type PutClass struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Class  Class    `cbor:"2,keyasint"`
}

// RetireClass ends a class: it grants no more, and the name keeps its purpose. It names the version that it retires; a
// higher one in force is RefusedStaleVersion, and the retired class comes back only with a version above both.
type RetireClass struct {
	Tenant  TenantID  `cbor:"1,keyasint"`
	Class   ClassName `cbor:"2,keyasint"`
	By      string    `cbor:"3,keyasint,omitempty"`
	Version uint64    `cbor:"4,keyasint"` // from 1
}

// WaitUnlimited asks to queue without a deadline; only a class without a max_wait allows it.
const WaitUnlimited = -1

// Acquire asks for a lease, or to queue for it. The same id again answers what the id already is and never grants twice.
type Acquire struct {
	Tenant TenantID  `cbor:"1,keyasint"`
	Owner  OwnerID   `cbor:"2,keyasint"`
	Lease  LeaseID   `cbor:"3,keyasint"`
	Class  ClassName `cbor:"4,keyasint"`
	Key    Key       `cbor:"5,keyasint"`
	WaitMS int64     `cbor:"6,keyasint,omitempty"` // 0: try once; WaitUnlimited
	Holder string    `cbor:"7,keyasint,omitempty"` // label for people, at most HolderBytesMax
	APIKey string    `cbor:"8,keyasint,omitempty"` // id of the API key that asks, for people
}

// Release ends the lease, or leaves the queue, and grants to the next waiter in the same entry. An id never seen is
// burned, so that an acquire which arrives later grants nothing.
type Release struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Owner  OwnerID  `cbor:"2,keyasint"`
	Lease  LeaseID  `cbor:"3,keyasint"`
	Token  Token    `cbor:"4,keyasint,omitempty"` // 0: not given; else it must match
}

// Expire ends a lease whose deadline has passed on the leader's clock. A long lease is refused before its logged deadline.
type Expire struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Lease  LeaseID  `cbor:"2,keyasint"`
	Token  Token    `cbor:"3,keyasint"`
	Missed bool     `cbor:"4,keyasint,omitempty"` // the pick-up window passed and nobody fetched it: no lock delay
}

// EndDelay ends the lock delay that followed the grant with Token.
type EndDelay struct {
	Tenant TenantID  `cbor:"1,keyasint"`
	Class  ClassName `cbor:"2,keyasint"`
	Key    Key       `cbor:"3,keyasint"`
	Token  Token     `cbor:"4,keyasint"`
}

// Leave takes one waiter out of its queue. It changes nothing when the waiter has been granted meanwhile.
type Leave struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Lease  LeaseID  `cbor:"2,keyasint"`
	Cause  Reason   `cbor:"3,keyasint"` // WaitTimeout, Disconnected, ClassRetired or TenantDropped
}

// WaiterGoneMax bounds the leases of one WaiterGone.
const WaiterGoneMax = 256

// WaiterGone takes waiters that stopped polling out of their queues. Those granted or gone meanwhile are passed over.
type WaiterGone struct {
	Tenant TenantID  `cbor:"1,keyasint"`
	Leases []LeaseID `cbor:"2,keyasint"` // 1 .. WaiterGoneMax
}

// MarkEnding ends a hold from outside: the holder is told, and the next grant waits for its release or for the leader's
// timer. With Now it does not wait, which is outside the promise of mutual exclusion.
type MarkEnding struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Lease  LeaseID  `cbor:"2,keyasint"`
	Token  Token    `cbor:"3,keyasint"`
	Cause  Reason   `cbor:"4,keyasint"` // Forced, MaxHold, ClassRetired or TenantDropped
	By     string   `cbor:"5,keyasint,omitempty"`
	Note   string   `cbor:"6,keyasint,omitempty"` // the person's reason
	Now    bool     `cbor:"7,keyasint,omitempty"`
}

// EndSession releases all that a session holds and leaves all its queues. An unseen session is burned.
type EndSession struct {
	Tenant  TenantID  `cbor:"1,keyasint"`
	Owner   OwnerID   `cbor:"2,keyasint"`
	Session SessionID `cbor:"3,keyasint"`
}

// ForgetSession drops what is remembered of a session that holds and waits for nothing.
type ForgetSession struct {
	Tenant  TenantID  `cbor:"1,keyasint"`
	Session SessionID `cbor:"2,keyasint"`
}

// LeaseClock carries nothing but its entry's lease clock.
type LeaseClock struct{}

// Extend gives a long lease its full term from the entry's lease clock, and takes up one that was handed over.
type Extend struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Lease  LeaseID  `cbor:"2,keyasint"`
	Token  Token    `cbor:"3,keyasint"`
}

// Checkpoint states the leader's rolling hash at an index; a machine that had another says so by Divergence.
type Checkpoint struct {
	Index uint64   `cbor:"1,keyasint"`
	Hash  [32]byte `cbor:"2,keyasint"`
}

// RejectionsMax bounds the rejections of one ReportGuard.
const RejectionsMax = 64

// CountMax bounds what a guard counts, so that JSON carries it exactly.
const CountMax = 1<<53 - 1

// ReporterID is 128 random bits that a guard draws for one run of itself.
type ReporterID [16]byte

// ReportGuard is what a guard at the resource tells: how many tokens it has checked since its last report, and which stale
// ones it has refused. A reporter numbers its reports from 1 and may leave numbers out; one that is not above the last one
// seen of it is Done and changes nothing. A class that the partition has never had is RefusedUnknown.
type ReportGuard struct {
	Tenant     TenantID    `cbor:"1,keyasint"`
	Class      ClassName   `cbor:"2,keyasint"` // retired ones too
	Key        Key         `cbor:"3,keyasint"`
	Reporter   ReporterID  `cbor:"4,keyasint"`           // not all zeros
	Sequence   uint64      `cbor:"5,keyasint"`           // 1 .. SequenceMax
	Checks     uint64      `cbor:"6,keyasint,omitempty"` // tokens checked, those refused included: 0 .. CountMax
	Rejections []Rejection `cbor:"7,keyasint"`           // at most RejectionsMax
	APIKey     string      `cbor:"8,keyasint,omitempty"` // id of the API key that reports, for people
}

// Rejection is a stale token that a guard refused, once or more often.
type Rejection struct {
	Token   Token  `cbor:"1,keyasint,omitempty"` // the token refused; 0: of an unprotected grant, or none was given
	Highest Token  `cbor:"2,keyasint"`           // the highest that the guard had seen: above Token, at most CountMax
	Count   uint64 `cbor:"3,keyasint"`           // how often: 1 .. CountMax
	AtMS    int64  `cbor:"4,keyasint,omitempty"` // when last, on the guard's wall clock, milliseconds since the Unix epoch, for people
}

// RaiseLevel lets leaders propose the command kinds of the next level, once every voter knows them.
type RaiseLevel struct {
	Level uint16 `cbor:"1,keyasint"`
}

func (AdvanceEpoch) kind() Kind  { return KindAdvanceEpoch }
func (PutTenant) kind() Kind     { return KindPutTenant }
func (DropTenant) kind() Kind    { return KindDropTenant }
func (PutClass) kind() Kind      { return KindPutClass }
func (RetireClass) kind() Kind   { return KindRetireClass }
func (Acquire) kind() Kind       { return KindAcquire }
func (Release) kind() Kind       { return KindRelease }
func (Expire) kind() Kind        { return KindExpire }
func (EndDelay) kind() Kind      { return KindEndDelay }
func (Leave) kind() Kind         { return KindLeave }
func (WaiterGone) kind() Kind    { return KindWaiterGone }
func (MarkEnding) kind() Kind    { return KindMarkEnding }
func (EndSession) kind() Kind    { return KindEndSession }
func (ForgetSession) kind() Kind { return KindForgetSession }
func (LeaseClock) kind() Kind    { return KindLeaseClock }
func (Extend) kind() Kind        { return KindExtend }
func (Checkpoint) kind() Kind    { return KindCheckpoint }
func (RaiseLevel) kind() Kind    { return KindRaiseLevel }
func (ReportGuard) kind() Kind   { return KindReportGuard }
