package clienttest

import (
	"slices"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// Op is what a request is about.
type Op int

// The calls of the lease API.
const (
	Any        Op = iota // in a Match: all of them; in a Request: none that this platform has
	Acquire              // PUT /v1/leases/{id}: also each poll and each repetition
	Look                 // GET /v1/leases/{id}
	Release              // DELETE /v1/leases/{id}
	Heartbeat            // POST /v1/sessions/{session}/heartbeat
	EndSession           // DELETE /v1/sessions/{session}
	ListLocks            // GET /v1/locks
)

// String is the operation's name.
func (o Op) String() string {
	names := [...]string{"any", "acquire", "look", "release", "heartbeat", "end session", "list locks"}
	if o < 0 || int(o) >= len(names) {
		return "unknown"
	}
	return names[o]
}

// Match says which requests are meant. What is empty matches all; the zero value is all requests.
type Match struct {
	Op    Op
	Node  string // a node's name
	Class string // of a heartbeat, release or look: of any lease that it names
	Key   string // likewise, of the same lease
	Lease string // a lease's id
}

// Request is what the platform has seen of one request.
type Request struct {
	At     time.Time // when it arrived
	Node   string    // the name of the node that it came to
	Op     Op
	Leases []string  // the ids that it names
	Class  string    // of what it is about; of several leases, of the first
	Key    string    // likewise
	Holder string    // the label of an acquire
	APIKey string    // the API key's name; empty: there is none like it
	Status int       // of the answer that left; 0: none did
	Code   wire.Code // of the problem answered

	names []lockName // what it is about
}

const (
	seenMax   = 4_096 // requests in the record
	seenSlack = seenMax / 4
)

// Requests are those that match of the latest 4,096 requests, in the order in which they arrived. What a node refused
// that was cut off never arrived.
func (p *Platform) Requests(m Match) []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Request
	for _, r := range p.seen[max(0, len(p.seen)-seenMax):] {
		if m.matches(r) {
			all = append(all, r.copy())
		}
	}
	return all
}

func (r *Request) copy() Request {
	out := *r
	out.Leases = slices.Clone(r.Leases)
	return out
}

func (m Match) matches(r *Request) bool {
	switch {
	case m.Op != Any && m.Op != r.Op,
		m.Node != "" && m.Node != r.Node,
		m.Lease != "" && !slices.Contains(r.Leases, m.Lease):
		return false
	case m.Class == "" && m.Key == "":
		return true
	}
	return slices.ContainsFunc(r.names, func(n lockName) bool {
		return (m.Class == "" || m.Class == n.class) && (m.Key == "" || m.Key == n.key)
	})
}

// record takes a request into the record.
func (p *Platform) record(c *call) {
	r := c.request
	if k := p.keys[c.secret]; k != nil && !k.revoked {
		r.APIKey = k.name
	}
	r.names = p.namesOf(c)
	if r.Class == "" && r.Key == "" && len(r.names) > 0 {
		r.Class, r.Key = r.names[0].class, r.names[0].key
	}
	p.seen = append(p.seen, r)
	if len(p.seen) > seenMax+seenSlack {
		p.seen = slices.Clone(p.seen[len(p.seen)-seenMax:])
	}
	p.change()
}

// namesOf are the locks that a request is about, as far as its leases are known.
func (p *Platform) namesOf(c *call) []lockName {
	if c.class != "" || c.key != "" {
		return []lockName{c.lock()}
	}
	var all []lockName
	for _, text := range c.request.Leases {
		id, _ := parseLeaseID(text)
		s := p.sessions[id.session]
		if s == nil {
			continue
		}
		if l := s.leases[id.n]; l != nil && l.name != (lockName{}) {
			all = append(all, l.name)
		}
	}
	return all
}

// Holder is who holds a lock: the lease's id, and its token. False: nobody does.
func (p *Platform) Holder(class, key string) (lease string, token uint64, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holder(class, key)
	if h == nil {
		return "", 0, false
	}
	return h.id(), h.token, true
}

// holder is who holds a lock; nil: nobody. With mu held.
func (p *Platform) holder(class, key string) *lease {
	if k := p.locks[lockName{class, key}]; k != nil {
		return k.holder
	}
	return nil
}

// Queue are the ids of the requests that wait for a lock, in order.
func (p *Platform) Queue(class, key string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	if k := p.locks[lockName{class, key}]; k != nil {
		for _, l := range k.queue {
			all = append(all, l.id())
		}
	}
	return all
}
