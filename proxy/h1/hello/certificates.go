// Package hello reads what precedes the first request: a balancer's PROXY header, the TLS handshake, its fingerprint
// (JA4), and its round trips.
package hello

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"
)

// CertificateFiles names the PEM files of a certificate chain and its key.
type CertificateFiles struct {
	CertFile string `mapstructure:"cert_file"`
	KeyFile  string `mapstructure:"key_file"`
}

// Certificates serves certificates from files and reloads them for new connections. Safe for concurrent use; made by
// LoadCertificates.
type Certificates struct {
	loaded atomic.Pointer[[]*tls.Certificate]
	others func(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// WithOthers returns certificates that ask others for hosts without a file; c may be nil.
func (c *Certificates) WithOthers(others func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *Certificates {
	if c == nil {
		c = new(Certificates)
	}
	c.others = others
	return c
}

// LoadCertificates reads all files. The first certificate is the default.
func LoadCertificates(files []CertificateFiles) (*Certificates, error) {
	c := &Certificates{}
	commit, err := c.Prepare(files)
	if err != nil {
		return nil, err
	}
	commit()
	return c, nil
}

// Prepare reads all files, and returns the function that puts the certificates into use.
func (c *Certificates) Prepare(files []CertificateFiles) (commit func(), err error) {
	if len(files) == 0 {
		return nil, errors.New("no certificates")
	}
	var errs []error
	certs := make([]*tls.Certificate, 0, len(files))
	for _, f := range files {
		cert, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			var named *fs.PathError
			if !errors.As(err, &named) {
				err = fmt.Errorf("%s and %s: %w", f.CertFile, f.KeyFile, err)
			}
			errs = append(errs, err)
			continue
		}
		certs = append(certs, &cert)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return func() { c.loaded.Store(&certs) }, nil
}

// Ends returns the end of each certificate, by its first name.
func (c *Certificates) Ends() map[string]time.Time {
	ends := map[string]time.Time{}
	loaded := c.loaded.Load()
	if loaded == nil {
		return ends
	}
	for _, cert := range *loaded {
		name := cert.Leaf.Subject.CommonName
		if len(cert.Leaf.DNSNames) > 0 {
			name = cert.Leaf.DNSNames[0]
		}
		ends[name] = cert.Leaf.NotAfter
	}
	return ends
}

// Config is for servers: TLS 1.2 or newer, HTTP/1.1 only.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: c.get,

		GetConfigForClient: readHello,
	}
}

func (c *Certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	var certs []*tls.Certificate
	if loaded := c.loaded.Load(); loaded != nil {
		certs = *loaded
	}
	for _, cert := range certs {
		if hello.SupportsCertificate(cert) == nil {
			return cert, nil
		}
	}
	if c.others != nil {
		if cert, err := c.others(hello); err == nil || len(certs) == 0 {
			return cert, err
		}
	}
	return certs[0], nil
}
