package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// at asks one node with an API key and returns the status.
func (c *cluster) at(url, key, path string) int {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	return res.StatusCode
}

// everywhere awaits that every node answers the API key with a status.
func (c *cluster) everywhere(key string, want int) {
	c.t.Helper()
	await(c.t, fmt.Sprintf("every node answers %d", want), func() error {
		for _, n := range c.file.Nodes {
			if got := c.at(n.URL, key, "/v1/locks"); got != want {
				return fmt.Errorf("%s answers %d", n.ID, got)
			}
		}
		return nil
	})
}

// An operator makes a tenant and its first API key; the tenant makes its own from there on. Suspended, dropped and made
// again, its tokens never repeat.
func TestTenant_fromItsFirstAPIKeyToItsSecondLife(t *testing.T) {
	c := newCluster(t)
	c.start()
	operator := c.file.OperatorAPIKey
	if operator == "" {
		t.Fatal("dev.json has no operator's API key")
	}
	c.command(operator, 0, []string{"globex"}, "tenant", "create", "globex", "--owner-group", "globex-owners", "--quota-keys", "500")
	c.command(operator, 0, []string{"globex", "500"}, "tenant", "show", "globex")
	c.command(operator, 0, []string{"acme", "globex"}, "tenant", "list")
	c.command(c.file.APIKey, 1, []string{"platform:operator"}, "tenant", "list")

	admin := c.command(operator, 0, nil, "api-key", "create", "--tenant", "globex", "--name", "administration",
		"--scope", "tenant:admin", "--scope", "locks:*", "--expires-in", "30d")
	service := c.command(admin, 0, nil, "api-key", "create", "--name", "service", "--scope", "locks:jobs-*")
	c.everywhere(service, http.StatusOK)
	c.command(admin, 1, []string{"wider"}, "api-key", "create", "--name", "wide", "--scope", "audit:read")
	c.command(service, 1, []string{"tenant:admin"}, "api-key", "list")
	c.command(admin, 0, []string{"administration", "service", "locks:jobs-*"}, "api-key", "list")

	id := strings.Split(service, "_")[1]
	rotated := c.command(admin, 0, nil, "api-key", "rotate", id, "--overlap", "1h")
	c.everywhere(service, http.StatusOK)
	c.everywhere(rotated, http.StatusOK)
	c.command(admin, 0, nil, "api-key", "end-overlap", id)
	c.everywhere(service, http.StatusUnauthorized)
	c.command(admin, 0, nil, "api-key", "revoke", strings.Split(rotated, "_")[1], "--reason", "found in a log")
	c.everywhere(rotated, http.StatusUnauthorized)

	acme := newClient(t, c.file)
	const class = "cache-warm"
	first, _ := acme.acquire(t, newSession(), 1, wire.AcquireRequest{Class: class, Key: "k"})
	c.command(operator, 0, nil, "tenant", "suspend", "acme", "--reason", "the contract rests")
	await(t, "a suspended tenant gets no new lease", func() error {
		a, _ := acme.once(t.Context(), pollTime, acme.nodes[0], http.MethodPut, leasePath(newSession(), 1), wire.AcquireRequest{Class: class, Key: "other"})
		if p := a.problem(); p.Code != wire.CodeTenantSuspended {
			return p
		}
		return nil
	})
	c.command(operator, 0, nil, "tenant", "resume", "acme")
	c.command(operator, 0, nil, "tenant", "drop", "acme", "--reason", "the contract has ended")
	c.everywhere(c.file.APIKey, http.StatusUnauthorized)
	await(t, "the last token is recorded and the tenant can be made again", func() error {
		if out := c.command(operator, 0, nil, "tenant", "show", "acme", "--output", "json"); !strings.Contains(out, `"state": "dropped"`) {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	c.command(operator, 0, []string{"acme"}, "tenant", "create", "acme", "--owner-group", "ledger-owners")
	c.everywhere(c.file.APIKey, http.StatusUnauthorized)
	out := c.command(operator, 0, nil, "tenant", "show", "acme", "--output", "json")
	if base := number(t, out, "token_base"); base <= first.Token {
		t.Errorf("made again, the tenant's tokens go on above %d; want above %d\n%s", base, first.Token, out)
	}
	c.stop(syscall.SIGTERM)
}

// number finds a number in an indented JSON object.
func number(t *testing.T, object, field string) (n uint64) {
	t.Helper()
	_, rest, found := strings.Cut(object, fmt.Sprintf("%q:", field))
	if _, err := fmt.Sscan(rest, &n); err != nil || !found {
		t.Fatalf("there is no number %s in %s", field, object)
	}
	return n
}
