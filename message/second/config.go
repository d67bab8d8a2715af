package second

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Config declares a source of second opinions. Zero fields get the defaults of withDefaults.
type Config struct {
	Name string `mapstructure:"name"`
	Kind string `mapstructure:"kind"`

	Zone   string   `mapstructure:"zone"`
	Server string   `mapstructure:"server"` // host:port; empty: the machine's resolver
	Listed []string `mapstructure:"listed"` // dns: networks of answers that mean listed; empty: 127.0.0.0/24

	URL   string   `mapstructure:"url"`
	Token string   `mapstructure:"token"`
	Send  []string `mapstructure:"send"` // http: attributes that are sent

	Timeout time.Duration `mapstructure:"timeout"`
}

const (
	kindDNS  = "dns"
	kindHTTP = "http"
)

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	if c.Kind == kindDNS && len(c.Listed) == 0 {
		c.Listed = []string{"127.0.0.0/24"}
	}
	if c.Kind == kindHTTP && len(c.Send) == 0 {
		c.Send = []string{"text"}
	}
	return c
}

// Validate returns all errors of c with their paths.
func (c Config) Validate() error {
	var errs []error
	addf := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" || len(c.Name) > 64 {
		addf("name: needs 1 to 64 characters")
	}
	c = c.withDefaults()
	switch c.Kind {
	case kindDNS:
		if c.Zone == "" || strings.ContainsAny(c.Zone, " /:") {
			addf("zone: %q is no zone such as uribl.example", c.Zone)
		}
		if _, _, err := net.SplitHostPort(c.Server); c.Server != "" && err != nil {
			addf("server: %q is no host:port", c.Server)
		}
		for i, n := range c.Listed {
			if _, err := netip.ParsePrefix(n); err != nil {
				addf("listed[%d]: %q is no network such as 127.0.0.0/24", i, n)
			}
		}
	case kindHTTP:
		if u, err := url.Parse(c.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			addf("url: %q is no URL with http or https", c.URL)
		}
	default:
		addf("kind: %q is neither dns nor http", c.Kind)
	}
	if c.Timeout < 10*time.Millisecond || c.Timeout > 30*time.Second {
		addf("timeout: %v is not between 10ms and 30s", c.Timeout)
	}
	return errors.Join(errs...)
}

// Calls returns the hosts that are contacted; questions to a DNS list end at its zone.
func (c Config) Calls() []string {
	if c.Kind == kindHTTP {
		return []string{c.URL}
	}
	return []string{c.Server, c.Zone}
}
