package clienttest

import (
	"net/http"
	"net/http/httptest"
)

// Serve opens a real address on this machine for each node, for programs in other processes, and returns them in order.
// They are closed when the test ends. It cannot be used in a bubble of testing/synctest. Repeated calls give the same
// addresses.
func (p *Platform) Serve() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, n := range p.nodes {
		if n.served == "" {
			s := httptest.NewServer(http.HandlerFunc(n.serve))
			p.servers = append(p.servers, s)
			n.served = s.URL
		}
		all = append(all, n.served)
	}
	return all
}

// serve answers at a real address. Where there is no answer, the connection is closed.
func (n *Node) serve(w http.ResponseWriter, r *http.Request) {
	body, err := readAll(r)
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection, and is not logged
	}
	c := newCall(n, r, body)
	c.real = true
	ctx, end, err := n.platform.arrive(r.Context(), c)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer end()
	o := n.platform.handle(ctx, c)
	if o.err != nil || ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range o.reply.header {
		w.Header()[name] = values
	}
	w.WriteHeader(o.reply.status)
	_, _ = w.Write(o.reply.body) // whether it arrives is the client's to see
}
