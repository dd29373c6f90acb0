package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

// Internal answers what other nodes ask of this one. The connection has proved that a node of the cluster asks.
func (p *Platform) Internal() http.Handler {
	mux := http.NewServeMux()
	p.answerAudit(mux)
	mux.HandleFunc("POST "+keyUsePath, p.takeKeyUses)
	mux.HandleFunc("GET "+appliedPath, p.tellApplied)
	mux.HandleFunc("GET "+pathInForce, p.answerInForce)
	return mux
}

// internalBytesMax bounds a question and an answer between nodes.
const internalBytesMax = 8 << 20

// ask sends a question to another node's Internal: a body, unless it is nil, and the JSON answer, unless that is nil.
func (p *Platform) ask(ctx context.Context, node raftnode.NodeID, method, path string, body, answer any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("ask %s for %s: %w", node, path, err)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+string(node)+path, bytes.NewReader(sent))
	if err != nil {
		return fmt.Errorf("ask %s for %s: %w", node, path, err)
	}
	res, err := p.forward.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("ask %s for %s: %w", node, path, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, internalBytesMax))
	switch {
	case err != nil:
		return fmt.Errorf("ask %s for %s: %w", node, path, err)
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("ask %s for %s: status %d: %.200s", node, path, res.StatusCode, raw)
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("answer of %s about %s: %w", node, path, err)
	}
	return nil
}

// answer writes the JSON answer to another node.
func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // whoever hung up asks again
}
