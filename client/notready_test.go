package client_test

import (
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// TestClient_passesByANodeThatIsNotReady: when that node may be ready is its own affair. The next one is asked at once, so that a node which
// starts again holds up neither an acquire nor the release on which others wait.
func TestClient_passesByANodeThatIsNotReady(t *testing.T) {
	inBubble(t, func(t *testing.T, p *clienttest.Platform) {
		c := newClient(t, p)
		const soon = 500 * time.Millisecond // Retry-After has whole seconds
		p.Answer(clienttest.Match{Node: "node1"}, clienttest.Always, wire.NewProblem(wire.CodeNotReady, ""))
		p.Answer(clienttest.Match{Node: "node2"}, clienttest.Always, wire.NewProblem(wire.CodeNotReady, ""))
		began := time.Now()
		l := acquire(t, c, "k")
		if got := time.Since(began); got > soon {
			t.Errorf("an acquire with two of three nodes not ready took %v, want %v at most", got, soon)
		}
		began = time.Now()
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got > soon {
			t.Errorf("a release with two of three nodes not ready took %v, want %v at most", got, soon)
		}
	})
}
