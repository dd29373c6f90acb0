package leader

import (
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// sweepMax bounds the commands of one step of a sweep.
const sweepMax = 128

// sweep ends what is held and queued under a class that grants no more: a retired one, or one of a dropped tenant. It
// goes on step by step, each when the one before is applied, so that a large class does not fill an entry.
func (l *Leader) sweep(tenant lockcore.TenantID, class lockcore.ClassName) {
	l.alarms.set(l.clock.Now(), func(time.Duration) { l.sweepFrom(tenant, class, "") })
}

func (l *Leader) sweepFrom(tenant lockcore.TenantID, class lockcore.ClassName, from lockcore.Key) {
	cause, over := l.sweepCause(tenant, class)
	if over {
		return
	}
	var commands []lockcore.Command
	next, more := from, false
	l.machine.EachLock(tenant, class, from, func(k lockcore.Lock) bool {
		if k.Class != class {
			return false
		}
		commands = append(commands, l.sweepLock(tenant, k, cause, sweepMax-len(commands))...)
		next, more = k.Key, len(commands) >= sweepMax // there may be more of this very lock
		return !more
	})
	if len(commands) == 0 {
		return
	}
	if !more {
		next = "" // once more from the start: nothing is left, or what came meanwhile is
	}
	l.sweepStep(tenant, commands, func() { l.sweepFrom(tenant, class, next) })
}

// sweepCause says why the class is swept; over: it grants again, or is gone.
func (l *Leader) sweepCause(tenant lockcore.TenantID, class lockcore.ClassName) (lockcore.Reason, bool) {
	t, known := l.machine.Tenant(tenant)
	if !known {
		return 0, true
	}
	if t.Dropped {
		return lockcore.TenantDropped, false
	}
	c, known := l.machine.Class(tenant, class)
	return lockcore.ClassRetired, !known || !c.Retired
}

// sweepLock lists the commands that end one lock's holder and waiters, at most limit.
func (l *Leader) sweepLock(tenant lockcore.TenantID, k lockcore.Lock, cause lockcore.Reason, limit int) []lockcore.Command {
	var commands []lockcore.Command
	if k.Holder != nil && k.Holder.Ending == 0 {
		commands = append(commands, lockcore.MarkEnding{Tenant: tenant, Lease: k.Holder.ID, Token: k.Holder.Token, Cause: cause})
	}
	for _, w := range l.machine.Waiters(tenant, k.Class, k.Key, limit) {
		commands = append(commands, lockcore.Leave{Tenant: tenant, Lease: w.ID, Cause: cause})
	}
	return commands
}

// sweepStep proposes the commands and goes on when the last is applied.
func (l *Leader) sweepStep(tenant lockcore.TenantID, commands []lockcore.Command, then func()) {
	left := len(commands)
	for _, c := range commands {
		l.propose(tenant, true, c, func(_ lockcore.Result, _ time.Duration, err error) {
			if left--; left == 0 && err == nil {
				then()
			}
		})
	}
}
