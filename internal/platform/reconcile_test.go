package platform_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

func newVersionLeavesOlderGrants(t *testing.T, c *calm) {
	const class = "changing"
	api := c.client(t)
	first := c.putInForce(t, c.tenant, classFile(class, "lease: 30s"))
	session := newSession()
	api.take(t, session+".1", class, "k")

	version, declared := c.declare(t, c.tenant, classFile(class, "lease: 10s"))
	if r := api.take(t, newID(), class, "before"); r.lease.PostureVersion != first {
		t.Errorf("while version %d is in review, a grant is under version %d; want %d", version, r.lease.PostureVersion, first)
	}
	c.sign(t, version, declared)
	c.awaitInForce(t, c.tenant, class, version)

	if r := api.acquire(t, newID(), acquire{class: class, key: "k"}); r.code() != wire.CodeHeld {
		t.Errorf("a try on the key that is held under the older version is answered %s; want held", r)
	}
	beat := api.heartbeat(t, session, 1)
	if len(beat.Held) != 1 || beat.Held[0].UseWithin.Std() < 20*time.Second {
		t.Errorf("the holder under the older version is answered %+v; want its 30 s", beat)
	}
	if r := api.take(t, newID(), class, "after"); r.lease.PostureVersion != version || r.lease.UseWithin.Std() > 10*time.Second {
		t.Errorf("a grant after version %d is %s; want it under that version, for 10 s", version, r)
	}
}

func retiredClassEndsWaitersAndHolders(t *testing.T, c *calm) {
	const class = "ending"
	api := c.client(t)
	c.putInForce(t, c.tenant, classFile(class, "lease: 30s"))
	holder, waiter := newSession(), newID()
	api.take(t, holder+".1", class, "k")
	if r := api.acquire(t, waiter, acquire{class: class, key: "k", wait: "1m"}); r.lease.State != wire.StateQueued {
		t.Fatalf("behind a holder the request is answered %s", r)
	}
	c.control(t, control.Entry{Review: review.Retire{Tenant: review.TenantID(c.tenant), Class: class,
		By: review.Actor{ID: author.Subject, Persons: []review.Person{author}}, AtMS: time.Now().UnixMilli()}})
	eventually(t, "the waiter is ended", func() bool {
		r := api.look(t, waiter)
		return r.lease.State == wire.StateEnded && r.lease.Reason == "class_retired"
	})
	eventually(t, "the holder is told", func() bool {
		beat := api.heartbeat(t, holder, 1)
		return len(beat.Lost) == 1 && beat.Lost[0].Code == wire.CodeRevoked && beat.Lost[0].Ending
	})
	if r := api.acquire(t, newID(), acquire{class: class, key: "other"}); r.code() != wire.CodeClassRetired {
		t.Errorf("an acquire under the retired class is answered %s", r)
	}
	api.release(t, holder+".1")
	if lock := api.lock(t, class, "k"); lock != nil {
		t.Errorf("after the holder's release the lock is %+v; want it gone", lock)
	}
}

func suspendedTenantKeepsWhatItHolds(t *testing.T, c *calm) {
	api := c.client(t, classLong)
	session := newSession()
	granted := api.take(t, session+".1", classLong, "k")
	now := time.Now().UnixMilli()
	c.control(t, control.Entry{Tenants: tenants.SuspendTenant{Tenant: c.tenant, Note: "test", By: tenants.ByPlatform(), AtMS: now}})
	eventually(t, "the tenant is suspended", func() bool { return c.state(t).Suspended })
	r, err := api.send(t.Context(), c.leads(t), http.MethodPut, "/v1/leases/"+newID(), acquire{class: classLong, key: "other"}.body())
	if err != nil || r.code() != wire.CodeTenantSuspended {
		t.Errorf("an acquire of a suspended tenant is answered %v, %v", r, err)
	}
	c.untouched(t, api, session, granted)
	c.control(t, control.Entry{Tenants: tenants.ResumeTenant{Tenant: c.tenant, By: tenants.ByPlatform(), AtMS: now}})
	eventually(t, "the tenant is resumed", func() bool { return !c.state(t).Suspended })
	api.take(t, newID(), classLong, "other")
}

func droppedTenantLeavesItsFinalToken(t *testing.T, c *calm) {
	api := c.client(t, classShort)
	var last uint64
	for i := range 7 {
		last = api.take(t, newID(), classShort, fmt.Sprintf("key %d", i)).lease.Token
	}
	unheard := tenants.TenantID("unheard-of")
	now := time.Now().UnixMilli()
	for _, id := range []tenants.TenantID{c.tenant, unheard} {
		if id == unheard {
			c.control(t, control.Entry{Tenants: tenants.PutTenant{Tenant: id, OwnerGroups: []tenants.Group{"owners"}, TokenBase: 1000,
				Quotas: tenants.QuotasDefault(), Partition: 1, By: tenants.ByPlatform(), AtMS: now}})
		}
		c.control(t, control.Entry{Tenants: tenants.DropTenant{Tenant: id, Note: "test", By: tenants.ByPlatform(), AtMS: now}})
	}
	eventually(t, "every node knows the dropped tenants' final tokens", func() bool {
		for _, n := range c.nodes {
			if a, b := n.finalToken(c.tenant), n.finalToken(unheard); a != last || b != 1000 {
				return false
			}
		}
		return true
	})
	if s := c.state(t); s != (lockcore.TenantState{}) {
		t.Errorf("the partition still has %+v of the dropped tenant", s)
	}
	if r := api.ask(t, http.MethodGet, "/v1/locks", ""); r.status != http.StatusUnauthorized {
		t.Errorf("an API key of the dropped tenant is answered %s", r)
	}
}

// finalToken is what the control log on the node says of a dropped tenant; 0: nothing yet.
func (n *testNode) finalToken(id tenants.TenantID) (token uint64) {
	n.platform.ViewControl(func(m *control.Machine) {
		if t, known := m.Tenant(id); known && t.TokenFinal {
			token = t.TokenBase
		}
	})
	return token
}
