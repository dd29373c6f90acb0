package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// ownerVariable makes this test's program an owner process: it says which.
const ownerVariable = "STANCHION_E2E_OWNER"

func init() {
	spec := os.Getenv(ownerVariable)
	if spec == "" {
		return
	}
	fmt.Fprintln(os.Stderr, "owner:", own(spec))
	os.Exit(1)
}

// owner is a process that takes locks and keeps them until it is killed. It waits for one more, if it is told to.
type owner struct {
	Nodes   []string `json:"nodes"`
	APIKey  string   `json:"api_key"`
	Session string   `json:"session"`
	Holds   []lock   `json:"holds"` // sequence 1 first
	Waits   lock     `json:"waits"` // with the sequence after those
}

type lock struct {
	Class string `json:"class"`
	Key   string `json:"key"`
}

// request asks for the lock, in line behind others, and hangs for less than pollTime.
func (l lock) request() wire.AcquireRequest {
	return wire.AcquireRequest{Class: l.Class, Key: l.Key, Poll: new(wire.Duration(time.Second))}
}

// told is a line of what an owner writes: what a node has told it of a lease.
type told struct {
	Lease string     `json:"lease"`
	Lock  lock       `json:"lock"`
	State wire.State `json:"state"`
	Token uint64     `json:"token"`
	Epoch uint64     `json:"epoch"`
	Until time.Time  `json:"until"` // of a held one: its local deadline
}

// startOwner runs an owner.
func startOwner(t *testing.T, o owner) *process {
	t.Helper()
	spec, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), ownerVariable+"="+string(spec))
	return start(t, cmd)
}

// leases are what the owner was last told of each lease, by lease id.
func (p *process) leases(t *testing.T) map[string]told {
	t.Helper()
	all := map[string]told{}
	for line := range strings.Lines(p.out.String()) {
		if !strings.HasSuffix(line, "\n") {
			continue // it was killed while it wrote
		}
		var l told
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("an owner said %q: %v", line, err)
		}
		if before, known := all[l.Lease]; known && l.State == wire.StateGranted {
			l.Lock, l.Epoch = before.Lock, before.Epoch
		}
		all[l.Lease] = l
	}
	return all
}

// own is the work of an owner's process; it ends with an error only.
func own(spec string) error {
	var o owner
	if err := json.Unmarshal([]byte(spec), &o); err != nil {
		return err
	}
	c := &caller{client: &client{http: &http.Client{}, nodes: o.Nodes, key: o.APIKey}}
	out := json.NewEncoder(os.Stdout)
	for i, l := range o.Holds {
		if err := c.ownOne(out, o.Session, uint64(i+1), l, wire.StateGranted); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- (&caller{client: c.client}).keep(out, o.Session, len(o.Holds)) }()
	for o.Waits != (lock{}) { // each poll hangs a while
		if err := c.ownOne(out, o.Session, uint64(len(o.Holds)+1), o.Waits, wire.StateQueued); err != nil {
			return err
		}
	}
	return <-ended
}

// ownOne asks once for a lock that must be answered with a state.
func (c *caller) ownOne(out *json.Encoder, session string, n uint64, l lock, want wire.State) error {
	a, err := c.call(context.Background(), pollTime, http.MethodPut, leasePath(session, n), l.request())
	if err != nil {
		return err
	}
	got, err := a.lease()
	if err != nil || got.State != want {
		return fmt.Errorf("acquire %+v: got %s, %v, want it %s", l, a.body, err, want)
	}
	return out.Encode(told{Lease: got.LeaseID, Lock: l, State: got.State, Token: got.Token, Epoch: got.Epoch,
		Until: a.sent.Add(got.UseWithin.Std())})
}

// keep sends heartbeats for leases 1 to n.
func (c *caller) keep(out *json.Encoder, session string, n int) error {
	var request wire.HeartbeatRequest
	for i := range n {
		request.Leases = append(request.Leases, uint64(i+1))
	}
	const interval = 2 * time.Second // the shorter leases are of ten
	for range time.Tick(interval) {
		a, err := c.call(context.Background(), attemptTime, http.MethodPost, "/v1/sessions/"+session+"/heartbeat", request)
		if err != nil {
			return err
		}
		var beat wire.HeartbeatAnswer
		if err := json.Unmarshal(a.body, &beat); err != nil || len(beat.Held) != n {
			return fmt.Errorf("heartbeat: got %s, %w, want %d leases held", a.body, err, n)
		}
		for _, held := range beat.Held {
			l := told{Lease: held.LeaseID, State: wire.StateGranted, Token: held.Token, Until: a.sent.Add(held.UseWithin.Std())}
			if err := out.Encode(l); err != nil {
				return err
			}
		}
	}
	return nil
}
