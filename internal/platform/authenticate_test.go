package platform_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web/api"
)

func TestAuthenticate_refusesNoKeyThatItMayOnlyNotKnowYet(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.furnish(t, classLong)
	late := c.others(c.leader(t, acmePartition))[0]
	late.stop(t)
	key := c.createKey(t, acme)

	late.isolate()
	late.start(t, false)
	if _, err := late.platform.Authenticate(key); !errors.Is(err, api.ErrNotReady) {
		t.Errorf("before it has caught up, the node says of a key made meanwhile: %v; want ErrNotReady", err)
	}
	c.answersLateButNeverRefuses(t, newClient(t, c, key), late)
	eventually(t, "the node is ready", late.isReady)

	late.isolate()
	eventually(t, "the node knows no leader", func() bool { return late.group("control").Leader == "" })
	newer := newClient(t, c, c.createKeyAt(t, c.others(late), acme))
	c.answersLateButNeverRefuses(t, newer, late)
	eventually(t, "the node is ready", late.isReady)
	if _, err := late.platform.Authenticate(key + "x"); !errors.Is(err, tenants.ErrUnauthorized) {
		t.Errorf("when it has caught up, the node says of a wrong key: %v; want ErrUnauthorized", err)
	}
}

// answersLateButNeverRefuses asks a node that is cut off with a key made meanwhile, mends it, and asks until it answers.
func (c *cluster) answersLateButNeverRefuses(t *testing.T, fresh *client, late *testNode) {
	t.Helper()
	r, err := fresh.send(t.Context(), late, http.MethodGet, "/v1/locks", "")
	if err != nil || r.status != http.StatusServiceUnavailable || r.code() != wire.CodeNotReady {
		t.Errorf("cut off, the node answers a key made meanwhile with %s, %v; want 503 not_ready", r, err)
	}
	late.rejoin()
	eventually(t, "the node knows the key", func() bool {
		r, err := fresh.send(t.Context(), late, http.MethodGet, "/v1/locks", "")
		if err == nil && r.status == http.StatusUnauthorized {
			t.Fatalf("while it catches up, the node refuses a valid key: %s", r)
		}
		return err == nil && r.status == http.StatusOK
	})
}
