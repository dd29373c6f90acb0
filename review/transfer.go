package review

func (s *State) transferOwner(t TransferOwner) Result {
	if !t.valid() {
		return refuse(RefusedInvalid)
	}
	c := s.tenants[t.Tenant][t.Class]
	if c == nil {
		return refuse(RefusedUnknown)
	}
	v, signed := c.Version(c.Current)
	switch {
	case !signed:
		return refuse(RefusedNeverSigned)
	case c.Owner() == t.To && c.Successor != "":
		return unchanged(v)
	case c.Owner() != t.From:
		return refuse(RefusedNotOwner)
	}
	c.Successor = t.To
	c.askAnew()
	return about(v, c.event(EventOwnerChanged, v, t.By.ID, t.Reason, t.AtMS))
}

func (t TransferOwner) valid() bool {
	return t.By.valid() && reasonText.accepts(t.Reason) && groupText.accepts(string(t.From)) &&
		groupText.accepts(string(t.To)) && t.From != t.To
}

// askAnew holds the versions in review to the present owner, and takes their signatures back.
func (c *Class) askAnew() {
	for _, v := range c.InReview() {
		v.Signatures, v.Required = nil, c.required(v.Posture.Owner)
		c.put(v)
	}
}
