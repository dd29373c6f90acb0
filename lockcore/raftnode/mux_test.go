package raftnode

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// logBook collects log lines.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBook) has(parts ...string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range strings.Split(b.buf.String(), "\n") {
		missing := false
		for _, part := range parts {
			missing = missing || !strings.Contains(line, part)
		}
		if !missing {
			return true
		}
	}
	return false
}

// muxPair is node n1, listening, and the means to come to it as anybody.
type muxPair struct {
	t       *testing.T
	ca      *DevCA
	cluster ClusterID
	log     *logBook
	server  *Mux
}

func newMuxPair(t *testing.T) *muxPair {
	t.Helper()
	ca, err := NewDevCA(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	p := &muxPair{t: t, ca: ca, cluster: NewClusterID(), log: &logBook{}}
	p.server = p.listen(p.identity("n1"), ca)
	return p
}

func (p *muxPair) identity(node NodeID) Identity {
	return Identity{Format: 1, Cluster: p.cluster, Node: node, NodeUUID: NodeUUID(newUUID()), Incarnation: 1}
}

// listen runs a port with that identity and a matching certificate of the authority.
func (p *muxPair) listen(id Identity, ca *DevCA) *Mux {
	p.t.Helper()
	creds, err := ca.Issue(id.Cluster, id.Node)
	if err != nil {
		p.t.Fatal(err)
	}
	m, err := Listen(MuxConfig{Identity: id, Credentials: creds, Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(p.log, nil))})
	if err != nil {
		p.t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		if err := m.Run(context.Background()); err != nil && !errors.Is(err, ErrMuxClosed) {
			p.t.Errorf("port of %s: %v", id.Node, err)
		}
	})
	p.t.Cleanup(func() { m.Close(); work.Wait() })
	return m
}

// dial connects from m to n1.
func (p *muxPair) dial(m *Mux, h hello) (net.Conn, error) {
	m.SetPeer(h.Destination, p.server.Advertise())
	conn, err := m.dial(p.t.Context(), &m.conns, h, "")
	if err == nil {
		p.t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

func TestMux_carriesAPICallsBothWays(t *testing.T) {
	p := newMuxPair(t)
	client := p.listen(p.identity("n2"), p.ca)
	listener := p.server.APIListener()
	conn, err := p.dial(client, hello{Kind: kindAPI, Destination: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		conn net.Conn
		want NodeID
	}{{conn, "n1"}, {accepted, "n2"}} {
		if got, ok := PeerOf(c.conn); !ok || got != c.want {
			t.Errorf("peer: got %q, want %q", got, c.want)
		}
	}
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(accepted, got); err != nil || string(got) != "ping" {
		t.Errorf("payload: got %q, %v, want ping", got, err)
	}
	listener.Close()
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: got %v, want %v", err, net.ErrClosed)
	}
	if _, err := p.dial(client, hello{Kind: kindAPI, Destination: "n1"}); !errors.Is(err, ErrRefused) {
		t.Errorf("dial without a listener: got %v, want %v", err, ErrRefused)
	}
}

// A wrong address, a restored cluster or a wiped disk must never get a byte of Raft through.
func TestMux_refusesWhoDoesNotBelong(t *testing.T) {
	p := newMuxPair(t)
	box, err := p.server.register("p1", func() (uint64, State) { return 0, Stopped })
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	raftTo := func(group GroupID) hello { return hello{Kind: kindRaft, Group: group, Destination: "n1"} }

	good := p.listen(p.identity("n2"), p.ca)
	if _, err := p.dial(good, raftTo("p1")); err != nil {
		t.Fatalf("a member: got %v, want a connection", err)
	}

	otherCluster := p.identity("n3")
	otherCluster.Cluster = NewClusterID()
	otherLife := p.identity("n4")
	otherLife.Incarnation = 2
	strangerCA, err := NewDevCA(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		from    *Mux
		to      hello
		wantErr error  // nil: a *MismatchError
		logged  string // what the listener's log must say, if it is the one to refuse
	}{
		{"another group", good, raftTo("p2"), ErrRefused, "check=group"},
		{"another incarnation", p.listen(otherLife, p.ca), raftTo("p1"), ErrRefused, "check=incarnation expected=1 got=2"},
		{"the same node on another disk", p.listen(p.identity("n2"), p.ca), raftTo("p1"), ErrRefused, "node UUID of n2"},
		{"another node at the address", good, hello{Kind: kindRaft, Group: "p1", Destination: "n9"}, nil, ""},
		{"another cluster", p.listen(otherCluster, p.ca), raftTo("p1"), nil, ""},
		{"another authority", p.listen(p.identity("n5"), strangerCA), raftTo("p1"), x509.UnknownAuthorityError{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := p.dial(c.from, c.to)
			_, isMismatch := errors.AsType[*MismatchError](err)
			_, isAuthority := errors.AsType[x509.UnknownAuthorityError](err)
			switch c.wantErr {
			case nil:
				if !isMismatch {
					t.Errorf("got %v, want a mismatch", err)
				}
			case ErrRefused:
				if !errors.Is(err, ErrRefused) {
					t.Errorf("got %v, want %v", err, ErrRefused)
				}
			default:
				if !isAuthority {
					t.Errorf("got %v, want an unknown authority", err)
				}
			}
			if c.logged != "" {
				eventually(t, "the refusal in the log: "+c.logged, func() bool { return p.log.has("connection refused", c.logged) })
			}
		})
	}
}

// What a hello says must agree with the certificate, whatever else it gets right.
func TestMux_refusesBorrowedNames(t *testing.T) {
	p := newMuxPair(t)
	p.server.APIListener()
	creds, err := p.ca.Issue(p.cluster, "n3")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", p.server.Advertise(), clientTLS(creds, peerName{p.cluster, "n1"}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h := hello{Version: handshakeVersion, Cluster: p.cluster, Kind: kindAPI, Source: "n2", Destination: "n1", Incarnation: 1, SourceUUID: NodeUUID(newUUID())}
	if err := writeFrame(conn, h, handshakeBytesMax); err != nil {
		t.Fatal(err)
	}
	var w welcome
	if err := readFrame(conn, &w, handshakeBytesMax); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.Refusal, "source in the certificate") {
		t.Errorf("refusal: got %q, want one about the certificate", w.Refusal)
	}
}

func TestMux_refusesConnectionsWithoutCertificate(t *testing.T) {
	p := newMuxPair(t)
	conn, err := tls.Dial("tcp", p.server.Advertise(), &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("a client without a certificate was served")
	}
	eventually(t, "the refusal in the log", func() bool { return p.log.has("connection refused", "TLS handshake") })
}

func TestListen_refusesCertificateOfAnotherNode(t *testing.T) {
	p := newMuxPair(t)
	creds, err := p.ca.Issue(p.cluster, "n2")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Listen(MuxConfig{Identity: p.identity("n1"), Credentials: creds, Listen: "127.0.0.1:0", Logger: quiet()})
	if _, ok := errors.AsType[*MismatchError](err); !ok {
		t.Errorf("got %v, want a mismatch", err)
	}
}

func TestMux_closeEndsEverything(t *testing.T) {
	p := newMuxPair(t)
	client := p.listen(p.identity("n2"), p.ca)
	listener := p.server.APIListener()
	conn, err := p.dial(client, hello{Kind: kindAPI, Destination: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	p.server.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived its port")
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: got %v, want %v", err, net.ErrClosed)
	}
	if _, err := p.server.APIListener().Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept on a listener asked for later: got %v, want %v", err, net.ErrClosed)
	}
	if _, err := p.server.register("p1", nil); !errors.Is(err, ErrMuxClosed) {
		t.Errorf("register: got %v, want %v", err, ErrMuxClosed)
	}
	if err := p.server.Run(t.Context()); !errors.Is(err, ErrMuxClosed) {
		t.Errorf("run: got %v, want %v", err, ErrMuxClosed)
	}
}

func TestMux_dialNeedsAnAddress(t *testing.T) {
	p := newMuxPair(t)
	if _, err := p.server.DialAPI(t.Context(), "n7"); !errors.Is(err, ErrUnknownNode) {
		t.Errorf("got %v, want %v", err, ErrUnknownNode)
	}
	p.server.learn("n7", "127.0.0.1:1")
	p.server.SetPeer("n7", "127.0.0.1:2")
	p.server.learn("n7", "127.0.0.1:3")
	if got, err := p.server.address("n7", ""); got != "127.0.0.1:2" || err != nil {
		t.Errorf("address: got %q, %v, want the one that was set", got, err)
	}
}

func TestMux_dialObeysItsContext(t *testing.T) {
	p := newMuxPair(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p.server.SetPeer("n2", silent.Addr().String())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := silent.Accept()
		cancel()
		if err == nil {
			defer conn.Close()
			io.Copy(io.Discard, conn)
		}
	}()
	if _, err := p.server.DialAPI(ctx, "n2"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestDevCA_filesGiveTheSameIdentity(t *testing.T) {
	p := newMuxPair(t)
	dir := t.TempDir()
	if err := p.ca.WriteFiles(dir, p.cluster, "n2"); err != nil {
		t.Fatal(err)
	}
	creds, err := ReadCredentials(dir, "n2")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Listen(MuxConfig{Identity: p.identity("n2"), Credentials: creds, Listen: "127.0.0.1:0", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p.server.APIListener()
	if _, err := p.dial(m, hello{Kind: kindAPI, Destination: "n1"}); err != nil {
		t.Errorf("dial with credentials from files: %v", err)
	}
}

func FuzzDecodeHello(f *testing.F) {
	good := hello{
		Version: handshakeVersion, Cluster: NewClusterID(), Kind: kindRaft, Group: "p1",
		Source: "n1", Destination: "n2", Incarnation: 1, SourceUUID: NodeUUID(newUUID()),
	}
	body, err := frameEncoding.Marshal(good)
	if err != nil {
		f.Fatal(err)
	}
	if got, err := decodeHello(body); err != nil || got != good {
		f.Fatalf("decode(encode(x)): got %+v, %v, want %+v", got, err, good)
	}
	f.Add(body)
	f.Add([]byte{0xa1, 0x01, 0x01})
	f.Add([]byte{0xbf, 0xff})
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := decodeHello(body)
		if err != nil {
			return
		}
		again, err := frameEncoding.Marshal(h)
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		if back, err := decodeHello(again); err != nil || back != h {
			t.Errorf("decode(encode(x)): got %+v, %v, want %+v", back, err, h)
		}
	})
}
