package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"antirobot/settings"
)

// Config says which brokers carry the events. All nodes must agree on Topic and Group.
type Config struct {
	Brokers []string `mapstructure:"brokers"` // host:port; some of them, the others are found. None: the shared store carries events
	Topic   string   `mapstructure:"topic"`
	Group   string   `mapstructure:"group"` // of the processors
	// Create makes the topic if there is none, with Replicas copies of each partition; 0: as many as the brokers like.
	Create   bool `mapstructure:"create"`
	Replicas int  `mapstructure:"replicas"`
	// SessionTimeout is how long a processor may be silent before the brokers replace it.
	SessionTimeout time.Duration `mapstructure:"session_timeout"`
	Timeout        time.Duration `mapstructure:"timeout"` // to connect, and for an answer
	// Mechanism is how to log in: plain, scram-sha-256 or scram-sha-512; empty: not at all. At most one of the three ways to
	// give the password may be used.
	Mechanism    string    `mapstructure:"mechanism"`
	User         string    `mapstructure:"user"`
	Password     string    `mapstructure:"password"`
	PasswordFile string    `mapstructure:"password_file"`
	PasswordEnv  string    `mapstructure:"password_env"`
	TLS          TLSConfig `mapstructure:"tls"`
}

// TLSConfig says how connections are secured.
type TLSConfig struct {
	Enabled            bool   `mapstructure:"enabled"`
	CAFile             string `mapstructure:"ca_file"` // PEM; empty: the system's
	CertFile           string `mapstructure:"cert_file"`
	KeyFile            string `mapstructure:"key_file"`
	ServerName         string `mapstructure:"server_name"` // empty: the host of the broker
	InsecureSkipVerify bool   `mapstructure:"insecure_skip_verify"`
}

// DefaultConfig returns the defaults: no brokers.
func DefaultConfig() Config {
	return Config{
		Brokers: []string{}, Topic: "antirobot-events", Group: "antirobot-processors", Create: true,
		SessionTimeout: 6 * time.Second, Timeout: 2 * time.Second,
	}
}

// The ways to log in.
const (
	mechanismPlain    = "plain"
	mechanismScram256 = "scram-sha-256"
	mechanismScram512 = "scram-sha-512"
)

// legalName is what brokers accept as the name of a topic of at most longestName bytes.
var legalName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

const longestName = 249

// Validate returns everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for i, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		bad(err == nil && host != "" && port != "", "brokers[%d]: %.80q is not host:port, such as 10.0.0.5:9092", i, b)
	}
	bad(legalName.MatchString(c.Topic) && len(c.Topic) <= longestName && c.Topic != "." && c.Topic != "..", "topic: %.80q is not 1 to 249 of A-Z a-z 0-9 . _ -", c.Topic)
	bad(c.Group != "" && len(c.Group) <= longestName, "group: %.80q is not 1 to 249 characters", c.Group)
	bad(c.Replicas >= 0 && c.Replicas <= 16, "replicas: %d is not between 0 and 16", c.Replicas)
	bad(c.SessionTimeout >= time.Second && c.SessionTimeout <= time.Minute, "session_timeout: %v is not between 1s and 1m", c.SessionTimeout)
	bad(c.Timeout >= time.Second && c.Timeout <= 30*time.Second, "timeout: %v is not between 1s and 30s", c.Timeout)
	switch c.Mechanism {
	case "", mechanismPlain, mechanismScram256, mechanismScram512:
	default:
		bad(false, "mechanism: %.40q is none of %s, %s, %s", c.Mechanism, mechanismPlain, mechanismScram256, mechanismScram512)
	}
	bad((c.Mechanism == "") == (c.User == ""), "mechanism: mechanism and user go together")
	given := settings.PasswordWays(c.Password, c.PasswordFile, c.PasswordEnv)
	bad(given <= 1, "password: give one of password, password_file and password_env")
	bad(c.Mechanism == "" || given > 0, "password: %s needs one: set password_file or password_env", c.Mechanism)
	bad((c.TLS.CertFile == "") == (c.TLS.KeyFile == ""), "tls.cert_file: cert_file and key_file go together")
	bad(c.TLS.Enabled || c.TLS == TLSConfig{}, "tls.enabled: is false, and the rest of tls is set: write true")
	return errors.Join(errs...)
}

// mechanism returns how to log in; nil: not at all.
func (c *Config) mechanism() (sasl.Mechanism, error) {
	if c.Mechanism == "" {
		return nil, nil //nolint:nilnil // none is configured
	}
	password, err := settings.Password(c.Password, c.PasswordFile, c.PasswordEnv)
	switch {
	case err != nil:
		return nil, err
	case c.Mechanism == mechanismPlain:
		return plain.Auth{User: c.User, Pass: password}.AsMechanism(), nil
	case c.Mechanism == mechanismScram256:
		return scram.Auth{User: c.User, Pass: password}.AsSha256Mechanism(), nil
	}
	return scram.Auth{User: c.User, Pass: password}.AsSha512Mechanism(), nil
}

// load reads the certificates.
func (c *TLSConfig) load() (*tls.Config, error) {
	t := settings.ClientTLS{CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipVerify}
	return t.Load()
}
