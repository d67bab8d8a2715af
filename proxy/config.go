package proxy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// ServiceConfig is the proxy's part of a service's settings.
type ServiceConfig struct {
	// AJAXPaths are path prefixes that scripts call.
	AJAXPaths []string `mapstructure:"ajax_paths"`
	// XMLPaths are path prefixes of an XML interface.
	XMLPaths []string `mapstructure:"xml_paths"`
	// HealthPaths are exact paths of balancers' health checks, which are not judged.
	HealthPaths []string `mapstructure:"health_paths"`
	// MaxBody bounds a request's body in bytes; 0: the gateway's limit.
	MaxBody int64 `mapstructure:"max_body"`
	// ResponseTimeout is the time to the head of the service's answer; 0: the upstream's default.
	ResponseTimeout time.Duration `mapstructure:"response_timeout"`
	// TellService sends X-Antirobot-Verdict to the service.
	TellService bool `mapstructure:"tell_service"`
	// PassOwnCookies sends the gateway's cookies to the service.
	PassOwnCookies bool `mapstructure:"pass_own_cookies"`
	// DropFields are client fields that the service does not get, in addition to those that the gateway sets
	// (X-Forwarded-*, X-Original-*, X-Accel-*, X-Antirobot-*, Forwarded, X-Real-IP, X-Request-Id, X-Rewrite-URL).
	DropFields []string `mapstructure:"drop_fields"`
	// AmbiguousPaths applies to paths whose readings have different settings: union judges by all and takes the
	// strictest, refuse answers 400.
	AmbiguousPaths string `mapstructure:"ambiguous_paths"`
	// HSTS replaces the service's Strict-Transport-Security over https; empty: the service's stays.
	HSTS string `mapstructure:"hsts"`
	// Bodies are the fields of bodies that request rules see.
	Bodies []BodyConfig `mapstructure:"bodies"`
}

// DefaultServiceConfig returns the defaults.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{PassOwnCookies: true, AmbiguousPaths: pathsUnion, DropFields: defaultDropFields()}
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
	if c.HSTS != "" && (!strings.HasPrefix(c.HSTS, "max-age=") ||
		strings.ContainsFunc(c.HSTS, func(r rune) bool { return r < ' ' || r > '~' })) {
		errs = append(errs, fmt.Errorf("hsts: %q does not begin with max-age=; write for example max-age=31536000; "+
			"includeSubDomains", c.HSTS))
	}
	errs = append(errs, validDropFields(c.DropFields)...)
	if c.AmbiguousPaths != pathsUnion && c.AmbiguousPaths != pathsRefuse {
		errs = append(errs, fmt.Errorf("ambiguous_paths: %q is neither union nor refuse", c.AmbiguousPaths))
	}
	errs = append(errs, validBodies(c.Bodies)...)
	return errors.Join(errs...)
}

const (
	maxDropFields = 100
	maxDropName   = 63 // bytes of one
)

func validDropFields(names []string) (errs []error) {
	if len(names) > maxDropFields {
		errs = append(errs, fmt.Errorf("drop_fields: %d names are too many, the limit is %d", len(names),
			maxDropFields))
	}
	for i, n := range names {
		switch {
		case !wire.ValidMethod([]byte(n)) || len(n) > maxDropName:
			errs = append(errs, fmt.Errorf("drop_fields[%d]: %q is not the name of a field", i, n))
		case request.EqualFold(n, "Host"), request.EqualFold(n, "Content-Length"),
			request.EqualFold(n, "Transfer-Encoding"):
			errs = append(errs, fmt.Errorf("drop_fields[%d]: without %s there is no request", i, n))
		}
	}
	return errs
}
