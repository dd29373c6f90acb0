package platform_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// client speaks the lease API with one API key. Safe for concurrent use.
type client struct {
	cluster *cluster
	key     string
	http    *http.Client
}

func newClient(t testing.TB, c *cluster, key string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{cluster: c, key: key, http: &http.Client{Transport: transport}}
}

// reply is an answer of the API.
type reply struct {
	status  int
	header  http.Header
	body    []byte
	lease   wire.Lease   // of an answer about a lease, or of a problem that tells of one
	problem wire.Problem // of an error
}

func (r reply) code() wire.Code { return r.problem.Code }

func (r reply) granted() bool { return r.status == http.StatusOK && r.lease.State == wire.StateGranted }

// tellsNothing reports whether the request is to be repeated with the same id to learn what became of it.
func (r reply) tellsNothing() bool { return r.status == http.StatusServiceUnavailable }

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, bytes.TrimSpace(r.body)) }

// send makes one request to a node's door.
func (c *client) send(ctx context.Context, n *testNode, method, path, body string) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, n.door.url()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	out := reply{status: response.StatusCode, header: response.Header}
	if out.body, err = io.ReadAll(response.Body); err != nil {
		return reply{}, err
	}
	return out, out.decode()
}

func (r *reply) decode() error {
	if r.status < 400 {
		_ = json.Unmarshal(r.body, &r.lease) // lists and heartbeats have no such fields
		return nil
	}
	err := json.Unmarshal(r.body, &r.problem)
	if r.problem.Lease != nil {
		r.lease = *r.problem.Lease
	}
	return err
}

// ask makes a request at any node, and repeats it as it is while no node can tell.
func (c *client) ask(t testing.TB, method, path, body string) reply {
	t.Helper()
	return c.askAt(t, c.cluster.nodes, method, path, body)
}

func (c *client) askAt(t testing.TB, nodes []*testNode, method, path, body string) reply {
	t.Helper()
	var last reply
	eventually(t, method+" "+path+" is answered", func() bool {
		for _, n := range nodes {
			r, err := c.send(t.Context(), n, method, path, body)
			if err == nil && !r.tellsNothing() {
				last = r
				return true
			}
		}
		return false
	})
	return last
}

// acquire is what to ask for.
type acquire struct {
	class string
	key   string
	wait  string // empty: 0s
	poll  string // empty: 0s
}

func (a acquire) body() string {
	text := func(s, otherwise string) string {
		if s == "" {
			s = otherwise
		}
		quoted, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return string(quoted)
	}
	return fmt.Sprintf(`{"class":%s,"key":%s,"wait":%s,"poll":%s,"holder":"test"}`, text(a.class, ""), text(a.key, ""),
		text(a.wait, "0s"), text(a.poll, "0s"))
}

func (c *client) acquire(t testing.TB, id string, a acquire) reply {
	t.Helper()
	return c.ask(t, http.MethodPut, "/v1/leases/"+id, a.body())
}

// take acquires a free key, or fails the test.
func (c *client) take(t testing.TB, id, class, key string) reply {
	t.Helper()
	r := c.acquire(t, id, acquire{class: class, key: key})
	if !r.granted() {
		t.Fatalf("acquire of %s/%s is answered %s; want a grant", class, key, r)
	}
	return r
}

func (c *client) release(t testing.TB, id string) reply {
	t.Helper()
	return c.ask(t, http.MethodDelete, "/v1/leases/"+id, "")
}

func (c *client) look(t testing.TB, id string) reply {
	t.Helper()
	return c.ask(t, http.MethodGet, "/v1/leases/"+id, "")
}

// lock reads one lock; nil: nobody holds it or waits for it.
func (c *client) lock(t testing.TB, class, key string) *wire.Lock {
	t.Helper()
	list := c.locks(t, url.Values{"class": {class}, "key": {key}})
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// locks reads one page of locks.
func (c *client) locks(t testing.TB, query url.Values) []wire.Lock {
	t.Helper()
	return c.lockList(t, c.ask(t, http.MethodGet, "/v1/locks?"+query.Encode(), ""))
}

func (c *client) lockList(t testing.TB, r reply) []wire.Lock {
	t.Helper()
	var list wire.LockList
	if err := json.Unmarshal(r.body, &list); err != nil || r.status != http.StatusOK {
		t.Fatalf("list of locks: %v: %s", err, r)
	}
	return list.Locks
}

// heartbeat keeps leases of a session.
func (c *client) heartbeat(t testing.TB, session string, sequences ...uint64) wire.HeartbeatAnswer {
	t.Helper()
	return c.heartbeatAt(t, c.cluster.nodes, session, sequences...)
}

func (c *client) heartbeatAt(t testing.TB, nodes []*testNode, session string, sequences ...uint64) wire.HeartbeatAnswer {
	t.Helper()
	body, err := json.Marshal(wire.HeartbeatRequest{Leases: sequences})
	if err != nil {
		t.Fatal(err)
	}
	r := c.askAt(t, nodes, http.MethodPost, "/v1/sessions/"+session+"/heartbeat", string(body))
	var answer wire.HeartbeatAnswer
	if err := json.Unmarshal(r.body, &answer); err != nil || r.status != http.StatusOK {
		t.Fatalf("heartbeat: %v: %s", err, r)
	}
	return answer
}

func newSession() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// newID is a lease id of a fresh session.
func newID() string { return newSession() + ".1" }
