package tenants

import (
	"errors"
	"fmt"
	"slices"
)

var (
	errNotInOrder = errors.New("not in order")
	errBroken     = errors.New("breaks a rule")
)

// restore takes everything of a snapshot in.
func (s *State) restore(w wireState) error {
	for _, t := range w.Tenants {
		if err := s.restoreTenant(t); err != nil {
			return err
		}
	}
	for _, row := range w.Keys {
		if err := s.restoreKey(row); err != nil {
			return err
		}
	}
	return nil
}

// restoreTenant takes a tenant of a snapshot in, which holds them in order and as the commands make them.
func (s *State) restoreTenant(t *Tenant) error {
	if t == nil {
		return errBroken
	}
	if last, _, ok := s.tenants.Max(); ok && t.ID <= last {
		return fmt.Errorf("tenant %.80q: %w", t.ID, errNotInOrder)
	}
	if !t.sound() {
		return fmt.Errorf("tenant %.80q: %w", t.ID, errBroken)
	}
	s.tenants.Set(t.ID, t)
	return nil
}

// sound reports whether commands can have led to t.
func (t *Tenant) sound() bool {
	put := PutTenant{Tenant: t.ID, OwnerGroups: t.OwnerGroups, Quotas: t.Quotas, Partition: t.Partition}
	return put.wrongField() == "" && inOrder(t.OwnerGroups) && t.Partition != 0 &&
		(t.TokenBase <= TokenBaseMax || t.TokenFinal && t.TokenBase < TokenLimit) &&
		(t.Dropped || !t.TokenFinal) && !(t.Dropped && t.Suspended) && validTime(t.CreatedMS) && validTime(t.ChangedMS)
}

func inOrder(groups []Group) bool {
	return slices.IsSorted(groups) && len(slices.Compact(slices.Clone(groups))) == len(groups)
}

// restoreKey takes an API key of a snapshot in, after all tenants.
func (s *State) restoreKey(row *keyRow) error {
	if row == nil {
		return errBroken
	}
	k := row.APIKey
	if last, _, ok := s.keys.Max(); ok && k.ID <= last {
		return fmt.Errorf("API key %.80q: %w", k.ID, errNotInOrder)
	}
	if _, r := s.liveTenant(k.Tenant); k.Tenant != Platform && !r.OK() {
		return fmt.Errorf("API key %.80q: %s", k.ID, r.Reason)
	}
	if !row.sound() {
		return fmt.Errorf("API key %.80q: %w", k.ID, errBroken)
	}
	s.setKey(*row)
	return nil
}

// sound reports whether commands can have led to the row.
func (row *keyRow) sound() bool {
	k := row.APIKey
	made := CreateAPIKey{Tenant: k.Tenant, Key: k.ID, Hash: row.Hash, Name: k.Name, Scopes: k.Scopes,
		ExpiresMS: k.ExpiresMS, By: k.CreatedBy, AtMS: k.CreatedMS}
	return made.wrongField() == "" && slices.Equal(k.Scopes, k.Scopes.ordered()) && k.CreatedBy.valid() &&
		validTime(k.CreatedMS) && soundMakers(k.Makers) && k.soundRotation() &&
		(k.EndedMS == 0 || validTime(k.EndedMS)) && (k.LastUsedMS == 0 || validTime(k.LastUsedMS)) && (!k.Revoked || k.EndedMS != 0)
}

func soundMakers(makers []Person) bool {
	ordered := slices.IsSortedFunc(makers, Person.compare) && len(slices.Compact(slices.Clone(makers))) == len(makers)
	return ordered && len(makers) > 0 && len(makers) <= MakersMax &&
		!slices.ContainsFunc(makers, func(p Person) bool { return !p.valid() })
}

// soundRotation reports whether the key's place in its rotation makes sense by itself. Its neighbours may have been
// forgotten.
func (k APIKey) soundRotation() bool {
	first := k.Predecessor == ""
	return k.Lineage.Valid() && first == (k.Lineage == k.ID) && (first || k.Predecessor.Valid()) &&
		(k.Successor == "") == (k.OverlapEndsMS == 0) && (k.Successor == "" || k.Successor.Valid())
}
