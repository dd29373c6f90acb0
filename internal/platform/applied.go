package platform

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

const (
	// spreadTime is how long an answer waits at most for the other nodes to apply what it is about.
	spreadTime = time.Second
	// appliedEvery is how often a node that is asked looks whether it has applied an entry.
	appliedEvery = 5 * time.Millisecond

	appliedPath = "/internal/control-applied"
)

// appliedAnswer is how far a node's copy of the control log is.
type appliedAnswer struct {
	Revision uint64 `json:"revision"`
}

// AwaitApplied waits until the other nodes have applied what this node has applied of the control log, a second at most,
// and says which have, this one included. A node that cannot be reached, or is further behind, is in the second list; it
// costs the wait, and nothing more. Both are in order.
func (p *Platform) AwaitApplied(ctx context.Context) (applied, behind []string) {
	ctx, cancel := context.WithTimeout(ctx, spreadTime)
	defer cancel()
	revision := p.control.revision()
	applied = append(applied, string(p.config.Node))
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, m := range p.control.group.Status().Members {
		if m.ID == p.config.Node {
			continue
		}
		asking.Go(func() {
			reached := p.hasApplied(ctx, m.ID, revision)
			mu.Lock()
			defer mu.Unlock()
			if reached {
				applied = append(applied, string(m.ID))
			} else {
				behind = append(behind, string(m.ID))
			}
		})
	}
	asking.Wait()
	slices.Sort(applied)
	slices.Sort(behind)
	return applied, behind
}

// hasApplied asks a node, which answers as soon as it has applied the entry or the time is up.
func (p *Platform) hasApplied(ctx context.Context, node raftnode.NodeID, revision uint64) bool {
	var a appliedAnswer
	path := fmt.Sprintf("%s?revision=%d", appliedPath, revision)
	return p.ask(ctx, node, http.MethodGet, path, nil, &a) == nil && a.Revision >= revision
}

// tellApplied answers hasApplied.
func (p *Platform) tellApplied(w http.ResponseWriter, r *http.Request) {
	revision, err := strconv.ParseUint(r.URL.Query().Get("revision"), 10, 64)
	if err != nil {
		http.Error(w, "no revision", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), spreadTime)
	defer cancel()
	ticker := time.NewTicker(appliedEvery)
	defer ticker.Stop()
	for p.control.revision() < revision && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	answer(w, appliedAnswer{p.control.revision()})
}

func (c *controlLog) revision() (revision uint64) {
	c.view(func(m *control.Machine) { revision = m.Revision() })
	return revision
}
