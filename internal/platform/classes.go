package platform

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/web/api"
)

const (
	pathInForce = "/internal/in-force"
	// inForceTime is how long another node may take to say which version of a class it grants under.
	inForceTime = 1500 * time.Millisecond
)

// inForceAnswer is what one node tells another of a class.
type inForceAnswer struct {
	Version uint64 `json:"version"` // 0: none
}

// answerInForce is GET /internal/in-force.
func (p *Platform) answerInForce(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	version := p.InForce(lockcore.TenantID(q.Get("tenant")), lockcore.ClassName(q.Get("class")))
	answer(w, inForceAnswer{Version: version})
}

// InForceOnNodes asks every node, all at once, for its InForce. A node that is slow or not reachable has not answered.
func (p *Platform) InForceOnNodes(ctx context.Context, tenant lockcore.TenantID, class lockcore.ClassName) []api.ClassOnNode {
	ctx, cancel := context.WithTimeout(ctx, inForceTime)
	defer cancel()
	path := pathInForce + "?" + url.Values{"tenant": {string(tenant)}, "class": {string(class)}}.Encode()
	nodes := make([]api.ClassOnNode, len(p.config.Peers))
	var asked sync.WaitGroup
	for i, peer := range p.config.Peers {
		asked.Go(func() { nodes[i] = p.inForceOn(ctx, peer.ID, path, tenant, class) })
	}
	asked.Wait()
	slices.SortFunc(nodes, func(a, b api.ClassOnNode) int { return strings.Compare(a.Node, b.Node) })
	return nodes
}

func (p *Platform) inForceOn(ctx context.Context, id raftnode.NodeID, path string, tenant lockcore.TenantID,
	class lockcore.ClassName) api.ClassOnNode {
	if id == p.config.Node {
		return api.ClassOnNode{Node: string(id), Version: p.InForce(tenant, class), Answered: true}
	}
	var a inForceAnswer
	err := p.ask(ctx, id, http.MethodGet, path, nil, &a) // why not is in the log of the links; here it is shown
	return api.ClassOnNode{Node: string(id), Version: a.Version, Answered: err == nil}
}
