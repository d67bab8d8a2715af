package settings

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// Password returns a password that is given as it is, by its file or by its variable of the environment; empty: by none.
func Password(text, file, env string) (string, error) {
	switch {
	case file != "":
		b, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("password_file: %w", err)
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	case env != "":
		p, ok := os.LookupEnv(env)
		if !ok {
			return "", fmt.Errorf("password_env: the environment has no %s", env)
		}
		return p, nil
	}
	return text, nil
}

// PasswordWays returns in how many of its three ways a password is given; more than one is a mistake.
func PasswordWays(text, file, env string) (n int) {
	for _, way := range [...]string{text, file, env} {
		if way != "" {
			n++
		}
	}
	return n
}

// ClientTLS is how a connection that the gateway opens is secured.
type ClientTLS struct {
	CAFile             string `mapstructure:"ca_file"` // PEM; empty: the system's
	CertFile           string `mapstructure:"cert_file"`
	KeyFile            string `mapstructure:"key_file"`
	ServerName         string `mapstructure:"server_name"` // empty: the host of the address
	InsecureSkipVerify bool   `mapstructure:"insecure_skip_verify"`
}

// Load reads the certificates.
func (c *ClientTLS) Load() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipVerify} //nolint:gosec // the operator's choice, off by default
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
