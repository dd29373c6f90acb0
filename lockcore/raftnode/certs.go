package raftnode

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

const (
	certScheme   = "stanchion"
	certBackdate = time.Hour // for clocks that are a little behind
	caFile       = "ca.pem"
)

// ErrBadCertificate: a node's certificate does not say, exactly once, which node of which cluster it is for.
var ErrBadCertificate = errors.New("certificate does not name a node")

// Credentials are what a node shows and what it trusts.
type Credentials struct {
	Certificate tls.Certificate
	Roots       *x509.CertPool
}

// peerName is the identity in a node certificate: the URI stanchion://<cluster>/<node> among its alternative names.
type peerName struct {
	cluster ClusterID
	node    NodeID
}

func (p peerName) uri() *url.URL {
	return &url.URL{Scheme: certScheme, Host: string(p.cluster), Path: "/" + string(p.node)}
}

// certifiedName reads the identity out of a verified certificate.
func certifiedName(cert *x509.Certificate) (peerName, error) {
	var found []peerName
	for _, uri := range cert.URIs {
		if uri.Scheme != certScheme {
			continue
		}
		p := peerName{cluster: ClusterID(uri.Host), node: NodeID(trimSlash(uri.Path))}
		if err := errors.Join(p.cluster.Validate(), p.node.Validate()); err != nil || *uri != *p.uri() {
			return peerName{}, fmt.Errorf("%w: %s", ErrBadCertificate, uri)
		}
		found = append(found, p)
	}
	if len(found) != 1 {
		return peerName{}, fmt.Errorf("%w: it has %d names of the form %s://<cluster>/<node>, needs one", ErrBadCertificate, len(found), certScheme)
	}
	return found[0], nil
}

func trimSlash(path string) string {
	if len(path) > 0 && path[0] == '/' {
		return path[1:]
	}
	return path
}

// DevCA is a certificate authority made on the spot, for development and tests: ECDSA P-256, its key never leaves the
// process unless WriteFiles is asked for node keys signed by it.
type DevCA struct {
	cert *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
	life time.Duration
	now  time.Time
}

// NewDevCA makes an authority whose certificates are valid for life from now on.
func NewDevCA(now time.Time, life time.Duration) (*DevCA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make authority key: %w", err)
	}
	template, err := certTemplate("stanchion development authority", now, life)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make authority certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make authority certificate: %w", err)
	}
	return &DevCA{cert: cert, der: der, key: key, life: life, now: now}, nil
}

// Issue makes a fresh key and certificate for the node.
func (ca *DevCA) Issue(cluster ClusterID, node NodeID) (Credentials, error) {
	if err := errors.Join(cluster.Validate(), node.Validate()); err != nil {
		return Credentials{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Credentials{}, fmt.Errorf("make key of %s: %w", node, err)
	}
	template, err := certTemplate("stanchion node "+string(node), ca.now, ca.life)
	if err != nil {
		return Credentials{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.URIs = []*url.URL{peerName{cluster, node}.uri()}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return Credentials{}, fmt.Errorf("make certificate of %s: %w", node, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	return Credentials{Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, Roots: roots}, nil
}

func certTemplate(name string, now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-certBackdate),
		NotAfter:     now.Add(life),
	}, nil
}

// WriteFiles issues a certificate for the node and writes ca.pem, <node>.pem and <node>-key.pem (mode 0600) into dir.
func (ca *DevCA) WriteFiles(dir string, cluster ClusterID, node NodeID) error {
	creds, err := ca.Issue(cluster, node)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(creds.Certificate.PrivateKey)
	if err != nil {
		return fmt.Errorf("encode key of %s: %w", node, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	paths := credentialPaths(dir, node)
	return errors.Join(
		writePEM(paths.ca, "CERTIFICATE", ca.der),
		writePEM(paths.cert, "CERTIFICATE", creds.Certificate.Certificate[0]),
		writePEM(paths.key, "PRIVATE KEY", key),
	)
}

type pemPaths struct{ ca, cert, key string }

func credentialPaths(dir string, node NodeID) pemPaths {
	return pemPaths{
		ca:   filepath.Join(dir, caFile),
		cert: filepath.Join(dir, string(node)+".pem"),
		key:  filepath.Join(dir, string(node)+"-key.pem"),
	}
}

// writePEM relies on the temporary file's mode, 0600.
func writePEM(path, kind string, der []byte) error {
	return writeFileDurably(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// ReadCredentials reads the files that WriteFiles wrote for the node.
func ReadCredentials(dir string, node NodeID) (Credentials, error) {
	paths := credentialPaths(dir, node)
	return LoadCredentials(paths.ca, paths.cert, paths.key)
}

// LoadCredentials reads a node's PEM files: the authorities it trusts, its certificate chain, its key.
func LoadCredentials(caPath, certPath, keyPath string) (Credentials, error) {
	cert, err := tls.LoadX509KeyPair(certPath, keyPath)
	if err != nil {
		return Credentials{}, fmt.Errorf("read node certificate: %w", err)
	}
	raw, err := os.ReadFile(caPath)
	if err != nil {
		return Credentials{}, fmt.Errorf("read authorities: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return Credentials{}, fmt.Errorf("read authorities %s: %w: no certificate in it", caPath, ErrBadCertificate)
	}
	return Credentials{Certificate: cert, Roots: roots}, nil
}
