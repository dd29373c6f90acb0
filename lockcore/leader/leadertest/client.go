package leadertest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

// Client is one session and its account of what it holds, kept as a client must keep it: a deadline counts from the
// moment of the request, on the client's own clock; the latest one stands; what is lost stays lost.
type Client struct {
	leader.Caller
	Session lockcore.SessionID
	PPM     int64 // how much faster than true time its clock runs

	c     *Cluster
	holds map[uint64]*Hold
}

// Hold is the time in which a client believed that it held a key: true times.
type Hold struct {
	Client *Client
	Lease  lockcore.LeaseID
	Class  lockcore.ClassName
	Key    lockcore.Key
	Token  lockcore.Token
	From   time.Duration // the answer was received
	Until  time.Duration // the local deadline, or when it gave the lease back or learned of its end
	over   bool
}

// Reply is what becomes of a request.
type Reply struct {
	Done   bool
	Answer leader.Answer
	Beat   leader.HeartbeatAnswer
	Err    error
	Sent   time.Duration // true times
	At     time.Duration // when the answer was received
	Poll   *leader.Poll  // of an acquire that has reached the node
	Then   func()        // called when the answer is received; may be nil

	node *Node
}

// Hangup tells the node that the request's connection is lost.
func (r *Reply) Hangup() {
	s := r.node.session
	if s != nil && r.Poll != nil {
		s.leader.Hangup(r.Poll)
	}
}

// Client makes a client with the n-th session id.
func (c *Cluster) Client(n uint64, caller leader.Caller) *Client {
	client := &Client{Caller: caller, c: c, holds: map[uint64]*Hold{}}
	binary.BigEndian.PutUint64(client.Session[8:], n)
	return client
}

// Lease is the id of the client's n-th request.
func (k *Client) Lease(n uint64) lockcore.LeaseID {
	return lockcore.LeaseID{Session: k.Session, Sequence: n}
}

// Hold is what the client knows of its n-th lease; nil: it never obtained it.
func (k *Client) Hold(n uint64) *Hold { return k.holds[n] }

// Holds reports whether the client believes now that it holds its n-th lease.
func (k *Client) Holds(n uint64) bool {
	h := k.holds[n]
	return h != nil && !h.over && k.c.now < h.Until
}

// deadline is the true time at which the client's clock has advanced by within since sent.
func (k *Client) deadline(sent, within time.Duration) time.Duration {
	return sent + trueSpan(within, k.PPM)
}

// Acquire sends an acquire, a poll or a repetition. The request's caller and lease are the client's own.
func (k *Client) Acquire(n *Node, sequence uint64, r leader.Acquire) *Reply {
	r.Caller, r.Lease = k.Caller, k.Lease(sequence)
	reply := k.reply(n)
	k.send(n, reply, func(s *session) {
		received := k.c.now
		k.c.Audit.asked(s, r.Tenant, r.Lease)
		reply.Poll = s.leader.Acquire(r, k.answering(s, reply, received))
	})
	return reply
}

// Release gives the lease back: from this moment on the client does not hold it.
func (k *Client) Release(n *Node, sequence uint64, token lockcore.Token) *Reply {
	k.letGo(sequence)
	reply := k.reply(n)
	k.send(n, reply, func(s *session) {
		s.leader.Release(leader.Release{Caller: k.Caller, Lease: k.Lease(sequence), Token: token},
			k.answering(s, reply, k.c.now))
	})
	return reply
}

// Look reads a lease.
func (k *Client) Look(n *Node, sequence uint64) *Reply {
	reply := k.reply(n)
	k.send(n, reply, func(s *session) {
		s.leader.Look(leader.Look{Caller: k.Caller, Lease: k.Lease(sequence)}, k.answering(s, reply, k.c.now))
	})
	return reply
}

// EndSession ends the client's session.
func (k *Client) EndSession(n *Node) *Reply {
	for sequence := range k.holds {
		k.letGo(sequence)
	}
	reply := k.reply(n)
	k.send(n, reply, func(s *session) {
		s.leader.EndSession(leader.EndSession{Caller: k.Caller, Session: k.Session}, func(err error) {
			k.c.Audit.failed(err)
			k.receive(reply, func() { reply.Err = err })
		})
	})
	return reply
}

// Heartbeat asks to keep the leases of the given sequences.
func (k *Client) Heartbeat(n *Node, sequences ...uint64) *Reply {
	reply := k.reply(n)
	k.send(n, reply, func(s *session) {
		received := k.c.now
		r := leader.Heartbeat{Caller: k.Caller, Session: k.Session, Sequences: sequences}
		s.leader.Heartbeat(r, func(b leader.HeartbeatAnswer, err error) {
			k.c.Audit.failed(err)
			for _, a := range b.Held {
				k.c.Audit.answered(told{s, k, reply.Sent, received, a})
			}
			for _, l := range b.Lost {
				k.c.Audit.lost(n, k.Tenant, l)
			}
			k.receive(reply, func() {
				reply.Beat, reply.Err = b, err
				k.beaten(reply)
			})
		})
	})
	return reply
}

func (k *Client) reply(n *Node) *Reply { return &Reply{node: n, Sent: k.c.now} }

// send takes a request to a node's leader; a node that leads nothing says so.
func (k *Client) send(n *Node, reply *Reply, f func(*session)) {
	if k.c.config.Lose() {
		return
	}
	deliver := func() {
		n.request(func() {
			if s := n.session; s != nil {
				f(s)
				return
			}
			k.receive(reply, func() { reply.Err = leader.ErrNotLeader })
		})
	}
	if d := k.c.config.Delay(); d > 0 {
		k.c.After(d, deliver)
		return
	}
	deliver()
}

// answering audits an answer where it is made and takes it to the client.
func (k *Client) answering(s *session, reply *Reply, received time.Duration) func(leader.Answer, error) {
	return func(a leader.Answer, err error) {
		if err != nil {
			k.c.Audit.failed(err)
		} else {
			k.c.Audit.answered(told{s, k, reply.Sent, received, a})
		}
		k.receive(reply, func() {
			reply.Answer, reply.Err = a, err
			k.learn(reply)
		})
	}
}

// receive takes an answer to the client.
func (k *Client) receive(reply *Reply, f func()) {
	if k.c.config.Lose() {
		return
	}
	arrive := func() {
		reply.Done, reply.At = true, k.c.now
		f()
		if reply.Then != nil {
			reply.Then()
		}
	}
	if d := k.c.config.Delay(); d > 0 {
		k.c.After(d, arrive)
		return
	}
	arrive()
}

func (k *Client) learn(reply *Reply) {
	a := reply.Answer
	if reply.Err != nil || a.Lease == nil {
		return
	}
	switch a.Status {
	case leader.StatusGranted:
		k.granted(reply, a)
	case leader.StatusEnded, leader.StatusEnding:
		k.letGo(a.Lease.ID.Sequence)
	}
}

func (k *Client) beaten(reply *Reply) {
	for _, a := range reply.Beat.Held {
		k.granted(reply, a)
	}
	for _, l := range reply.Beat.Lost {
		k.letGo(l.Lease.Sequence)
	}
}

// granted takes up a deadline. A hold whose deadline has passed is lost, whatever comes later.
func (k *Client) granted(reply *Reply, a leader.Answer) {
	until := k.deadline(reply.Sent, a.UseWithin)
	if k.c.config.Break == BreakSendMoment {
		until = k.deadline(k.c.now, a.UseWithin)
	}
	sequence := a.Lease.ID.Sequence
	h := k.holds[sequence]
	switch {
	case h == nil && until > k.c.now:
		h = &Hold{Client: k, Lease: a.Lease.ID, Class: a.Lease.Class, Key: a.Lease.Key, Token: a.Lease.Token,
			From: k.c.now, Until: until}
		k.holds[sequence] = h
		k.c.ledger = append(k.c.ledger, h)
	case h != nil && !h.over && k.c.now < h.Until:
		h.Until = max(h.Until, until)
	}
}

func (k *Client) letGo(sequence uint64) {
	h := k.holds[sequence]
	if h == nil {
		k.holds[sequence] = &Hold{Client: k, Lease: k.Lease(sequence), over: true} // an answer that comes later is too late
		return
	}
	if !h.over {
		h.over, h.Until = true, min(h.Until, k.c.now)
	}
}

// Ledger lists every hold that a client believed in.
func (c *Cluster) Ledger() []*Hold { return c.ledger }

// Overlaps names the holds of one key that overlap in true time: there must be none.
func (c *Cluster) Overlaps() []string {
	byKey := map[lockName][]*Hold{}
	for _, h := range c.ledger {
		name := lockName{h.Client.Tenant, h.Class, h.Key}
		byKey[name] = append(byKey[name], h)
	}
	var found []string
	for name, holds := range byKey {
		slices.SortFunc(holds, func(x, y *Hold) int { return cmp.Compare(x.From, y.From) })
		last := &Hold{}
		for _, h := range holds {
			if h.From < last.Until {
				found = append(found, fmt.Sprintf("exclusion among clients: %s/%s token %d until %v, token %d from %v",
					name.class, name.key, last.Token, last.Until, h.Token, h.From))
			}
			if h.Until > last.Until {
				last = h
			}
		}
	}
	slices.Sort(found)
	return found
}
