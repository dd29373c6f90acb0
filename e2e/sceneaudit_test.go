package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// TestAudit_isTheSameOnEveryNode_whateverItMissed: three nodes have the same rows under the same root; again after the
// leader was killed and came back; again after a node was away for so long that the others' logs do not reach back to
// where it was. That one gets a snapshot, which has no events in it: it asks another node for the rows that it misses.
func TestAudit_isTheSameOnEveryNode_whateverItMissed(t *testing.T) {
	c := newCluster(t)
	c.start("--processes", "--profile", "test", "--restart-after", "0")
	load := &load{client: newClient(t, c.file), session: newSession()}
	load.grants(t, 5)
	c.wantSameAudit()

	killed := c.leader()
	c.kill(killed)
	load.grants(t, 5)
	c.startAgain(killed)
	c.awaitReady(killed, c.index(c.others(killed)[0]))
	c.wantSameAudit()

	away := c.others(c.leader())[0]
	left := c.index(away)
	c.kill(away)
	c.driveBeyond(load, left, c.others(away))
	c.startAgain(away)
	c.awaitReady(away, left+1)
	await(t, away+" has filled its gap from another node", func() error {
		for line := range strings.Lines(c.own[away].out.String()) {
			if strings.Contains(line, "missing audit rows filled") && strings.Contains(line, `"log":"`+partition+`"`) {
				return nil
			}
		}
		return errors.New("it does not say so")
	})
	c.wantSameAudit()
	c.stop(syscall.SIGTERM)
}

func (l *load) grants(t *testing.T, n int) {
	t.Helper()
	for range n {
		l.grant(t)
	}
}

// kill ends a node with SIGKILL and waits until it is gone.
func (c *cluster) kill(node string) {
	c.t.Helper()
	pid := c.pid(node)
	kill9(pid)
	await(c.t, node+" is gone", func() error {
		if p := c.own[node]; p != nil && !p.ended() {
			return errors.New("it runs")
		} else if p == nil {
			return c.wantEnded(node, -1)
		}
		return nil
	})
}

// driveBeyond makes the partition's log grow until it is more than 200 entries beyond an index, and none of the nodes has
// the entry after that index any more.
func (c *cluster) driveBeyond(l *load, index uint64, nodes []string) {
	c.t.Helper()
	const entries = 200
	l.grants(c.t, entries/2) // two entries each
	await(c.t, fmt.Sprintf("the log has grown by %d entries, and lost its beginning", entries), func() error {
		l.grants(c.t, 10)
		for _, node := range nodes {
			s, err := c.status(node)
			if err != nil {
				return err
			}
			if g := s.group(partition); g.Index <= index+entries || g.FirstIndex <= index+1 {
				return fmt.Errorf("%s has entries %d to %d; the other node left at %d", node, g.FirstIndex, g.Index, index)
			}
		}
		return nil
	})
}

// wantAudit wants each node to tell an order of the scene as it was: in the order of the log, with who and with what.
func (s *scene) wantAudit(t *testing.T, order sceneOrder) {
	t.Helper()
	service, guards := apiKeyID(s.client.key), apiKeyID(s.guardKey)
	older, newer := order.token, order.token+1
	want := []wire.AuditEvent{
		{Kind: "granted", Token: older, Holder: "worker A", APIKey: service},
		{Kind: "queued", Holder: "worker B", APIKey: service},
		{Kind: "expired", Token: older, Holder: "worker A", APIKey: service},
		{Kind: "promoted", Token: newer, Holder: "worker B", APIKey: service},
		{Kind: "fenced", Token: older, APIKey: guards, Count: 1, Detail: fmt.Sprintf("highest=%d", newer)},
		{Kind: "released", Token: newer, Holder: "worker B", APIKey: service},
	}
	s.wantKinds(t, want)
	for _, n := range s.cluster.file.Nodes {
		await(t, "the audit of "+n.ID+" tells the scene", func() error { return s.compareAudit(t, n.URL, order.day, guards, want) })
	}
}

// compareAudit holds what a node's audit tells of a key against what happened.
func (s *scene) compareAudit(t *testing.T, node, key, guards string, want []wire.AuditEvent) error {
	q := url.Values{"class": {sceneClass}, "key": {key}}
	events, gaps, err := s.auditor.audit(t, node, q)
	if err != nil || len(gaps) > 0 {
		return errors.Join(err, fmt.Errorf("gaps: %+v", gaps))
	}
	var got []wire.AuditEvent
	var checks uint64
	for _, e := range events {
		if e.Kind == "guard_reported" && e.APIKey == guards {
			checks += e.Count
			continue
		}
		got = append(got, wire.AuditEvent{Kind: e.Kind, Token: e.Token, Holder: e.Holder, APIKey: e.APIKey, Count: e.Count, Detail: e.Detail})
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %+v, want %+v", got, want)
	}
	const checked = 4 // each worker entered once and wrote once
	if checks != checked {
		return fmt.Errorf("guards reported %d checks, want %d", checks, checked)
	}
	return nil
}

// wantKinds checks that the kinds of events are published ones.
func (s *scene) wantKinds(t *testing.T, events []wire.AuditEvent) {
	t.Helper()
	var published wire.AuditKinds
	a := s.client.must(t, http.MethodGet, "/v1/audit/kinds", nil)
	if err := json.Unmarshal(a.body, &published); err != nil {
		t.Fatalf("kinds: %v: %s", err, a.body)
	}
	for _, e := range events {
		if !slices.ContainsFunc(published.Kinds, func(k wire.AuditKind) bool { return k.Kind == e.Kind && k.Meaning != "" }) {
			t.Errorf("%s is no published kind of event: %s", e.Kind, a.body)
		}
	}
}

// apiKeyID is the part of an API key that is no secret.
func apiKeyID(key string) string { return strings.Split(key, "_")[1] }

// audit reads all events that match from one node's copy, oldest first, in pages, and the gaps that it admits.
func (c *client) audit(t *testing.T, node string, q url.Values) (events []wire.AuditEvent, gaps []wire.AuditGap, err error) {
	q.Set("order", "asc")
	q.Set("limit", "100")
	for {
		var page wire.AuditPage
		if err := c.read(t, node, "/v1/audit?"+q.Encode(), &page); err != nil {
			return nil, nil, err
		}
		events, gaps = append(events, page.Events...), append(gaps, page.Gaps...)
		if page.NextCursor == "" {
			return events, gaps, nil
		}
		q.Set("cursor", page.NextCursor)
	}
}

// read reads JSON from one node.
func (c *client) read(t *testing.T, node, path string, to any) error {
	a, err := c.once(t.Context(), pollTime, node, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return a.problem()
	}
	return json.Unmarshal(a.body, to)
}

// wantSameAudit waits until all nodes have the same audit, of the whole platform, and nothing missing: equal roots over as
// many rows, complete to the same entries, none older than what is applied now, and every event the same. Other roots over as many rows fail the test at once:
// that never mends.
func (c *cluster) wantSameAudit() {
	c.t.Helper()
	operator := newClient(c.t, c.file).with(c.file.OperatorAPIKey)
	applied := c.index(c.file.Nodes[0].ID)
	await(c.t, "all nodes have the same audit", func() error {
		first, err := c.auditOf(operator, c.file.Nodes[0].URL)
		if err != nil {
			return err
		}
		if got := first.CompleteTo[partition]; got < applied {
			return fmt.Errorf("the audit is complete to entry %d of %d", got, applied)
		}
		for _, n := range c.file.Nodes[1:] {
			other, err := c.auditOf(operator, n.URL)
			if err != nil {
				return err
			}
			if err := c.compareAudits(n.ID, first, other); err != nil {
				return err
			}
		}
		return nil
	})
}

// nodeAudit is a node's copy of the audit.
type nodeAudit struct {
	wire.AuditCheckpoints
	events []byte // JSON
}

func (c *cluster) auditOf(operator *client, node string) (a nodeAudit, err error) {
	if err := operator.read(c.t, node, "/v1/audit/checkpoint", &a.AuditCheckpoints); err != nil {
		return a, err
	}
	events, gaps, err := operator.audit(c.t, node, url.Values{})
	if err != nil || len(gaps) > 0 {
		return a, errors.Join(err, fmt.Errorf("%s misses %+v", node, gaps))
	}
	if len(events) == 0 {
		return a, fmt.Errorf("%s has no events", node)
	}
	a.events, err = json.Marshal(events)
	return a, err
}

func (c *cluster) compareAudits(node string, a, b nodeAudit) error {
	c.t.Helper()
	if len(a.Checkpoints) != 3 || len(b.Checkpoints) != 3 {
		c.t.Fatalf("checkpoints: got %+v and, of %s, %+v; want those of 3 logs", a.Checkpoints, node, b.Checkpoints)
	}
	for i, one := range a.Checkpoints {
		other := b.Checkpoints[i]
		switch {
		case one.Rows == 0:
			return fmt.Errorf("%s has no rows", one.Log)
		case one.Rows == other.Rows && one.Root != other.Root:
			c.t.Fatalf("%d rows of %s: %s has the root %s, another node %s", one.Rows, one.Log, node, other.Root, one.Root)
		case one != other || a.CompleteTo[one.Log] != b.CompleteTo[one.Log]:
			return fmt.Errorf("%s has %+v, complete to %d; another node %+v, to %d", node, other, b.CompleteTo[one.Log], one, a.CompleteTo[one.Log])
		}
	}
	if string(a.events) != string(b.events) {
		return fmt.Errorf("%s has the same roots and other events: %.4000s\nanother node: %.4000s", node, b.events, a.events)
	}
	return nil
}
