package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// runProxy stands between a client and the nodes, one address for each. Once it is cut, what arrives vanishes: connections stay
// open, and nothing is answered.
type runProxy struct {
	urls []string
	cut  chan struct{} // closed: it is
	over chan struct{} // closed: the test has ended
	once sync.Once
}

// newRunProxy opens a way to each node. Answers do not name the leader, to which a client would go straight.
func newRunProxy(t *testing.T, f devFile) *runProxy {
	t.Helper()
	p := &runProxy{cut: make(chan struct{}), over: make(chan struct{})}
	for _, n := range f.Nodes {
		node, err := url.Parse(n.URL)
		if err != nil {
			t.Fatal(err)
		}
		to := httputil.NewSingleHostReverseProxy(node)
		to.ModifyResponse = func(r *http.Response) error {
			r.Header.Del("Stanchion-Leader")
			return nil
		}
		transport := new(http.Transport)
		to.Transport = transport
		s := httptest.NewServer(p.swallow(to))
		t.Cleanup(func() {
			s.CloseClientConnections()
			s.Close()
			transport.CloseIdleConnections()
		})
		p.urls = append(p.urls, s.URL)
	}
	t.Cleanup(func() { close(p.over) }) // runs before the servers are closed
	return p
}

// swallow hands requests on while the way is open. What is under way when it is cut is not answered either.
func (p *runProxy) swallow(node http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered := httptest.NewRecorder()
		if !p.isCut() {
			node.ServeHTTP(answered, r)
		}
		if p.isCut() {
			select {
			case <-r.Context().Done(): // the client has given up
			case <-p.over:
			}
			panic(http.ErrAbortHandler)
		}
		for name, values := range answered.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answered.Code)
		_, _ = w.Write(answered.Body.Bytes()) // whether it arrives is the client's to see
	})
}

func (p *runProxy) isCut() bool {
	select {
	case <-p.cut:
		return true
	default:
		return false
	}
}

// swallowAll cuts the way, for good.
func (p *runProxy) swallowAll() { p.once.Do(func() { close(p.cut) }) }
