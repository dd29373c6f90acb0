package tenants

// recordKeyUses keeps the uses that are news.
func (s *State) recordKeyUses(c RecordKeyUses) Result {
	if !validUses(c.Uses) {
		return refuseField("uses")
	}
	for _, u := range c.Uses {
		row, known := s.keys.Get(u.Key)
		if at := min(u.AtMS, c.AtMS); known && row.APIKey.useIsNews(at) {
			used := *row
			used.APIKey.LastUsedMS = at
			s.setKey(used)
		}
	}
	return Result{}
}

// useIsNews reports whether a use at that moment, in milliseconds since the Unix epoch, is worth an entry of the log.
func (k APIKey) useIsNews(atMS int64) bool { return atMS-k.LastUsedMS >= UseStepMS }

func validUses(uses []KeyUse) bool {
	if len(uses) == 0 || len(uses) > KeyUsesMax {
		return false
	}
	for i, u := range uses {
		if !u.Key.Valid() || !validTime(u.AtMS) || i > 0 && u.Key <= uses[i-1].Key {
			return false
		}
	}
	return true
}

// UseIsNews reports whether there is an API key of that id, whosever it is, and a use of it at that moment is worth an
// entry of the log.
func (s *State) UseIsNews(id APIKeyID, atMS int64) bool {
	row, known := s.keys.Get(id)
	return known && row.APIKey.useIsNews(atMS)
}
