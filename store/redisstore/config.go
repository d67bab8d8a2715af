package redisstore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"antirobot/clienttls"
)

// Config is what an operator may set besides the address.
type Config struct {
	// User and the password are sent when a connection starts; those in the URL take precedence. At most one of the three
	// ways to give the password may be used.
	User         string `mapstructure:"user"`
	Password     string `mapstructure:"password"`
	PasswordFile string `mapstructure:"password_file"`
	PasswordEnv  string `mapstructure:"password_env"`
	// KeyPrefix starts every key, so that the server can be shared with others.
	KeyPrefix string `mapstructure:"key_prefix"`
	// Timeout bounds a round trip; a scan makes several.
	Timeout     time.Duration `mapstructure:"timeout"`
	DialTimeout time.Duration `mapstructure:"dial_timeout"`
	// WaitReplicas is how many replicas must have a spend, a ban or a revocation before the call returns; where a server
	// has no replicas, none are waited for. After WaitTimeout the call returns anyway and is counted.
	WaitReplicas int           `mapstructure:"wait_replicas"`
	WaitTimeout  time.Duration `mapstructure:"wait_timeout"`
	// FeedKeep is the least number of messages kept of a feed topic.
	FeedKeep int `mapstructure:"feed_keep"`
	// ProbeEvery is how often the store is tested by a write of its own: Healthy is at most this much out of date.
	ProbeEvery time.Duration `mapstructure:"probe_every"`

	// MaxClockSkew is how far this machine's clock may differ from the servers' before health reports it and the times that
	// gateways exchange are converted to the servers' clock.
	MaxClockSkew time.Duration `mapstructure:"max_clock_skew"`

	Sentinel SentinelConfig `mapstructure:"sentinel"`
	// TLS is for addresses that begin with rediss, and for their sentinels.
	TLS clienttls.Config `mapstructure:"tls"`
}

// SentinelConfig is how to authenticate to the sentinels.
type SentinelConfig struct {
	User     string `mapstructure:"user"`
	Password string `mapstructure:"password"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		KeyPrefix:    "antirobot",
		Timeout:      2 * time.Second,
		DialTimeout:  2 * time.Second,
		WaitReplicas: 1,
		WaitTimeout:  50 * time.Millisecond,
		FeedKeep:     65536,
		ProbeEvery:   time.Second,
		MaxClockSkew: 2 * time.Second,
	}
}

// maxKeyPrefix bounds the prefix of the keys.
const maxKeyPrefix = 64

// Validate returns everything that is wrong with c.
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
	bad(c.Timeout >= 10*time.Millisecond && c.Timeout <= time.Minute, "timeout: %v is not between 10ms and 1m", c.Timeout)
	bad(c.DialTimeout >= 10*time.Millisecond && c.DialTimeout <= time.Minute, "dial_timeout: %v is not between 10ms and 1m", c.DialTimeout)
	bad(c.WaitReplicas >= 0 && c.WaitReplicas <= 16, "wait_replicas: %d is not between 0 and 16", c.WaitReplicas)
	bad(c.WaitTimeout >= time.Millisecond && c.WaitTimeout < c.Timeout, "wait_timeout: %v is not between 1ms and timeout", c.WaitTimeout)
	bad(c.FeedKeep >= 16, "feed_keep: %d is less than 16", c.FeedKeep)
	bad(c.ProbeEvery >= 50*time.Millisecond && c.ProbeEvery <= time.Minute, "probe_every: %v is not between 50ms and 1m", c.ProbeEvery)
	bad(c.MaxClockSkew >= 100*time.Millisecond && c.MaxClockSkew <= time.Hour, "max_clock_skew: %v is not between 100ms and 1h", c.MaxClockSkew)
	bad((c.TLS.CertFile == "") == (c.TLS.KeyFile == ""), "tls.cert_file: cert_file and key_file go together")
	return errors.Join(errs...)
}

// password returns the password that one of its three ways gives; empty: none does.
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
