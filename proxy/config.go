package proxy

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ServiceConfig is what the gateway itself needs to know of a service, beside what identity, captcha, verdict and
// upstream ask for.
type ServiceConfig struct {
	// AJAXPaths are path prefixes whose requests are calls of scripts, whatever their headers say.
	AJAXPaths []string `mapstructure:"ajax_paths"`
	// XMLPaths are path prefixes of an XML interface.
	XMLPaths []string `mapstructure:"xml_paths"`
	// HealthPaths are exact paths that balancers ask for; they are passed on without a verdict.
	HealthPaths []string `mapstructure:"health_paths"`
	// MaxBody limits the body of a request in bytes; 0 means no limit beside the gateway's own.
	MaxBody int64 `mapstructure:"max_body"`
	// ResponseTimeout is how long the service may take until the head of its answer; 0 is the upstream's default.
	ResponseTimeout time.Duration `mapstructure:"response_timeout"`
	// TellService adds X-Antirobot-Verdict to what is sent to the service.
	TellService bool `mapstructure:"tell_service"`
	// PassOwnCookies sends the gateway's own cookies on to the service.
	PassOwnCookies bool `mapstructure:"pass_own_cookies"`
	// AmbiguousPaths says what becomes of a request whose path can be read in ways for which different settings hold:
	// union judges it by all of them and takes the strictest, refuse answers 400.
	AmbiguousPaths string `mapstructure:"ambiguous_paths"`
}

// DefaultServiceConfig returns the defaults.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{PassOwnCookies: true, AmbiguousPaths: pathsUnion}
}

// Validate returns every error of c, each with its path.
func (c *ServiceConfig) Validate() error {
	var errs []error
	for _, l := range []struct {
		name  string
		paths []string
	}{{"ajax_paths", c.AJAXPaths}, {"xml_paths", c.XMLPaths}, {"health_paths", c.HealthPaths}} {
		for i, p := range l.paths {
			if !strings.HasPrefix(p, "/") {
				errs = append(errs, fmt.Errorf("%s[%d]: %q must begin with /", l.name, i, p))
			}
		}
	}
	if c.MaxBody < 0 {
		errs = append(errs, errors.New("max_body: must not be negative"))
	}
	if c.ResponseTimeout < 0 {
		errs = append(errs, errors.New("response_timeout: must not be negative"))
	}
	if c.AmbiguousPaths != pathsUnion && c.AmbiguousPaths != pathsRefuse {
		errs = append(errs, fmt.Errorf("ambiguous_paths: %q is neither union nor refuse", c.AmbiguousPaths))
	}
	return errors.Join(errs...)
}
