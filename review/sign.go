package review

import "slices"

func (s *State) sign(g Sign) Result {
	if !g.Signer.valid() || len(g.SignerGroups) > GroupsMax || len(g.Ticked) > WarningsMax || g.ClaimsVersion < 1 {
		return refuse(RefusedInvalid)
	}
	c := s.tenants[g.Tenant][g.Class]
	v, known := version(c, g.Version)
	switch {
	case !known:
		return refuse(RefusedUnknown)
	case v.signedBy(g.Signer, g.Digest):
		return unchanged(v)
	}
	if why := c.refusal(v, g); why != "" {
		return refuse(why)
	}
	return c.addSignature(v, g)
}

// signedBy reports whether p's signature is there and still means something, so that a repeated request can be told so.
func (v Version) signedBy(p Person, d Digest) bool {
	return v.Digest == d && (v.State == StateInReview || v.State == StateSigned) &&
		slices.ContainsFunc(v.Signatures, func(s Signature) bool {
			return s.Signer.Issuer == p.Issuer && s.Signer.Subject == p.Subject
		})
}

// refusal is why g may not sign v, or nothing.
func (c *Class) refusal(v Version, g Sign) Refusal {
	switch {
	case v.State != StateInReview:
		return RefusedNotInReview
	case v.Digest != g.Digest:
		return RefusedDigest
	case c.Stale(v):
		return RefusedStaleBase
	case !PurposeAllowed(c.Purpose, v.Posture.Purpose):
		return RefusedPurpose
	case v.Author.includes(g.Signer):
		return RefusedAuthor
	case len(common(v.Required, g.SignerGroups)) == 0:
		return RefusedNotOwner
	case !freshAuth(g.AuthTimeMS, g.AtMS):
		return RefusedStaleAuth
	case !slices.Equal(v.Warnings, sorted(g.Ticked)):
		return RefusedWarnings
	}
	return ""
}

func freshAuth(authMS, atMS int64) bool {
	return authMS > 0 && atMS > 0 && authMS >= atMS-AuthAgeMSMax && authMS <= atMS+authSkewMS
}

// addSignature takes a signature that may be given. One that speaks for no group still missing adds nothing.
func (c *Class) addSignature(v Version, g Sign) Result {
	groups := common(v.Missing(), g.SignerGroups)
	if len(groups) == 0 {
		return unchanged(v)
	}
	v.Signatures = append(slices.Clone(v.Signatures), Signature{Signer: g.Signer, Groups: groups, Ticked: sorted(g.Ticked),
		ClaimsVersion: g.ClaimsVersion, AuthTimeMS: g.AuthTimeMS, AtMS: g.AtMS})
	who := g.Signer.Shown()
	if len(v.Missing()) > 0 {
		c.put(v)
		return about(v, c.event(EventSignatureAdded, v, who, "", g.AtMS))
	}
	v.State = StateSigned
	events := append(c.supersede(g.AtMS, who), c.event(EventSigned, v, who, "", g.AtMS))
	c.put(v)
	c.Current, c.Purpose, c.Retired, c.Successor = v.Number, v.Posture.Purpose, false, ""
	return about(v, events...)
}

// supersede ends the version signed last. A retired one stays retired: it was over before.
func (c *Class) supersede(atMS int64, by string) []Event {
	old, signed := c.Version(c.Current)
	if !signed || old.State != StateSigned {
		return nil
	}
	old.State = StateSuperseded
	c.put(old)
	return []Event{c.event(EventSuperseded, old, by, "", atMS)}
}

func (s *State) reject(r Reject) Result {
	if !r.By.valid() || len(r.Groups) > GroupsMax || !reasonText.accepts(r.Reason) {
		return refuse(RefusedInvalid)
	}
	c := s.tenants[r.Tenant][r.Class]
	v, known := version(c, r.Version)
	switch {
	case !known:
		return refuse(RefusedUnknown)
	case v.State != StateInReview:
		return refuse(RefusedNotInReview)
	case v.Digest != r.Digest:
		return refuse(RefusedDigest)
	case len(common(v.Required, r.Groups)) == 0:
		return refuse(RefusedNotOwner)
	}
	v.State = StateRejected
	v.Decision = Decision{By: r.By.Shown(), Reason: r.Reason, AtMS: r.AtMS}
	c.put(v)
	return about(v, c.event(EventRejected, v, v.Decision.By, r.Reason, r.AtMS))
}

// Shown is how a person is named to people.
func (p Person) Shown() string {
	if p.Email != "" {
		return p.Email
	}
	return p.Subject
}

// common are the groups of list, in its order, that are in other too.
func common(list, other []Group) []Group {
	var both []Group
	for _, g := range list {
		if slices.Contains(other, g) {
			both = append(both, g)
		}
	}
	return both
}

func sorted(rules []RuleID) []RuleID {
	rules = slices.Clone(rules)
	slices.Sort(rules)
	return rules
}
