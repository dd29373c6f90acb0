package raftnode

import (
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// Raft pauses for up to ten seconds before it tries again to send entries to a node that was away for a while. Each way in
// which failed entries come back is tried; until then they must not, or the pauses grow.
func TestTransport_failedEntriesWaitForContact(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(client transport, led *atomic.Bool)
	}{
		{"a heartbeat is answered", func(client transport, _ *atomic.Bool) { client.contacts.made("n1") }},
		{"the leadership ends", func(_ transport, led *atomic.Bool) { led.Store(false) }},
		{"the transport is closed", func(client transport, _ *atomic.Bool) { client.Close() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newMuxPair(t)
			client := openTransport(t, p.server)
			var led atomic.Bool
			led.Store(true)
			looked := make(chan struct{}, 100)
			client.standing = func() (uint64, State) {
				looked <- struct{}{}
				if led.Load() {
					return 3, Leader
				}
				return 3, Follower
			}
			entries := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, PrevLogTerm: 2}
			failed := make(chan error, 1)
			go func() { failed <- client.AppendEntries("n1", "n1@127.0.0.1:1", entries, &raft.AppendEntriesResponse{}) }()
			for range 2 { // it waits, and looks again
				receive(t, "a look at the leadership", looked)
			}
			client.contacts.made("n2")
			select {
			case err := <-failed:
				t.Fatalf("entries that failed came back with %v before there was contact", err)
			default:
			}
			test.end(client, &led)
			if err := receive(t, "the failed entries", failed); err == nil {
				t.Error("entries to nobody did not fail")
			}
		})
	}
}

func TestTransport_failedHeartbeatComesBackAtOnce(t *testing.T) {
	client := openTransport(t, newMuxPair(t).server)
	client.standing = func() (uint64, State) { return 3, Leader }
	failed := make(chan error, 1)
	go func() {
		failed <- client.AppendEntries("n1", "n1@127.0.0.1:1", &raft.AppendEntriesRequest{Term: 3}, &raft.AppendEntriesResponse{})
	}()
	if err := receive(t, "the heartbeat", failed); err == nil {
		t.Error("a heartbeat to nobody did not fail")
	}
}
