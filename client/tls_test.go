package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
)

// authority is an authority of a test's own.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	return authority{t: t}.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
}

// issue makes a key and its certificate, valid for an hour; of an authority that is none yet, one for itself.
func (a authority) issue(template *x509.Certificate) authority {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return authority{a.t, cert, key}
}

// node is the certificate of a node at 127.0.0.1, which a client may show as well.
func (a authority) node() tls.Certificate {
	leaf := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "node"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	return tls.Certificate{Certificate: [][]byte{leaf.cert.Raw}, PrivateKey: leaf.key}
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// overTLS serves a platform's first node over TLS, and gives its address. refused is called for each connection that comes to nothing.
func overTLS(t *testing.T, p *clienttest.Platform, config *tls.Config, refused func()) string {
	t.Helper()
	behind, err := url.Parse(p.Node(1).URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: p.Transport(), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind) }}
	server := httptest.NewUnstartedServer(proxy)
	server.TLS, server.Config.ErrorLog = config, log.New(onLine(refused), "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// onLine is called for each line that is written.
type onLine func()

func (f onLine) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}

func newTLSClient(t *testing.T, p *clienttest.Platform, endpoint string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New([]string{endpoint}, p.APIKey(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nobody hears what it has to say
		_ = c.Close(ctx)
	})
	return c
}

func newServedPlatform(t *testing.T) *clienttest.Platform {
	t.Helper()
	p := clienttest.New(t)
	p.Class("ledger", clienttest.ClassConfig{Lease: time.Minute})
	return p
}

// TestTLS_ofAPrivateAuthorityAndWithAClientCertificate: both sides prove who they are.
func TestTLS_ofAPrivateAuthorityAndWithAClientCertificate(t *testing.T) {
	p, a := newServedPlatform(t), newAuthority(t)
	endpoint := overTLS(t, p, &tls.Config{Certificates: []tls.Certificate{a.node()}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: a.pool()}, func() {})
	c := newTLSClient(t, p, endpoint, client.WithTLS(&tls.Config{RootCAs: a.pool(), Certificates: []tls.Certificate{a.node()}}))
	l := acquire(t, c, "k")
	if err := l.Release(t.Context()); err != nil || l.Token() != 1 {
		t.Errorf("release of token %d: got %v, want nil of 1", l.Token(), err)
	}
}

// untrusted are addresses of nodes whose certificate a client must not take, given those of a's node.
var untrusted = map[string]func(endpoint string) (string, string){
	"an unknown authority": func(e string) (string, string) { return e, "unknown authority" },
	"another host": func(e string) (string, string) {
		return strings.Replace(e, "127.0.0.1", "localhost", 1), "wanted to match localhost"
	},
}

// trust is what a client trusts in a case of untrusted.
func (a authority) trust(name string) client.Option {
	if name == "an unknown authority" {
		a = newAuthority(a.t)
	}
	return client.WithTLS(&tls.Config{RootCAs: a.pool()})
}

// TestTLS_waitsOutACertificateAsAnyOutage: no request leaves, and it is tried again, since certificates are exchanged one node after
// another. When nodes have decided nothing for too long, the error names the certificate.
func TestTLS_waitsOutACertificateAsAnyOutage(t *testing.T) {
	for name, of := range untrusted {
		t.Run(name, func(t *testing.T) {
			p, a, clock := newServedPlatform(t), newAuthority(t), clienttest.NewClock()
			endpoint, why := of(overTLS(t, p, &tls.Config{Certificates: []tls.Certificate{a.node()}}, func() {
				clock.Step(clienttest.Wall, 20*time.Second) // of the 30 s for which nodes may decide nothing
			}))
			_, err := newTLSClient(t, p, endpoint, a.trust(name), client.WithClock(clock)).Acquire(t.Context(), "ledger", "k")
			wantCertificateError(t, err, client.ErrUnavailable, why)
			if got := p.Requests(clienttest.Match{}); len(got) != 0 {
				t.Errorf("requests to a node that is not trusted: got %v, want none", got)
			}
		})
	}
}

// TestTLS_namesTheCertificateWhenTheCallersTimeIsOver: the context's deadline is the reason, and the certificate the cause.
func TestTLS_namesTheCertificateWhenTheCallersTimeIsOver(t *testing.T) {
	for name, of := range untrusted {
		t.Run(name, func(t *testing.T) {
			p, a := newServedPlatform(t), newAuthority(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var refusals atomic.Int32
			endpoint, why := of(overTLS(t, p, &tls.Config{Certificates: []tls.Certificate{a.node()}}, func() {
				if refusals.Add(1) == 2 {
					cancel(context.DeadlineExceeded)
				}
			}))
			_, err := newTLSClient(t, p, endpoint, a.trust(name)).Acquire(ctx, "ledger", "k", client.Wait(client.Unlimited))
			wantCertificateError(t, err, context.DeadlineExceeded, why)
		})
	}
}

func wantCertificateError(t *testing.T, err, reason error, why string) {
	t.Helper()
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	if !errors.Is(err, reason) || !certificate || !strings.Contains(err.Error(), why) {
		t.Errorf("acquire: got %v, want %v, and of the certificate: %s", err, reason, why)
	}
}

// TestPython_overTLS has the Python client take a lease of a node with a certificate of a private authority, and refuse it where it does
// not know the authority.
func TestPython_overTLS(t *testing.T) {
	p, a := newServedPlatform(t), newAuthority(t)
	endpoint := overTLS(t, p, &tls.Config{Certificates: []tls.Certificate{a.node()}}, func() {})
	file := filepath.Join(t.TempDir(), "authority.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-B", "-m", "unittest", "test_tls")
	cmd.Dir = "python"
	cmd.Env = append(os.Environ(), "STANCHION_ENDPOINTS="+endpoint, "STANCHION_API_KEY="+p.APIKey(), "STANCHION_TEST_AUTHORITY="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
	if got := len(p.Requests(clienttest.Match{Op: clienttest.Acquire})); got != 2 {
		t.Errorf("requests for a lease that have arrived: got %d, want 2, those of the client that knows the authority", got)
	}
}
