package lockcore

import (
	"fmt"
	"strings"
)

// Check looks for a contradiction between the tables: a key held by a lease that is not, two holders, a count that is
// off, a free key with a queue. A healthy machine has none; it takes time proportional to the state.
func (m *Machine) Check() error {
	var err error
	m.tenants.Scan(func(id string, t *tenant) bool {
		if err = t.check(m); err != nil {
			err = fmt.Errorf("tenant %s: %w", id, err)
		} else if _, gone := m.dropped.Get(id); gone {
			err = fmt.Errorf("tenant %s is known and gone", id)
		}
		return err == nil
	})
	return err
}

func (t *tenant) check(m *Machine) error {
	if err := t.checkLeases(m); err != nil {
		return err
	}
	if err := t.checkKeys(); err != nil {
		return err
	}
	return t.checkGuards(m)
}

func (t *tenant) checkLeases(m *Machine) error {
	live, ends, waiting, held := map[SessionID]int{}, map[SessionID]int{}, 0, 0
	var err error
	t.leases.Scan(func(_ string, l *Lease) bool {
		err = t.checkLease(m, l)
		switch l.State {
		case StateWaiting:
			live[l.ID.Session]++
			waiting++
		case StateHeld:
			live[l.ID.Session]++
			held++
		case StateEnded:
			ends[l.ID.Session]++
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	ended := 0
	t.sessions.Scan(func(_ string, s *Session) bool {
		ended += s.Ends
		err = s.check(live[s.ID], ends[s.ID])
		return err == nil
	})
	switch {
	case err != nil:
		return err
	case ended != t.ends:
		return fmt.Errorf("sessions count %d ends, the tenant %d", ended, t.ends)
	case waiting != t.waiting || waiting != t.queue.Len():
		return fmt.Errorf("%d wait, %d counted, %d in line", waiting, t.waiting, t.queue.Len())
	case held > t.occupied:
		return fmt.Errorf("%d hold %d keys", held, t.occupied)
	}
	return nil
}

func (s *Session) check(live, ends int) error {
	switch {
	case s.Live != live:
		return fmt.Errorf("session %s counts %d live, has %d", s.ID, s.Live, live)
	case s.Ends != ends:
		return fmt.Errorf("session %s counts %d ends, has %d", s.ID, s.Ends, ends)
	case s.Floor > s.High:
		return fmt.Errorf("session %s has floor %d above its highest, %d", s.ID, s.Floor, s.High)
	}
	return nil
}

func (t *tenant) checkLease(m *Machine, l *Lease) error {
	s := t.session(l.ID.Session)
	if s == nil {
		return fmt.Errorf("lease %s has no session", l.ID)
	}
	switch l.State {
	case StateHeld:
		if t.key(l.Class, l.Key).holder != l.ID {
			return fmt.Errorf("lease %s holds a key that does not name it", l.ID)
		}
		if l.Token == 0 || l.Token > t.lastToken || l.Epoch > m.epoch {
			return fmt.Errorf("lease %s has token %d of %d", l.ID, l.Token, t.lastToken)
		}
	case StateWaiting:
		if q, ok := t.queue.Get(queueRow(l.Class, l.Key, l.Place)); !ok || q != l.ID {
			return fmt.Errorf("lease %s waits in no queue", l.ID)
		}
	case StateEnded:
		if s.Forgot(l.ID.Sequence) {
			return fmt.Errorf("lease %s is over, remembered, and forgotten", l.ID)
		}
		if l.Holder != "" || l.APIKey != "" {
			return fmt.Errorf("lease %s is over and names its holder", l.ID)
		}
	default:
		return fmt.Errorf("lease %s is in no state", l.ID)
	}
	return nil
}

func (t *tenant) checkKeys() error {
	occupied := 0
	var err error
	t.keys.Scan(func(name string, k *keyRow) bool {
		if k.occupied() {
			occupied++
		}
		err = t.checkKey(name, k)
		return err == nil
	})
	if err == nil && occupied != t.occupied {
		err = fmt.Errorf("%d keys occupied, %d counted", occupied, t.occupied)
	}
	return err
}

func (t *tenant) checkKey(name string, k *keyRow) error {
	class, key := splitKeyName(name)
	posture, known := t.class(class)
	switch {
	case !known:
		return fmt.Errorf("key %q of class %q, which is unknown", key, class)
	case k.waiters != t.waitersOf(class, key):
		return fmt.Errorf("key %q counts %d waiters, has %d", key, k.waiters, t.waitersOf(class, key))
	case !k.occupied() && k.waiters == 0:
		return fmt.Errorf("key %q says nothing", key)
	case !k.occupied() && !posture.Retired && !t.dropped:
		return fmt.Errorf("key %q is free and has a queue", key)
	case k.holder.isZero():
		return nil
	}
	if l := t.lease(k.holder); l == nil || l.State != StateHeld || l.Class != class || l.Key != key {
		return fmt.Errorf("key %q names a holder that is none", key)
	}
	return nil
}

func (t *tenant) waitersOf(class ClassName, key Key) int {
	n, prefix := 0, keyName(class, key)+"\x00"
	t.queue.Ascend(prefix, func(row string, _ LeaseID) bool {
		if !strings.HasPrefix(row, prefix) {
			return false
		}
		n++
		return true
	})
	return n
}
