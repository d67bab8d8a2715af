package redisstore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"antirobot/clienttls"
)

// Config is the section store.redis of the configuration.
type Config struct {
	// User and password; those in the URL take precedence. At most one of the three passwords may be set.
	User         string `mapstructure:"user"`
	Password     string `mapstructure:"password"`
	PasswordFile string `mapstructure:"password_file"`
	PasswordEnv  string `mapstructure:"password_env"`
	// KeyPrefix starts every key, so that the server can be shared with others.
	KeyPrefix string `mapstructure:"key_prefix"`
	// Timeout bounds a connection attempt and a round trip; a scan makes several.
	Timeout time.Duration `mapstructure:"timeout"`
	// WaitReplicas is how many replicas must have a spend, a ban or a revocation before the call returns, if there are
	// any. After Deps.WaitTimeout it returns anyway, and is counted.
	WaitReplicas int `mapstructure:"wait_replicas"`

	Sentinel SentinelConfig `mapstructure:"sentinel"`
	// TLS is for addresses that begin with rediss, and for their sentinels.
	TLS clienttls.Config `mapstructure:"tls"`
}

// SentinelConfig is the login at the sentinels.
type SentinelConfig struct {
	User     string `mapstructure:"user"`
	Password string `mapstructure:"password"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{KeyPrefix: "antirobot", Timeout: 2 * time.Second, WaitReplicas: 1}
}

const maxKeyPrefix = 64

// Validate returns every error of c.
func (c Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	given := 0
	for _, way := range [...]string{c.Password, c.PasswordFile, c.PasswordEnv} {
		if way != "" {
			given++
		}
	}
	bad(given <= 1, "password: give one of password, password_file and password_env")
	bad(c.KeyPrefix != "" && len(c.KeyPrefix) <= maxKeyPrefix && !strings.ContainsAny(c.KeyPrefix, "{} \t\r\n"),
		"key_prefix: %.80q is not 1 to %d characters without spaces and braces", c.KeyPrefix, maxKeyPrefix)
	bad(c.Timeout >= 10*time.Millisecond && c.Timeout <= time.Minute, "timeout: %v is not between 10ms and 1m",
		c.Timeout)
	bad(c.WaitReplicas >= 0 && c.WaitReplicas <= 16, "wait_replicas: %d is not between 0 and 16", c.WaitReplicas)
	bad((c.TLS.CertFile == "") == (c.TLS.KeyFile == ""), "tls.cert_file: cert_file and key_file go together")
	return errors.Join(errs...)
}

func (c *Config) password() (string, error) {
	switch {
	case c.PasswordFile != "":
		b, err := os.ReadFile(c.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("password_file: %w", err)
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	case c.PasswordEnv != "":
		p, ok := os.LookupEnv(c.PasswordEnv)
		if !ok {
			return "", fmt.Errorf("password_env: the environment has no %s", c.PasswordEnv)
		}
		return p, nil
	}
	return c.Password, nil
}
