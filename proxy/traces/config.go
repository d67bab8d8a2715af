package traces

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Config is the section `traces` of the configuration.
type Config struct {
	// Endpoint is where an OpenTelemetry receiver takes spans over HTTP, its path included: http://127.0.0.1:4318/v1/traces.
	// Empty: none are made.
	Endpoint string `mapstructure:"endpoint"`
	// AuthorizationFile has the value of the field Authorization that the receiver asks for. Empty: none is sent.
	AuthorizationFile string `mapstructure:"authorization_file"`
	// Page is where people look at a trace, with {trace} for its ID: the console and `antirobot why` lead there. Empty: nowhere.
	Page string `mapstructure:"page"`
	// Share is the share of the requests that are traced where no trusted proxy has decided that.
	Share   float64       `mapstructure:"share"`
	Queue   int           `mapstructure:"-"` // traced requests that may wait to be sent, about 1 kB each
	Every   time.Duration `mapstructure:"-"` // how often they are sent
	Timeout time.Duration `mapstructure:"-"` // of one call of the receiver
}

// DefaultConfig makes no spans.
func DefaultConfig() Config {
	return Config{Share: 0.01, Queue: 2048, Every: 2 * time.Second, Timeout: 10 * time.Second}
}

// Validate returns all that is wrong, each problem beginning with its key, or nil.
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
		ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && strings.Contains(c.Page, "{trace}")
		bad(ok, "page: %q is no URL with {trace} in it; write for example http://127.0.0.1:16686/trace/{trace}", c.Page)
	}
	bad(c.Share >= 0 && c.Share <= 1, "share: %v is not between 0 and 1", c.Share)
	return errors.Join(errs...)
}
