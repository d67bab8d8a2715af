package traces

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Config is the section traces.
type Config struct {
	// Endpoint is the URL of an OTLP/HTTP receiver, with its path; empty: off.
	Endpoint string `mapstructure:"endpoint"`
	// AuthorizationFile has the receiver's Authorization value; empty: none.
	AuthorizationFile string `mapstructure:"authorization_file"`
	// Page is a trace's page with {trace} for its ID, for the console and `why`; empty: none.
	Page string `mapstructure:"page"`
	// Share of requests is traced, unless a trusted proxy decides.
	Share   float64       `mapstructure:"share"`
	Queue   int           `mapstructure:"-"` // requests waiting to be sent, about 1 kB each
	Every   time.Duration `mapstructure:"-"`
	Timeout time.Duration `mapstructure:"-"` // of one export
}

// DefaultConfig is off.
func DefaultConfig() Config {
	return Config{Share: 0.01, Queue: 2048, Every: 2 * time.Second, Timeout: 10 * time.Second}
}

// Validate returns all problems, each with its key.
func (c *Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.Path != ""
		bad(ok, "endpoint: %q is no URL with its path; write for example http://127.0.0.1:4318/v1/traces", c.Endpoint)
	}
	if c.Page != "" {
		u, err := url.Parse(strings.ReplaceAll(c.Page, "{trace}", "0"))
		ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
			strings.Contains(c.Page, "{trace}")
		bad(ok, "page: %q is no URL with {trace} in it; write for example http://127.0.0.1:16686/trace/{trace}", c.Page)
	}
	bad(c.Share >= 0 && c.Share <= 1, "share: %v is not between 0 and 1", c.Share)
	return errors.Join(errs...)
}
