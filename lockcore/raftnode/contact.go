package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// leadershipLook is how often a request that waits for contact looks whether its leadership still stands.
const leadershipLook = time.Second

// contacts tells when a heartbeat to a node was answered. Safe for concurrent use.
type contacts struct {
	closed chan struct{}
	close  func() // once: closes closed

	mu   sync.Mutex
	next map[raft.ServerID]chan struct{} // guarded by mu: closed at the next contact
}

func newContacts() *contacts {
	c := &contacts{closed: make(chan struct{}), next: map[raft.ServerID]chan struct{}{}}
	c.close = sync.OnceFunc(func() { close(c.closed) })
	return c
}

// after returns a channel that is closed at the next contact with the node.
func (c *contacts) after(id raft.ServerID) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next[id] == nil {
		c.next[id] = make(chan struct{})
	}
	return c.next[id]
}

func (c *contacts) made(id raft.ServerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := c.next[id]; waiting != nil {
		close(waiting)
		delete(c.next, id)
	}
}

// AppendEntries sends a heartbeat or entries. Entries that fail return only once a heartbeat to that node has been answered,
// the leadership has ended or the transport is closed: the library counts each failure and pauses for twice as long as
// before, up to 10 s, so that a node that was away would come back, be counted as a voter, and get no entries meanwhile.
// Heartbeats have pauses of their own, of at most half a heartbeat timeout.
func (t transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	contact := t.contacts.after(id) // one made while the request is under way is enough
	err := t.NetworkTransport.AppendEntries(id, target, req, resp)
	switch {
	case !isHeartbeat(req) && err != nil:
		t.awaitContact(contact, req.Term)
	case err == nil:
		t.contacts.made(id)
	}
	return err
}

func (t transport) awaitContact(contact <-chan struct{}, term uint64) {
	look := time.NewTicker(leadershipLook)
	defer look.Stop()
	for {
		if now, state := t.standing(); now != term || state != Leader {
			return
		}
		select {
		case <-contact:
			return
		case <-t.contacts.closed:
			return
		case <-look.C:
		}
	}
}

// isHeartbeat recognises a request that carries nothing but a term.
func isHeartbeat(req *raft.AppendEntriesRequest) bool {
	return req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0
}

// Close ends all connections, and what waits.
func (t transport) Close() error {
	t.contacts.close()
	return t.NetworkTransport.Close()
}
