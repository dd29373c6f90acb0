package lockcoretest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// ErrModel says that a machine and the model are not of one mind.
var ErrModel = errors.New("the machine differs from the model")

// CompareTenant checks all that the machine keeps of a tenant against the model.
func (m *Model) CompareTenant(machine *lockcore.Machine, id lockcore.TenantID) error {
	t := m.tenants[id]
	if err := m.CompareCounts(machine, id); err != nil || t == nil {
		return err
	}
	for name, want := range t.classes {
		if got, ok := machine.Class(id, name); !ok || *got != *want {
			return fmt.Errorf("%w: class %s/%s is %+v, want %+v", ErrModel, id, name, got, *want)
		}
		if err := m.CompareGuard(machine, id, name); err != nil {
			return err
		}
	}
	if got := len(machine.Classes(id)); got != len(t.classes) {
		return fmt.Errorf("%w: %s has %d classes, want %d", ErrModel, id, got, len(t.classes))
	}
	for name := range t.locks {
		if err := m.CompareLock(machine, id, name.class, name.key); err != nil {
			return err
		}
	}
	for session := range t.sessions {
		if err := t.compareSession(machine, id, session); err != nil {
			return err
		}
	}
	return nil
}

// ComparePartition checks what belongs to no tenant: index, epoch and lease clock.
func (m *Model) ComparePartition(machine *lockcore.Machine) error {
	if machine.Index() != m.lastIndex || machine.Epoch() != m.epoch || machine.LeaseClockMS() != m.clockMS {
		return fmt.Errorf("%w: index %d, epoch %d, lease clock %d ms, want %d, %d, %d", ErrModel, machine.Index(),
			machine.Epoch(), machine.LeaseClockMS(), m.lastIndex, m.epoch, m.clockMS)
	}
	return nil
}

// CompareCounts checks a tenant's counters, quotas and marks.
func (m *Model) CompareCounts(machine *lockcore.Machine, id lockcore.TenantID) error {
	got, ok := machine.Tenant(id)
	t := m.tenants[id]
	if ok != (t != nil) {
		return fmt.Errorf("%w: tenant %s known: %t, want %t", ErrModel, id, ok, t != nil)
	}
	if t == nil {
		want, gone := m.gone[id]
		if final, ok := machine.FinalToken(id); ok != gone || final != want.final {
			return fmt.Errorf("%w: final token of %s is %d, want %d", ErrModel, id, final, want.final)
		}
		return nil
	}
	want := lockcore.TenantState{ID: id, Quotas: t.quotas, LastToken: t.lastToken, Suspended: t.suspended,
		Dropped: t.dropped, Occupied: t.occupied(), Waiting: t.waiting(), Keys: len(t.locks), Sessions: len(t.sessions),
		Ends: t.ends(), Revision: t.revision}
	if got != want {
		return fmt.Errorf("%w: tenant is %+v, want %+v", ErrModel, got, want)
	}
	return nil
}

// CompareLock checks one lock: holder, lock delay and queue in order.
func (m *Model) CompareLock(machine *lockcore.Machine, id lockcore.TenantID, class lockcore.ClassName, key lockcore.Key) error {
	got, known := machine.Lock(id, class, key)
	t := m.tenants[id]
	if t == nil || t.locks[lockName{class, key}] == nil {
		if known {
			return fmt.Errorf("%w: %s is in use, want it free", ErrModel, formatLock(machine, lockOf{id, lockName{class, key}}))
		}
		return nil
	}
	want := t.locks[lockName{class, key}]
	var queue []string
	for _, w := range want.queue {
		queue = append(queue, leaseName(w.id))
	}
	same := known && got.DelayToken == want.delayOf && got.Waiters == len(want.queue) && sameLease(got.Holder, want.holder)
	for i, w := range machine.Waiters(id, class, key, len(want.queue)) {
		same = same && sameLease(w, want.queue[i]) && machine.Position(id, w) == i+1
	}
	if !same {
		return fmt.Errorf("%w: %s; want holder %+v, delay %d, queue %v", ErrModel,
			formatLock(machine, lockOf{id, lockName{class, key}}), want.holder, want.delayOf, queue)
	}
	return nil
}

// CompareLease checks what is remembered of one lease request.
func (m *Model) CompareLease(machine *lockcore.Machine, id lockcore.TenantID, lease lockcore.LeaseID) error {
	got, _ := machine.Lease(id, lease)
	var want *modelLease
	if t := m.tenants[id]; t != nil {
		want = t.lease(lease)
	}
	if !sameLease(got, want) {
		return fmt.Errorf("%w: lease %s of %s is %+v, want %+v", ErrModel, leaseName(lease), id, got, want)
	}
	return nil
}

func sameLease(got *lockcore.Lease, want *modelLease) bool {
	if got == nil || want == nil {
		return got == nil && want == nil
	}
	p := want.posture
	return got.ID == want.id && got.State == want.state && got.Class == want.lock.class && got.Key == want.lock.key &&
		got.Token == want.token && got.Reason == want.reason && got.Ending == want.ending &&
		got.Handed == want.handed && got.DeadlineMS == want.deadline && got.Version == p.Version &&
		got.LeaseMS == p.LeaseMS && got.HeartbeatMS == p.HeartbeatMS && got.LockDelayMS == p.LockDelayMS &&
		got.MaxHoldMS == p.MaxHoldMS && got.Purpose == p.Purpose && got.Enforcement == p.Enforcement
}

func (t *modelTenant) compareSession(machine *lockcore.Machine, id lockcore.TenantID, session lockcore.SessionID) error {
	want := t.sessions[session]
	live := want.live()
	got, ok := machine.Session(id, session)
	leases := machine.SessionLeases(id, session)
	for _, l := range leases {
		if !sameLease(l, want.leases[l.ID.Sequence]) {
			return fmt.Errorf("%w: lease %s of %s is %+v, want %+v", ErrModel, leaseName(l.ID), id, l, want.leases[l.ID.Sequence])
		}
	}
	if !ok || got.Owner != want.owner || got.High != want.high || got.Ended != want.ended || got.Floor != want.floor ||
		got.Live != live || got.Ends != len(want.leases)-live || len(leases) != len(want.leases) {
		return fmt.Errorf("%w: session %s of %s is %+v with %d leases, want owner %s, high %d, floor %d, ended %t, %d live of %d",
			ErrModel, sessionName(session), id, got, len(leases), want.owner, want.high, want.floor, want.ended, live, len(want.leases))
	}
	return nil
}

// TenantDigests digests what the machine keeps of each tenant, and under the empty slug the final tokens of dropped
// ones: the whole state but for the position in the log.
func TenantDigests(m *lockcore.Machine) map[lockcore.TenantID][32]byte {
	var b bytes.Buffer
	if _, err := m.Snapshot().WriteTo(&b); err != nil {
		panic(err)
	}
	ids := m.Tenants()
	all, tenant := map[lockcore.TenantID][]byte{}, -1
	for rest := b.Bytes()[8:]; len(rest) > 0; {
		kind := rest[0]
		size, width := binary.Uvarint(rest[1:])
		frame := rest[:1+width+int(size)]
		rest = rest[len(frame):]
		switch kind {
		case 1, 8: // head and end: the position in the log
		case 7:
			all[""] = append(all[""], frame...)
		default:
			if kind == 2 {
				tenant++
			}
			all[ids[tenant].ID] = append(all[ids[tenant].ID], frame...)
		}
	}
	digests := map[lockcore.TenantID][32]byte{}
	for id, rows := range all {
		digests[id] = sha256.Sum256(rows)
	}
	return digests
}
