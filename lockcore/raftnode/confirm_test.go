package raftnode

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// voter is a scripted node on the other side of a confirm connection.
type voter struct {
	answer   func(q confirmRequest) []confirmAnswer
	dials    atomic.Int32
	hangUp   atomic.Bool // at the next question
	nonsense atomic.Bool // instead of the answers
}

// standsAt answers every question at once with the same term and state.
func standsAt(node NodeID, term uint64, state State) *voter {
	return &voter{answer: func(q confirmRequest) []confirmAnswer {
		return []confirmAnswer{{Group: q.Group, Nonce: q.Nonce, Server: node, Term: term, State: state}}
	}}
}

func silent() *voter { return &voter{answer: func(confirmRequest) []confirmAnswer { return nil }} }

// confirmTo returns a running confirmer of node n1 whose peers are the voters; a missing one cannot be reached.
func confirmTo(t testing.TB, voters map[NodeID]*voter) *Confirmer {
	var served sync.WaitGroup
	c := newConfirmer("n1", 0, func(ctx context.Context, node NodeID) (confirmConn, error) {
		v := voters[node]
		if v == nil {
			return nil, ErrUnknownNode
		}
		v.dials.Add(1)
		here, there := net.Pipe()
		served.Go(func() { v.serve(there) })
		return here, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	served.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); served.Wait() })
	return c
}

func (v *voter) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var q confirmRequest
		if err := readFrame(conn, &q, confirmBytesMax); err != nil {
			return
		}
		if v.hangUp.Load() {
			return
		}
		answers := v.answer(q)
		if v.nonsense.Load() {
			answers = make([]confirmAnswer, 2)
		}
		for _, a := range answers {
			if err := writeFrame(conn, a, confirmBytesMax); err != nil {
				return
			}
		}
	}
}

func yes() bool { return true }

func TestConfirm_countsOnlyVotersThatFollowInTheTerm(t *testing.T) {
	three := []NodeID{"n1", "n2", "n3"}
	forged := func(change func(a *confirmAnswer)) *voter {
		return &voter{answer: func(q confirmRequest) []confirmAnswer {
			a := confirmAnswer{Group: q.Group, Nonce: q.Nonce, Server: "n2", Term: 5, State: Follower}
			change(&a)
			return []confirmAnswer{a, a} // twice: one voter is one voice
		}}
	}
	for name, c := range map[string]struct {
		voters []NodeID
		peers  map[NodeID]*voter
		self   bool
		want   error
	}{
		"both follow":                  {three, map[NodeID]*voter{"n2": standsAt("n2", 5, Follower), "n3": standsAt("n3", 5, Follower)}, true, nil},
		"one follows, one is away":     {three, map[NodeID]*voter{"n2": standsAt("n2", 5, Follower)}, true, nil},
		"one follows, one is ahead":    {three, map[NodeID]*voter{"n2": standsAt("n2", 5, Follower), "n3": standsAt("n3", 6, Candidate)}, true, nil},
		"one follows, one is silent":   {three, map[NodeID]*voter{"n2": standsAt("n2", 5, Follower), "n3": silent()}, true, nil},
		"alone in the group":           {three[:1], nil, true, nil},
		"both are away":                {three, nil, true, ErrNoQuorum},
		"both are silent":              {three, map[NodeID]*voter{"n2": silent(), "n3": silent()}, true, ErrNoQuorum},
		"both are ahead":               {three, map[NodeID]*voter{"n2": standsAt("n2", 6, Follower), "n3": standsAt("n3", 6, Leader)}, true, ErrNotConfirmed},
		"both are behind":              {three, map[NodeID]*voter{"n2": standsAt("n2", 4, Follower), "n3": standsAt("n3", 4, Follower)}, true, ErrNotConfirmed},
		"both are candidates":          {three, map[NodeID]*voter{"n2": standsAt("n2", 5, Candidate), "n3": standsAt("n3", 5, Candidate)}, true, ErrNotConfirmed},
		"both are starting":            {three, map[NodeID]*voter{"n2": standsAt("n2", 0, Stopped), "n3": standsAt("n3", 0, Stopped)}, true, ErrNotConfirmed},
		"self has ceased to lead":      {three, map[NodeID]*voter{"n2": standsAt("n2", 5, Follower), "n3": standsAt("n3", 5, Follower)}, false, ErrNotConfirmed},
		"self alone, ceased to lead":   {three[:1], nil, false, ErrNotConfirmed},
		"self is no voter, one of two": {[]NodeID{"n2", "n3"}, map[NodeID]*voter{"n2": standsAt("n2", 5, Follower)}, true, ErrNoQuorum},
		// A server that follows without a vote must not stand in for a voter.
		"a non-voter answers for nobody": {three, map[NodeID]*voter{"n4": standsAt("n4", 5, Follower)}, true, ErrNoQuorum},
		"a non-voter at a voter's place": {three, map[NodeID]*voter{"n2": forged(func(a *confirmAnswer) { a.Server = "n4" })}, true, ErrNoQuorum},
		"one voter in another's name":    {three, map[NodeID]*voter{"n2": forged(func(a *confirmAnswer) { a.Server = "n3" })}, true, ErrNoQuorum},
		"answers to an earlier question": {three, map[NodeID]*voter{"n2": forged(func(a *confirmAnswer) { a.Nonce-- })}, true, ErrNoQuorum},
		"answers about another group":    {three, map[NodeID]*voter{"n2": forged(func(a *confirmAnswer) { a.Group = "p2" })}, true, ErrNoQuorum},
		"one voter twice of five":        {[]NodeID{"n1", "n2", "n3", "n4", "n5"}, map[NodeID]*voter{"n2": forged(func(*confirmAnswer) {})}, true, ErrNoQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				confirmer := confirmTo(t, c.peers)
				err := confirmer.Confirm(t.Context(), "p1", 5, c.voters, func() bool { return c.self })
				if !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if took := time.Since(began); took > ConfirmTimeoutDefault {
					t.Errorf("took %v of virtual time, want at most %v", took, ConfirmTimeoutDefault)
				}
				if c.want == nil && time.Since(began) != 0 {
					t.Errorf("took %v of virtual time, want an answer as soon as a majority is there", time.Since(began))
				}
			})
		})
	}
}

// Self is asked after the answers: whoever lost leadership while they were under way is not confirmed.
func TestConfirm_asksSelfAfterTheAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		leads.Store(true)
		late := standsAt("n2", 5, Follower)
		answer := late.answer
		late.answer = func(q confirmRequest) []confirmAnswer {
			leads.Store(false)
			return answer(q)
		}
		c := confirmTo(t, map[NodeID]*voter{"n2": late})
		if err := c.Confirm(t.Context(), "p1", 5, []NodeID{"n1", "n2", "n3"}, leads.Load); !errors.Is(err, ErrNotConfirmed) {
			t.Errorf("got %v, want %v", err, ErrNotConfirmed)
		}
	})
}

func TestConfirm_redialsAndKeepsOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := standsAt("n2", 5, Follower)
		peers := map[NodeID]*voter{"n2": v}
		c := confirmTo(t, peers)
		two := []NodeID{"n1", "n2"}
		for _, group := range []GroupID{"p1", "p2", "control"} {
			if err := c.Confirm(t.Context(), group, 5, two, yes); err != nil {
				t.Fatal(err)
			}
		}
		if got := v.dials.Load(); got != 1 {
			t.Errorf("connections for three groups: got %d, want 1", got)
		}
		v.nonsense.Store(true)
		if err := c.Confirm(t.Context(), "p1", 5, two, yes); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("nonsense: got %v, want %v", err, ErrNoQuorum)
		}
		v.nonsense.Store(false)
		v.hangUp.Store(true)
		if err := c.Confirm(t.Context(), "p1", 5, two, yes); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("a connection that breaks: got %v, want %v", err, ErrNoQuorum)
		}
		v.hangUp.Store(false)
		if err := c.Confirm(t.Context(), "p1", 5, two, yes); err != nil {
			t.Errorf("after it was dialled again: %v", err)
		}
	})
}

func TestConfirm_endsWithItsContext(t *testing.T) {
	c := confirmTo(t, map[NodeID]*voter{"n2": silent()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Confirm(ctx, "p1", 5, []NodeID{"n1", "n2"}, yes); !errors.Is(err, ErrNoQuorum) {
		t.Errorf("got %v, want %v", err, ErrNoQuorum)
	}
	if len(c.rounds) != 0 {
		t.Errorf("rounds left: got %d, want none", len(c.rounds))
	}
}

func FuzzDecodeConfirm(f *testing.F) {
	q := confirmRequest{Group: "p1", Term: 7, Nonce: 1 << 60}
	a := confirmAnswer{Group: "p1", Nonce: 1 << 60, Server: "n2", Term: 7, State: Follower}
	for _, v := range []any{q, a} {
		body, err := frameEncoding.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if q, err := decodeConfirmRequest(body); err == nil {
			again, err := frameEncoding.Marshal(q)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := decodeConfirmRequest(again); err != nil || back != q {
				t.Errorf("decode(encode(x)): got %+v, %v, want %+v", back, err, q)
			}
		}
		if a, err := decodeConfirmAnswer(body); err == nil {
			again, err := frameEncoding.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := decodeConfirmAnswer(again); err != nil || back != a {
				t.Errorf("decode(encode(x)): got %+v, %v, want %+v", back, err, a)
			}
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 1, 0xa0})
	f.Add([]byte{0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		here, there := net.Pipe()
		go func() { there.Write(raw); there.Close() }()
		var a confirmAnswer
		for readFrame(here, &a, confirmBytesMax) == nil {
			continue
		}
		here.Close()
	})
}

// BenchmarkConfirm measures a round over real mTLS connections on loopback, three voters.
func BenchmarkConfirm(b *testing.B) {
	ca, err := NewDevCA(time.Now(), time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	cluster := NewClusterID()
	var muxes []*Mux
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer func() { cancel(); work.Wait() }()
	for _, node := range []NodeID{"n1", "n2", "n3"} {
		creds, err := ca.Issue(cluster, node)
		if err != nil {
			b.Fatal(err)
		}
		id := Identity{Format: 1, Cluster: cluster, Node: node, NodeUUID: NodeUUID(newUUID()), Incarnation: 1}
		m, err := Listen(MuxConfig{Identity: id, Credentials: creds, Listen: "127.0.0.1:0", Logger: quiet()})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.register("p1", func() (uint64, State) { return 5, Follower }); err != nil {
			b.Fatal(err)
		}
		work.Go(func() { m.Run(ctx) })
		muxes = append(muxes, m)
		muxes[0].SetPeer(node, m.Advertise())
	}
	c := NewConfirmer(muxes[0], 0)
	work.Go(func() { c.Run(ctx) })
	voters := []NodeID{"n1", "n2", "n3"}
	for b.Loop() {
		if err := c.Confirm(ctx, "p1", 5, voters, yes); err != nil {
			b.Fatal(err)
		}
	}
}
