package h1

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1/wire"
)

// ClientCAs verifies clients' certificates (mutual TLS). Safe for concurrent use; made by LoadClientCAs.
type ClientCAs struct {
	pool     atomic.Pointer[x509.CertPool]
	mark     atomic.Pointer[[]byte] // identifies the file and the settings; see sessions
	required bool
}

const maxClientName = 256

// Bounds before any signature is checked: five small certificates of one subject could take a hundred checks.
const (
	maxBetween   = 6 // chain length
	maxOfSubject = 2 // an authority whose key two others have signed
)

var (
	errNoClientCertificate = errors.New("the client has no certificate")
	errNoClientName        = errors.New("the client's certificate has no name that fits into a field")
	errLongChain           = errors.New("the client sends more certificates than may lead to an authority")
)

// LoadClientCAs reads a PEM file. With required, clients without a certificate are not served.
func LoadClientCAs(file string, required bool) (*ClientCAs, error) {
	c := &ClientCAs{required: required}
	commit, err := c.Prepare(file)
	if err != nil {
		return nil, err
	}
	commit()
	return c, nil
}

// Prepare reads the file again, and returns the function that puts it into use for new connections.
func (c *ClientCAs) Prepare(file string) (commit func(), err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("client_ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("client_ca: %s holds no certificate", file)
	}
	sum := sha256.Sum256(text)
	mark := fmt.Appendf(nil, "client_ca %x %v", sum, c.required)
	return func() { c.pool.Store(pool); c.mark.Store(&mark) }, nil
}

// Apply makes a listener request certificates. A given one must be valid. Handshakes of protocol exempt need none.
func (c *ClientCAs) Apply(cfg *tls.Config, exempt string) {
	cfg.ClientAuth = tls.RequestClientCert
	cfg.ClientCAs = c.pool.Load() // hints for browsers
	c.sessions(cfg)
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if state.NegotiatedProtocol == exempt {
			return nil
		}
		return c.verify(state.PeerCertificates, time.Now())
	}
}

// sessions resumes only sessions that began under these authorities: others have no or another certificate.
func (c *ClientCAs) sessions(cfg *tls.Config) {
	cfg.WrapSession = func(of tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		session.Extra = append(session.Extra, *c.mark.Load())
		return cfg.EncryptTicket(of, session)
	}
	cfg.UnwrapSession = func(ticket []byte, of tls.ConnectionState) (*tls.SessionState, error) {
		session, err := cfg.DecryptTicket(ticket, of)
		if err != nil || session == nil || !slices.ContainsFunc(session.Extra,
			func(b []byte) bool { return bytes.Equal(b, *c.mark.Load()) }) {
			return nil, err
		}
		return session, nil
	}
}

// verify is also called for resumed sessions, so that a reload holds for them.
func (c *ClientCAs) verify(chain []*x509.Certificate, at time.Time) error {
	if len(chain) == 0 {
		if c.required {
			return errNoClientCertificate
		}
		return nil
	}
	if len(chain)-1 > maxBetween {
		return errLongChain
	}
	between, of := x509.NewCertPool(), make(map[string]int, maxBetween)
	for _, cert := range chain[1:] {
		if of[string(cert.RawSubject)]++; of[string(cert.RawSubject)] > maxOfSubject {
			return errLongChain
		}
		between.AddCert(cert)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{
		Roots: c.pool.Load(), Intermediates: between, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return fmt.Errorf("the client's certificate: %w", err)
	}
	if clientName(chain[0]) == nil {
		return errNoClientName
	}
	return nil
}

// ClientName is the verified name of the client's certificate; nil: none.
func ClientName(state *tls.ConnectionState) []byte {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	return clientName(state.PeerCertificates[0])
}

// clientName is the first DNS name, URI or the common name; nil: none, or unfit for a header field.
func clientName(cert *x509.Certificate) []byte {
	name := cert.Subject.CommonName
	switch {
	case len(cert.DNSNames) > 0:
		name = cert.DNSNames[0]
	case len(cert.URIs) > 0:
		name = cert.URIs[0].String()
	}
	b := []byte(name)
	if len(b) == 0 || len(b) > maxClientName || !wire.IsText(b) || len(wire.Trim(b)) != len(b) {
		return nil
	}
	return b
}
