package tenants

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// APIKeysPerTenantMax bounds the API keys of a tenant, ended ones included while they are remembered.
	APIKeysPerTenantMax = 1000
	// MakersMax bounds the people who answer for an API key.
	MakersMax = 16
	// EndedKeptMS is how long an ended API key is remembered at least: 30 days. It is forgotten when another key of the
	// tenant is made after that.
	EndedKeptMS int64 = 30 * dayMS
	// EndedPerLineageMax is how many ended keys of one rotation are remembered, however short a while ago they ended.
	EndedPerLineageMax = 16
)

// APIKey is what people may know of an API key; its hash stays in the state.
//
// Makers are all people who created or rotated the key, one before it in its rotation, or a key that made one of these.
// What the key declares counts as authored by each of them, so that nobody signs, by way of an API key, what is his own.
type APIKey struct {
	ID            APIKeyID `cbor:"1,keyasint"`
	Tenant        TenantID `cbor:"2,keyasint,omitempty"` // Platform for an operator's
	Name          string   `cbor:"3,keyasint"`
	Scopes        Scopes   `cbor:"4,keyasint"` // in order
	Lineage       APIKeyID `cbor:"5,keyasint"` // the first key of the rotation, itself if it is that
	CreatedBy     Actor    `cbor:"6,keyasint"` // who created it, or rotated its predecessor
	Makers        []Person `cbor:"7,keyasint"` // who answers for it, in order; 1 .. MakersMax
	CreatedMS     int64    `cbor:"8,keyasint"`
	ExpiresMS     int64    `cbor:"9,keyasint"`
	Predecessor   APIKeyID `cbor:"10,keyasint,omitempty"`
	Successor     APIKeyID `cbor:"11,keyasint,omitempty"`
	OverlapEndsMS int64    `cbor:"12,keyasint,omitempty"` // with a successor: when this one stops
	EndedMS       int64    `cbor:"13,keyasint,omitempty"` // when a command ended it, for people; zero: none did
	Revoked       bool     `cbor:"14,keyasint,omitempty"` // the command was RevokeAPIKey
	LastUsedMS    int64    `cbor:"15,keyasint,omitempty"` // to about UseStepMS; zero: not that anybody knew
}

// KeyState is what an API key is at some moment.
type KeyState uint8

// The states of an API key.
const (
	KeyActive      KeyState = iota + 1 // works
	KeyOverlapping                     // works until its overlap ends
	KeyRotatedOut                      // its overlap is over
	KeyExpired
	KeyRevoked
)

func (k KeyState) String() string {
	names := [...]string{"", "active", "overlapping", "rotated_out", "expired", "revoked"}
	if int(k) >= len(names) {
		return fmt.Sprintf("state(%d)", uint8(k))
	}
	return names[k]
}

// Works reports whether a key in this state is accepted.
func (k KeyState) Works() bool { return k == KeyActive || k == KeyOverlapping }

// State is the key's state at a moment, in milliseconds since the Unix epoch. A key works up to, and not at, its end.
// What a command has ended stays ended whatever the clock says.
func (k APIKey) State(nowMS int64) KeyState {
	switch {
	case k.Revoked:
		return KeyRevoked
	case k.EndedMS != 0:
		return KeyRotatedOut
	case nowMS >= k.ExpiresMS:
		return KeyExpired
	case k.Successor == "":
		return KeyActive
	case nowMS >= k.OverlapEndsMS:
		return KeyRotatedOut
	}
	return KeyOverlapping
}

// endMS is when the key stopped working, or will.
func (k APIKey) endMS() int64 {
	end := k.ExpiresMS
	if k.Successor != "" {
		end = min(end, k.OverlapEndsMS)
	}
	if k.EndedMS != 0 {
		end = min(end, k.EndedMS)
	}
	return end
}

func (k APIKey) copied() APIKey {
	k.Scopes, k.Makers = slices.Clone(k.Scopes), slices.Clone(k.Makers)
	return k
}

// keyRow is an API key in the state. Rows never change, as snapshots share them.
type keyRow struct {
	APIKey APIKey  `cbor:"1,keyasint"`
	Hash   KeyHash `cbor:"2,keyasint"`
}

func (s *State) createAPIKey(c CreateAPIKey) Result {
	c.Scopes = c.Scopes.ordered()
	if field := c.wrongField(); field != "" {
		return refuseField(field)
	}
	key := APIKey{ID: c.Key, Tenant: c.Tenant, Name: c.Name, Scopes: c.Scopes, Lineage: c.Key, CreatedBy: c.By,
		CreatedMS: c.AtMS, ExpiresMS: c.ExpiresMS}
	if known, ok := s.keys.Get(c.Key); ok {
		return repeated(known, keyRow{APIKey: key, Hash: c.Hash})
	}
	if r := s.mayMake(c.By, key, c.AtMS); !r.OK() {
		return r
	}
	return s.addKey(c, keyRow{APIKey: key, Hash: c.Hash}, nil, Event{Kind: EventAPIKeyCreated, Key: key.ID})
}

func (c CreateAPIKey) wrongField() string {
	switch {
	case !c.Key.Valid():
		return "key"
	case c.Hash == KeyHash{}:
		return "hash"
	case !validLabel(c.Name, NameBytesMax):
		return "name"
	case !c.Scopes.valid(c.Tenant):
		return "scopes"
	case !validSpan(c.AtMS, c.ExpiresMS, ExpiryMSMax):
		return "expires"
	}
	return ""
}

// validSpan reports whether end is after start by at most spanMSMax.
func validSpan(startMS, endMS, spanMSMax int64) bool {
	return endMS > startMS && endMS-startMS <= spanMSMax
}

// repeated answers a command whose new key is known already: carried out if it is the same again, else refused.
func repeated(known *keyRow, wanted keyRow) Result {
	k, w := known.APIKey, wanted.APIKey
	if known.Hash.equal(wanted.Hash) && k.Tenant == w.Tenant && k.Name == w.Name && slices.Equal(k.Scopes, w.Scopes) &&
		k.Lineage == w.Lineage && k.Predecessor == w.Predecessor && k.ExpiresMS == w.ExpiresMS && k.CreatedBy == w.CreatedBy {
		return Result{}
	}
	return refuse(RefusedKeyExists)
}

// addKey puts a new key beside those of its tenant. It makes room by forgetting the long ended.
func (s *State) addKey(c Command, row keyRow, inherited []Person, e Event) Result {
	by := c.about().by
	makers, ok := s.makers(by, inherited)
	if !ok {
		return refuse(RefusedTooManyMakers)
	}
	long := func(k *keyRow) bool { return c.about().atMS-k.APIKey.endMS() >= EndedKeptMS }
	keys := s.keysOf(row.APIKey.Tenant)
	if slices.ContainsFunc(keys, func(k *keyRow) bool { return k.APIKey.Lineage == row.APIKey.ID }) {
		return refuse(RefusedKeyExists) // the forgotten first key of a lineage whose sessions would get a second owner
	}
	worn := wornOut(keys, row.APIKey.Lineage, c.about().atMS)
	gone := func(k *keyRow) bool { return long(k) || slices.Contains(worn, k) }
	kept := slices.DeleteFunc(slices.Clone(keys), gone)
	if len(kept) >= APIKeysPerTenantMax {
		return refuse(RefusedTooManyKeys)
	}
	for _, k := range keys {
		if gone(k) {
			s.removeKey(k)
		}
	}
	row.APIKey.Makers = makers
	s.setKey(row)
	e.KeyName = row.APIKey.Name
	s.emit(c, e)
	return Result{}
}

// wornOut are the ended keys of a lineage beyond the newest few: rotating again and again takes no room from others.
func wornOut(keys []*keyRow, lineage APIKeyID, atMS int64) []*keyRow {
	var ended []*keyRow
	for _, k := range keys {
		if k.APIKey.Lineage == lineage && !k.APIKey.State(atMS).Works() {
			ended = append(ended, k)
		}
	}
	slices.SortFunc(ended, func(a, b *keyRow) int {
		return cmp.Or(cmp.Compare(b.APIKey.CreatedMS, a.APIKey.CreatedMS), cmp.Compare(a.APIKey.ID, b.APIKey.ID))
	})
	return ended[min(len(ended), EndedPerLineageMax):]
}

// makers are who answers for a key that by makes: the inherited ones, and by, or those who answer for by.
func (s *State) makers(by Actor, inherited []Person) ([]Person, bool) {
	all := slices.Clone(inherited)
	switch by.Kind {
	case ActorPerson:
		all = append(all, by.Person)
	case ActorAPIKey:
		if maker, ok := s.keys.Get(by.Key); ok {
			all = append(all, maker.APIKey.Makers...)
		}
	case ActorPlatform:
		all = append(all, PlatformMaker)
	}
	slices.SortFunc(all, Person.compare)
	all = slices.Compact(all)
	return all, len(all) <= MakersMax
}

// mayMake refuses a key that by, if it is an API key, must not make, and any for a tenant that is not there.
func (s *State) mayMake(by Actor, key APIKey, atMS int64) Result {
	if key.Tenant != Platform {
		if _, r := s.liveTenant(key.Tenant); !r.OK() {
			return r
		}
	}
	if by.Kind != ActorAPIKey {
		return Result{}
	}
	if !s.administers(by.Key, key.Tenant, atMS) {
		return refuse(RefusedForbidden)
	}
	maker, _ := s.keys.Get(by.Key)
	if !maker.APIKey.Scopes.Covers(key.Scopes) {
		return refuse(RefusedWiderScope)
	}
	return Result{}
}

// administers reports whether the API key works and may deal with API keys of the tenant.
func (s *State) administers(id APIKeyID, tenant TenantID, atMS int64) bool {
	row, ok := s.keys.Get(id)
	if !ok || !row.APIKey.State(atMS).Works() {
		return false
	}
	k := row.APIKey
	return k.Tenant == Platform && k.Scopes.Allows(VerbOperatePlatform, "") ||
		k.Tenant == tenant && k.Scopes.Allows(VerbAdministerTenant, "")
}

// mayChange reports whether by may rotate or end the key: an API key may do so with itself, or as an administrator.
func (s *State) mayChange(by Actor, key APIKey, atMS int64) bool {
	if by.Kind != ActorAPIKey {
		return true
	}
	return by.Key == key.ID && key.State(atMS).Works() || s.administers(by.Key, key.Tenant, atMS)
}

// key is the tenant's API key; a foreign one is as unknown as one that never was.
func (s *State) key(tenant TenantID, id APIKeyID) (*keyRow, Result) {
	row, ok := s.keys.Get(id)
	if !ok || row.APIKey.Tenant != tenant {
		return nil, refuse(RefusedUnknownKey)
	}
	return row, Result{}
}

func (s *State) rotateAPIKey(c RotateAPIKey) Result {
	if field := c.wrongField(); field != "" {
		return refuseField(field)
	}
	old, r := s.key(c.Tenant, c.Key)
	if !r.OK() {
		return r
	}
	next := APIKey{ID: c.Successor, Tenant: c.Tenant, Name: old.APIKey.Name, Scopes: old.APIKey.Scopes,
		Lineage: old.APIKey.Lineage, Predecessor: old.APIKey.ID, CreatedBy: c.By, CreatedMS: c.AtMS, ExpiresMS: c.ExpiresMS}
	if known, ok := s.keys.Get(c.Successor); ok {
		return repeated(known, keyRow{APIKey: next, Hash: c.Hash})
	}
	if r := s.mayRotate(c, old.APIKey); !r.OK() {
		return r
	}
	r = s.addKey(c, keyRow{APIKey: next, Hash: c.Hash}, old.APIKey.Makers,
		Event{Kind: EventAPIKeyRotated, Key: c.Key, Successor: c.Successor})
	if !r.OK() {
		return r
	}
	rotated := *old
	rotated.APIKey.Successor, rotated.APIKey.OverlapEndsMS = c.Successor, c.OverlapEndsMS
	s.setKey(rotated)
	return Result{}
}

func (c RotateAPIKey) wrongField() string {
	switch {
	case !c.Successor.Valid():
		return "successor"
	case c.Hash == KeyHash{}:
		return "hash"
	case !validSpan(c.AtMS, c.ExpiresMS, ExpiryMSMax):
		return "expires"
	case c.OverlapEndsMS < c.AtMS || c.OverlapEndsMS-c.AtMS > OverlapMSMax:
		return "overlap_ends"
	}
	return ""
}

// mayRotate refuses the rotation of a key that has ended or has a successor, and by whom it must not be. An API key that
// rotates another would get to know its successor's secret, and so must cover it.
func (s *State) mayRotate(c RotateAPIKey, old APIKey) Result {
	switch {
	case old.Successor != "":
		return refuse(RefusedAlreadyRotated)
	case !s.mayChange(c.By, old, c.AtMS):
		return refuse(RefusedForbidden)
	case !old.State(c.AtMS).Works():
		return refuse(RefusedKeyEnded)
	case c.By.Kind == ActorAPIKey && c.By.Key != old.ID:
		return s.mayMake(c.By, old, c.AtMS)
	case c.By.Kind == ActorAPIKey && c.ExpiresMS-c.AtMS > old.ExpiresMS-old.CreatedMS:
		return refuseField("expires") // what somebody gave a short life does not give itself a longer one
	}
	return Result{}
}

func (s *State) revokeAPIKey(c RevokeAPIKey) Result {
	if !validText(c.Note, NoteBytesMax) {
		return refuseField("note")
	}
	row, r := s.key(c.Tenant, c.Key)
	switch {
	case !r.OK():
		return r
	case !s.mayChange(c.By, row.APIKey, c.AtMS):
		return refuse(RefusedForbidden)
	case row.APIKey.Revoked:
		return Result{}
	}
	revoked := *row
	revoked.APIKey.Revoked, revoked.APIKey.EndedMS = true, c.AtMS
	s.setKey(revoked)
	s.emit(c, Event{Kind: EventAPIKeyRevoked, KeyName: revoked.APIKey.Name})
	return Result{}
}

func (s *State) endOverlap(c EndOverlap) Result {
	row, r := s.key(c.Tenant, c.Key)
	switch {
	case !r.OK():
		return r
	case !s.mayChange(c.By, row.APIKey, c.AtMS):
		return refuse(RefusedForbidden)
	case row.APIKey.Successor == "":
		return refuse(RefusedNoOverlap)
	case row.APIKey.EndedMS != 0:
		return Result{}
	}
	ended := *row
	ended.APIKey.EndedMS = c.AtMS
	s.setKey(ended)
	s.emit(c, Event{Kind: EventOverlapEnded, KeyName: ended.APIKey.Name})
	return Result{}
}
