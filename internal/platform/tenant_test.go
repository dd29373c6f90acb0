package platform_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/internal/platform"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	acme   = "acme"   // carried by partition-1
	globex = "globex" // carried by partition-2

	acmePartition   = "partition-1"
	globexPartition = "partition-2"
)

// The classes that tests use; their names say what is special about them.
const (
	classShort     = "short"     // a lease of 1 s
	classMiddle    = "middle"    // a lease of 20 s
	classLong      = "long"      // a lease of 30 s, which outlives changes of leader
	classDelayed   = "delayed"   // a lease of 1 s and a lock delay of 1 s
	classRefuse    = "refuse"    // nobody queues
	classProtected = "protected" // of correctness, a lease of 30 s
)

var classFiles = map[string]string{
	classShort: classFile(classShort, "lease: 1s"), classMiddle: classFile(classMiddle, "lease: 20s"),
	classLong: classFile(classLong, "lease: 30s"), classDelayed: classFile(classDelayed, "lease: 1s\nlock_delay: 1s"),
	classRefuse: refusingClass, classProtected: strings.Replace(classFile(classProtected, "lease: 30s\nlock_delay: 1s"),
		"purpose: efficiency", "purpose: correctness", 1),
}

const classHead = `format: 1
class: %s
description: For tests.
resource: "test:resource"
owner: group:owners
purpose: efficiency
enforcement: advisory
quorum_loss: closed
%s
`

func classFile(name, lease string) string {
	return fmt.Sprintf(classHead+"wait:\n  mode: queue\n  max_wait: 10m\n  max_waiters: 1000\n", name, lease)
}

var refusingClass = fmt.Sprintf(classHead+"wait:\n  mode: refuse\n", classRefuse, "lease: 10s")

// The people who declare and sign.
var (
	author = review.Person{Issuer: "test", Subject: "admin@dev.test", Email: "admin@dev.test"}
	owner  = review.Person{Issuer: "test", Subject: "owner@dev.test", Email: "owner@dev.test"}
)

// control puts an entry into the control log through whichever node leads it. Entries here may be repeated.
func (c *cluster) control(t testing.TB, e control.Entry) control.Result {
	t.Helper()
	var result control.Result
	eventually(t, "the control log takes an entry", func() bool {
		for _, n := range c.nodes {
			if n.platform == nil {
				continue
			}
			r, err := n.platform.Control(t.Context(), e)
			if err == nil {
				result = r
				return true
			}
			if !errors.Is(err, platform.ErrNotLeader) && !errors.Is(err, platform.ErrUnknownOutcome) {
				t.Fatalf("control entry: %v", err)
			}
		}
		return false
	})
	if !result.OK {
		t.Fatalf("control entry refused: %+v", result)
	}
	return result
}

// putTenant makes a tenant, or changes its quotas.
func (c *cluster) putTenant(t testing.TB, tenant tenants.TenantID, partition tenants.PartitionID, quotas tenants.Quotas) {
	t.Helper()
	c.control(t, control.Entry{Tenants: tenants.PutTenant{Tenant: tenant, OwnerGroups: []tenants.Group{"owners"},
		Quotas: quotas.OrDefaults(), Partition: partition, By: tenants.ByPlatform(), AtMS: time.Now().UnixMilli()}})
}

// createKey makes an API key that may use every lock of the tenant, and awaits that every node knows it.
func (c *cluster) createKey(t testing.TB, tenant tenants.TenantID) string {
	t.Helper()
	return c.createKeyAt(t, c.nodes, tenant)
}

// createKeyAt awaits only that some nodes know the key.
func (c *cluster) createKeyAt(t testing.TB, nodes []*testNode, tenant tenants.TenantID) string {
	t.Helper()
	credential, err := tenants.GenerateCredential(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	scopes, err := tenants.ParseScopes("locks:*")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c.control(t, control.Entry{Tenants: tenants.CreateAPIKey{Tenant: tenant, Key: credential.ID(), Hash: credential.Hash(),
		Name: "service of " + string(tenant), Scopes: scopes, ExpiresMS: now.Add(time.Hour).UnixMilli(), By: tenants.ByPlatform(),
		AtMS: now.UnixMilli()}})
	key := credential.Reveal()
	eventually(t, "the nodes know the API key", func() bool {
		for _, n := range nodes {
			if n.platform != nil {
				if _, err := n.platform.Authenticate(key); err != nil {
					return false
				}
			}
		}
		return true
	})
	return key
}

// declare puts a version of a class in review and returns its number and what to sign.
func (c *cluster) declare(t testing.TB, tenant tenants.TenantID, file string) (uint64, review.Declare) {
	t.Helper()
	d := review.Declaration{Tenant: review.TenantID(tenant), Name: "class.yaml", File: []byte(file), At: time.Now(),
		Author: review.Actor{ID: author.Subject, Persons: []review.Person{author}}}
	parsed, findings := review.NewDeclare(d, review.Options{})
	if err := findings.Err(); err != nil {
		t.Fatalf("class file:\n%s", findings.Text())
	}
	for _, n := range c.nodes {
		if n.platform != nil {
			n.platform.ViewControl(func(m *control.Machine) {
				if class, known := m.Class(tenant, parsed.Class); known {
					parsed.Base = class.Base()
				}
			})
		}
	}
	return c.control(t, control.Entry{Review: parsed}).Version, parsed
}

// sign signs a version as its owner.
func (c *cluster) sign(t testing.TB, version uint64, d review.Declare) {
	t.Helper()
	now := time.Now().UnixMilli()
	c.control(t, control.Entry{Review: review.Sign{Tenant: d.Tenant, Class: d.Class, Version: version, Digest: d.Digest,
		Signer: owner, SignerGroups: []review.Group{"owners"}, Ticked: d.Warnings, ClaimsVersion: review.ClaimsTableVersion,
		AuthTimeMS: now, AtMS: now}})
}

// putInForce declares and signs a class, and awaits that every node grants under it.
func (c *cluster) putInForce(t testing.TB, tenant tenants.TenantID, file string) uint64 {
	t.Helper()
	version, declared := c.declare(t, tenant, file)
	c.sign(t, version, declared)
	c.awaitInForce(t, tenant, declared.Class, version)
	return version
}

func (c *cluster) awaitInForce(t testing.TB, tenant tenants.TenantID, class review.ClassName, version uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("version %d of %s is in force on every node", version, class), func() bool {
		for _, n := range c.nodes {
			if n.platform != nil && n.platform.InForce(lockcore.TenantID(tenant), lockcore.ClassName(class)) != version {
				return false
			}
		}
		return true
	})
}

// furnish makes both tenants with some classes and returns a client of each.
func (c *cluster) furnish(t testing.TB, classes ...string) (ofAcme, ofGlobex *client) {
	t.Helper()
	c.putTenant(t, acme, 1, tenants.Quotas{})
	c.putTenant(t, globex, 2, tenants.Quotas{})
	for _, name := range classes {
		c.putInForce(t, acme, classFiles[name])
		c.putInForce(t, globex, classFiles[name])
	}
	return newClient(t, c, c.createKey(t, acme)), newClient(t, c, c.createKey(t, globex))
}
