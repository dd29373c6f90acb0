package platform_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// link is a way to one listener through which a test lets bytes pass, or not. It listens for as long as its test runs,
// so that what stands behind it may stop and come back on another port.
type link struct {
	listener net.Listener
	work     sync.WaitGroup
	// eatAnswer, asked at the first bytes of an answer on each connection, tells whether to close the connection instead
	// of passing them on. Nil: never.
	eatAnswer atomic.Pointer[func() bool]

	mu     sync.Mutex
	target string                // guarded by mu; empty: nobody is there
	cut    bool                  // guarded by mu
	closed bool                  // guarded by mu
	conns  map[net.Conn]struct{} // guarded by mu: both ends of what passes
}

func newLink(t testing.TB) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, conns: map[net.Conn]struct{}{}}
	l.work.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

func (l *link) addr() string { return l.listener.Addr().String() }

func (l *link) url() string { return "http://" + l.addr() }

// lead sets where the link leads to from now on.
func (l *link) lead(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// sever closes everything that passes, and refuses what comes, until mend.
func (l *link) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.hangUp()
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

// hangUp closes every connection. The lock is held.
func (l *link) hangUp() {
	for c := range l.conns {
		c.Close()
	}
}

func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.hangUp()
	l.mu.Unlock()
	l.listener.Close()
	l.work.Wait()
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.work.Go(func() { l.carry(near) })
	}
}

// carry passes bytes both ways until either end, or the link, is closed.
func (l *link) carry(near net.Conn) {
	defer near.Close()
	far, err := l.dial()
	if err != nil {
		return
	}
	defer far.Close()
	if !l.keep(near, far) {
		return
	}
	defer l.forget(near, far)
	var back sync.WaitGroup
	back.Go(func() {
		l.pump(near, far, l.eatAnswer.Load())
		near.Close()
		far.Close()
	})
	l.pump(far, near, nil)
	if c, ok := far.(*net.TCPConn); ok {
		c.CloseWrite()
	}
	far.Close()
	near.Close()
	back.Wait()
}

func (l *link) dial() (net.Conn, error) {
	l.mu.Lock()
	target, cut := l.target, l.cut
	l.mu.Unlock()
	if cut || target == "" {
		return nil, net.ErrClosed
	}
	return net.Dial("tcp", target)
}

func (l *link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.closed {
		return false
	}
	for _, c := range conns {
		l.conns[c] = struct{}{}
	}
	return true
}

func (l *link) forget(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		delete(l.conns, c)
	}
}

func (l *link) pump(to, from net.Conn, eat *func() bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && eat != nil {
			if (*eat)() {
				return
			}
			eat = nil
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
