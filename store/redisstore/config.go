package redisstore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"antirobot/clienttls"
)

// Config is the section store.redis of the configuration. User and password are in the URL.
type Config struct {
	// PasswordFile has the password if the URL has none.
	PasswordFile string `mapstructure:"password_file"`
	// SentinelPasswordFile has the password for the sentinels.
	SentinelPasswordFile string `mapstructure:"sentinel_password_file"`
	// KeyPrefix starts every key, so that the server can be shared with others.
	KeyPrefix string `mapstructure:"key_prefix"`
	// Timeout bounds a connection attempt and a round trip; a scan makes several.
	Timeout time.Duration `mapstructure:"timeout"`
	// TLS is for addresses that begin with rediss, and for their sentinels.
	TLS clienttls.Config `mapstructure:"tls"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{KeyPrefix: "antirobot", Timeout: 2 * time.Second} }

const maxKeyPrefix = 64

// Validate returns every error of c.
func (c Config) Validate() error {
	var errs []error
	if c.KeyPrefix == "" || len(c.KeyPrefix) > maxKeyPrefix || strings.ContainsAny(c.KeyPrefix, "{} \t\r\n") {
		errs = append(errs, fmt.Errorf("key_prefix: %.80q is not 1 to %d characters without spaces and braces",
			c.KeyPrefix, maxKeyPrefix))
	}
	if c.Timeout < 10*time.Millisecond || c.Timeout > time.Minute {
		errs = append(errs, fmt.Errorf("timeout: %v is not between 10ms and 1m", c.Timeout))
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		errs = append(errs, errors.New("tls.cert_file: cert_file and key_file go together"))
	}
	return errors.Join(errs...)
}

// readPassword returns the password in a file of the configuration; empty without a file.
func readPassword(key, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator's file
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
