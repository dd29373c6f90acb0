package tenants

import "fmt"

// Command is one change that is asked of the state. Its encoding is CBOR with integer keys, part of the log format:
// numbers are never reused, and a changed meaning is a new kind.
type Command interface {
	Kind() Kind
	// about names whom the command concerns, who asks, and when, for checks and events that all commands share.
	about() about
}

// Kind numbers a command. Part of the log format.
type Kind uint16

// The kinds.
const (
	KindPutTenant Kind = iota + 1
	KindSuspendTenant
	KindResumeTenant
	KindDropTenant
	KindRecordFinalToken
	KindCreateAPIKey
	KindRotateAPIKey
	KindRevokeAPIKey
	KindEndOverlap
	KindChangeTenant
	KindRecordKeyUses
	kindCount // not a kind
)

// String is the command's name in the audit.
func (k Kind) String() string {
	names := [...]string{"", "put_tenant", "suspend_tenant", "resume_tenant", "drop_tenant", "record_final_token",
		"create_api_key", "rotate_api_key", "revoke_api_key", "end_overlap", "change_tenant", "record_key_uses"}
	if k == 0 || k >= kindCount {
		return fmt.Sprintf("kind(%d)", uint16(k))
	}
	return names[k]
}

// PutTenant makes a tenant, or changes owner groups and quotas of one. The same again changes nothing and is no refusal,
// so that it may be repeated.
//
// A tenant's partition and token base are fixed when it is made: changing them here would let two partitions grant the
// same key. On a known tenant they are zero (keep) or what they are; else RefusedPlacementFixed.
//
// With a partition, a dropped tenant is made again once its final token is recorded, and until then refused with
// RefusedTenantEnding. It has no API keys and is not suspended, and its tokens count from above all that its earlier
// lives can have issued. Without a partition, or Create, a dropped tenant is RefusedTenantDropped.
type PutTenant struct {
	Tenant      TenantID    `cbor:"1,keyasint"`
	OwnerGroups []Group     `cbor:"2,keyasint"` // whose people sign the tenant's postures; 1 .. OwnerGroupsMax
	Quotas      Quotas      `cbor:"3,keyasint"`
	Partition   PartitionID `cbor:"4,keyasint,omitempty"`
	TokenBase   uint64      `cbor:"5,keyasint,omitempty"` // tokens count from above it; 0 .. TokenBaseMax
	Create      bool        `cbor:"6,keyasint,omitempty"` // refuse, with RefusedTenantExists, to change a known tenant
	By          Actor       `cbor:"7,keyasint"`
	AtMS        int64       `cbor:"8,keyasint"`
}

// SuspendTenant stops new leases of a tenant. What it holds runs on, and its API keys work.
type SuspendTenant struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Note   string   `cbor:"2,keyasint"` // the reason, compulsory
	By     Actor    `cbor:"3,keyasint"`
	AtMS   int64    `cbor:"4,keyasint"`
}

// ResumeTenant ends a suspension.
type ResumeTenant struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Note   string   `cbor:"2,keyasint,omitempty"`
	By     Actor    `cbor:"3,keyasint"`
	AtMS   int64    `cbor:"4,keyasint"`
}

// DropTenant ends a tenant: its API keys are gone with the entry. Its slug stays taken, and can be given again to nobody
// but the same tenant's successor, by PutTenant.
type DropTenant struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Note   string   `cbor:"2,keyasint"` // the reason, compulsory
	By     Actor    `cbor:"3,keyasint"`
	AtMS   int64    `cbor:"4,keyasint"`
}

// ChangeTenant changes what it names and keeps the rest, so that two who change different things do not undo each other's.
type ChangeTenant struct {
	Tenant      TenantID `cbor:"1,keyasint"`
	OwnerGroups []Group  `cbor:"2,keyasint,omitempty"` // none: keep them
	Quotas      Quotas   `cbor:"3,keyasint"`           // zero: keep that one
	By          Actor    `cbor:"4,keyasint"`
	AtMS        int64    `cbor:"5,keyasint"`
}

// RecordFinalToken keeps with a dropped tenant the last token that its partition issued. It never lowers what is known. A
// token that only an earlier life of the slug can have ended with is late and RefusedStaleToken.
type RecordFinalToken struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Token  uint64   `cbor:"2,keyasint"` // below TokenLimit
	AtMS   int64    `cbor:"3,keyasint"`
}

// CreateAPIKey makes an API key, of which the proposer has drawn the id and kept nothing but the hash. The same again
// changes nothing and is no refusal.
//
// Made by an API key, the new one is no wider: its tenant is the maker's own, the maker administers it, and the maker's
// scopes cover the new one's. A maker of the platform may make any.
type CreateAPIKey struct {
	Tenant    TenantID `cbor:"1,keyasint"` // Platform for an operator's
	Key       APIKeyID `cbor:"2,keyasint"`
	Hash      KeyHash  `cbor:"3,keyasint"`
	Name      string   `cbor:"4,keyasint"` // for people, 1 .. NameBytesMax bytes
	Scopes    Scopes   `cbor:"5,keyasint"` // 1 .. ScopesMax
	ExpiresMS int64    `cbor:"6,keyasint"` // after AtMS, by at most ExpiryMSMax
	By        Actor    `cbor:"7,keyasint"`
	AtMS      int64    `cbor:"8,keyasint"`
}

// RotateAPIKey makes a successor with the same name, scopes and lineage. The old key works until OverlapEndsMS, at the
// latest until its own expiry. A key has one successor. One that rotates itself gives the successor no longer a life than it
// was given.
type RotateAPIKey struct {
	Tenant        TenantID `cbor:"1,keyasint"`
	Key           APIKeyID `cbor:"2,keyasint"` // the old one
	Successor     APIKeyID `cbor:"3,keyasint"`
	Hash          KeyHash  `cbor:"4,keyasint"` // the successor's
	ExpiresMS     int64    `cbor:"5,keyasint"` // the successor's: after AtMS, by at most ExpiryMSMax
	OverlapEndsMS int64    `cbor:"6,keyasint"` // from AtMS, by at most OverlapMSMax
	By            Actor    `cbor:"7,keyasint"`
	AtMS          int64    `cbor:"8,keyasint"`
}

// RevokeAPIKey ends one key on every node that has applied it, whatever its clock says. A key of the same rotation is
// not touched.
type RevokeAPIKey struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Key    APIKeyID `cbor:"2,keyasint"`
	Note   string   `cbor:"3,keyasint,omitempty"`
	By     Actor    `cbor:"4,keyasint"`
	AtMS   int64    `cbor:"5,keyasint"`
}

// EndOverlap ends a rotated key before its overlap is over.
type EndOverlap struct {
	Tenant TenantID `cbor:"1,keyasint"`
	Key    APIKeyID `cbor:"2,keyasint"` // the old one
	By     Actor    `cbor:"3,keyasint"`
	AtMS   int64    `cbor:"4,keyasint"`
}

// RecordKeyUses keeps when API keys were used last, as the nodes noticed. Keys that are not there are passed over, and so
// are uses that are newer than what is known by less than UseStepMS.
type RecordKeyUses struct {
	Uses []KeyUse `cbor:"1,keyasint"` // 1 .. KeyUsesMax, in the order of their keys, each there once
	AtMS int64    `cbor:"2,keyasint"`
}

// KeyUse is when an API key was last used.
type KeyUse struct {
	_    struct{} `cbor:",toarray"`
	Key  APIKeyID
	AtMS int64 // one after the command's own time counts as that
}

const (
	// KeyUsesMax bounds the uses in one RecordKeyUses.
	KeyUsesMax = 256
	// UseStepMS is how much newer a use must be to be kept: 10 minutes. The log is not written for less.
	UseStepMS int64 = 10 * 60 * 1000
)

const dayMS = 24 * 60 * 60 * 1000

const (
	// ExpiryMSMax bounds the life of an API key: 366 days.
	ExpiryMSMax int64 = 366 * dayMS
	// OverlapMSMax bounds the time in which a rotated key still works: 30 days.
	OverlapMSMax int64 = 30 * dayMS
)

// about is what all commands share.
type about struct {
	tenant TenantID
	key    APIKeyID
	by     Actor
	note   string
	atMS   int64
}

// Kind is KindPutTenant.
func (PutTenant) Kind() Kind { return KindPutTenant }

// Kind is KindSuspendTenant.
func (SuspendTenant) Kind() Kind { return KindSuspendTenant }

// Kind is KindResumeTenant.
func (ResumeTenant) Kind() Kind { return KindResumeTenant }

// Kind is KindDropTenant.
func (DropTenant) Kind() Kind { return KindDropTenant }

// Kind is KindRecordFinalToken.
func (RecordFinalToken) Kind() Kind { return KindRecordFinalToken }

// Kind is KindCreateAPIKey.
func (CreateAPIKey) Kind() Kind { return KindCreateAPIKey }

// Kind is KindRotateAPIKey.
func (RotateAPIKey) Kind() Kind { return KindRotateAPIKey }

// Kind is KindRevokeAPIKey.
func (RevokeAPIKey) Kind() Kind { return KindRevokeAPIKey }

// Kind is KindEndOverlap.
func (EndOverlap) Kind() Kind { return KindEndOverlap }

// Kind is KindChangeTenant.
func (ChangeTenant) Kind() Kind { return KindChangeTenant }

// Kind is KindRecordKeyUses.
func (RecordKeyUses) Kind() Kind { return KindRecordKeyUses }

func (c PutTenant) about() about { return about{tenant: c.Tenant, by: c.By, atMS: c.AtMS} }
func (c SuspendTenant) about() about {
	return about{tenant: c.Tenant, by: c.By, note: c.Note, atMS: c.AtMS}
}
func (c ResumeTenant) about() about {
	return about{tenant: c.Tenant, by: c.By, note: c.Note, atMS: c.AtMS}
}
func (c DropTenant) about() about {
	return about{tenant: c.Tenant, by: c.By, note: c.Note, atMS: c.AtMS}
}
func (c RecordFinalToken) about() about {
	return about{tenant: c.Tenant, by: Actor{Kind: ActorPlatform}, atMS: c.AtMS}
}
func (c CreateAPIKey) about() about {
	return about{tenant: c.Tenant, key: c.Key, by: c.By, atMS: c.AtMS}
}
func (c RotateAPIKey) about() about {
	return about{tenant: c.Tenant, key: c.Key, by: c.By, atMS: c.AtMS}
}
func (c RevokeAPIKey) about() about {
	return about{tenant: c.Tenant, key: c.Key, by: c.By, note: c.Note, atMS: c.AtMS}
}
func (c ChangeTenant) about() about  { return about{tenant: c.Tenant, by: c.By, atMS: c.AtMS} }
func (c RecordKeyUses) about() about { return about{by: ByPlatform(), atMS: c.AtMS} }
func (c EndOverlap) about() about    { return about{tenant: c.Tenant, key: c.Key, by: c.By, atMS: c.AtMS} }
