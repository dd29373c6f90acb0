package raftnode

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// serverTLS demands a certificate of the same authority from whoever connects.
func serverTLS(creds Credentials) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{creds.Certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    creds.Roots,
		// A resumed session would be authorised by an old certificate.
		SessionTicketsDisabled: true,
	}
}

// clientTLS verifies the other side's chain and that it is the wanted node. A node is known by its URI name, not by a
// host name, so the library's host check is replaced by ours.
func clientTLS(creds Credentials, want peerName) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{creds.Certificate},
		InsecureSkipVerify: true, // VerifyConnection below checks chain, usage and name
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := verifyChain(state, creds.Roots); err != nil {
				return err
			}
			got, err := certifiedName(state.PeerCertificates[0])
			if err != nil {
				return err
			}
			return mismatchUnequal("node certificate", want.uri().String(), got.uri().String())
		},
	}
}

func verifyChain(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the other side showed no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("verify node certificate: %w", err)
	}
	return nil
}
